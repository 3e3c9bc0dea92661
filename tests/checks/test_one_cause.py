"""One drift is one finding, where it affects kernel, boot loader, services and fabric."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.checks.rules.units import CONFIGURED_BY
from lockstep.plan.job_containers import (
    PYXIS_OPTION,
    PYXIS_PACKAGE,
    PYXIS_PLUGIN,
    PYXIS_PLUGSTACK,
)
from lockstep.probe.record import Record
from lockstep.report import Finding, Status
from tests.checks import recorded
from tests.checks.recorded import REMOVED
from tests.checks.test_mutations import ARGS, COMP0, COMP1, LINE

NODE = "worker3"
CMDLINE, PERSISTED = "kernel.cmdline", "kernel.cmdline_persisted"
DROP_IN = "/etc/default/grub.d/50-lockstep.cfg"
REBOOT = f"pyinfra -y inventories/recorded.py deploys/reboot.py --limit {NODE}"
DEPLOY = f"pyinfra -y inventories/recorded.py deploys/worker.py --limit {NODE}"
STOPPED = {"active": "failed", "sub": "failed", "load": "loaded", "enabled": "enabled"}

Change = tuple[str, tuple[str, ...], Any]


def changed(*changes: Change, start: Context | None = None, node: str = NODE) -> Context:
    context = recorded.consistent() if start is None else start
    for reading, path, value in changes:
        context = recorded.mutated(context, node, reading, path, value)
    return context


def found(*changes: Change, start: Context | None = None) -> list[Finding]:
    return list(recorded.report(changed(*changes, start=start)))


def the_one(*changes: Change, start: Context | None = None) -> Finding:
    return recorded.only(found(*changes, start=start))


def edited(path: str) -> Change:
    return ("files", (path, "sha256"), "0" * 64)


def without(*keys: str) -> list[str]:
    return [word for word in ARGS if word.partition("=")[0] not in keys]


OLD_BOOT: tuple[Change, ...] = (
    (CMDLINE, (), LINE),
    ("hugepages", ("2M",), {"0": 0, "1": 0}),
    ("hugepages", ("1G", "1"), 0),
    ("cpu.nohz_full", (), ""),
    ("kernel.max_cstate", (), 9),
)


def test_a_node_that_was_not_rebooted_waits_and_the_report_says_so() -> None:
    one = the_one(*OLD_BOOT)
    assert (one.rule, one.status, one.repair) == ("kernel.args", "pending reboot", REBOOT)
    for effect in ("hugepages (2M node0)", "cpu.nohz_full", "kernel.max_cstate"):
        assert effect in one.detail
    text = recorded.text(recorded.report(changed(*OLD_BOOT)))
    assert f"REBOOT  kernel.args  {NODE}" in text
    assert "1 waiting for a reboot" in text


def test_each_rule_alone_says_pending_as_well() -> None:
    report = recorded.report(changed(*OLD_BOOT), "hugepages", "cpu.nohz_full", "kernel.max_cstate")
    assert {one.status for one in report} == {Status.PENDING_REBOOT.value}
    assert {one.repair for one in report} == {REBOOT}
    assert len(report.findings) == 5


def test_pages_lost_at_run_time_differ_and_the_deploy_asks_for_them() -> None:
    one = the_one(("hugepages", ("2M", "0"), 100))
    assert (one.rule, one.status, one.repair) == (
        "hugepages",
        "differs",
        f"{DEPLOY} --data roles=hugepages",
    )


def test_the_right_total_with_the_wrong_split_is_a_finding() -> None:
    many = found(("hugepages", ("2M",), {"0": 1024, "1": 0}))
    assert [(one.device, one.found) for one in many] == [
        ("2M node0", "1024 pages"),
        ("2M node1", "0 pages"),
    ]


def test_pages_that_the_deploy_reserved_before_the_reboot_wait_for_nothing() -> None:
    one = the_one((CMDLINE, (), LINE))
    assert (one.rule, one.status) == ("kernel.args", "pending reboot")
    assert one.detail == "also causes: kernel.cmdline"


def test_a_pending_argument_hides_no_lost_pages() -> None:
    many = found((CMDLINE, (), [*LINE, *without("iommu")]), ("hugepages", ("2M", "0"), 100))
    assert [(one.rule, one.status) for one in many] == [
        ("hugepages", "differs"),
        ("kernel.args", "pending reboot"),
    ]


def test_isolation_that_the_next_boot_loses_is_found_while_it_still_runs() -> None:
    one = the_one((PERSISTED, (), without("isolcpus", "nohz_full")))
    assert (one.rule, one.status, one.repair) == (
        "kernel.args_persisted",
        "differs",
        f"{DEPLOY} --data roles=boot_loader",
    )


def test_an_edited_drop_in_is_the_cause_of_what_became_of_it() -> None:
    short = without("isolcpus")
    lost: tuple[Change, ...] = (edited(DROP_IN), (PERSISTED, (), short))
    assert the_one(*lost).detail.endswith("also causes: kernel.args_persisted")
    one = the_one(*lost, (CMDLINE, (), [*LINE, *short]))
    assert (one.rule, one.device) == ("file.content", DROP_IN)
    assert "kernel.args, kernel.args_persisted" in one.detail


def test_an_edited_drop_in_hides_no_pending_reboot() -> None:
    many = found(edited(DROP_IN), (CMDLINE, (), LINE))
    assert {(one.rule, one.status) for one in many} == {
        ("file.content", "differs"),
        ("kernel.args", "pending reboot"),
    }


def test_an_argument_missing_from_kernel_and_boot_loader_is_one_finding() -> None:
    one = the_one((CMDLINE, (), LINE), (PERSISTED, (), []))
    assert (one.rule, one.status) == ("kernel.args", "differs")
    assert one.repair == f"{DEPLOY} --data roles=boot_loader, then {REBOOT}"


def test_an_earlier_value_of_the_plan_is_part_of_the_pending_argument() -> None:
    old = [*LINE, "isolcpus=managed_irq,2-7,10-15", *without("isolcpus")]
    one = the_one((CMDLINE, (), old))
    assert (one.rule, one.status, one.repair) == ("kernel.args", "pending reboot", REBOOT)
    assert "kernel.args_foreign (isolcpus=managed_irq,2-7,10-15)" in one.detail


def test_isolation_that_is_left_over_is_named_with_what_it_does() -> None:
    line = [*LINE, *ARGS, "isolcpus=2-3"]
    one = the_one((CMDLINE, (), line), (PERSISTED, (), line), ("cpu.isolated", (), "2-3"))
    # The last one counts: the planned one is no longer in force.
    assert one.rule == "kernel.args"
    assert "kernel.args_foreign (isolcpus=2-3)" in one.detail
    assert "cpu.isolated" in one.detail


def test_pages_of_a_left_over_argument_belong_to_it() -> None:
    line = ["hugepagesz=2M", "hugepages=64"]
    many = found((CMDLINE, (), [*line, *LINE, *ARGS]), (PERSISTED, (), [*line, *ARGS]))
    # A second "hugepagesz=2M" is no other value: only what the plan does not have is named.
    assert [(one.rule, one.device) for one in many] == [("kernel.args_foreign", "hugepages=64")]


def test_what_cannot_be_read_is_not_explained_by_what_differs() -> None:
    many = found((CMDLINE, (), LINE), (PERSISTED, (), REMOVED))
    assert ("kernel.args_persisted", "unknown") in {(one.rule, one.status) for one in many}


def test_a_file_that_was_edited_and_not_yet_read_is_one_finding() -> None:
    one = the_one(edited("/etc/tmpfiles.d/50-lockstep-kernel.conf"))
    assert one.rule == "file.content"


def test_a_file_that_set_something_else_at_boot_is_the_cause_of_it() -> None:
    thp = "/sys/kernel/mm/transparent_hugepage/enabled"
    one = the_one(
        edited("/etc/tmpfiles.d/50-lockstep-kernel.conf"),
        ("kernel.files", (thp, thp), "[always] madvise never"),
    )
    assert one.rule == "file.content"
    assert f"kernel.setting ({thp})" in one.detail


def test_processors_that_differ_are_one_finding_that_counts_them() -> None:
    pattern = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
    several = {pattern.replace("*", str(cpu)): "performance" for cpu in range(16)}
    several |= {pattern.replace("*", str(cpu)): "powersave" for cpu in (3, 4, 5)}
    several |= {pattern.replace("*", "9"): "schedutil"}
    one = the_one(("kernel.files", (pattern,), several))
    assert one.found == "powersave on 3 of 16, schedutil on 1 of 16"
    assert one.detail == "policy[3-5,9]"
    all_of_them = dict.fromkeys(several, "powersave")
    assert the_one(("kernel.files", (pattern,), all_of_them)).found == "powersave"


def test_an_unread_file_of_a_pattern_is_unknown_unless_another_one_differs() -> None:
    pattern = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
    first, second = (pattern.replace("*", cpu) for cpu in "01")
    unread: Change = ("kernel.files", (pattern, first), {"unread": "busy"})
    assert the_one(unread).status == Status.UNKNOWN.value
    one = the_one(unread, ("kernel.files", (pattern, second), "powersave"))
    assert (one.status, one.found) == ("differs", "powersave on 1 of 16")


def test_settings_missing_from_the_answer_are_unknown() -> None:
    many = found(("kernel.files", (), {}))
    assert {(one.rule, one.status) for one in many} == {("kernel.setting", "unknown")}


def test_a_lost_drop_in_is_the_cause_of_every_service_on_other_cpus() -> None:
    start = recorded.consistent()
    services = {f"a{n}.service": "0-15" for n in range(20)}
    one = the_one(
        edited("/etc/systemd/system/service.d/50-lockstep-cpus.conf"),
        ("cpuset.services", (), {**services, "slurmd.service": "0-15"}),
        start=start,
    )
    assert one.rule == "file.content"
    assert one.detail.endswith("also causes: cpuset.services (20 items)")


def test_a_service_may_use_fewer_cpus_and_one_that_stands_still_none() -> None:
    assert found(("cpuset.services", ("munge.service",), "8")) == []
    assert found(("cpuset.services", ("munge.service",), REMOVED)) == []


def no_controllers(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["cgroup"] = "none"


def test_without_controllers_only_services_of_the_plan_are_judged() -> None:
    start = recorded.clustered(no_controllers)
    assert found(("cpuset.services", ("ssh.service",), "0-15"), start=start) == []
    one = the_one(("cpuset.services", ("munge.service",), "0-15"), start=start)
    assert (one.rule, one.device) == ("cpuset.services", "munge.service")


def test_a_balancer_that_runs_is_the_cause_of_moved_interrupts() -> None:
    one = the_one(
        ("units", ("irqbalance.service", "load"), "loaded"),
        ("irq.affinity", (COMP1,), "5"),
        ("irq.affinity", (COMP0,), "3"),
    )
    assert (one.rule, one.device) == ("unit.masked", "irqbalance.service")


def test_interrupts_of_the_gpu_itself_are_not_judged() -> None:
    assert found(("irq.affinity", ("timer",), "0")) == []


@pytest.mark.parametrize("name", ["nvme0q1", "virtio0-input.0"])
@pytest.mark.parametrize("value", ["0-15", REMOVED, {"unread": "busy"}])
def test_interrupts_that_the_kernel_manages_are_not_judged(name: str, value: object) -> None:
    assert found(("irq.affinity", (name,), value)) == []
    assert found(("irq.affinity", ("nvme7q3",), "0-15")) == []


@pytest.mark.parametrize("name", ["NVME_of_mine", "my_nvme0q1"])
def test_only_how_a_name_begins_counts(name: str) -> None:
    start = recorded.consistent()
    for node in start.plan.nodes:
        start = changed(("irq.affinity", (name,), "1"), start=start, node=node)
    many = found(("irq.affinity", (name,), "5"), start=start)
    assert [one.device for one in many] == ([] if name.startswith("NVME") else [name])


def test_a_service_that_stands_still_is_one_finding() -> None:
    one = the_one(
        ("units", ("slurmd.service",), STOPPED),
        ("listeners", ("tcp/6818",), []),
        ("limits.memlock", ("slurmd.service",), {"unread": "slurmd.service has no main process"}),
        ("cpuset.services", ("slurmd.service",), REMOVED),
    )
    assert (one.rule, one.device) == ("unit.active", "slurmd.service")
    assert "listener.family (tcp/6818)" in one.detail
    assert "limits.memlock (slurmd.service)" in one.detail


def test_an_edited_configuration_is_the_cause_of_where_its_service_listens() -> None:
    one = the_one(
        edited("/etc/default/prometheus-node-exporter"),
        ("listeners", ("tcp/9100",), ["127.0.0.1"]),
    )
    assert (one.rule, one.device) == ("file.content", "/etc/default/prometheus-node-exporter")


@pytest.mark.parametrize(
    ("addresses", "reached"),
    [
        (["::"], True),
        (["fd00:1::103"], True),
        (["0.0.0.0", "::"], True),
        (["0.0.0.0"], False),
        (["::1"], False),
        (["fd00:1::104"], False),
    ],
)
def test_a_service_is_reached_through_its_own_family(addresses: list[str], reached: bool) -> None:
    start = changed(("listeners", ("tcp/22",), ["x"]))
    many = found(("listeners", ("tcp/22",), addresses), start=start)
    assert [one.found for one in many] == ([] if reached else [", ".join(addresses)])


def old_network(description: dict[str, Any]) -> None:
    description["networks"]["management"] = {"prefix": "10.1.0.0/24"}
    description["nodes"][0]["management"] = "10.1.0.1"
    description["nodes"][1]["management"] = "10.1.0.101"


def test_on_an_ipv4_network_a_socket_of_both_families_is_reached() -> None:
    start = recorded.clustered(old_network)
    assert found(("listeners", ("tcp/22",), ["::"]), start=start) == []
    assert the_one(("listeners", ("tcp/22",), ["::1"]), start=start).expected == (
        "0.0.0.0 or :: or 10.1.0.103"
    )


def hugetlb_group(description: dict[str, Any]) -> None:
    description["os"]["hugetlb_gid"] = 987
    description["os"]["memlock"] = 1024


def test_a_group_of_its_own_owns_the_huge_pages() -> None:
    start = recorded.clustered(hugetlb_group)
    assert recorded.report(start).findings == []
    one = the_one(("hugepages.mounts", ("/dev/hugepages", "mode"), "1777"), start=start)
    assert one.expected == "pages of 2M, mode 1770, group 987"


def test_a_limit_is_given_in_kib_and_read_in_bytes() -> None:
    start = recorded.clustered(hugetlb_group)
    limit = {"soft": "1024", "hard": "1048576"}
    one = the_one(("limits.memlock", ("slurmd.service",), limit), start=start)
    assert (one.found, one.expected) == ("1024 (at most 1048576)", "1048576 bytes")


RDMA = ("guid", "firmware", "board", "type", "state", "phys_state", "rate", "link_layer", "netdev")


def test_a_lost_adapter_is_one_finding_that_names_it() -> None:
    lost: list[Change] = [(f"rdma.{reading}", ("mlx5_1",), REMOVED) for reading in RDMA]
    one = the_one(("rdma.count", (), 1), ("rdma.names", (), ["mlx5_0"]), *lost)
    assert (one.rule, one.found, one.expected) == (
        "rdma.count",
        "1 RDMA device",
        "2 RDMA devices",
    )
    assert one.detail.startswith("missing: mlx5_1; also causes: ")


def test_a_driver_that_was_not_loaded_is_one_finding() -> None:
    gone: list[Change] = [(f"rdma.{reading}", (), {}) for reading in RDMA]
    one = the_one(
        ("rdma.count", (), 0), ("rdma.names", (), []), ("rdma.device_files", (), {}), *gone
    )
    assert (one.rule, one.found) == ("rdma.count", "0 RDMA devices")
    assert "rdma.access" in one.detail


def test_a_reader_of_adapters_that_fails_is_one_finding() -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name in raw["readings"]:
        if name.startswith("rdma."):
            raw["readings"][name] = {"unread": "/sys/class: no such file"}
    silent = recorded.with_reading(start, {**start.reading, NODE: Record.model_validate(raw)})
    one = recorded.only(recorded.report(silent))
    assert (one.rule, one.status) == ("rdma.count", "unknown")


def test_a_set_that_lacks_what_was_not_read_is_not_compared() -> None:
    one = the_one(("rdma.firmware", ("mlx5_1",), {"unread": "busy"}))
    assert (one.rule, one.device, one.status) == ("rdma.firmware", "mlx5_1", "unknown")


def declared_speed(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["nics"]["speed_gbit"] = 400.0


def test_a_declared_rate_is_held_against_every_port() -> None:
    start = recorded.clustered(declared_speed)
    assert recorded.report(start).findings == []
    one = the_one(("rdma.rate", ("mlx5_1",), "200 Gb/sec (2X NDR)"), start=start)
    assert (one.found, one.expected) == ("1 x 200, 1 x 400 Gbit/s", "400 Gbit/s")
    assert one.reference == "spec"
    assert one.detail == "mlx5_0: 400 Gb/sec (4X NDR), mlx5_1: 200 Gb/sec (2X NDR)"


def test_a_rate_that_is_no_rate_is_unknown() -> None:
    assert the_one(("rdma.rate", ("mlx5_1",), "fast")).status == Status.UNKNOWN.value


def test_a_port_that_is_down_says_how_far_its_link_is() -> None:
    one = the_one(("rdma.state", ("mlx5_1",), "DOWN"), ("rdma.phys_state", ("mlx5_1",), "Disabled"))
    assert (one.rule, one.found) == ("rdma.port_state", "DOWN (Disabled)")


def test_the_rate_of_a_port_that_is_down_is_part_of_it() -> None:
    one = the_one(
        ("rdma.state", ("mlx5_1",), "DOWN"), ("rdma.rate", ("mlx5_1",), "10 Gb/sec (4X SDR)")
    )
    assert (one.rule, one.detail) == ("rdma.port_state", "also causes: rdma.rate")


def test_ports_that_differ_alike_are_one_finding() -> None:
    both = {"mlx5_0": "InfiniBand", "mlx5_1": "InfiniBand"}
    one = the_one(("rdma.link_layer", (), both))
    assert (one.rule, one.device) == ("rdma.link_layer", "mlx5_[0-1]")


@pytest.mark.parametrize("reading", ["rdma.link_layer", "rdma.state", "rdma.rate"])
def test_ports_that_are_unread_alike_are_one_finding(reading: str) -> None:
    unread = {"unread": "busy"}
    one = the_one((reading, (), {"mlx5_0": unread, "mlx5_1": unread}))
    assert (one.device, one.status) == ("mlx5_[0-1]", "unknown")


OF_A_DEVICE = {
    "rdma.firmware": "rdma.firmware",
    "rdma.board": "rdma.board",
    "rdma.rate": "rdma.rate",
    "rdma.link_layer": "rdma.link_layer",
    "rdma.port_state": "rdma.state",
}


def unnamed(description: dict[str, Any]) -> None:
    del description["hardware"]["hgx-h200"]["nics"]["rdma_devices"]


@pytest.mark.parametrize("names", ["declared", "not declared"])
@pytest.mark.parametrize("rule", OF_A_DEVICE)
def test_a_device_that_one_reading_lacks_is_unknown(rule: str, names: str) -> None:
    start = recorded.consistent() if names == "declared" else recorded.clustered(unnamed)
    one = the_one((OF_A_DEVICE[rule], ("mlx5_1",), REMOVED), start=start)
    assert (one.rule, one.device, one.status) == (rule, "mlx5_1", "unknown")


STORAGE: dict[str, str] = {
    "guid": "a088:c203:0099:0009",
    "firmware": "20.1",
    "board": "MT_9",
    "type": "MT4119",
    "state": "DOWN",
    "phys_state": "Disabled",
    "rate": "10 Gb/sec (4X SDR)",
    "link_layer": "InfiniBand",
    "netdev": "",
}
"""A further adapter, which is in every respect another one than those of the fabric."""


def further(*names: str, device: str = "mlx5_9") -> list[Change]:
    """Return the changes by which a node has an adapter more; ``names``: all that it has."""
    return [
        *((f"rdma.{reading}", (device,), value) for reading, value in STORAGE.items()),
        ("rdma.names", (), list(names)),
        ("rdma.device_files", ("/dev/infiniband/uverbs9",), "666"),
    ]


def test_a_further_adapter_is_not_of_the_fabric() -> None:
    three: Change = ("rdma.count", (), 3)
    assert found(*further("mlx5_0", "mlx5_1", "mlx5_9"), three) == []
    second_port: list[Change] = [
        (f"rdma.{reading}", ("mlx5_9/2",), STORAGE[reading])
        for reading in ("state", "phys_state", "rate", "link_layer")
    ]
    assert found(*further("mlx5_0", "mlx5_1", "mlx5_9"), three, *second_port) == []
    start = recorded.clustered(declared_speed)
    assert found(*further("mlx5_0", "mlx5_1", "mlx5_9"), three, start=start) == []


def test_a_further_adapter_that_is_unread_keeps_nothing_from_being_compared() -> None:
    start = changed(*further("mlx5_0", "mlx5_1", "mlx5_9"), ("rdma.count", (), 3))
    for rule, reading in OF_A_DEVICE.items():
        unread: Change = (reading, ("mlx5_9",), {"unread": "busy"})
        assert found(unread, start=start) == []
        both = found(unread, (reading, ("mlx5_1",), "0 Gb/sec (old)"), start=start)
        assert [one.rule for one in both] == [rule]


@pytest.mark.parametrize("rule", OF_A_DEVICE)
def test_a_further_adapter_hides_no_fault_of_the_fabric(rule: str) -> None:
    start = changed(*further("mlx5_0", "mlx5_1", "mlx5_9"), ("rdma.count", (), 3))
    one = the_one((OF_A_DEVICE[rule], ("mlx5_1",), "200 Gb/sec (2X NDR)"), start=start)
    assert one.rule == rule
    assert "mlx5_9" not in one.device + one.found + one.detail


def test_the_second_port_of_a_declared_adapter_is_judged() -> None:
    one = the_one(("rdma.state", ("mlx5_1/2",), "DOWN"))
    assert (one.rule, one.device, one.found) == ("rdma.port_state", "mlx5_1/2", "DOWN")


def test_a_further_adapter_makes_up_for_no_declared_one() -> None:
    lost: list[Change] = [(f"rdma.{reading}", ("mlx5_1",), REMOVED) for reading in RDMA]
    one = the_one(*lost, *further("mlx5_0", "mlx5_9"))
    assert (one.rule, one.found, one.expected) == (
        "rdma.names",
        "mlx5_0, mlx5_9",
        "mlx5_0, mlx5_1",
    )
    gone = ("rdma.count", (), 1), ("rdma.names", (), ["mlx5_0"])
    assert the_one(*lost, *gone).rule == "rdma.count"


def test_an_adapter_of_another_name_is_one_finding() -> None:
    start = recorded.consistent()
    record = start.reading[NODE]
    assert isinstance(record, Record)
    renamed: list[Change] = []
    for reading in RDMA:
        value = record.get(f"rdma.{reading}")
        assert isinstance(value, dict)
        new = {"rocep59s0" if name == "mlx5_1" else name: one for name, one in value.items()}
        renamed.append((f"rdma.{reading}", (), new))
    one = the_one(*renamed, ("rdma.names", (), ["mlx5_0", "rocep59s0"]))
    assert (one.rule, one.found) == ("rdma.names", "mlx5_0, rocep59s0")


def test_without_declared_names_every_adapter_is_judged() -> None:
    start = recorded.clustered(unnamed)
    assert recorded.report(start).findings == []
    names = ("mlx5_0", "mlx5_1", "mlx5_9")
    many = found(*further(*names), ("rdma.count", (), 3), start=start)
    assert {one.rule for one in many} >= {"rdma.count", "rdma.link_layer"}
    one = the_one(("rdma.count", (), 3), start=start)
    assert (one.rule, one.found) == ("rdma.count", "3 RDMA devices")


@pytest.mark.parametrize("key", ["irqaffinity", "isolcpus"])
def test_moved_interrupts_are_compared_unless_the_kernel_was_started_otherwise(key: str) -> None:
    moved: Change = ("irq.affinity", (COMP1,), "5")
    assert the_one(moved).rule == "irq.affinity"
    assert {one.rule for one in found(moved, (CMDLINE, (), [*LINE, *without("iommu")]))} == {
        "irq.affinity",
        "kernel.args",
    }
    one = the_one(moved, (CMDLINE, (), [*LINE, *without(key)]))
    assert one.rule == "kernel.args"
    assert "irq.affinity" not in one.detail


def test_a_node_that_waits_for_its_reboot_has_no_vote_on_interrupts() -> None:
    start = recorded.consistent()
    for node in list(start.plan.nodes)[1:7]:
        start = changed(
            (CMDLINE, (), LINE), ("irq.affinity", (COMP1,), "5"), start=start, node=node
        )
    report = recorded.report(start, "irq.affinity")
    assert report.findings == []


def test_nodes_that_wait_alike_are_rebooted_with_one_command() -> None:
    start = recorded.consistent()
    for node in ("worker1", "worker2"):
        start = changed((CMDLINE, (), LINE), start=start, node=node)
    text = recorded.text(recorded.report(start))
    assert "deploys/reboot.py --limit worker1 --limit worker2" in text


def test_every_listener_of_a_plan_is_explained_by_its_unit() -> None:
    plans = recorded.consistent().plan.nodes.values()
    assert {one.unit for plan in plans for one in plan.system.listeners} <= set(CONFIGURED_BY)


def test_a_plugin_for_another_slurm_is_one_finding_with_all_that_it_breaks() -> None:
    drift: tuple[Change, ...] = (
        ("slurm.spank_plugins", (PYXIS_PLUGIN,), "24.05"),
        ("slurm.srun_options", (), REMOVED),
        ("packages", (PYXIS_PACKAGE,), "0.24.0-2"),
    )
    taken_out = changed(
        ("slurm.nodes", (NODE, "state"), ["DRAIN", "IDLE"]),
        (
            "slurm.nodes",
            (NODE, "reason"),
            "lockstep: slurm.pyxis: found built for Slurm 24.05, expected built for Slurm 24.11",
        ),
        node="head1",
    )
    one = the_one(*drift, start=taken_out)
    assert (one.rule, one.node, one.device) == ("slurm.pyxis", NODE, PYXIS_PLUGIN)
    for effect in ("slurm.container_image", "package.version", "slurm.state"):
        assert effect in one.detail


def test_a_line_of_plugstack_that_is_gone_is_the_finding_and_not_the_option() -> None:
    one = the_one(
        ("files", (PYXIS_PLUGSTACK,), {"absent": True}),
        ("slurm.srun_options", (PYXIS_OPTION,), False),
    )
    assert (one.rule, one.device) == ("file.content", PYXIS_PLUGSTACK)
    assert "slurm.container_image" in one.detail
