"""The wait for a synchronised clock, with a simulated chronyc that prints recorded lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.roles.operations.time_sync import clock_is_right
from tests.plan.example import planned
from tests.roles.local import Done, run

Gate = Callable[..., Done]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs the gate on a machine whose servers were last heard so many seconds ago."""

    def gated(
        age_s: float,
        interval_s: float = 64.2,
        reference: str = "FD000001",
        offset: str = "0.000004770",
        answers: bool = True,
    ) -> Done:
        heard = f"{reference},head,11,{time.time() - age_s:.9f},{offset}"
        double = tmp_path / "chronyc"
        # waitsync is content with the leap status, which outlives the servers.
        double.write_text(
            f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\ncase "$*" in *tracking*) '
            f"echo '{heard},0,0,0,0,0,0.01,0.001,{interval_s},Normal';; "
            f"waitsync*) exit {int(not answers)};; esac\n"
        )
        double.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
        return run(clock_is_right, plan=planned().nodes["head1"], reference=False, max_offset_s=0.1)

    return gated


def test_a_clock_that_follows_needs_nothing(gate: Gate) -> None:
    assert (gate(600).succeeded, gate(600).commands) == (True, 0)
    assert gate(7300, interval_s=1030.1).commands == 0


def test_a_node_whose_servers_were_lost_does_not_pass(gate: Gate) -> None:
    assert not gate(7300).succeeded
    assert not gate(20000, interval_s=1030.1).succeeded


def test_a_node_that_follows_itself_waits(gate: Gate) -> None:
    assert gate(600, reference="7F7F0101").commands == 1


def test_a_node_that_waits_has_its_servers_asked_at_once(gate: Gate, tmp_path: Path) -> None:
    """A chronyd that was up before its servers asks them only every two minutes."""
    assert gate(600, reference="7F7F0101").commands == 1
    asked = [line.split()[0] for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked[-3:] == ["burst", "waitsync", "-n"]


def test_an_offset_that_is_not_a_number_waits(gate: Gate) -> None:
    assert gate(600, offset="nan").commands == 1


def test_a_node_without_an_answer_names_its_time_servers_and_the_next_step(gate: Gate) -> None:
    done = gate(600, reference="00000000", offset="nan", answers=False)
    assert not done.succeeded
    said = "the clock is not right after 90 s: the time servers are "
    assert said + ", ".join(planned().nodes["head1"].time.servers) in done.output
    assert "Next: run chronyc sources on this node" in done.output
