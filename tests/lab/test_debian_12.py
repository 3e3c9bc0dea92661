"""The same cluster on Debian 12: an older Slurm, systemd and chrony."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import PYTHON, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def bookworm() -> Iterator[Lab]:
    with Lab("test-debian-12").booted(os_name="debian_12") as lab:
        deployed = lab.deploy()
        assert deployed.status == 0, deployed.errors
        yield lab


def test_it_is_debian_12(bookworm: Lab) -> None:
    assert 'VERSION_ID="12"' in bookworm.on("worker1", "cat /etc/os-release")


def test_job_targets_and_check(bookworm: Lab) -> None:
    printed = bookworm.on(
        "head", "srun -N2 --gres=gpu:8 sh -c 'echo $(uname -n) $CUDA_VISIBLE_DEVICES'"
    )
    assert sorted(printed.splitlines()) == [
        "worker1 0,1,2,3,4,5,6,7",
        "worker2 0,1,2,3,4,5,6,7",
    ]
    done = bookworm.command(str(PYTHON), "scripts/prometheus_targets.py", "inventories/lab.py")
    assert "4 of 4 targets are up" in done.stdout
    checked = bookworm.check()
    assert (checked.status, checked.named) == (0, set()), checked.text


def test_second_run_changes_nothing(bookworm: Lab) -> None:
    again = bookworm.deploy()
    assert (again.status, again.changed) == (0, [])
