"""Workers that are out of service, with a simulated controller."""

from pathlib import Path

import pytest

from lockstep.facts.slurm import TO_COMPARE
from lockstep.question import Question
from lockstep.roles.operations import slurm_worker
from lockstep.roles.operations.slurm_worker import registered
from tests.plan.example import planned
from tests.roles.local import run

HELD = f"update NodeName=worker1 State=DRAIN Reason={TO_COMPARE}\n"
BACK = "update NodeName=worker1 State=RESUME\n"
LACKS = "gres/gpu count reported lower than configured (7 < 8)"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("State=IDLE", ""),
        ("State=DOWN Reason=Node unexpectedly rebooted [slurm@2026-11-21T10:00:00]", HELD),
        ("State=IDLE+DRAIN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", HELD),
        ("State=MIXED+DRAIN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", HELD),
        ("State=IDLE+DRAIN Reason=a person [root@2026-11-21T10:00:00]", ""),
        ("State=DOWN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", ""),
        (f"State=IDLE+DRAIN Reason={LACKS} [slurm@2026-11-21T10:00:00]", HELD),
        (f"State=IDLE+DRAIN Reason={LACKS}, Low CPUs [slurm@2026-11-21T10:00:00]", ""),
        (
            "State=IDLE+DRAIN Reason=gres/gpu:nvidia_h200_3g.71gb count too low (14 < 16) "
            "[slurm@2026-11-21T10:00:00]",
            HELD,
        ),
    ],
)
def test_only_a_node_that_was_absent_or_that_the_deploy_drained_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, said: str
) -> None:
    assert told(tmp_path, monkeypatch, shown) == said


def test_a_run_that_does_not_compare_resumes_the_node_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_worker, "compares", lambda: False)
    shown = "State=DOWN Reason=Node unexpectedly rebooted [slurm@2026-11-21T10:00:00]"
    assert told(tmp_path, monkeypatch, shown) == BACK


def test_slurmd_looks_again_for_gpus_that_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = f"State=IDLE+DRAIN+INVALID_REG Reason={LACKS} [slurm@2026-11-21T10:00:00]"
    after = (
        "State=IDLE+DRAIN SlurmdStartTime=2099-01-01T00:00:00 "
        f"Reason={LACKS} [slurm@2026-11-21T10:00:00]"
    )
    restarted = "restart slurmd.service\n"
    assert told(tmp_path, monkeypatch, before, after) == restarted + HELD
    still = after.replace("IDLE+DRAIN", "IDLE+DRAIN+INVALID_REG")
    assert told(tmp_path, monkeypatch, before, still) == restarted
    assert told(tmp_path, monkeypatch, before, healthy=False) == ""


def test_a_new_node_that_slurm_rejects_has_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays UNKNOWN; nothing is waited for, and the check names the state."""
    shown = (
        f"State=UNKNOWN+DRAIN+INVALID_REG SlurmdStartTime=2026-11-21T10:00:00 "
        f"Reason={LACKS} [slurm@2026-11-21T10:00:00]"
    )
    monkeypatch.setattr(slurm_worker, "WAIT_S", 0)
    assert told(tmp_path, monkeypatch, shown, healthy=False) == ""


def test_a_node_with_another_fault_stays_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = f"State=IDLE+DRAIN Reason={LACKS} [slurm@2026-11-21T10:00:00]"
    assert told(tmp_path, monkeypatch, shown, healthy=False) == ""


def told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shown: str,
    restarted: str = "",
    healthy: bool = True,
) -> str:
    """What controller and systemd are told for a node in this state, after a restart in another."""
    log, state = tmp_path / "log", tmp_path / "state"
    log.write_text("")
    state.write_text(f"NodeName=worker1 Arch=x86_64 {shown}\n")
    doubles = {
        "scontrol": f'[ "$1" = update ] || exec cat {state}; echo "$@" >> {log}',
        "systemctl": (
            '[ "$1" = restart ] || exit; '
            f'echo "NodeName=worker1 {restarted}" > {state}; echo "$@" >> {log}'
        ),
    }
    for name, script in doubles.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    health = Question("health", ("files",), lambda taken: healthy, {"files": ("/",)})
    monkeypatch.setattr(slurm_worker, "is_healthy", lambda: health)
    assert run(registered, plan=planned().nodes["worker1"]).succeeded
    return log.read_text()
