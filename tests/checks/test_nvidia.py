"""One fault of NVIDIA's software is one finding, together with its consequences."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.catalog.nvidia.xid import XIDS
from lockstep.checks.context import Context
from lockstep.checks.rules.gpu_clocks import UNUSED_MIB
from lockstep.fleet.request import request
from lockstep.probe.record import Record
from lockstep.report import Finding, Severity, Status
from tests.checks import recorded
from tests.checks.recorded import DRIVER, REMOVED
from tests.checks.test_one_cause import NODE, REBOOT, Change, changed, found, the_one

OTHER = "590.60.02"
MISMATCH = "nvidia-smi: exit 18: Failed to initialize NVML: Driver/library version mismatch"
FAILED = {"active": "failed", "sub": "failed", "load": "loaded", "enabled": "enabled"}
FABRIC_MANAGER = "nvidia-fabricmanager.service"
GPUS = [f"gpu{index}" for index in range(8)]


def stack(start: Context | None = None) -> tuple[str, ...]:
    plan = (start or recorded.consistent()).plan.nodes[NODE].nvidia
    assert plan is not None
    return tuple(plan.driver.packages)


def packages(version: str, *names: str) -> list[Change]:
    return [("packages", (name,), f"{version}-1") for name in names or stack()]


def module(reading: str, version: str) -> Change:
    return (f"driver.{reading}", ("version",), version)


def silent(start: Context, reason: str = MISMATCH) -> Context:
    """Return the cluster where nvidia-smi of one node says nothing but this."""
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name in raw["readings"]:
        if name.startswith("gpu."):
            raw["readings"][name] = {"unread": reason}
    return recorded.with_reading(start, {**start.reading, NODE: Record.model_validate(raw)})


def one_of(context: Context) -> Finding:
    return recorded.only(recorded.report(context))


# --- versions


def test_a_node_a_patch_level_ahead_is_one_finding() -> None:
    ahead = changed(
        *packages(OTHER),
        module("module", OTHER),
        module("module_on_disk", OTHER),
        module("module_next", OTHER),
        ("driver.library", (), OTHER),
        ("gpu.driver_version", (), dict.fromkeys(GPUS, OTHER)),
    )
    one = one_of(ahead)
    assert (one.rule, one.device) == ("package.version", ", ".join(sorted(stack())))
    assert (one.found, one.expected) == (f"{OTHER}-1", f"{DRIVER}-*")
    assert (one.status, one.repair) == (Status.PENDING_REBOOT.value, REBOOT)
    for effect in ("driver.module_version", "driver.library_version", "gpu.driver_version"):
        assert effect in one.detail


def test_packages_ahead_of_what_runs_are_one_finding() -> None:
    ahead = changed(
        *packages(OTHER), module("module_on_disk", OTHER), ("driver.library", (), OTHER)
    )
    one = one_of(silent(ahead))
    assert one.rule == "package.version"
    assert "gpu.count" in one.detail


def test_a_module_older_than_its_library_waits_for_a_reboot() -> None:
    old = changed(
        module("module", "580.95.05"),
        ("units", (FABRIC_MANAGER,), FAILED),
        ("units", ("nvidia-persistenced.service",), FAILED),
    )
    one = one_of(silent(old))
    assert (one.rule, one.found, one.expected) == (
        "driver.module_version",
        "module 580.95.05",
        f"module {DRIVER}",
    )
    assert (one.status, one.repair) == (Status.PENDING_REBOOT.value, REBOOT)
    assert "gpu.count" in one.detail
    assert FABRIC_MANAGER in one.detail


def test_an_old_module_that_still_answers_is_one_finding() -> None:
    one = the_one(
        module("module", "580.95.05"),
        ("driver.module", ("flavour",), "proprietary"),
        ("gpu.driver_version", (), dict.fromkeys(GPUS, "580.95.05")),
    )
    assert one.rule == "driver.module_version"
    assert one.detail == "also causes: driver.module_flavour, gpu.driver_version (gpu[0-7])"


def test_a_module_that_was_not_built_is_the_cause_of_all_that_fails() -> None:
    absent = {"version": "absent", "flavour": "absent"}
    old = changed(
        ("driver.module_on_disk", (), absent),
        ("driver.module_next", (), {"kernel": recorded.KERNEL, **absent}),
        ("units", (FABRIC_MANAGER,), FAILED),
    )
    record = old.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    raw["readings"]["driver.module"] = {"unread": "/sys/module/nvidia/version: no such file"}
    old = recorded.with_reading(old, {**old.reading, NODE: Record.model_validate(raw)})
    one = one_of(silent(old, "nvidia-smi: exit 9: NVIDIA-SMI has failed"))
    assert (one.rule, one.found, one.expected) == (
        "driver.module_on_disk",
        "absent",
        f"{DRIVER} (open)",
    )
    assert "driver.module_version" in one.detail
    assert "driver.module_next" in one.detail
    assert "gpu.count" in one.detail


def test_a_newer_kernel_without_the_module_is_named_before_it_boots() -> None:
    absent = {"version": "absent", "flavour": "absent"}
    one = the_one(("driver.module_next", (), {"kernel": "6.12.117", **absent}))
    assert (one.rule, one.device, one.found) == ("driver.module_next", "6.12.117", "absent")
    assert "deploys/worker.py" in one.repair


def test_a_module_that_dkms_left_old_does_not_wait_for_a_reboot() -> None:
    old = changed(module("module", "580.95.05"), module("module_on_disk", "580.95.05"))
    one = one_of(silent(old))
    assert (one.rule, one.status) == ("driver.module_on_disk", Status.DIFFERS.value)


def test_a_fabric_manager_of_another_version_is_one_finding() -> None:
    waits: Change = ("gpu.fabric.state", (), dict.fromkeys(GPUS, "In Progress"))
    other = packages("590.44.01", "nvidia-fabricmanager")
    assert the_one(*other, waits).rule == "package.version"
    one = the_one(*other, ("units", (FABRIC_MANAGER,), FAILED), waits)
    assert (one.rule, one.device, one.found) == (
        "package.version",
        "nvidia-fabricmanager",
        "590.44.01-1",
    )
    assert FABRIC_MANAGER in one.detail
    assert "gpu.fabric" in one.detail


def test_another_package_explains_nothing_of_the_driver() -> None:
    many = found(("packages", ("bash",), "5.1"), module("module", "580.95.05"))
    assert {one.rule for one in many} == {"package.version", "driver.module_version"}
    late = found(*packages("590.44.01", "nvidia-fabricmanager"), module("module", "580.95.05"))
    assert {one.rule for one in late} == {"package.version", "driver.module_version"}
    old = (module("module", "580.95.05"), module("module_on_disk", "580.95.05"))
    both = found(*packages("590.44.01", "nvidia-fabricmanager"), *old)
    assert {one.rule for one in both} == {"package.version", "driver.module_on_disk"}


def test_what_packages_brought_belongs_to_those_packages() -> None:
    dcgm = "datacenter-gpu-manager-4-core"
    ahead = packages(OTHER, "libnvidia-ml1")
    many = found(("packages", (dcgm,), "1:4.4.1-1"), *ahead, ("driver.library", (), OTHER))
    assert {(one.device, one.detail) for one in many} == {
        (dcgm, ""),
        ("libnvidia-ml1", "also causes: driver.library_version"),
    }


def test_a_missing_package_hides_no_pending_reboot() -> None:
    gone: Change = ("packages", ("nvidia-persistenced",), REMOVED)
    many = found(gone, module("module", "580.95.05"))
    assert {one.rule for one in many} == {"package.present", "driver.module_version"}


def test_a_library_that_no_package_brought_is_one_finding() -> None:
    one = one_of(silent(changed(("driver.library", (), "580.95.05"))))
    assert (one.rule, one.found) == ("driver.library_version", "libnvidia-ml 580.95.05")
    assert "gpu.count" in one.detail


def test_a_hold_of_a_missing_package_is_part_of_it() -> None:
    name = stack()[0]
    kept = [held for held in recorded.consistent().plan.nodes[NODE].software.held if held != name]
    one = the_one(("packages", (name,), REMOVED), ("packages.held", (), kept))
    assert (one.rule, one.device) == ("package.present", name)


def test_holds_that_could_not_be_read_are_unknown() -> None:
    assert the_one(("packages.held", (), REMOVED)).status == Status.UNKNOWN.value


def test_a_revision_is_compared_with_the_peers() -> None:
    one = the_one(("packages", ("libcuda1",), f"{DRIVER}-2"))
    assert (one.device, one.expected) == ("libcuda1", f"{DRIVER}-1")
    assert one.reference.startswith("peers")


def declared_open(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["boot_loader"] = "none"
    description["hardware"]["hgx-h200"].update(kernel={}, housekeeping_cpus="", hugepages=[])


def test_modules_of_the_machine_below_are_judged_by_version_only() -> None:
    start = recorded.clustered(declared_open)
    absent = {"version": "absent", "flavour": "absent"}
    assert found(("driver.module_on_disk", (), absent), start=start) == []
    for flavour in ("proprietary", {"unread": "no such file"}):
        assert found(("driver.module", ("flavour",), flavour), start=start) == []
    one = the_one(module("module", "580.95.05"), start=start)
    assert (one.rule, one.status) == ("driver.module_version", Status.DIFFERS.value)


def undeclared(description: dict[str, Any]) -> None:
    del description["software"]["nvidia"], description["software"]["containers"]


def test_without_a_declared_stack_the_driver_is_judged_by_its_peers() -> None:
    start = recorded.clustered(undeclared)
    assert recorded.report(start).findings == []
    assert found(module("module", OTHER), ("driver.library", (), OTHER), start=start) == []
    other = ("gpu.driver_version", (), dict.fromkeys(GPUS, OTHER))
    assert the_one(other, start=start).rule == "gpu.driver_version"


# --- units


def without_nvswitch(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["gpu"]["nvswitch"] = False
    del description["software"]["nvidia"]["fabric_manager"]


RUNS = {"active": "active", "sub": "running", "load": "loaded", "enabled": "enabled"}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (RUNS, "active (running), enabled"),
        ({**RUNS, "enabled": "disabled"}, "active (running), disabled"),
        ({**RUNS, "active": "failed", "sub": "failed"}, "failed (failed), enabled"),
        ({**RUNS, "active": "inactive", "sub": "dead", "enabled": "disabled"}, ""),
    ],
)
def test_a_fabric_manager_without_switches_is_off(state: dict[str, str], said: str) -> None:
    start = recorded.clustered(without_nvswitch)
    assert recorded.report(start).findings == []
    assert FABRIC_MANAGER in request(start.plan.nodes[NODE]).units
    many = found(("units", (FABRIC_MANAGER,), state), start=start)
    assert [(one.rule, one.device, one.found) for one in many] == (
        [("unit.forbidden", FABRIC_MANAGER, said)] if said else []
    )


# --- GPUs


def test_a_gpu_divided_by_hand_is_one_finding() -> None:
    one = the_one(
        ("gpu.mig.current", ("gpu3",), "Enabled"),
        ("gpu.mig.pending", ("gpu3",), "Enabled"),
        ("gpu.utilization", ("gpu3",), {"unread": "nvidia-smi: utilization.gpu is [N/A]"}),
        ("gpu.remapped.pending", ("gpu3",), "not supported"),
        ("gpu.remapped.failure", ("gpu3",), "not supported"),
    )
    assert (one.rule, one.device, one.found, one.expected) == (
        "gpu.mig",
        "gpu3",
        "MIG Enabled",
        "MIG Disabled",
    )


def divided(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["gpu"]["mig"] = ["3g.71gb", "3g.71gb"]


def divided_cluster() -> Context:
    start = recorded.clustered(divided)
    lacking = dict.fromkeys(GPUS, "not supported")
    for node in list(start.plan.nodes)[1:]:
        start = changed(("gpu.utilization", (), lacking), start=start, node=node)
        for reading in ("gpu.remapped.pending", "gpu.remapped.failure"):
            start = changed((reading, (), lacking), start=start, node=node)
    return start


def test_gpus_that_are_divided_as_declared_are_fine() -> None:
    start = divided_cluster()
    assert recorded.report(start).findings == []
    assert the_one(("gpu.mig.current", ("gpu3",), "Disabled"), start=start).status == (
        Status.PENDING_REBOOT.value
    )


@pytest.mark.parametrize(
    ("devices", "shown", "status"),
    [
        (["3g.71gb"], "3g.71gb", Status.DIFFERS),
        ([], "no MIG device", Status.DIFFERS),
        (["7g.141gb"], "7g.141gb", Status.PENDING_REBOOT),
        (["1c.3g.71gb", "3g.71gb"], "1c.3g.71gb, 3g.71gb", Status.PENDING_REBOOT),
    ],
)
def test_a_gpu_that_is_divided_in_another_way_is_one_finding(
    devices: list[str], shown: str, status: Status
) -> None:
    start = divided_cluster()
    seen = [f"{i}:{n}" for i in range(8) for n in range(2 if i != 3 else len(devices))]
    one = the_one(
        ("gpu.mig.devices", ("gpu3",), devices),
        ("cdi.devices", (), {name: ["/dev/nvidia0"] for name in seen}),
        (
            "units",
            ("lockstep-gpu-settings.service",),
            {**RUNS, "active": "failed", "sub": "failed"},
        ),
        start=start,
    )
    assert (one.rule, one.device, one.found, one.expected, one.status) == (
        "gpu.mig_layout",
        "gpu3",
        shown,
        "3g.71gb, 3g.71gb",
        status.value,
    )
    assert ("reboot.py" in one.repair) == (status is Status.PENDING_REBOOT)


def test_a_layout_that_was_not_read_is_not_right() -> None:
    start = divided_cluster()
    one = the_one(("gpu.mig.devices", ("gpu3",), {"unread": "no answer"}), start=start)
    assert (one.rule, one.device, one.status) == ("gpu.mig_layout", "gpu3", "unknown")


def test_a_gpu_whose_mode_is_off_has_no_second_finding_for_its_devices() -> None:
    one = the_one(
        ("gpu.mig.current", ("gpu3",), "Disabled"),
        ("gpu.mig.devices", ("gpu3",), []),
        start=divided_cluster(),
    )
    assert (one.rule, one.device) == ("gpu.mig", "gpu3")


def test_containers_get_every_mig_device() -> None:
    start = divided_cluster()
    names = {f"{i}:{n}": ["/dev/nvidia0"] for i in range(8) for n in range(2)}
    del names["5:1"]
    assert the_one(("cdi.devices", (), names), start=start).rule == "cdi.devices"


def test_settings_that_fail_over_a_dead_gpu_are_part_of_it() -> None:
    failed = {**RUNS, "active": "failed", "sub": "failed"}
    one = the_one(
        ("gpu.count", (), 7),
        ("units", ("lockstep-gpu-settings.service",), failed),
    )
    assert one.rule == "gpu.count"
    assert "unit.active (lockstep-gpu-settings.service)" in one.detail


@pytest.mark.parametrize(
    ("mode", "shown"), [("exclusive_process", "Exclusive_Process"), ("prohibited", "Prohibited")]
)
def test_a_declared_compute_mode_is_expected(mode: str, shown: str) -> None:
    def declare(description: dict[str, Any]) -> None:
        description["hardware"]["hgx-h200"]["gpu"]["compute_mode"] = mode

    many = recorded.report(recorded.clustered(declare))
    assert {(one.rule, one.device, one.expected) for one in many} == {
        ("gpu.compute_mode", "gpu[0-7]", shown)
    }


def test_a_cap_below_the_driver_is_told_from_a_limit_by_hand() -> None:
    capped: Change = ("gpu.power.enforced_w", ("gpu3",), 350.0)
    below = the_one(capped)
    assert below.detail == "capped outside the driver, which requests 700 W"
    assert "BMC" in below.repair
    assert below.roles == ()
    by_hand = the_one(capped, ("gpu.power.requested_w", ("gpu3",), 350.0))
    assert by_hand.detail == ""
    assert by_hand.roles == ("gpu_settings",)


def test_a_lower_default_of_the_firmware_is_one_finding() -> None:
    lowered: list[Change] = [
        (f"gpu.power.{reading}", ("gpu3",), 600.0) for reading in ("default_w", "enforced_w")
    ]
    assert the_one(*lowered, ("gpu.power.requested_w", ("gpu3",), 600.0)).rule == (
        "gpu.power_default"
    )


CLOCK = "gpu.clocks.sm_mhz"


@pytest.mark.parametrize(
    "use", [("gpu.utilization", 3), ("gpu.memory.used_mib", UNUSED_MIB), ("gpu.utilization", 100)]
)
def test_the_clock_of_a_gpu_in_use_is_not_judged(use: tuple[str, int]) -> None:
    assert found((CLOCK, ("gpu3",), 1980), (use[0], ("gpu3",), use[1])) == []


def test_clocks_locked_by_hand_are_one_finding() -> None:
    one = the_one((CLOCK, (), dict.fromkeys(GPUS, 1500)))
    assert (one.rule, one.device) == ("gpu.clock_idle", "gpu[0-7]")
    assert (one.found, one.expected) == ("1500 MHz idle", "at most 1485 MHz")
    assert one.severity == Severity.WARNING.value
    assert "restart lockstep-gpu-settings" in one.repair


def locked(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["gpu"]["clocks_mhz"] = [1200, 1500]


@pytest.mark.parametrize(
    ("clock", "expected"), [(345, "at least 1200 MHz"), (1980, "at most 1500 MHz"), (1350, "")]
)
def test_an_idle_gpu_stays_within_its_declared_lock(clock: int, expected: str) -> None:
    start = recorded.clustered(locked)
    for node in list(start.plan.nodes)[1:]:
        start = changed((CLOCK, (), dict.fromkeys(GPUS, 1200)), start=start, node=node)
    assert recorded.report(start).findings == []
    many = found((CLOCK, ("gpu3",), clock), start=start)
    assert [(one.rule, one.expected, one.reference) for one in many] == (
        [("gpu.clock_idle", expected, "spec")] if expected else []
    )


def test_a_field_that_a_driver_does_not_have_is_not_judged() -> None:
    start = recorded.consistent()
    reading = dict(start.reading)
    for node in list(start.plan.nodes)[1:]:
        record = reading[node]
        assert isinstance(record, Record)
        raw = record.model_dump(mode="json")
        unknown = "not available on this driver: gpu_recovery_action"
        raw["readings"]["gpu.recovery_action"] = {"unread": unknown}
        reading[node] = Record.model_validate(raw)
    assert recorded.report(recorded.with_reading(start, reading)).findings == []


def test_a_gpu_that_answers_nothing_until_its_reset_is_one_finding() -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    listed = ("gpu.name", "gpu.uuid", "gpu.serial", "gpu.pci_bus_id", "gpu.vbios", "gpu.silent")
    for name, entry in raw["readings"].items():
        asked = name.startswith("gpu.") and not name.startswith(("gpu.pci.", "gpu.topology"))
        if asked and name not in listed and isinstance(entry.get("value"), dict):
            entry["value"].update(gpu3={"unread": "it is [GPU requires reset]"})
    raw["readings"]["gpu.lost"] = {"value": {}}
    one = one_of(recorded.with_reading(start, {**start.reading, NODE: Record.model_validate(raw)}))
    assert (one.rule, one.device, one.status) == ("gpu.recovery_action", "gpu3", "unknown")
    assert one.found == "not read: it is [GPU requires reset]"


# --- errors


def test_an_error_of_the_memory_is_one_finding() -> None:
    one = the_one(
        ("gpu.ecc.uncorrected_volatile", ("gpu3",), 2),
        ("gpu.remapped.pending", ("gpu3",), "Yes"),
        ("gpu.recovery_action", ("gpu3",), "Reset"),
        ("driver.xid", ("0000:61:00",), [48, 63, 94, 95]),
    )
    assert (one.rule, one.device, one.found) == ("gpu.ecc_uncorrected", "gpu3", "2 errors")
    assert one.detail == (
        "also causes: gpu.recovery_action (gpu3), gpu.row_remap (gpu3), gpu.xid (gpu3)"
    )


def test_an_error_of_the_memory_hides_no_other_error() -> None:
    many = found(
        ("gpu.ecc.uncorrected_volatile", ("gpu3",), 2), ("driver.xid", ("0000:61:00",), [74])
    )
    assert {one.rule for one in many} == {"gpu.ecc_uncorrected", "gpu.xid"}


def test_a_row_without_a_spare_one_waits_for_no_reboot() -> None:
    one = the_one(
        ("gpu.remapped.pending", ("gpu3",), "Yes"), ("gpu.remapped.failure", ("gpu3",), "Yes")
    )
    assert (one.found, one.status) == ("row remap failed", Status.DIFFERS.value)


def test_a_lost_gpu_is_one_finding_that_says_where_it_was() -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name, entry in raw["readings"].items():
        if name.startswith("gpu.") and isinstance(entry.get("value"), dict):
            entry["value"].pop("gpu3", None)
    raw["readings"]["gpu.count"] = {"value": 7}
    raw["readings"]["gpu.lost"] = {"value": {"0000:61:00.0": "GPU is lost."}}
    lost = recorded.with_reading(start, {**start.reading, NODE: Record.model_validate(raw)})
    one = one_of(lost)
    assert (one.rule, one.device, one.found, one.expected, one.detail) == (
        "gpu.lost",
        "0000:61:00.0",
        "GPU is lost.",
        "an answer",
        "also causes: gpu.count",
    )
    one = one_of(changed(("driver.xid", ("0000:61:00",), [79]), start=lost))
    assert (one.rule, one.device) == ("gpu.xid", "0000:61:00")
    assert one.detail == (
        "Xid 79 (1x): restart the machine; also causes: gpu.count, gpu.lost (0000:61:00.0)"
    )


@pytest.mark.parametrize(
    ("number", "severity"),
    [(13, ""), (31, ""), (45, ""), (63, ""), (68, ""), (69, ""), (94, "warning"), (92, "warning"),
     (109, "error"), (119, "error"), (48, "error"), (79, "error"), (74, "error"), (999, "warning")],
)  # fmt: skip
def test_an_xid_costs_what_the_table_says(number: int, severity: str) -> None:
    many = found(("driver.xid", ("0000:61:00",), [number]))
    assert [one.severity for one in many] == ([severity] if severity else [])


def test_a_site_overrides_the_table() -> None:
    def decide(description: dict[str, Any]) -> None:
        description["monitoring"] = {"xid": {"119": "ignore", "31": "warning", "69": "error"}}

    start = recorded.clustered(decide)
    seen: Change = ("driver.xid", ("0000:61:00",), [119, 31, 31])
    one = the_one(seen, start=start)
    assert (one.found, one.severity) == ("Xid 31 (FIFO_ERROR_MMU_ERR_FLT)", "warning")
    both: Change = ("driver.xid", ("0000:61:00",), [69, 31])
    assert the_one(both, start=start).severity == "error"


def test_every_number_of_the_catalogue_has_a_row() -> None:
    assert set(XIDS) == set(range(1, 173))
    assert {number for number, xid in XIDS.items() if xid.severity == "critical"} == {
        *(48, 54, 64, 79, 95, 140, 143, 151, 167)
    }


def test_a_gpu_with_less_memory_than_the_others_of_its_node_is_named() -> None:
    """What a driver reserves lacks on all of them."""
    start, reading = recorded.consistent(), "gpu.memory.total_mib"
    whole = recorded.mutated(start, "worker3", reading, ("gpu3",), 143000)
    one = recorded.only(recorded.report(whole, "gpu.memory"))
    assert (one.node, one.device, one.found) == ("worker3", "gpu3", "143000 MiB")
    for number in (0, 1, 2, *range(4, 8)):
        whole = recorded.mutated(whole, "worker3", reading, (f"gpu{number}",), 143000)
    assert recorded.report(whole, "gpu.memory").findings == []
