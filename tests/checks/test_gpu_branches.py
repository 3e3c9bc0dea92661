"""What a driver or a model cannot tell is no finding; what it tells in another form is judged."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.node.readers.reading import NOT_AVAILABLE, NOT_SUPPORTED
from lockstep.probe.record import Record
from lockstep.report import ExitStatus, Report, Status
from tests.checks import recorded
from tests.checks.test_nvidia import GPUS
from tests.checks.test_one_cause import NODE, Change, changed, found, the_one

OLD = "470.256.02"
LINKS = ("replay", "recovery", "crc", "packet", "symbol")


def workers(start: Context) -> list[str]:
    return list(start.plan.nodes)[1:]


def everywhere(*changes: Change, start: Context | None = None) -> Context:
    """Return the cluster with the same changes on every worker."""
    context = start or recorded.consistent()
    for node in workers(context):
        context = changed(*changes, start=context, node=node)
    return context


def unread(start: Context, node: str, **readings: str) -> Context:
    """Return the cluster where whole readings of a node are unread."""
    record = start.reading[node]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name, reason in readings.items():
        raw["readings"][name.replace("__", ".")] = {"unread": reason}
    return recorded.with_reading(start, {**start.reading, node: recorded.parsed(raw)})


def without_recovery_action(start: Context, *nodes: str) -> Context:
    for node in nodes:
        start = unread(start, node, gpu__recovery_action=f"{NOT_AVAILABLE}: gpu_recovery_action")
    return start


def notes(report: Report) -> list[str]:
    return [note for note in report.notes if NOT_AVAILABLE.split(" on ")[0] in note]


# --- not available


def test_what_no_node_with_a_driver_has_is_one_note() -> None:
    start = recorded.consistent()
    old = without_recovery_action(start, *workers(start))
    for node in workers(start):
        why = f"{NOT_AVAILABLE}: fabric.state"
        old = unread(old, node, gpu__fabric__state=why)
    report = recorded.report(old)
    assert report.findings == []
    assert report.exit_status is ExitStatus.CONSISTENT
    assert notes(report) == [
        "not available on driver 590.48.01 (worker[1-8]): gpu.fabric.state, gpu.recovery_action"
    ]


def test_what_another_node_with_the_same_driver_has_stays_unknown() -> None:
    report = recorded.report(without_recovery_action(recorded.consistent(), NODE))
    one = recorded.only(report)
    assert (one.rule, one.node, one.status) == ("gpu.recovery_action", NODE, Status.UNKNOWN.value)
    assert one.found == f"not read: {NOT_AVAILABLE}: gpu_recovery_action"
    assert notes(report) == []
    assert report.exit_status is ExitStatus.UNREAD


def test_nodes_with_another_driver_do_not_say_what_this_one_has() -> None:
    start = changed(("gpu.driver_version", (), dict.fromkeys(GPUS, OLD)))
    report = recorded.report(without_recovery_action(start, NODE))
    assert {one.rule for one in report} == {"gpu.driver_version"}
    assert notes(report) == [f"not available on driver {OLD} ({NODE}): gpu.recovery_action"]


def test_a_driver_that_is_unknown_excuses_nothing() -> None:
    start = recorded.consistent()
    for node in workers(start):
        start = unread(start, node, gpu__driver_version="nvidia-smi: driver_version is ERR!")
    report = recorded.report(without_recovery_action(start, *workers(start)))
    assert {one.rule for one in report} == {"gpu.recovery_action"}
    assert {one.status for one in report} == {Status.UNKNOWN.value}
    assert notes(report) == []


def test_any_other_reason_stays_unknown() -> None:
    start = recorded.consistent()
    for node in workers(start):
        start = unread(start, node, gpu__recovery_action=f"nvidia-smi: {NOT_AVAILABLE}")
    assert {one.status for one in recorded.report(start)} == {Status.UNKNOWN.value}


def test_a_known_action_of_one_gpu_leaves_the_others_not_available() -> None:
    """As with [GPU requires reset] on a driver without the field gpu_recovery_action."""
    start = recorded.consistent()
    start = without_recovery_action(start, *(node for node in workers(start) if node != NODE))
    why = {"unread": f"{NOT_AVAILABLE}: gpu_recovery_action"}
    mixed = changed(
        ("gpu.recovery_action", (), {**dict.fromkeys(GPUS, why), "gpu3": "Reset"}), start=start
    )
    report = recorded.report(mixed)
    one = recorded.only(report)
    assert (one.rule, one.device, one.found) == ("gpu.recovery_action", "gpu3", "Reset")
    assert notes(report) == ["not available on driver 590.48.01 (worker[1-8]): gpu.recovery_action"]


# --- lost GPUs


@pytest.mark.parametrize(
    ("device", "error"),
    [
        ("gpu3", "GPU is lost"),
        ("0000:61:00.0", "GPU is lost.  Reboot the system to recover this GPU"),
        ("gpu3", "Unknown Error"),
        ("gpu3", "A GPU reset must occur before this GPU can be used again."),
        ("all", "No devices were found"),
    ],
)
def test_a_lost_gpu_is_one_finding_in_every_form(device: str, error: str) -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    gone = GPUS if device == "all" else ["gpu3"]
    for name, entry in raw["readings"].items():
        if name.startswith("gpu.") and isinstance(entry.get("value"), dict):
            entry["value"] = {at: one for at, one in entry["value"].items() if at not in gone}
    raw["readings"]["gpu.count"] = {"value": 8 - len(gone)}
    raw["readings"]["gpu.lost"] = {"value": {device: error}}
    lost = recorded.with_reading(start, {**start.reading, NODE: recorded.parsed(raw)})
    one = recorded.only(recorded.report(lost))
    assert (one.rule, one.device, one.found) == ("gpu.lost", device, error)
    assert one.severity == "error"


def test_a_driver_that_stops_at_the_lost_gpu_is_one_finding() -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    why = "nvidia-smi: exit 15: Unable to determine the device handle for GPU3: GPU is lost."
    for name in raw["readings"]:
        if name.startswith("gpu.") and not name.startswith("gpu.pci."):
            raw["readings"][name] = {"unread": why}
    raw["readings"]["gpu.lost"] = {"value": {"gpu3": "GPU is lost."}}
    lost = recorded.with_reading(start, {**start.reading, NODE: recorded.parsed(raw)})
    one = recorded.only(recorded.report(lost))
    assert (one.rule, one.device, one.status) == ("gpu.lost", "gpu3", Status.DIFFERS.value)
    assert "gpu.count" in one.detail


# --- models


def test_two_gpus_of_a_module_share_its_serial_number() -> None:
    def module(description: dict[str, Any]) -> None:
        gpu = description["hardware"]["hgx-h200"]["gpu"]
        gpu["model"] = "gb200"
        hardware = description["hardware"]["hgx-h200"]
        hardware["architecture"] = "arm64"
        del hardware["kernel"]["max_cstate"]

    start = recorded.clustered(module)
    pairs = {gpu: f"165000000000{index // 2}" for index, gpu in enumerate(GPUS)}
    shared = changed(("gpu.serial", (), pairs), start=start)
    only_serials = recorded.report(shared, "gpu.serial_unique").findings
    assert only_serials == []
    three = changed(("gpu.serial", ("gpu2",), pairs["gpu0"]), start=shared)
    (one,) = recorded.report(three, "gpu.serial_unique").findings
    assert one.found == "1650000000000 on worker3 gpu0, worker3 gpu1, worker3 gpu2"
    other = changed(("gpu.serial", (), pairs), start=shared, node="worker4")
    assert len(recorded.report(other, "gpu.serial_unique").findings) == 4


def test_two_other_gpus_with_one_serial_number_are_a_finding() -> None:
    record = recorded.consistent().reading[NODE]
    assert isinstance(record, Record)
    first = record.items("gpu.serial")
    assert isinstance(first, dict)
    assert the_one(("gpu.serial", ("gpu3",), first["gpu2"])).rule == "gpu.serial_unique"


def no_slots(start: Context) -> Context:
    """Return the cluster of virtual machines, which do not show the slots of their GPUs."""
    return everywhere(("gpu.pci.slot_width", (), {}), start=start)


def narrow(width: int) -> Change:
    return ("gpu.pcie.width_current", (), dict.fromkeys(GPUS, width))


def test_links_that_are_narrow_on_all_virtual_machines_are_fine() -> None:
    cloud = no_slots(everywhere(narrow(8)))
    assert recorded.report(cloud).findings == []
    one = the_one(("gpu.pcie.width_current", ("gpu3",), 4), start=cloud)
    assert (one.rule, one.device, one.found) == ("gpu.pcie_width", "gpu3", "x4")
    assert one.detail == "its class has at most x8"


def test_links_narrower_than_their_slots_are_findings_on_every_node() -> None:
    assert len(recorded.report(everywhere(narrow(8)), "gpu.pcie_width").findings) == 8


def test_a_link_as_wide_as_its_slot_is_fine() -> None:
    slots = everywhere(narrow(8))
    for node in workers(slots):
        record = slots.reading[node]
        assert isinstance(record, Record)
        ports = record.items("gpu.pci.slot_width")
        assert isinstance(ports, dict)
        slots = changed(
            ("gpu.pci.slot_width", (), dict.fromkeys(ports, 8.0)), start=slots, node=node
        )
    assert recorded.report(slots).findings == []
    one = the_one(("gpu.pcie.width_current", ("gpu3",), 4), start=slots)
    assert one.detail == "the slot has at most x8"


def without_ecc(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["gpu"]["ecc"] = False


LACKS_ECC: list[Change] = [
    (f"gpu.{name}", (), dict.fromkeys(GPUS, NOT_SUPPORTED))
    for name in ("ecc.current", "ecc.pending", "remapped.pending", "remapped.failure")
]


def test_gpus_without_ecc_are_fine_where_none_is_declared() -> None:
    start = everywhere(*LACKS_ECC, start=recorded.clustered(without_ecc))
    assert recorded.report(start, "gpu.ecc", "gpu.row_remap").findings == []


def test_gpus_without_ecc_are_found_where_it_is_declared() -> None:
    start = everywhere(*LACKS_ECC)
    assert {one.found for one in recorded.report(start, "gpu.ecc")} == {"Disabled"}
    assert {one.found for one in recorded.report(start, "gpu.row_remap")} == {
        "not read: nvidia-smi: remapped rows are not supported"
    }


@pytest.mark.parametrize(("clock", "fine"), [(5000, True), (4990, False), (2500, False)])
def test_a_t4_runs_its_memory_at_5000_of_5001_mhz(clock: int, fine: bool) -> None:
    t4 = everywhere(
        ("gpu.clocks.max_memory_mhz", (), dict.fromkeys(GPUS, 5001)),
        ("gpu.clocks.memory_mhz", (), dict.fromkeys(GPUS, 5001)),
    )
    assert [one.rule for one in found(("gpu.clocks.memory_mhz", ("gpu3",), clock), start=t4)] == (
        [] if fine else ["gpu.clock_memory"]
    )


@pytest.mark.parametrize(
    ("driver", "name", "mib", "rules"),
    [
        ("470.256.02", "NVIDIA A100-SXM4-40GB", 40536, set()),
        ("460.106.00", "A100-SXM4-40GB", 40536, set()),
        ("470.256.02", "A100-SXM4-40GB", 40536, set()),
        ("470.256.02", "A100-SXM4-80GB", 40536, {"gpu.name"}),
        ("470.256.02", "NVIDIA A100-SXM4-40GB", 40000, {"gpu.memory"}),
        ("535.261.03", "NVIDIA A100-SXM4-40GB", 40536, set()),
    ],
)
def test_old_drivers_show_less_memory_and_shorter_names(
    driver: str, name: str, mib: int, rules: set[str]
) -> None:
    """As many public listings of A100 and T4 show them."""

    def a100(description: dict[str, Any]) -> None:
        description["hardware"]["hgx-h200"]["gpu"]["model"] = "a100_40gb"

    start = everywhere(
        ("gpu.driver_version", (), dict.fromkeys(GPUS, driver)),
        ("gpu.name", (), dict.fromkeys(GPUS, name)),
        ("gpu.memory.total_mib", (), dict.fromkeys(GPUS, mib)),
        start=recorded.clustered(a100),
    )
    seen = {one.rule for one in recorded.report(start, "gpu.name")}
    assert seen | {one.rule for one in recorded.report(start, "gpu.memory")} == rules


# --- NVLinks


def test_gpus_without_links_may_be_left_out_by_nvidia_smi() -> None:
    def alone(description: dict[str, Any]) -> None:
        description["hardware"]["hgx-h200"]["gpu"]["nvswitch"] = False
        description["software"]["nvidia"].pop("fabric_manager", None)

    rules = ("gpu.nvlink", *(f"gpu.nvlink_{kind}" for kind in ("replay", "recovery", "crc")))
    start = everywhere(("gpu.nvlink.links", (), {}), start=recorded.clustered(alone))
    for node in workers(start):
        why = f"{NOT_AVAILABLE}: nvidia-smi nvlink -e printed no counters"
        start = unread(start, node, **{f"gpu__nvlink__{kind}": why for kind in LINKS})
    report = recorded.report(start, *rules)
    assert report.findings == []
    assert notes(report) == []  # without links, there is nothing to tell


def test_a_gpu_that_should_have_links_and_is_left_out_is_a_finding() -> None:
    record = recorded.consistent().reading[NODE]
    assert isinstance(record, Record)
    links = record.items("gpu.nvlink.links")
    assert isinstance(links, dict)
    seven = {gpu: value for gpu, value in links.items() if gpu != "gpu3"}
    one = the_one(("gpu.nvlink.links", (), seven))
    assert (one.rule, one.device, one.found) == ("gpu.nvlink", "gpu3", "no link up")


def test_counters_that_a_driver_does_not_print_are_one_note() -> None:
    start = recorded.consistent()
    for node in workers(start):
        why = f"{NOT_AVAILABLE}: nvidia-smi nvlink -e printed no counters"
        start = unread(start, node, **{f"gpu__nvlink__{kind}": why for kind in LINKS})
    report = recorded.report(start)
    assert report.findings == []
    assert len(notes(report)) == 1
    assert "gpu.nvlink.crc, gpu.nvlink.packet, gpu.nvlink.recovery" in notes(report)[0]
