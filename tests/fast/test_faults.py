"""Over real ssh: a node that does not answer fails alone, with its reason; the others finish."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.fast.sshd import SSHD, Hosts

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)"),
]

LIMITS = """\
from lockstep.fast import ssh as _ssh, watch as _watch
_ssh.READ_WITHIN_S, _ssh.KILL_AFTER_S, _ssh.LONGER_HERE_S = 3.0, 1, 7.0
_watch.EVERY_S = 60.0
"""
"""A node that is silent runs into one time limit only: here that of a reading."""
WATCHED = "_watch.EVERY_S = 1.5\n"
DECLARED = """
from lockstep.facts import reading as _reading
from lockstep.fast import connector as _connector, reader as _reader
from tests.fast.facts import line_of as _line_of
_ssh.READ_WITHIN_S = 5.0
_reader.LIMIT_S, _reader.LONGER_HERE_S = 3.0, 1.5
_files = [_line_of(path) for path in ("/proc/version", "/proc/uptime")]
_connector.declared = lambda plan, roles: [one.parts() for one in _files]
"""
OWN_PYTHON = """
_reader.READS = _reader.READS.replace("python3", "$FOLDER/programs/python3")
_reading.COMMAND = _reading.COMMAND.replace("python3", "$FOLDER/programs/python3")
"""
IMPORTS = """\
import gevent
from pyinfra import host
from lockstep.roles.operations.operation import operation
from lockstep.roles.steps.barrier import reached
from lockstep.facts.reading import ask
from tests.fast.facts import Answer, line_of

"""
LAST = """
@operation()
def last():
    yield "touch $FOLDER/$NODE.done"

reached()
last()
"""
READS = """
@operation()
def reads():
    said = [host.get_fact(Answer, command=command) for command in ("echo 1", COMMAND, "echo 3")]
    yield f"echo {sum(said)}"

reads()
"""
ASKS = """
@operation()
def asks():
    yield f"test -n '{ask(host, line_of('/proc/version'))}'"

asks()
"""
RUNS = """
@operation()
def runs():
    yield COMMAND

runs()
"""
ITS_SSHD = (  # there are other processes between it and a command
    "p=$$; while [ $(cat /proc/$p/comm) != sshd ]; do p=$(cut -d' ' -f4 /proc/$p/stat); done"
)
LOST = f"{ITS_SSHD}; kill -9 $p; sleep 60"
STOPPED = f"{ITS_SSHD}; kill -STOP $p; sleep 60"
CUT = "touch $FOLDER/cut.is-cut; sleep 60"
FAULTS = {  # host -> what a reading does there, and the reason why it cannot be read
    "time-out": ("sleep 60", "the command did not finish within 3 s"),
    "stubborn": (
        "trap '' TERM; for i in $(seq 60); do sleep 1; done",
        "the command did not finish within 3 s",
    ),
    "no-python3": ("python3.none -c 1; exit $?", "the command failed: sh: 1: python3.none: not "),
    "failing": ("echo dpkg is broken >&2; exit 1", "the command failed: dpkg is broken"),
    "silent": ("exit 0", "the command printed nothing"),
    "garbage": ("echo garbage; exit 0", "unexpected output: ValueError: invalid literal"),
    "binary": (r"printf '1\n\377\376\n'; exit 0", "the output is not UTF-8 text"),
    "sudo": ("exit 0", "sudo asks for a password. Next: "),
    "lost": (LOST, "connection lost: "),
    "stopped": (STOPPED, "no answer within 10 s"),
    "cut": (CUT, "no answer within 10 s"),
}
WITH_PYINFRA = ("no-python3", "failing", "silent", "garbage", "lost")
"""Faults that an operation keeps to a host that pyinfra's own connector is connected with."""
COMMANDS = {  # host -> a command that changes the node, and what is said
    "sudo": ("exit 0", "sudo asks for a password. Next: "),
    "lost": (LOST, "connection lost: "),
    "stopped": (STOPPED, "connection lost: no answer to 3 keepalive requests, one every 1.5 s"),
    "cut": (CUT, "connection lost: no answer to 3 keepalive requests, one every 1.5 s"),
}
GOOD = {"good1", "good2"}
ONLY_GOOD = tuple(word for name in sorted(GOOD) for word in ("--limit", name))
PHASES = {"prepare": (), "execute": ("-y",)}
SUDO = """\
#!/bin/sh
echo "sudo: a password is required" >&2
exit 1
"""


