"""What pyinfra 3.10 does that the design leans on: a later pyinfra that differs fails here.

Everything runs on pyinfra itself, with its own ``@fake`` and ``@local`` connectors.
"""

import hashlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.command import StringCommand
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import FactProcessError, PyinfraError
from pyinfra.api.facts import FactBase, get_fact
from pyinfra.api.inventory import Inventory
from pyinfra.api.operation import operation
from pyinfra.api.state import State
from pyinfra.connectors import util
from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import SSHClient
from pyinfra.connectors.util import CommandOutput, OutputLine
from pyinfra.context import ctx_host, ctx_state
from typing_extensions import override

from lockstep.fast.ssh import FailsAlone
from lockstep.fleet.read_nodes import Nodes
from tests.roles.local import run

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = {"fake_delay": 0, "fake_delay_jitter": 0}

INVENTORY = f"""\
_now = {AT_ONCE!r}
head = [("@fake/head", _now)]
worker = [("@fake/worker", _now)]
"""


class Words(FactBase[list[str]]):
    @override
    def command(self) -> str:
        return "words"

    @staticmethod
    @override
    def default() -> list[str]:
        return ["default"]

    @override
    def process(self, output: Iterable[str]) -> list[str]:
        words = list(output)
        if words == ["broken"]:
            raise FactProcessError("not words")
        if words == ["bug"]:
            raise LookupError("a bug of ours")
        return words


def fakes(**responses: str) -> State:
    """One fake host per name; each answers every command with its response."""
    hosts = [(f"@fake/{n}", {**AT_ONCE, "fake_responses": {"": r}}) for n, r in responses.items()]
    state = State(
        Inventory((hosts, {})),  # type: ignore[no-untyped-call]  # pyinfra's
        Config(),  # type: ignore[no-untyped-call]  # pyinfra's
    )
    connect_all(state)
    return state


def pyinfra(
    folder: Path, deploy: str, *options: str, inventory: str = INVENTORY
) -> subprocess.CompletedProcess[str]:
    (folder / "cluster.py").write_text(inventory, encoding="utf-8")
    (folder / "deploy.py").write_text(deploy, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pyinfra", *options, "cluster.py", "deploy.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def operations(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Names of the operations in the order in which they ran."""
    assert done.returncode == 0, done.stderr
    return re.findall(r"--> Starting operation: (\S+)", done.stdout + done.stderr)


# -- facts


def test_facts_are_not_cached() -> None:
    """So a role reads once and hands the record on."""
    state = fakes(one="a")
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        for _ in range(3):
            assert host.get_fact(Words) == ["a"]
    assert isinstance(host.connector, FakeConnector)
    assert len(host.connector.executed_commands) == 3


def test_empty_output_is_the_default_and_is_never_parsed() -> None:
    """So every fact's command prints a line whatever happens."""
    state = fakes(silent="")
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        assert get_fact(state, host, Words) == ["default"]
    assert not state.failed_hosts


def test_a_fact_that_cannot_be_read_fails_its_own_host_only() -> None:
    state = fakes(good="a", bad="broken")
    for host in list(state.inventory):
        with ctx_state.use(state), ctx_host.use(host):
            get_fact(state, host, Words)
    assert {host.name for host in state.failed_hosts} == {"@fake/bad"}
    assert {host.name for host in state.active_hosts} == {"@fake/good"}


def test_any_other_error_of_a_fact_leaves_pyinfra_altogether() -> None:
    """So a fact translates what its parser raises into FactProcessError."""
    state = fakes(bad="bug")
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host), pytest.raises(LookupError, match="a bug"):
        get_fact(state, host, Words)


ARGUMENTS: list[tuple[dict[str, Any], dict[str, Any]]] = []


@operation()
def notes_its_arguments() -> Generator[str, None, None]:
    host = ctx_host.get()  # type: ignore[no-untyped-call]  # pyinfra's
    own: dict[str, Any] = dict(host.current_op_global_arguments)
    again: Any = pop_global_arguments(host.state, host, dict(own))[0]
    ARGUMENTS.append((own, again))
    yield "true"


def test_an_operation_has_all_arguments_of_its_connector_with_their_defaults() -> None:
    """So ``connector_arguments`` need not put them together for each question."""
    assert run(notes_its_arguments, _env={"NAME": "value"}, _timeout=60).succeeded
    for own, again in ARGUMENTS:
        assert own == {name: again[name] for name in own}
        assert own.keys() >= set(CONNECTOR_ARGUMENT_KEYS)
        assert (own["_env"], own["_timeout"]) == ({"NAME": "value"}, 60)


def test_a_fact_with_an_argument_called_name_is_refused_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match="arguments name are reserved for global arguments"):

        class Named(FactBase[str]):
            @override
            def command(self, name: str) -> str:
                return name


