"""Two GB200 racks: healthy ones have no finding, and a tray outside of its rack is named."""

from __future__ import annotations

import re
from functools import cache
from random import Random

import pytest

from lockstep.checks.context import Context
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.report import Finding
from tests.checks import healthy, recorded
from tests.checks.recorded_fingerprint import objects, with_objects
from tests.spec.racks import description

GPUS = ("gpu0", "gpu1", "gpu2", "gpu3")


@cache
def start() -> Context:
    return healthy.of(description(), Random(1))


def found(cluster: Context) -> list[Finding]:
    return list(recorded.report(cluster))


def test_healthy_racks_have_no_finding() -> None:
    assert len(start().plan.nodes) == 37
    assert found(start()) == []


def test_the_two_gpus_of_a_module_have_one_serial_number() -> None:
    serials = start().views["a01"].items("gpu.serial")
    assert serials["gpu0"] == serials["gpu1"] != serials["gpu2"] == serials["gpu3"]


def test_three_gpus_with_one_serial_number_are_found() -> None:
    serials = start().views["a01"].items("gpu.serial")
    wrong = recorded.mutated(start(), "a01", "gpu.serial", ("gpu2",), serials["gpu0"])
    assert {one.rule for one in found(wrong)} == {"gpu.serial_unique"}


@pytest.mark.parametrize(
    ("reading", "value"),
    [
        # It is cabled to the other rack, or the description has it in the wrong one.
        ("gpu.fabric.cluster", "cluster of b01"),
        ("gpu.fabric.clique", "1"),
    ],
)
def test_a_tray_outside_of_its_domain_is_named(reading: str, value: str) -> None:
    other = start().views["b01"].items("gpu.fabric.cluster")["gpu0"]
    new = dict.fromkeys(GPUS, other if value.startswith("cluster") else value)
    wrong = recorded.mutated(start(), "a07", reading, (), new)
    findings = found(wrong)
    assert {(one.rule, one.node) for one in findings} == {("gpu.nvlink_domain", "a07")}
    assert {one.reference for one in findings} == {"peers: 17 nodes of NVLink domain rack1"}
    assert str(new["gpu0"]) in findings[0].found


def test_one_gpu_of_another_clique_is_named() -> None:
    wrong = recorded.mutated(start(), "b18", "gpu.fabric.clique", ("gpu2",), "7")
    one = recorded.only(found(wrong))
    assert (one.rule, one.node, one.device) == ("gpu.nvlink_domain", "b18", "gpu2")


def test_a_gpu_that_has_not_joined_the_fabric_is_one_finding() -> None:
    state = recorded.mutated(start(), "a03", "gpu.fabric.state", ("gpu1",), "In Progress")
    zero = "00000000-0000-0000-0000-000000000000"
    wrong = recorded.mutated(state, "a03", "gpu.fabric.cluster", ("gpu1",), zero)
    one = recorded.only(found(wrong))
    assert (one.rule, one.node, one.device) == ("gpu.fabric", "a03", "gpu1")


def test_the_racks_of_a_class_are_compared_with_each_other() -> None:
    changed = {"a05": objects("a05", start().plan.nodes["a05"].address)}
    changed["a05"]["file"]["/etc/site.conf"] = {"content": "other\n"}
    one = recorded.only(found(with_objects(start(), changed)))
    assert (one.rule, one.node) == (f"{FAMILY}file", "a05")
    assert one.reference == "peers (35 of 36)"


def test_the_list_of_a_racks_nodes_is_not_compared_with_other_racks() -> None:
    path = "/etc/nvidia-imex/nodes_config.cfg"
    rows = [row for row in EXCEPTIONS if re.fullmatch(row.object, path)]
    assert [(row.domain, row.field) for row in rows] == [("file", "content")]
