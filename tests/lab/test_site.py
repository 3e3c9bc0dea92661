"""``lockstep lab try``, with the repository of ``lockstep init``, before and after a change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.commands.init import make
from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-site"
NOTICE = "/etc/motd.d/50-site"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab = Lab(os.environ.get("LOCKSTEP_TEST_LAB", NAME))
    lab.lab("down")
    yield lab
    lab.lab("down")


def test_a_change_is_tried_on_the_cluster_that_the_first_trial_left(
    lab: Lab, tmp_path: Path
) -> None:
    make(tmp_path)
    inventory = tmp_path / "inventories" / "prod.py"
    before = inventory.read_text(encoding="utf-8")
    ours = tmp_path / "deploys" / "ours.py"
    ours.write_text(
        ours.read_text(encoding="utf-8") + 'host.log("what only our site does")\n', encoding="utf-8"
    )
    first = lab.lab("try", str(inventory))
    assert "what only our site does" in first.stdout + first.stderr
    assert "all consistent" in first.stdout
    assert "log in to head1" in lab.on("worker1", f"cat {NOTICE}")
    inventory.write_text(before.replace("Jobs only: log in to head1.", "Only jobs."), "utf-8")
    assert "all consistent" in lab.lab("try", str(inventory)).stdout
    assert lab.on("worker2", f"tail -n 1 {NOTICE}").strip() == "Only jobs."