@dataclass(frozen=True)
class Ran:
    """A run of pyinfra."""

    said: str
    status: int
    done: set[str]
    """The hosts that were changed, and passed the barrier."""

    def about(self, host: str) -> list[str]:
        """Return what was said of a host."""
        return [line for line in self.said.splitlines() if f"[{host}] " in line]


Sets = dict[str, Hosts]
"""A set of hosts for each way to read: the runs of a test mostly wait, and can do so together."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sets]:
    found: Sets = {}
    try:
        for fast in ("fast", "plain"):
            found[fast] = Hosts(tmp_path_factory.mktemp(fast), (*FAULTS, *GOOD))
            sudo = found[fast].programs / "sudo"
            sudo.write_text(SUDO)
            sudo.chmod(0o755)
        yield found
    finally:
        for hosts in found.values():
            hosts.end()


def case(does: dict[str, tuple[str, str]], otherwise: str) -> str:
    """Return a command that does on each host what is said for it."""
    each = " ".join(f"{name}) {command};;" for name, (command, _) in does.items())
    return f"case $NODE in {each} esac; {otherwise}"


def run_both(sets: Sets, deploy: str, command: str, *options: str, more: str = "") -> list[Ran]:
    """Run a deploy with and without the fast path at the same time."""
    begun = {
        fast: begin(hosts, hosts.inventory() + more, deploy, command, *options, fast=fast)
        for fast, hosts in sets.items()
    }
    return [finish(sets[fast], process) for fast, process in begun.items()]


def run(hosts: Hosts, inventory: str, deploy: str, command: str, *options: str, fast: str) -> Ran:
    """Run a deploy, and wait until it is over."""
    return finish(hosts, begin(hosts, inventory, deploy, command, *options, fast=fast))


def begin(
    hosts: Hosts, inventory: str, deploy: str, command: str, *options: str, fast: str
) -> subprocess.Popen[str]:
    """Start a deploy."""
    for path in (*hosts.folder.glob("*.done"), *hosts.folder.glob("*.is-cut")):
        path.unlink()
    text = f"{IMPORTS}COMMAND = {command!r}\n{deploy}{LAST}"
    return hosts.begin(
        LIMITS + inventory,
        text.replace("$FOLDER", str(hosts.folder)),
        *options,
        LOCKSTEP_FAST="0" if fast == "plain" else "1",
    )


def finish(hosts: Hosts, began: subprocess.Popen[str]) -> Ran:
    """Wait until a deploy is over. One that hangs is ended, and has the status of SIGKILL."""
    try:
        said, _ = began.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        began.kill()
        said = f"not over after 120 s:\n{began.communicate()[0]}"
    done = {path.stem for path in hosts.folder.glob("*.done")}
    return Ran(said, began.returncode, done)


def assert_each_is_named(ran: Ran, faults: tuple[str, ...]) -> None:
    for fault in faults:
        (line,) = (line for line in ran.about(fault) if f" {fault} failed: " in line)
        assert f"Answer could not be read: {FAULTS[fault][1]}" in line, ran.said
        assert line.count("Next: ") == 1


@pytest.mark.parametrize("phase", PHASES)
def test_a_node_that_cannot_be_read_fails_alone(sets: Sets, phase: str) -> None:
    """Each of the others finishes and passes the barrier."""
    for ran in run_both(sets, READS, case(FAULTS, "echo 2"), *PHASES[phase]):
        assert (ran.status, ran.done) == (1, GOOD), ran.said
        assert "Traceback" not in ran.said, ran.said
        assert_each_is_named(ran, tuple(FAULTS))


def test_a_dry_run_names_it_too(sets: Sets) -> None:
    """Only faults that no time limit finds: it prepares as the runs above do."""
    limit = (word for name in (*WITH_PYINFRA, *GOOD) for word in ("--limit", name))
    for ran in run_both(sets, READS, case(FAULTS, "echo 2"), "--dry", *limit):
        assert (ran.status, ran.done) == (1, set()), ran.said
        assert_each_is_named(ran, WITH_PYINFRA)


def test_so_does_one_whose_reading_began_when_it_was_connected(sets: Sets) -> None:
    """The question reads it once more, and says why it cannot be read."""
    hosts = sets["fast"]
    python3 = hosts.programs / "python3"
    does = case(FAULTS, f'exec {sys.executable} "$@"').replace("$FOLDER", str(hosts.folder))
    python3.write_text(f"#!/bin/sh\n{does}\n")
    python3.chmod(0o755)
    try:
        ran = run(
            hosts,
            hosts.inventory()
            + WATCHED
            + DECLARED
            + OWN_PYTHON.replace("$FOLDER", str(hosts.folder)),
            ASKS,
            "",
            "-y",
            fast="fast",
        )
    finally:
        python3.unlink()
    assert (ran.status, ran.done) == (1, GOOD), ran.said
    assert "Traceback" not in ran.said, ran.said
    for fault in FAULTS:
        (line,) = (line for line in ran.about(fault) if f" {fault} failed: " in line)
        assert "the node could not be read: " in line, ran.said
        assert line.count("Next: ") == 1


@pytest.mark.parametrize("phase", ["prepare", "execute"])
def test_pyinfra_s_own_connector_keeps_some_faults_to_their_nodes(sets: Sets, phase: str) -> None:
    """It is what is left where Lockstep's connector is not installed."""
    hosts = sets["plain"]
    limit = (word for name in (*WITH_PYINFRA, *GOOD) for word in ("--limit", name))
    reads = case(FAULTS, "echo 2")
    ran = run(hosts, hosts.inventory(""), READS, reads, *PHASES[phase], *limit, fast="plain")
    assert (ran.status, ran.done) == (1, GOOD), ran.said
    for fault in WITH_PYINFRA:
        assert any(f"{fault} failed: Answer could not be read" in one for one in ran.about(fault))


