"""Over real ssh: a command that changes a node brings the next reading in its own execution."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

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
from lockstep.fast import along as _along, connector as _connector, record as _record
from tests.fast.facts import line_of as _line_of
_files = [_line_of(f"$FOLDER/{_number}.file") for _number in range(9)]
_connector.declared = lambda plan, roles: [_one.parts() for _one in _files]
_along.PYTHON = "$FOLDER/programs/python3"
_reading.COMMAND = f"timeout -k 5 60 {_along.PYTHON} -"
_execute = _Client.exec_command
def _counting(self, command, *given, **named):
    with open("$FOLDER/executed", "a") as _file:
        print(_json.dumps(command), file=_file)
    return _execute(self, command, *given, **named)
_Client.exec_command = _counting
"""
GIVES_UP = "_along.LIMIT_S, _along.LONGER_HERE_S = 5, 5\n"
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
GOOD = f'exec {sys.executable} -IS "$@"'
OF_READINGS = re.compile(r"python3 -|LOCKSTEP-READINGS|^ *eA\w+")
"""Lines that show an execution which only reads."""
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
def test_so_many_commands_are_so_many_executions_and_two(hosts: Hosts, host: str) -> None:
    """The two: what comes with the connection, and the first operation's own reading."""
    ran = run(hosts, CHANGES, host=host)
    assert ran.status == 0, ran.said
    assert len(ran.executed) == 6 + 2
    assert all(path.read_text() == "wanted\n" for path in hosts.folder.glob("?.file"))
    assert len(list(hosts.folder.glob("?.file"))) == 6
    longest = max(map(len, ran.executed))
    assert longest < 1000, "the program is no argument: sudo would log it"


def test_without_it_each_command_costs_a_reading_as_well(hosts: Hosts) -> None:
    ran = run(hosts, CHANGES, more=WITHOUT)
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
    # The two streams may be shown in another order.
    assert sorted(ran.about(host)) == sorted(plain.about(host))
    assert [line for line in ran.about(host) if "before 3" in line] == ["before 3: ''"]
    for line in ("no end" + str(hosts.folder / "1.file"), "x y", "z", "trapped", "why", "last"):
        assert line in ran.about(host)
    only_read = [one for one in ran.executed if "python3 -" in one and "printf" not in one]
    assert ran.said.count("LOCKSTEP-READINGS 1") == len(only_read)
    assert len(ran.executed) < len(plain.executed)


NOTED = f"echo $$ >> $FOLDER/pids; {GOOD}"
RUNS = "for i in $(seq 100); do kill -0 $(tail -n 1 $FOLDER/pids) && break; sleep 0.1; done"
"""Waits until the Python of this command has started; it ends after the command."""
TOLD = "IFS= read -r program; IFS= read -r begin || exit 1"


@pytest.mark.parametrize(
    "python3",
    [
        *("exit 1", f"{TOLD}; echo garbage", f"{TOLD}; exit 1", f"{TOLD}; kill -9 $$"),
        f"{TOLD}; {LOST}",
        f'[ -e $0.was ] || {{ : > $0.was; {TOLD}; printf "\\377\\n"; }}; {GOOD}',
        f"[ -e $0.was ] || {{ : > $0.was; sleep 60; }}; {GOOD}",
    ],
    ids=["none", "garbage", "failing", "killed", "lost", "binary once", "hanging once"],
)
def test_where_the_reading_fails_the_status_of_the_command_counts(
    hosts: Hosts, python3: str
) -> None:
    """The next question reads again; here it has the same fault, and says so."""
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    new = python3_is(hosts, python3, "python3.new")
    deploy = f"""
runs(name="Breaks", number=0, command="{RUNS}; mv {new} {hosts.programs}/python3; echo broken")
runs(name="Next", number=1, command="echo next")
runs(name="Last", number=2, command="echo last")
"""
    try:
        ran = run(hosts, deploy, "-vvv", more=GIVES_UP)
    finally:
        python3_is(hosts, GOOD)
        (hosts.programs / "python3.was").unlink(missing_ok=True)
    assert "next" in ran.about("plain")
    assert "broken" in ran.about("plain")
    lost = [line for line in ran.about("plain") if " failed: the node could not be read: " in line]
    assert bool(lost) == (GOOD not in python3), ran.said
    assert ran.about("plain").count("Success") == (2 if lost else 3), ran.said


def test_python_starts_while_the_command_runs_and_reads_when_it_has_ended(hosts: Hosts) -> None:
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    deploy = f"""
runs(name="First", number=0, command="{RUNS}; sleep 1; echo $i > $FOLDER/1.file")
runs(name="Next", number=1, command="true")
"""
    try:
        ran = run(hosts, deploy)
    finally:
        python3_is(hosts, GOOD)
    assert ran.status == 0, ran.said
    (before,) = re.findall(r"before 1: '(\d+)'", ran.said)
    assert int(before) < 100, "Python was never seen to run"


def test_a_command_waits_neither_for_python_nor_for_a_full_pipe(hosts: Hosts) -> None:
    python3_is(hosts, NOTED.replace("$FOLDER", str(hosts.folder)))
    slow = f"sleep 4; test -e {hosts.folder}/2.file && : > {hosts.folder}/ran; exit 1"
    new = python3_is(hosts, f"[ -e $0.was ] || {{ : > $0.was; {slow}; }}; {GOOD}", "python3.new")
    deploy = f"""
runs(name="Slow", number=0, command="{RUNS}; mv {new} {hosts.programs}/python3")
runs(name="Next", number=1, command="echo new > $FOLDER/2.file")
"""
    long = "_along.one_line = lambda text, one=_along.one_line: one(text) + '#' * 300000\n"
    try:
        ran = run(hosts, deploy, more=long)
    finally:
        python3_is(hosts, GOOD)
        (hosts.programs / "python3.was").unlink(missing_ok=True)
    assert ran.status == 0, ran.said
    assert (hosts.folder / "ran").exists(), ran.said


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
    plain = [one for one in ran.executed if "lockstep_reads" not in one and "python3" not in one]
    for word in ("value", "terminal", "in time", "exit 3", "of a function"):
        assert any(word in one for one in plain), (word, ran.executed)
