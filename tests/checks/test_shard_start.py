"""The process that reads nodes brings with it only what it needs: it is started for each check."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paramiko import ECDSAKey, ServerInterface, SSHException, Transport

from lockstep.facts.share import Share, dumps
from lockstep.probe.parse import node_of
from lockstep.probe.record import Unreachable
from lockstep.probe.ship import Request

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


@contextmanager
def stranger() -> Iterator[int]:
    """An ssh server whose key nobody knows; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        opened: list[Transport] = []

        def serve() -> None:
            with suppress(OSError):  # no longer listened to
                while True:
                    transport = Transport(listening.accept()[0])
                    opened.append(transport)
                    transport.add_server_key(ECDSAKey.generate())
                    with suppress(SSHException, EOFError):  # who came is gone again
                        transport.start_server(server=ServerInterface())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(20)
            for transport in opened:
                transport.close()


def test_a_jump_host_that_is_unknown_is_said_and_nobody_is_asked(tmp_path: Path) -> None:
    """pyinfra would ask on standard output, where the records are, and hear what is none."""
    with stranger() as port:
        config = tmp_path / "config"
        config.write_text(
            f"Host behind\n  ProxyJump someone@127.0.0.1:{port}\n  HostName 192.0.2.1\n"
        )
        login = {"ssh_hostname": "behind", "ssh_config_file": str(config), "ssh_user": "ops"}
        share = Share(
            {"behind": Request()}, {"behind": ("behind", {**login, "ssh_allow_agent": False})}
        )
        done = subprocess.run(
            [sys.executable, "-m", "lockstep.facts.shard", "behind"],
            input=f"{dumps(share)}\n",
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    name, got = node_of(done.stdout.strip().encode())
    assert name == "behind"
    assert isinstance(got, Unreachable)
    assert "No host key for [127.0.0.1]" in got.reason


def test_what_anything_else_prints_is_no_record() -> None:
    program = """
import os
from lockstep.facts.shard import _to_standard_output
tell = _to_standard_output()
print("a question", flush=True)
os.write(1, b"another")
tell("worker1", "{}")
"""
    assert said_by(program) == '"worker1":{"record":{}}\n'
