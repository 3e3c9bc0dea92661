"""Over real ssh: one process takes all readings of a run, the next ones right after a command."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from pyinfra.api import Host, StringCommand

from lockstep.facts.reading import Execute
from lockstep.fast.reader import Reader
from lockstep.node.readers.selected import STARTED
from tests.fast.sshd import SSHD, Hosts
from tests.fast.test_faults import LOST

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)"),
]

COUNTED = """
import json as _json
from paramiko import SSHClient as _Client
from lockstep.facts import reading as _reading
from lockstep.fast import connector as _connector, reader as _reader, record as _record
from tests.fast.facts import line_of as _line_of
_files = [_line_of(f"$FOLDER/{_number}.file") for _number in range(9)]
_connector.declared = lambda plan, roles: [_one.parts() for _one in _files]
_reader.READS = _reader.READS.replace("python3", "$FOLDER/programs/python3")
_reading.COMMAND = _reading.COMMAND.replace("python3", "$FOLDER/programs/python3")
_execute = _Client.exec_command
def _counting(self, command, *given, **named):
    with open("$FOLDER/executed", "a") as _file:
        print(_json.dumps(command), file=_file)
    return _execute(self, command, *given, **named)
_Client.exec_command = _counting
"""
GIVES_UP = "_reader.LIMIT_S, _reader.LONGER_HERE_S = 5, 5\n"
NONE = "_reader.Reader.can_answer = lambda self, wanted: False\n"
WITHOUT = "_record.HostRecord._due_next = lambda self: frozenset()\n"
IMPORTS = """\
from pyinfra import host
from pyinfra.api import StringCommand, FunctionCommand
from lockstep.facts.reading import ask
from lockstep.roles.operations.operation import operation
from tests.fast.facts import line_of, text

@operation()
def runs(number, command, **arguments):
    line = ask(host, line_of(f"$FOLDER/{number}.file"))
    host.log(f"before {number}: {line!r}")
    yield StringCommand(command, **arguments)

