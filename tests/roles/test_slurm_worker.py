"""Workers that are out of service, with a simulated controller."""

from pathlib import Path

import pytest

from lockstep.roles.operations.slurm_worker import registered
from tests.roles.local import run

BACK = "update NodeName=worker1 State=RESUME\n"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("State=IDLE", ""),
        ("State=DOWN Reason=Node unexpectedly rebooted [slurm@2026-11-21T10:00:00]", BACK),
        ("State=IDLE+DRAIN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", BACK),
        ("State=MIXED+DRAIN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", BACK),
        ("State=IDLE+DRAIN Reason=a person [root@2026-11-21T10:00:00]", ""),
        ("State=DOWN Reason=CoreSpec differ [slurm@2026-11-21T10:00:00]", ""),
    ],
)
def test_only_what_its_absence_or_the_deploy_caused_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, said: str
) -> None:
    log = tmp_path / "log"
    log.touch()
    double = tmp_path / "scontrol"
    node = f"NodeName=worker1 Arch=x86_64 {shown}"
    double.write_text(
        f'#!/bin/sh\n[ "$1" = update ] || {{ echo "{node}"; exit; }}\necho "$@" >> {log}\n'
    )
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run(registered, node="worker1", controller="head1").succeeded
    assert log.read_text() == said
