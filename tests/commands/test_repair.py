"""``lockstep repair`` on recorded nodes, with a pyinfra that only logs its arguments."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lockstep.history.store import opened
from lockstep.inventory import OWN_DEPLOYS
from lockstep.lock import PARENT, Lock, file, parsed, this_run
from tests.checks import recorded
from tests.checks.recorded import REMOVED
from tests.commands.conftest import Cluster, ended, refused

SYSCTL = ("sysctl.running", ("net.core.somaxconn",))


class Pyinfra:
    """Notes what is run; brings the recorded nodes back, or does not."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.runs: list[str] = []
        self.status = 0
        self.then: Callable[[], Any] = lambda: None

    def __call__(
        self, command: Sequence[str], *, check: bool, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        assert not check
        self.runs.append(env[PARENT])
        program, *words = command
        assert program.endswith("pyinfra")
        self.ran.append(" ".join(words))
        self.then()
        return subprocess.CompletedProcess(command, self.status)


@pytest.fixture
def pyinfra(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Pyinfra:
    made = Pyinfra()
    monkeypatch.setattr("subprocess.run", made)
    return made


def drift(cluster: Cluster) -> None:
    cluster.change("worker3", *SYSCTL, "128")
    cluster.change("head1", "units", ("prometheus.service", "active"), "inactive")


def test_the_named_roles_run_on_the_named_nodes_and_a_check_proves_it(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    drift(cluster)

    def mend() -> None:
        if len(pyinfra.ran) == 2:
            cluster.context = recorded.consistent()

    pyinfra.then = mend
    assert ended("repair", "inventory.py", "-y", "--json", "done.json") == 0
    assert pyinfra.ran == [
        "-y inventory.py deploys/head.py --limit head1 --data roles=prometheus",
        "-y inventory.py deploys/worker.py --limit worker3 --data roles=os_settings",
    ]
    said = capsys.readouterr().out
    for words in pyinfra.ran:
        assert f"pyinfra {words}\n" in said
    assert "repaired\n  sysctl.running" in said
    assert said.endswith("2 repaired, all consistent. Exit 0.\n")
    done = json.loads(Path("done.json").read_text())
    assert [deploy["nodes"] for deploy in done["deploys"]] == [["head1"], ["worker3"]]
    assert {finding["rule"] for finding in done["repaired"]} == {"sysctl.running", "unit.active"}
    assert done["left"] == []


def test_repair_has_the_lock_and_its_deploys_know_it(cluster: Cluster, pyinfra: Pyinfra) -> None:
    drift(cluster)
    path = file(recorded.DESCRIPTION["name"])
    found = []
    pyinfra.then = lambda: found.append(parsed(path.read_text()))
    ended("repair", "inventory.py", "-y")
    assert [one.run for one in found if one is not None] == pyinfra.runs
    assert len(set(pyinfra.runs)) == 1
    assert path.read_text() == ""


def test_no_deploy_runs_while_another_run_has_the_lock(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    drift(cluster)
    other = Lock(file(recorded.DESCRIPTION["name"]), this_run("pyinfra -y inventory.py"))
    assert ended("repair", "inventory.py", "-y") == 3
    assert "another run is changing this cluster" in capsys.readouterr().err
    assert pyinfra.ran == []
    other.release()


def test_ctrl_c_ends_pyinfra_first_and_then_the_repair(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    drift(cluster)

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)  # from the terminal: pyinfra gets it, too
        pyinfra.status = 130

    pyinfra.then = interrupted
    assert ended("repair", "inventory.py", "-y") == 130
    assert len(pyinfra.ran) == 1
    said = capsys.readouterr().err
    assert "Interrupted: what the deploys above have done stays" in said
    assert file(recorded.DESCRIPTION["name"]).read_text() == ""


def test_without_y_pyinfra_asks(cluster: Cluster, pyinfra: Pyinfra) -> None:
    cluster.change("worker3", *SYSCTL, "128")
    assert ended("repair", "inventory.py") == 1
    assert pyinfra.ran == [
        "inventory.py deploys/worker.py --limit worker3 --data roles=os_settings"
    ]


def test_a_dry_run_runs_nothing_and_says_what_it_would(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    drift(cluster)
    assert ended("repair", "inventory.py", "--dry-run") == 1
    assert pyinfra.ran == []
    said = capsys.readouterr().out
    assert (
        "pyinfra inventory.py deploys/worker.py --limit worker3 --data roles=os_settings\n"
        "  nodes     worker3\n"
        "  roles     os_settings\n"
        "  findings  sysctl.running\n"
    ) in said
    assert said.endswith("Nothing was changed. Exit 1.\n")


def test_a_limit_and_a_rule_leave_out_the_rest(cluster: Cluster, pyinfra: Pyinfra) -> None:
    drift(cluster)
    ended("repair", "inventory.py", "-y", "--limit", "worker")
    ended("repair", "inventory.py", "-y", "--rule", "unit.*")
    assert [words.split()[2] for words in pyinfra.ran] == ["deploys/worker.py", "deploys/head.py"]


def test_what_no_deploy_repairs_is_left_with_its_reason(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker1", "gpu.count", (), 7)
    cluster.change("worker2", "gpu.ecc.current", ("gpu0",), "Disabled")
    cluster.change("worker4", "os.locale", (), REMOVED)
    assert ended("repair", "inventory.py", "-y") == 1
    assert pyinfra.ran == []
    said = capsys.readouterr().out
    assert "left, to repair by hand\n  gpu.count                worker1" in said
    assert "deploys/reboot.py --limit worker2\n  gpu.ecc " in said
    assert "left, not read\n  os.locale" in said
    assert "Nothing was changed. Exit 1.\n" in said


def test_only_what_was_not_read_ends_with_2(cluster: Cluster, pyinfra: Pyinfra) -> None:
    cluster.change("worker4", "os.locale", (), REMOVED)
    assert ended("repair", "inventory.py", "-y") == 2


def test_a_deploy_that_failed_is_named(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", *SYSCTL, "128")
    pyinfra.status = 1
    assert ended("repair", "inventory.py", "-y") == 1
    said = capsys.readouterr().out
    assert "\nfailed: " in said
    assert "left, still found after their deploy\n  sysctl.running" in said


def test_since_when_is_as_old_as_the_finding(
    cluster: Cluster, pyinfra: Pyinfra, history: Path
) -> None:
    """Two checks in one repair: what stayed is as old as before, what returns begins anew."""
    cluster.change("worker3", *SYSCTL, "128")
    ended("check", "inventory.py")
    cluster.now += 3600
    ended("repair", "inventory.py", "-y", "--json", "stayed.json")
    (stayed,) = json.loads(Path("stayed.json").read_text())["left"]
    assert (stayed["since"], stayed["checks"]) == ("2026-11-20 18:40 UTC", 3)
    pyinfra.then = lambda: setattr(cluster, "context", recorded.consistent())
    assert ended("repair", "inventory.py", "-y") == 0
    with opened(history):
        pass
    cluster.now += 3600
    pyinfra.then = lambda: None
    cluster.change("worker3", *SYSCTL, "128")
    ended("repair", "inventory.py", "--dry-run", "--json", "again.json")
    (again,) = json.loads(Path("again.json").read_text())["left"]
    assert (again["since"], again["checks"]) == ("2026-11-20 20:40 UTC", 1)


def test_wrong_use_ends_with_3(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "unknown node" in refused(capsys, "repair", "inventory.py", "--limit", "worker99")
    assert "unknown rule" in refused(capsys, "repair", "inventory.py", "--rule", "gpu.powr")
    assert pyinfra.ran == []


def test_a_deploy_that_the_site_lacks_is_lockstep_s_own(cluster: Cluster, pyinfra: Pyinfra) -> None:
    drift(cluster)
    Path("deploys/worker.py").unlink()
    ended("repair", "inventory.py", "-y")
    assert [words.split()[2] for words in pyinfra.ran] == [
        "deploys/head.py",
        str(OWN_DEPLOYS.resolve() / "worker.py"),
    ]


def test_a_worker_that_a_deploy_drained_is_compared_again_by_its_role(
    cluster: Cluster, pyinfra: Pyinfra, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "lockstep-compare: fingerprint.file /etc/x (from: peers (2 of 3))"
    cluster.change("head1", "slurm.nodes", ("worker3", "state"), ["DRAIN", "IDLE"])
    cluster.change("head1", "slurm.nodes", ("worker3", "reason"), reason)
    pyinfra.status = 1
    assert ended("repair", "inventory.py", "-y") == 1
    (ran,) = pyinfra.ran
    assert ran.endswith("deploys/worker.py --limit worker3 --data roles=slurm_worker")
    said = capsys.readouterr().out
    assert f"\nstays drained: worker3: DRAIN+IDLE ({reason})\n" in said
    pyinfra.then = lambda: setattr(cluster, "context", recorded.consistent())
    pyinfra.status = 0
    assert ended("repair", "inventory.py", "-y") == 0
    assert "stays drained" not in capsys.readouterr().out
