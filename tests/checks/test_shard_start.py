"""The process that reads nodes brings with it only what it needs: it is started for each check."""

from __future__ import annotations

import subprocess
import sys

CONFIG = 'Match exec "test %h = a"\n  User other\n'
HEAVY = ("pydantic", "msgspec", "jinja2", "ClusterShell", "lockstep.plan", "lockstep.inventory")


def test_it_imports_no_models_and_no_plan() -> None:
    program = f"import sys, lockstep.facts.shard; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_condition_of_ssh_config_is_still_executed() -> None:
    """paramiko has invoke do it, which is imported then."""
    program = f"""
import sys
from lockstep.facts.later import later
later("invoke")
from paramiko import SSHConfig
assert "invoke.runners" not in sys.modules, "imported already"
config = SSHConfig.from_text({CONFIG!r})
print(config.lookup("a")["user"], config.lookup("b").get("user"), "invoke.runners" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "other None True\n"
