"""What jobs count on: on every worker before the controller names it. The workers are doubles."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyinfra
import pytest
from pyinfra.api.inventory import Inventory

from lockstep.facts.files import FileState
from lockstep.facts.reboot import Unanswered
from lockstep.facts.slurm import NewlyNamed
from lockstep.plan import NodePlan
from roles import _workers_first
from roles._workers_first import on_every_worker
from tests.plan.example import planned
from tests.roles.local import Done, fact, run

PROGRAM = "/usr/local/libexec/lockstep/node-check"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The controller's slurm.conf; not there yet."""
    path = tmp_path / "slurm.conf"
    monkeypatch.setattr("lockstep.facts.slurm.SLURM_CONF", str(path))
    return path


@pytest.fixture
def deployed(conf: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs the operation; the workers named have no program, or do not answer."""

    def deploy(without: str = "", silent: str = "") -> Done:
        class Talk:
            def __init__(self, host: Any, arguments: object) -> None:
                self.node = host.name

            def read(self, kind: object, paths: tuple[str, ...]) -> dict[str, FileState | None]:
                if self.node == silent:
                    raise Unanswered("no route")
                there = FileState("0", "755", "root", "root")
                return dict.fromkeys(paths, None if self.node == without else there)

        monkeypatch.setattr(_workers_first, "Conversation", Talk)
        monkeypatch.setattr(Inventory, "get_host", lambda self, name: SimpleNamespace(name=name))
        head = planned().nodes["head1"]
        return run(on_every_worker, plan=head, path=PROGRAM, named_in=str(conf))

    return deploy


def test_a_file_is_newly_named_where_slurm_runs_and_does_not_name_it(conf: Path) -> None:
    def newly() -> bool:
        found: bool = fact(NewlyNamed, path=PROGRAM, named_in=str(conf))
        return found

    assert not newly(), "no slurm.conf: no job has run"
    conf.write_text("ClusterName=test\n")
    assert newly()
    assert fact(NewlyNamed, path=PROGRAM, named_in=f"{conf}.none")
    conf.write_text(f"ClusterName=test\nProlog={PROGRAM}\n")
    assert not newly()


def test_a_running_cluster_gets_the_program_named_when_every_worker_has_it(
    conf: Path, deployed: Callable[..., Done]
) -> None:
    conf.write_text("ClusterName=test\n")
    done = deployed()
    assert (done.succeeded, done.commands) == (True, 1)


@pytest.mark.parametrize("lacking", [{"without": "worker2"}, {"silent": "worker2"}])
def test_a_worker_without_the_program_stops_the_head(
    conf: Path,
    deployed: Callable[..., Done],
    lacking: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.write_text("ClusterName=test\n")
    with caplog.at_level("INFO", logger="pyinfra"):
        assert not deployed(**lacking).succeeded
    assert f"worker2: no {PROGRAM} there, or no answer" in caplog.text
    assert "deploys/cluster.py" in caplog.text


@pytest.mark.parametrize("text", [None, f"Prolog={PROGRAM}\n"])
def test_a_new_cluster_and_one_that_names_it_already_ask_no_worker(
    conf: Path, deployed: Callable[..., Done], text: str | None
) -> None:
    if text:
        conf.write_text(text)
    done = deployed(without="worker2")
    assert (done.succeeded, done.commands) == (True, 0)


@pytest.mark.parametrize("node", ["head1", "worker1"])
def test_the_whole_deploy_gives_workers_first_what_the_controller_will_name(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def tell(module: str) -> Callable[[NodePlan], None]:
        return lambda plan: told.append(module)

    for name in ("packages", "node_check", "pyxis"):
        monkeypatch.setattr(f"roles.{name}.apply", tell(name))
    monkeypatch.setattr("roles.barrier.reached", lambda name: told.append("barrier"))
    monkeypatch.setattr("pyinfra.local.include", told.append)
    plan = planned().nodes[node]
    monkeypatch.setattr(pyinfra, "host", SimpleNamespace(data=SimpleNamespace(plan=plan)))
    runpy.run_path(str(ROOT / "deploys" / "cluster.py"))
    first = ["packages", "node_check", "pyxis"] if node == "worker1" else []
    assert told == [*first, "barrier", "./head.py", "barrier", "./worker.py"]
