"""Recorded answers of real GPUs become states in which a real nvidia-smi prints the same values.

``tests/captures/NAME/qx.xml`` is the recording. ``differences.txt`` beside it lists every element
that the program of the nearest branch prints otherwise, below the reason; a missing element is
``-``, one without text ``empty``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.nvml import smi, state
from lab.nvml.recorded import Recording, from_xml
from tests.nvml.programs import SimulatedNode

CAPTURES = Path(__file__).parents[1] / "captures"
BRANCHES = {"h100": "555", "a100_40gb": "555", "t4": "470"}
"""Recording -> the branch whose program reads its state."""
ABSENT, EMPTY = "-", "empty"
CLOCKS = "gpu/supported_clocks/"
FEWEST = 120
"""Values besides the supported clocks that a recording and the program must share."""

OTHERS = """\
470 a100 platform.module_id=5 gpu_module_id
535 a100 reset_status.reset_required=Yes gpu_reset_status/reset_required
535 h100 addressing_mode=ATS addressing_mode
535 h100 gpu_part_number=2330-886-A1 gpu_part_number
535 h100 sparse_operation_mode=Enabled sparse_operation_mode
550 h100 sparse_operation_mode=Enabled sparse_operation_mode
550 h200 reset_status.drain_and_reset_recommended=Yes gpu_reset_status/drain_and_reset_recommended
550 h200 pcie.replay_rollovers=3 pci/replay_rollover_counter
550 gb200 fabric.health.bandwidth=Full fabric/health/bandwidth
555 gb200 fabric.health.bandwidth=Degraded fabric/health/bandwidth
"""
"""Branch, model, a value of the state, and the element below ``gpu`` that shows it."""


def recorded(name: str) -> str:
    return (CAPTURES / name / "qx.xml").read_text(encoding="utf-8")


def leaves(element: ElementTree.Element, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and text of each value; the second of two equal tags is ``tag[2]``."""
    seen: dict[str, int] = {}
    for child in element:
        seen[child.tag] = seen.get(child.tag, 0) + 1
        number = f"[{seen[child.tag]}]" if seen[child.tag] > 1 else ""
        path = f"{above}{child.tag}{number}"
        yield from ((f"{path}@{name}", text) for name, text in child.items())
        if len(child):
            yield from leaves(child, f"{path}/")
        else:
            yield path, (child.text or "").strip() or EMPTY


def values_of(document: str) -> dict[str, str]:
    """Return path -> value of an answer of nvidia-smi -q -x."""
    found = dict(leaves(ElementTree.fromstring(document)))
    # The time of the question.
    del found["timestamp"]
    return found


def listed(name: str) -> dict[str, tuple[str, str]]:
    """Return path -> recorded and printed value, as differences.txt has them."""
    reason = ""
    rows: dict[str, tuple[str, str]] = {}
    for line in (CAPTURES / name / "differences.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            reason = line.strip("[] ")
        elif line and not line.startswith("#"):
            path, values = line.split(": ", 1)
            there, here = values.split(" -> ")
            assert reason, f"{line}: below no reason"
            assert path not in rows, f"{line}: a second row"
            rows[path] = (there, here)
    return rows


def unlike(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return path -> both values of what differs."""
    pairs = {path: (one.get(path, ABSENT), other.get(path, ABSENT)) for path in {**one, **other}}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def state_of(name: str) -> Recording:
    return from_xml(recorded(name), f"{name}/qx.xml")


@pytest.mark.parametrize("name", BRANCHES)
def test_the_nearest_program_prints_the_recorded_values(name: str, tmp_path: Path) -> None:
    recording = state_of(name)
    branch = smi.branch_for(recording.node["driver_version"])
    assert branch == BRANCHES[name]
    node = SimulatedNode(tmp_path, branch=branch)
    node.state.write_text(state.to_text(recording.to_state()), encoding="utf-8")

    answer = node.smi("-q", "-x")
    assert answer.returncode == 0, answer.stderr
    there, here = values_of(recorded(name)), values_of(answer.stdout)
    assert unlike(there, here) == listed(name)
    same = [path for path, value in there.items() if here.get(path) == value]
    assert len([path for path in same if not path.startswith(CLOCKS)]) >= FEWEST


@pytest.mark.parametrize("name", BRANCHES)
def test_every_element_is_known(name: str) -> None:
    recording = state_of(name)
    assert recording.unknown == []
    assert recording.notes == []
    differing = tuple(listed(name))
    for report in recording.not_kept:
        path = report.split(": ", 1)[1].split(" = ", 1)[0]
        assert any(one.startswith(f"gpu/{path}") for one in differing), report


@pytest.mark.parametrize("line", OTHERS.splitlines())
def test_branches_and_values_that_no_recording_here_has(line: str, tmp_path: Path) -> None:
    branch, model, setting, element = line.split()
    node = SimulatedNode(tmp_path, model, 1, branch)
    node.set("0", setting)
    printed = values_of(node.smi("-q", "-x").stdout)
    assert printed[f"gpu/{element}"] == setting.split("=")[1]