# -- a host that cannot be read


EXITS = """\
from gevent import GreenletExit
from pyinfra import host, state
from pyinfra.operations import server
if "head" in host.name:
    head = state.inventory.get_host(host.name)
    state.failed_hosts.add(head)
    state.active_hosts.discard(head)
    raise GreenletExit
server.shell("touch it", name="changed")
"""


@pytest.mark.parametrize("option", ["--dry", "-y"])
def test_a_host_whose_deploy_exits_is_left_out_and_the_others_go_on(
    tmp_path: Path, option: str
) -> None:
    """So an operation that cannot read its host ends this host alone when it is prepared."""
    done = pyinfra(tmp_path, EXITS, option)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("[@fake/worker] Success" if option == "-y" else "1 (@fake/worker)") in done.stderr
    assert "[@fake/head] Success" not in done.stderr


def test_to_fail_a_host_is_to_ask_a_person() -> None:
    """So an operation does not call fail_hosts before anything is executed."""
    state = fakes(one="a", two="a")
    asked: list[State] = []
    state.config.FAIL_PERCENT = 0  # so the command line without -y

    def ask(state: State) -> bool:
        asked.append(state)
        return False

    state.should_raise_failed_hosts = ask
    state.fail_hosts({next(iter(state.inventory))})  # type: ignore[no-untyped-call]  # pyinfra's
    assert asked == [state]


