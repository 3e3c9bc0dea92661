"""The process that reads nodes brings with it only what it needs: it is started for each check."""

from __future__ import annotations

import subprocess
import sys

CONFIG = 'Match exec "test %h = a"\n  User other\n'
HEAVY = ("pydantic", "msgspec", "jinja2", "ClusterShell", "lockstep.plan", "lockstep.inventory")


def said_by(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_it_imports_no_models_and_no_plan() -> None:
    program = f"import sys, lockstep.facts.shard; print([m for m in {HEAVY} if m in sys.modules])"
    assert said_by(program) == "[]\n"


def test_a_condition_of_ssh_config_is_still_executed() -> None:
    """paramiko has invoke do it, which is imported then."""
    program = f"""
import sys
from lockstep.facts.start import later
later("invoke")
from paramiko import SSHConfig
assert "invoke.runners" not in sys.modules, "imported already"
config = SSHConfig.from_text({CONFIG!r})
print(config.lookup("a")["user"], config.lookup("b").get("user"), "invoke.runners" in sys.modules)
"""
    assert said_by(program) == "other None True\n"


def test_each_file_of_entry_points_is_read_once() -> None:
    program = """
import sys
from collections import Counter
from lockstep.facts.start import entry_points_once
opened = Counter()
def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith("entry_points.txt"):
        opened[arguments[0]] += 1
sys.addaudithook(note)
entry_points_once()
from gevent import monkey
monkey.patch_all()
from pyinfra.api.connectors import get_all_connectors
print({"ssh", "lockstep"} <= get_all_connectors().keys(), set(opened.values()))
"""
    assert said_by(program) == "True {1}\n"


def test_what_reading_does_not_need_is_imported_when_somebody_wants_it() -> None:
    program = """
import sys
from lockstep.facts.start import import_little
import_little()
import typeguard
from pyinfra.api.config import check_pyinfra_version, check_require_packages
typeguard.check_type(1, int)
try:
    typeguard.check_type("1", int)
except typeguard.TypeCheckError:
    print([m for m in ("asyncio", "packaging._parser") if m in sys.modules])
from typeguard._importhook import patch
with patch("sys.platform", "changed"):
    print(sys.platform)
for wrong in (check_require_packages, ["paramiko>=99"]), (check_pyinfra_version, ">=99"):
    try:
        wrong[0](wrong[1])
    except Exception as error:
        print(error)
import packaging.version as version
print(version.InvalidVersion is version.InvalidVersion)
"""
    missing, platform, package, pyinfra, same = said_by(program).splitlines()
    assert (missing, platform, same) == ("[]", "changed", "True")
    assert "paramiko" in package
    assert "requires >=99" in pyinfra
