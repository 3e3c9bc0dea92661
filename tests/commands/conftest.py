"""A cluster for commands: recorded nodes instead of ssh, and a clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockstep.__main__ import main
from lockstep.checks.context import Context
from lockstep.history.store import file
from lockstep.inventory import OWN_DEPLOYS
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import dumps
from lockstep.probe.record import Reading, Record
from tests.checks import recorded

START = 1795200000.0  # 2026-11-20 18:40 UTC

INVENTORY = """\
from lockstep.inventory import plan_or_exit
from tests.checks.recorded import DESCRIPTION

_cluster = plan_or_exit({description}, __file__)
head = _cluster.group("head")
worker = _cluster.group("worker")
"""


@dataclass
class Cluster:
    """What the commands find when they read the nodes."""

    context: Context
    now: float = START
    asked: Collection[str] | None = None
    through: str = ""

    def read(
        self,
        plan: ClusterPlan,
        nodes: Collection[str] | None = None,
        *,
        containers: bool = False,
        through: str = "",
        fingerprint: bool = False,
        slow: bool = False,
        tell: Callable[[bool], None],
    ) -> Reading:
        """Stand in for ``gather``; records are taken at the test's time."""
        self.asked, self.through = nodes, through
        reading = {
            name: got.model_copy(update={"taken_at": self.now}) if isinstance(got, Record) else got
            for name, got in self.context.reading.items()
            if nodes is None or name in nodes
        }
        for got in reading.values():
            tell(not isinstance(got, Record))
        return reading

    def change(self, node: str, reading: str, path: tuple[str, ...], value: Any) -> None:
        self.context = recorded.mutated(self.context, node, reading, path, value)

    def save(self, path: str) -> None:
        Path(path).write_text(dumps(self.context.reading))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A consistent cluster ``inventory.py`` with deploys of its site, nothing of it kept yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("inventory.py").write_text(INVENTORY.format(description="DESCRIPTION"))
    Path("deploys").mkdir()
    for path in OWN_DEPLOYS.glob("[!_]*.py"):
        Path(f"deploys/{path.name}").touch()
    made = Cluster(recorded.consistent())
    monkeypatch.setattr("lockstep.reading.gather", made.read)
    monkeypatch.setattr("time.time", lambda: made.now)
    # The munge key and its hash are a secret of this machine, which the recorded nodes have not.
    monkeypatch.setattr("lockstep.secrets.existing", lambda *_: recorded.SECRETS)
    return made


@pytest.fixture
def history() -> Path:
    """Where the cluster's history lies."""
    return file("recorded")


def ended(*words: str) -> int:
    """Run a command line; return its exit status."""
    return main(list(words))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command line that cannot be done; return what it says."""
    capsys.readouterr()
    assert ended(*words) == 3
    said = capsys.readouterr()
    assert said.out == ""
    return said.err