@pytest.mark.parametrize("error", [OSError, TimeoutError, SSHException, EOFError, PyinfraError])
def test_of_what_a_connector_raises_some_fails_its_host_and_some_ends_the_run(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the connector turns the others into OSError."""

    def broken(*_: object, **__: object) -> None:
        raise error("cut")

    monkeypatch.setattr(FakeConnector, "run_shell_command", broken)
    state = fakes(good="a", bad="b")
    bad = next(one for one in state.inventory if one.name == "@fake/bad")
    with ctx_state.use(state), ctx_host.use(bad):
        if error in (EOFError, PyinfraError):
            with pytest.raises(error):
                get_fact(state, bad, Words)
        else:
            assert get_fact(state, bad, Words) == ["default"]
            assert state.failed_hosts == {bad}


def test_pyinfra_asks_for_the_password_that_sudo_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the connector does not leave that to pyinfra: all hosts would wait for a person."""
    state = fakes(one="a")
    (host,) = state.inventory
    asked: list[str] = []
    monkeypatch.setattr(util, "getpass", asked.append)
    refused = CommandOutput([OutputLine("stderr", "sudo: a password is required")])
    util.execute_command_with_sudo_retry(host, {}, lambda: (1, refused))
    assert asked == ["[@fake/one] sudo password: "]


def test_output_that_is_not_text_is_lost_without_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So the connector decodes it, and knows."""
    output = util.read_output_buffers([b"1\n", b"\xff\n", b"2\n"], [], None, False, "")
    assert output.stdout_lines == ["1"]
    assert "UnicodeDecodeError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("original", "source_sha256"),
    [
        (
            SSHConnector.run_shell_command,
            "6e742d04535439d4b7d385b6b9568f0c44ac4faf0657d5f0144c023fe5c4a970",
        ),
        (
            SSHClient.parse_config,
            "bdce1ea5a063130abf19e8834dcde38de43e9362f0eacd48607403a3ea01d4e3",
        ),
    ],
)
def test_what_the_connectors_do_in_pyinfra_s_place_is_what_pyinfra_does(
    original: Callable[..., object], source_sha256: str
) -> None:
    """Fails with another pyinfra: compare ``FailsAlone`` and ``ssh_client`` with what it does now.

    Both are for correctness, not for speed. So they also apply with LOCKSTEP_FAST=0.
    """
    assert hashlib.sha256(inspect.getsource(original).encode()).hexdigest() == source_sha256


def test_the_inventory_of_a_check_is_the_one_that_pyinfra_makes() -> None:
    """Except for the connector; pyinfra would import all that are installed."""
    hosts = [("worker1", {"ssh_user": "ops", "_sudo": True}), ("worker2", {"ssh_port": 2022})]
    made, original = (
        State(kind((hosts, {})), Config())  # type: ignore[no-untyped-call]  # pyinfra's
        for kind in (Nodes, Inventory)
    )
    assert made.inventory.host_data == original.inventory.host_data
    for host in original.inventory:
        of_check = made.inventory.get_host(host.name)
        assert (of_check.name, of_check.groups) == (host.name, host.groups)
        assert of_check.data.dict() == host.data.dict()  # type: ignore[no-untyped-call]  # pyinfra's
        assert of_check.connector_cls is FailsAlone
        assert issubclass(FailsAlone, host.connector_cls)


# -- deploys and operations


def test_an_error_in_the_deploy_of_one_host_ends_the_run_for_all(tmp_path: Path) -> None:
    """So roles never raise about the state of a node."""
    done = pyinfra(
        tmp_path,
        "from pyinfra import host\n"
        "from pyinfra.operations import server\n"
        'server.shell(name="first", commands=["true"])\n'
        'if host.name == "@fake/worker":\n'
        '    raise ValueError("one host only")\n',
        "-y",
    )
    assert done.returncode != 0
    assert "one host only" in done.stderr
    assert "Starting operation" not in done.stdout + done.stderr


def test_an_operation_reached_through_two_lines_is_two_operations(tmp_path: Path) -> None:
    """So a role has one line in a deploy, and the deploy no loop."""
    shared = 'from pyinfra.operations import server\nserver.shell(name="x", commands=["true"])\n'
    assert operations(pyinfra(tmp_path, shared, "-y")) == ["x"]
    split = (
        "from pyinfra import host\n"
        "from pyinfra.operations import server\n"
        'if host.name == "@fake/head":\n'
        '    server.shell(name="x", commands=["true"])\n'
        "else:\n"
        '    server.shell(name="x", commands=["true"])\n'
    )
    assert operations(pyinfra(tmp_path, split, "-y")) == ["x", "x"]


INCLUDES = """\
import time
from pathlib import Path
from pyinfra import local, state
here = Path(__file__).resolve().parent
if not (here / "began").exists():  # the host that begins first: it is done while the other waits
    (here / "began").touch()
    while not (here / "both").exists():
        time.sleep(0.05)
else:
    (here / "both").touch()
    for _ in range(40):
        if state.current_exec_filename is not None:
            time.sleep(0.05)
local.include(%s)
"""


@pytest.mark.parametrize(
    ("file", "found"),
    [('"./second.py"', False), ('str(here / "second.py")', True)],
)
def test_a_file_is_included_by_its_whole_path(tmp_path: Path, file: str, found: bool) -> None:
    """Hosts share what "./" is relative to: the one that is done first sets it back for all."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "first.py").write_text(INCLUDES % file, encoding="utf-8")
    (tmp_path / "part" / "second.py").write_text("", encoding="utf-8")
    done = pyinfra(tmp_path, "from pyinfra import local\nlocal.include('part/first.py')\n", "-y")
    assert (done.returncode == 0) is found, done.stderr
    assert ("second.py" in done.stderr) is not found


TWO_CHAINS = """\
from pyinfra import host
from pyinfra.operations import server
from lockstep.roles.steps import barrier
if host.name == "@fake/head":
    server.shell(name="head-1", commands=["true"])
    server.shell(name="head-2", commands=["true"])
{between}
if host.name == "@fake/worker":
    server.shell(name="worker-1", commands=["true"])
    server.shell(name="worker-2", commands=["true"])
"""


def test_chains_of_two_hosts_that_share_no_operation_are_interleaved(tmp_path: Path) -> None:
    """Why roles/barrier.py exists: heads would not be done when workers begin."""
    done = pyinfra(tmp_path, TWO_CHAINS.format(between=""), "-y")
    assert operations(done) == ["head-1", "worker-1", "head-2", "worker-2"]


def test_the_barrier_lets_the_heads_go_first(tmp_path: Path) -> None:
    done = pyinfra(tmp_path, TWO_CHAINS.format(between='barrier.reached(name="barrier")'), "-y")
    assert operations(done) == ["head-1", "head-2", "barrier", "worker-1", "worker-2"]


def test_a_run_asks_for_the_order_once_and_for_the_hosts_of_each_operation(tmp_path: Path) -> None:
    """Why roles/steps/canary/walk.py can name an operation twice, each time for other hosts."""
    deploy = """\
from pyinfra import host
from pyinfra.operations import server
state, inventory = host.state, host.state.inventory
if "get_op_order" not in vars(state):
    usual, active, step = state.get_op_order, inventory.get_active_hosts, []
    def order():
        if not state.is_executing or step:
            return usual()
        def walk():
            for name in ("@fake/worker", "@fake/head"):
                step[:] = [name]
                yield from usual()
        return walk()
    state.get_op_order = order
    inventory.get_active_hosts = lambda: [one for one in active() if not step or one.name in step]
server.shell(name="one", commands=["true"])
server.shell(name="two", commands=["true"])
"""
    done = pyinfra(tmp_path, deploy, "-y")
    said = done.stderr.split("Beginning operation run")[1].split("--> Results")[0]
    assert re.findall(r"operation: (\w+)|\[@fake/(\w+)\] +Success", said) == [
        *(("one", ""), ("", "worker"), ("two", ""), ("", "worker")),
        *(("one", ""), ("", "head"), ("two", ""), ("", "head")),
    ]


def test_the_barrier_changes_nothing() -> None:
    from lockstep.roles.steps import barrier

    done = run(barrier.reached, name="barrier")
    assert (done.succeeded, done.commands) == (True, 0)


def test_an_operation_that_fails_stops_its_host_and_the_others_go_on(tmp_path: Path) -> None:
    inventory = INVENTORY.replace(
        '("@fake/head", _now)', '("@fake/head", {**_now, "fake_responses": {"bad": '
        '{"success": False, "stderr": "no"}}})'
    )  # fmt: skip
    deploy = (
        "from pyinfra.operations import server\n"
        'server.shell(name="one", commands=["bad"])\n'
        'server.shell(name="two", commands=["true"])\n'
    )
    done = pyinfra(tmp_path, deploy, "-y", inventory=inventory)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert said.count("Starting operation: two") == 1
    assert re.search(r"\[@fake/worker\] +(Success|No changes)", said.split("operation: two")[1])
    assert "[@fake/head]" not in said.split("operation: two")[1].split("-->")[0]


# -- secrets


@operation()
def handed_over(path: str, secret: str) -> Generator[StringCommand, None, None]:
    yield StringCommand(f"cat > {path}", _stdin=secret)


def test_standard_input_reaches_the_command_and_shows_nowhere(tmp_path: Path) -> None:
    command = StringCommand("cat", _stdin="hunter2")
    assert "hunter2" not in f"{command} {command!r}"
    assert run(handed_over, path=str(tmp_path / "got"), secret="hunter2").succeeded
    assert (tmp_path / "got").read_text().strip() == "hunter2"


MANAGED = """\
from lockstep.files import ManagedFile
from lockstep.roles.operations.files import managed_files
from pathlib import Path
_file = ManagedFile("unit", str(Path.cwd() / "key"), ("hunter" + "2").encode(), "400", "root",
                    "root", True, "")
managed_files({name}files=(_file,))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
@pytest.mark.parametrize("options", [("-y", "-vvv"), ("-y", "-vvv", "--debug")])
def test_a_managed_file_shows_in_no_output_however_loud(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = pyinfra(
        tmp_path, MANAGED.format(name='name="Key", '), *options, inventory='a = ["@local"]\n'
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "key").read_text() == "hunter2"
    assert ">>>" in done.stderr  # commands were printed
    assert "hunter2" not in done.stdout + done.stderr
    assert "aHVudGVyMg" not in done.stdout + done.stderr


def test_an_operation_without_a_name_prints_its_arguments(tmp_path: Path) -> None:
    """So every operation of a role has one: test_forgotten walks them."""
    deploy = 'from pyinfra.operations import server\nserver.shell(commands=["echo argument"])\n'
    done = pyinfra(tmp_path, deploy, "-y")
    assert "commands=['echo argument']" in done.stdout + done.stderr


# -- exit statuses


NO_OPERATION = "from pyinfra.operations import server\nserver.shell(name='x', commands=['true'])\n"


def test_a_limit_that_matches_no_host_is_a_success_for_pyinfra(tmp_path: Path) -> None:
    """So nobody may take exit 0 of a limited run for a deployed node."""
    done = pyinfra(tmp_path, NO_OPERATION, "-y", "--limit", "nobody")
    assert done.returncode == 0
    assert "Starting operation" not in done.stdout + done.stderr


def test_a_dry_run_with_pending_changes_is_a_success_for_pyinfra(tmp_path: Path) -> None:
    """So `pyinfra --dry` is no check: `lockstep check` has an exit status."""
    done = pyinfra(tmp_path, NO_OPERATION, "--dry")
    assert done.returncode == 0
    assert "Starting operation" not in done.stdout + done.stderr


def test_an_inventory_that_exits_ends_pyinfra_with_its_status(tmp_path: Path) -> None:
    done = pyinfra(tmp_path, NO_OPERATION, "-y", inventory="raise SystemExit(3)\n")
    assert done.returncode == 3
    assert "Traceback" not in done.stdout + done.stderr


def test_any_other_error_of_an_inventory_is_a_traceback(tmp_path: Path) -> None:
    done = pyinfra(tmp_path, NO_OPERATION, "-y", inventory="raise ValueError('x')\n")
    assert done.returncode not in (0, 3)
    assert "Traceback" in done.stdout + done.stderr


def test_names_with_an_underscore_are_no_groups_and_imported_lists_are(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text('imported = ["@fake/imported"]\n', encoding="utf-8")
    inventory = (
        'import sys; sys.path.insert(0, ".")\n'
        "from elsewhere import imported\n"
        '_hidden = ["@fake/hidden"]\n'
        'head = ["@fake/head"]\n'
    )
    (tmp_path / "cluster.py").write_text(inventory, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyinfra", "cluster.py", "debug-inventory"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "@fake/head" in said
    assert "@fake/imported" in said
    assert "@fake/hidden" not in said
    assert "Groups: head, cluster," in said  # the file's own name is a group of all


def test_a_failed_operation_without_waiting_is_a_success_for_pyinfra(tmp_path: Path) -> None:
    """Why ``lockstep/fast/failures.py`` decides the status; it can go when this test fails."""
    fails = {**AT_ONCE, "fake_responses": {"": {"success": False, "stderr": "no"}}}
    inventory = f'hosts = [("@fake/head", {fails!r}), ("@fake/worker", {AT_ONCE!r})]\n'
    done = pyinfra(tmp_path, NO_OPERATION, "-y", "--no-wait", inventory=inventory)
    assert re.search(r"\[@fake/head\] +Error", done.stderr), done.stderr
    assert done.returncode == 0