"""
CHANGES = "\n".join(
    f"text(name='File {n}', path='$FOLDER/{n}.file', content='wanted')" for n in range(6)
)
GOOD = f'exec {sys.executable} "$@"'
OF_READINGS = re.compile(r"python3 -|LOCKSTEP-|^ *eA\w+")
"""Lines about the process that takes readings."""
SUDO = '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n'
NAMES = ("plain", "sudo")


@dataclass(frozen=True)
class Ran:
    """A run of pyinfra against one host."""

    said: str
    status: int
    executed: tuple[str, ...]

    def about(self, name: str) -> list[str]:
        """Return what was said of a host, without its name."""
        mark = f"[{name}] "
        lines = (line.partition(mark)[2] for line in self.said.splitlines() if mark in line)
        return [line.strip() for line in lines if not OF_READINGS.search(line)]


def python3_is(hosts: Hosts, text: str, name: str = "python3") -> Path:
    """Write the program that takes readings on these hosts."""
    program = hosts.programs / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    found = Hosts(tmp_path_factory.mktemp("hosts"), NAMES)
    try:
        sudo = found.programs / "sudo"
        sudo.write_text(SUDO)
        sudo.chmod(0o755)
        python3_is(found, GOOD)
        yield found
    finally:
        found.end()


def run(hosts: Hosts, deploy: str, *options: str, host: str = "plain", more: str = "") -> Ran:
    """Run a deploy on one host whose files are as they were at the beginning."""
    for path in (*hosts.folder.glob("*.file"), hosts.folder / "executed"):
        path.unlink(missing_ok=True)
    folder = str(hosts.folder)
    began = hosts.begin(
        (hosts.inventory() + COUNTED + more).replace("$FOLDER", folder),
        (IMPORTS + deploy).replace("$FOLDER", folder),
        *("-y", "--limit", host, *options),
    )
    said, _ = began.communicate(timeout=120)
    lines = (hosts.folder / "executed").read_text().splitlines()
    return Ran(said, began.returncode, tuple(map(json.loads, lines)))


@pytest.mark.parametrize("host", NAMES)
def test_so_many_commands_are_so_many_executions_and_one(hosts: Hosts, host: str) -> None:
    """The one is the process that takes readings."""
    ran = run(hosts, CHANGES, host=host)
    assert ran.status == 0, ran.said
    assert len(ran.executed) == 6 + 1
    assert all(path.read_text() == "wanted\n" for path in hosts.folder.glob("?.file"))
    assert len(list(hosts.folder.glob("?.file"))) == 6
    longest = max(map(len, ran.executed))
    assert longest < 1000, "the program is no argument: sudo would log it"


def test_with_no_process_each_command_costs_a_reading_as_well(hosts: Hosts) -> None:
    ran = run(hosts, CHANGES, more=NONE)
    assert ran.status == 0, ran.said
    assert len(ran.executed) == 2 * 6 + 1


AS_BEFORE = """
PRINTS = "cat; printf 'out\\\\n\\\\nno end'; echo err >&2; echo $FOLDER/1.file"
runs(name="Prints", number=0, command=PRINTS)
runs(name="Is fed", number=1, command="cat > $FOLDER/2.file; echo last", _stdin="first\\nsecond")
runs(name="Is fed lines", number=2, command="IFS= read -r a; echo $a; cat", _stdin=["x y", "z"])
runs(name="Leaves input", number=3, command="exit 0", _stdin="w" * 200000)
runs(name="Ends its shell", number=4, command="trap 'echo trapped' EXIT; set -e; cd /; exit 0")
runs(name="Fails", number=5, command="echo why >&2; exit 7", _ignore_errors=True)
runs(name="Is no shell", number=6, command="if then", _ignore_errors=True)
runs(name="Ends itself", number=7, command="kill -9 $$", _ignore_errors=True)
"""


@pytest.mark.parametrize("host", NAMES)
def test_output_status_and_input_of_a_command_are_as_without(hosts: Hosts, host: str) -> None:
    """A run shows, line for line, what it shows where each command runs plainly."""
    ran = run(hosts, AS_BEFORE, "-vvv", host=host)
    plain = run(hosts, AS_BEFORE, "-vvv", host=host, more=WITHOUT)
    assert ran.status == plain.status == 0, ran.said
    # The two streams may be shown in another order, and what is left of the limit differs.
    left = re.compile(r"(?<=timeout -k 30 )[0-9.]+")
    shown, shown_plain = ([left.sub("N", one) for one in said.about(host)] for said in (ran, plain))
    assert sorted(shown) == sorted(shown_plain)
    assert [line for line in ran.about(host) if "before 3" in line] == ["before 3: ''"]
    for line in ("no end" + str(hosts.folder / "1.file"), "x y", "z", "trapped", "why", "last"):
        assert line in ran.about(host)
    # Questions of an operation with its own standard input are commands.
    assert len(plain.executed) == 1 + 8 + 3
    # A command that failed ended the process, which waited for its success.
    assert len(ran.executed) == 1 + 8 + 3 + 2


NOTED = f"echo $$ >> $FOLDER/pids; {GOOD}"
THE_PROCESS = "$(tail -n 1 $FOLDER/pids)"


@pytest.mark.parametrize(
    "python3",
    [
        *("exit 1", "echo garbage", f"{LOST}"),
        f'[ -e $0.was ] || {{ : > $0.was; printf "\\377\\n"; }}; {GOOD}',
        GOOD,
    ],
    ids=["none", "garbage", "lost", "binary once", "good"],
)
def test_where_the_process_has_ended_the_status_of_the_command_counts(
    hosts: Hosts, python3: str
) -> None:
    """The next question starts another process; here it has a fault, and says so."""
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    new = python3_is(hosts, python3, "python3.new")
    deploy = f"""
runs(name="Breaks", number=0, command="mv {new} {hosts.programs}/python3; "
     "kill -9 {THE_PROCESS}; echo broken")
