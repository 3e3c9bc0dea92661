"""Settings that jobs need reach every worker before the controller names them."""

from __future__ import annotations

import ast
import getpass
import grp
import os
import runpy
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pyinfra
import pytest
from pyinfra.api import Host
from pyinfra.api.config import Config
from pyinfra.api.inventory import Inventory

from lockstep.facts.files import FileState
from lockstep.facts.reboot import Unanswered
from lockstep.facts.slurm import newly_named
from lockstep.files import ManagedFile, managed
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Phase, ordered
from lockstep.question import Question
from lockstep.roles.operations import workers_first as _workers_first
from lockstep.roles.operations.workers_first import files_after_workers, on_every_worker
from lockstep.roles.steps import canary
from tests.checks import recorded
from tests.plan.example import planned
from tests.roles.local import Done, asked, run

PROGRAM = "/usr/local/libexec/lockstep/node-check"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Worker:
    """A host of pyinfra, as far as it is looked at."""

    name: str
    connected: bool = True


ASKED: list[tuple[str, int]] = []
"""Workers, each with how many were being asked then."""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The controller's slurm.conf; not there yet."""
    path = tmp_path / "slurm.conf"
    monkeypatch.setattr("lockstep.facts.slurm.SLURM_CONF", str(path))
    return path


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., NodePlan]:
    """Makes a head whose workers have every file.

    Those named have none, do not answer, or did not when the run began.
    """
    ASKED.clear()
    asking: set[str] = set()

    def made(without: str = "", silent: str = "", away: str = "") -> NodePlan:
        class Talk:
            def __init__(self, host: Any, arguments: object) -> None:
                self.node = host.name

            def ask(self, question: Question[Any]) -> dict[str, FileState | None]:
                paths = question.about["files"]
                asking.add(self.node)
                ASKED.append((self.node, len(asking)))
                gevent.sleep(0.01)
                asking.discard(self.node)
                if self.node == silent:
                    raise Unanswered("no route")
                there = FileState("0", "755", "root", "root")
                return dict.fromkeys(paths, None if self.node == without else there)

        def get_host(inventory: Inventory, name: str) -> Worker:
            worker = Worker(name, connected=name != away)
            if name == away:
                inventory.state.failed_hosts.add(cast(Host, worker))
            return worker

        monkeypatch.setattr(_workers_first, "Conversation", Talk)
        monkeypatch.setattr(Inventory, "get_host", get_host)
        return planned().nodes["head1"]

    return made


@pytest.fixture
def deployed(conf: Path, workers: Callable[..., NodePlan]) -> Callable[..., Done]:
    return lambda **lacking: run(
        on_every_worker, plan=workers(**lacking), path=PROGRAM, named_in=str(conf)
    )


def test_a_file_is_newly_named_where_slurm_runs_and_does_not_name_it(conf: Path) -> None:
    def newly() -> bool:
        return asked(newly_named(PROGRAM, str(conf)))

    assert not newly(), "no slurm.conf: no job has run"
    conf.write_text("ClusterName=test\n")
    assert newly()
    assert asked(newly_named(PROGRAM, f"{conf}.none"))
    conf.write_text(f"ClusterName=test\nProlog={PROGRAM}\n")
    assert not newly()


def test_a_running_cluster_gets_the_program_named_when_every_worker_has_it(
    conf: Path, deployed: Callable[..., Done]
) -> None:
    conf.write_text("ClusterName=test\n")
    done = deployed()
    assert (done.succeeded, done.commands) == (True, 1)