def assert_others_go_on(ran: Ran, does: dict[str, tuple[str, str]]) -> None:
    assert (ran.status, ran.done) == (1, {*FAULTS} - {*COMMANDS} | GOOD), ran.said
    assert "Traceback" not in ran.said, ran.said
    for name, (_, why) in does.items():
        assert any(why in line for line in ran.about(name)), ran.said


RUN = {**COMMANDS, "binary": (r"printf '\377\n'", "Success")}


def test_a_command_that_gets_no_answer_fails_its_node_alone(sets: Sets) -> None:
    """However long commands may be; and one that prints what is not text is none of them."""
    for ran in run_both(sets, RUNS, case(RUN, "true"), "-y", "-vvv", more=WATCHED):
        assert_others_go_on(ran, RUN)


def test_so_does_one_that_brings_a_reading(sets: Sets) -> None:
    hosts = sets["fast"]
    inventory = hosts.inventory() + WATCHED + DECLARED
    deploy = RUNS.replace("    yield", "    ask(host, line_of('/proc/version'))\n    yield")
    ran = run(hosts, inventory, deploy, case(RUN, "true"), "-y", "-vvv", fast="fast")
    assert_others_go_on(ran, RUN)


COMPUTES = """
from gevent.monkey import get_original
blocks = get_original("time", "sleep")  # gevent's own lets others run

@operation()
def computes():
    if host.name != "good1":
        yield f"echo {host.get_fact(Answer, command=COMMAND)}"
    else:
        for _ in range(2):
            gevent.sleep(0.5)  # the others have asked
            blocks(3.5)

computes()
"""


def test_a_healthy_node_is_not_given_up_while_this_process_computes(sets: Sets) -> None:
    """Its answer, and its signs of life, are there: nobody has looked at them."""
    short = "_ssh.READ_WITHIN_S = 2.0\n_ssh.LONGER_HERE_S = 0.5\n_watch.EVERY_S = 0.5\n"
    for ran in run_both(sets, COMPUTES, "sleep 0.8; echo 1", "-y", *ONLY_GOOD, more=short):
        assert (ran.status, ran.done) == (0, GOOD), ran.said


FED = 300_000
FEEDS = f"""
from pyinfra.api import StringCommand

@operation()
def feeds():
    yield StringCommand("cat > $FOLDER/$NODE.fed", _stdin="x" * {FED})

feeds()
"""


def test_standard_input_of_a_command_arrives_whole(sets: Sets) -> None:
    """paramiko ends it when nothing refers to its file; a write behind that never returned."""
    runs = run_both(sets, FEEDS, "true", "-y", *ONLY_GOOD)
    for hosts, ran in zip(sets.values(), runs, strict=True):
        assert (ran.status, ran.done) == (0, GOOD), ran.said
        sizes = {(hosts.folder / f"{name}.fed").stat().st_size for name in GOOD}
        assert sizes == {FED + 1}  # pyinfra ends the last line