runs(name="Next", number=1, command="echo next")
runs(name="Last", number=2, command="echo last")
"""
    try:
        ran = run(hosts, deploy, "-vvv", more=GIVES_UP)
    finally:
        python3_is(hosts, GOOD)
        (hosts.programs / "python3.was").unlink(missing_ok=True)
    assert "broken" in ran.about("plain")
    lost = [line for line in ran.about("plain") if " failed: the node could not be read: " in line]
    assert bool(lost) == (GOOD not in python3), ran.said
    assert ran.about("plain").count("Success") == (1 if lost else 3), ran.said


@pytest.mark.parametrize(
    ("later", "command", "gets"),
    [
        (0, "true", True),
        (1, "true", False),  # another process with the same number
        (0, "false", False),
        (0, "kill -9 $$", False),
    ],
)
def test_a_command_that_succeeds_signals_the_process_and_no_other(
    later: int, command: str, gets: bool
) -> None:
    reader = Reader(cast(Host, None), execute=cast(Execute, None), arguments={})
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            began = int(Path(f"/proc/{process.pid}/stat").read_text().split()[21])
            reader._note(f"{STARTED} {process.pid} {began + later}")
            whole = reader.before(StringCommand(command))
            assert whole.get_masked_value() == command
            status = subprocess.run(["sh", "-c", whole.get_raw_value()], check=False).returncode
            assert (status == 0) == (command == "true")
            time.sleep(0.2)
            assert process.poll() == (-signal.SIGUSR1 if gets else None)
        finally:
            process.kill()


def test_what_a_child_of_the_command_changed_later_is_noticed(hosts: Hosts) -> None:
    """The session ends with the child, but the readings were taken when the command ended."""
    deploy = """
runs(name="First", number=0, command="echo old > $FOLDER/1.file; "
     "(sleep 3; echo new > $FOLDER/1.file) & exit 0")
runs(name="Next", number=1, command="true")
"""
    ran = run(hosts, deploy, more="_record.FRESH_S = 1.0\n")
    assert ran.status == 0, ran.said
    assert re.findall(r"before 1: '(\w+)'", ran.said) == ["old", "new"]


def test_a_process_that_can_no_longer_read_is_replaced(hosts: Hosts) -> None:
    """It may be older than a Python that was installed since. Here it gets no more memory."""
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    deploy = f"""
runs(name="First", number=0, command="echo there > $FOLDER/1.file; "
     "prlimit --pid {THE_PROCESS} --as=1:1")
runs(name="Next", number=1, command="true")
"""
    try:
        ran = run(hosts, deploy)
    finally:
        python3_is(hosts, GOOD)
    assert ran.status == 0, ran.said
    assert "before 1: 'there'" in ran.said


def test_the_process_ends_with_the_run(hosts: Hosts) -> None:
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    try:
        assert run(hosts, CHANGES).status == 0
    finally:
        python3_is(hosts, GOOD)
    number = (hosts.folder / "pids").read_text().split()[-1]
    for _ in range(50):
        if not Path(f"/proc/{number}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"process {number} still runs")


RUNS_PLAINLY = """
@operation()
def function():
    def change(state, host):
        host.run_shell_command(StringCommand("echo of a function"))
        return True
    yield FunctionCommand(change, (), {})
runs(name="First", number=0, command="echo 0")
runs(name="Environment", number=1, command="echo $KEY", _env={"KEY": "value"})
runs(name="Terminal", number=2, command="test -t 0 && echo terminal", _get_pty=True)
runs(name="Time", number=3, command="echo in time", _timeout=30)
runs(name="Status", number=4, command="exit 3", _success_exit_codes=[3])
function(name="Function")
"""


def test_unusual_commands_run_plainly(hosts: Hosts) -> None:
    ran = run(hosts, RUNS_PLAINLY, "-vvv")
    assert ran.status == 0, ran.said
    plain = [one for one in ran.executed if "-USR1" not in one and "python3" not in one]
    for word in ("value", "terminal", "exit 3", "of a function"):
        assert any(word in one for one in plain), (word, ran.executed)