@pytest.mark.parametrize(
    "lacking", [{"without": "worker2"}, {"silent": "worker2"}, {"away": "worker2"}]
)
def test_a_worker_without_the_program_stops_the_head(
    conf: Path,
    deployed: Callable[..., Done],
    lacking: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.write_text("ClusterName=test\n")
    with caplog.at_level("INFO", logger="pyinfra"):
        assert not deployed(**lacking).succeeded
    assert f"worker2: {PROGRAM} is missing, or the node did not answer" in caplog.text
    assert "deploys/cluster.py" in caplog.text


def test_workers_are_asked_at_once_and_one_that_was_away_is_not_waited_for(
    conf: Path, deployed: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.roles.local.Config", partial(Config, PARALLEL=4))
    conf.write_text("ClusterName=test\n")
    assert deployed().succeeded
    assert max(count for _, count in ASKED) > 1
    ASKED.clear()
    assert not deployed(away="worker2").succeeded
    assert "worker2" not in dict(ASKED)


@pytest.mark.parametrize("text", [None, f"Prolog={PROGRAM}\n"])
def test_a_new_cluster_and_one_that_names_it_already_ask_no_worker(
    conf: Path, deployed: Callable[..., Done], text: str | None
) -> None:
    if text:
        conf.write_text(text)
    done = deployed(without="worker2")
    assert (done.succeeded, done.commands) == (True, 0)


@pytest.mark.parametrize(
    ("named", "without", "there"),
    [(False, "", True), (False, "worker2", False), (True, "worker2", True)],
    ids=["all have it", "one lacks it", "named already"],
)
def test_the_controllers_plugin_waits_for_the_workers(
    workers: Callable[..., NodePlan],
    conf: Path,
    tmp_path: Path,
    named: bool,
    without: str,
    there: bool,
) -> None:
    conf.write_text("ClusterName=test\n")
    line = tmp_path / "plugstack.conf.d" / "pyxis.conf"
    if named:
        line.parent.mkdir()
        line.write_text("required /spank_pyxis.so\n")
    user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    file = ManagedFile(
        "pyxis", str(line), b"required /spank_pyxis.so  # new\n", "644", user, group, False, ""
    )
    done = run(
        files_after_workers,
        plan=workers(without),
        files=(file,),
        path=str(line),
        plugin="/spank_pyxis.so",
    )
    assert done.succeeded
    assert (line.exists() and line.read_bytes() == file.content) == there


@pytest.mark.parametrize("node", ["head1", "worker1"])
def test_the_whole_deploy_gives_workers_first_what_the_controller_will_name(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    monkeypatch.setattr(
        "lockstep.roles.operations.apply.apply_roles",
        lambda plan, names, phase: told.append(phase.value),
    )
    monkeypatch.setattr(canary, "begins", lambda plan: told.append("begins"))
    monkeypatch.setattr(canary, "checked", lambda name, plan: told.append("checked"))
    monkeypatch.setattr("pyinfra.local.include", lambda file: told.append(Path(file).name))
    monkeypatch.setattr("lockstep.roles.steps.secrets.made", lambda plan: told.append("secrets"))
    plan = planned().nodes[node]
    monkeypatch.setattr(pyinfra, "host", SimpleNamespace(data=SimpleNamespace(plan=plan)))
    runpy.run_path(str(ROOT / "deploys" / "cluster.py"))
    both = ["checked", "head.py", "worker.py"]
    assert told == ["secrets", "begins", "before the heads", *both, "after the workers", "checked"]


@pytest.mark.parametrize("deploy", ["head.py", "worker.py"])
def test_a_deploy_of_one_node_role_ends_with_a_check_that_all_hosts_wait_for(deploy: str) -> None:
    tree = ast.parse((ROOT / "deploys" / deploy).read_text(encoding="utf-8"))
    assert ast.unparse(tree.body[-1]).startswith("canary.checked(name=")


@pytest.mark.parametrize(
    ("node", "first", "last"), [("head1", [], ["pyxis"]), ("worker1", ["node_check"], [])]
)
def test_workers_get_the_program_first_and_the_controller_its_plugin_last(
    node: str, first: list[str], last: list[str]
) -> None:
    plan = recorded.consistent().plan.nodes[node]
    found: dict[Phase, list[str]] = {phase: [] for phase in Phase}
    for role, stage in ordered(plan.cluster.roles):
        if role.name in plan.roles and stage.nodes(plan):
            found[stage.phase].append(role.name)
    assert (found[Phase.BEFORE_HEADS], found[Phase.AFTER_WORKERS]) == (first, last)


def test_the_program_alone_judges_nothing_and_lets_jobs_pass(tmp_path: Path) -> None:
    worker = planned().nodes["worker1"]
    (program,) = (one for one in managed(worker, None, "node_check") if one.path == PROGRAM)
    path = tmp_path / "node-check"
    path.write_bytes(program.content.replace(b"/usr/local/lib", bytes(tmp_path)))
    for context in ("prolog_slurmd", "epilog_slurmd", ""):
        environment = {"SLURM_SCRIPT_CONTEXT": context}
        assert subprocess.run(["sh", path], env=environment, check=False).returncode == 0
