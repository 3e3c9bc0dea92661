"""One drift of a machine is one finding, for everything except its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.node.readers import network
from lockstep.probe.record import Record
from lockstep.report import Status
from tests.checks import recorded
from tests.checks.test_engine import two_workers
from tests.checks.test_one_cause import Change, changed, found, the_one

NODE = "worker3"


def test_another_kernel_explains_what_came_with_it() -> None:
    one = the_one(
        ("kernel.release", (), "6.1.0-9-amd64"),
        ("kernel.modules", ("mlx5_core",), "Z9"),
        ("kernel.modules", ("i10nm_edac",), "absent"),
        ("sysctl.common", ("kernel.sched_autogroup_enabled",), "0"),
        ("cpu.mitigations", ("retbleed",), "Vulnerable"),
    )
    assert one.rule == "kernel.release"
    assert "rdma.driver" in one.detail


def test_a_kernel_with_other_pages_explains_its_release_and_huge_pages() -> None:
    one = the_one(
        ("kernel.page_size", (), "64k"),
        ("kernel.release", (), "6.12.48-64k"),
        ("hugepages", ("1G",), {"0": 0, "1": 0}),
        ("hugepages.mounts", ("/dev/hugepages1G",), recorded.REMOVED),
        ("sysctl.common", ("vm.max_map_count",), "65530"),
    )
    assert (one.rule, one.found) == ("kernel.page_size", "pages of 64k")
    assert one.expected == "pages of 4k"
    for rule in ("kernel.release", "hugepages (", "hugepages.mount", "sysctl.common"):
        assert rule in one.detail


def test_a_lost_memory_module_is_one_finding() -> None:
    one = the_one(
        ("memory.modules", ("P2-DIMMB",), "empty"),
        ("memory_mib", (), 50000),
    )
    assert (one.rule, "P2-DIMMB: empty" in one.detail) == ("memory.modules", True)


def test_a_copied_node_is_one_finding() -> None:
    one = the_one(
        ("os.machine_id", (), f"1d{5:030x}"),
        ("os.host_keys", (), {"ed25519": f"1d{5:062x}", "rsa": f"1d{105:062x}"}),
    )
    assert (one.rule, one.node) == ("os.machine_id", "worker[3,5]")


def test_a_flapping_cable_is_one_finding() -> None:
    one = the_one(
        ("rdma.link_downed", ("mlx5_1",), 9),
        ("rdma.errors", ("mlx5_1",), 12345),
        ("rdma.ack_timeouts", ("mlx5_1",), 12345),
        ("net.carrier_changes", ("fabric1",), 20),
        ("net.errors", ("fabric1",), 400),
    )
    assert (one.rule, one.device) == ("rdma.link_downed", "mlx5_1")


def test_a_link_that_is_down_is_one_finding() -> None:
    one = the_one(
        ("rdma.state", ("mlx5_1",), "DOWN"),
        ("net.state", ("fabric1",), "DOWN"),
        ("net.speed", ("fabric1",), "unknown"),
    )
    assert one.rule == "rdma.port_state"


def test_an_exporter_that_asks_every_second_is_named_with_its_option() -> None:
    one = the_one(("collectors", ("dcgm-exporter",), ["/usr/bin/dcgm-exporter -c 1000"]))
    assert (one.rule, one.node, one.device) == ("collector.settings", NODE, "dcgm-exporter")
    assert "-c 1000" in one.found
    assert "-c 30000" in one.expected


def test_an_exporter_that_listens_elsewhere_is_named_by_its_listener_alone() -> None:
    start = "/usr/bin/prometheus-node-exporter --web.listen-address=127.0.0.1:9100"
    one = the_one(
        ("collectors", ("prometheus-node-exporter",), [start]),
        ("listeners", ("tcp/9100",), ["127.0.0.1"]),
    )
    assert (one.rule, one.node, one.device) == ("listener.family", NODE, "tcp/9100")


def test_the_address_of_a_node_in_a_collectors_options_is_no_difference() -> None:
    lines = recorded.consistent().reading["worker4"].get("collectors")  # type: ignore[union-attr]  # it was read
    assert "fd00:1::104" in str(lines)
    assert not recorded.report(recorded.consistent()).findings


def test_adaptive_routing_that_is_off_on_one_node_is_named() -> None:
    off = {"adaptive_routing_forced_en": 0, "roce_adp_retrans_en": 1}
    off |= {"roce_tx_window_en": 1, "roce_slow_restart_en": 1, "selective_repeat_forced_en": 1}
    one = the_one(("rdma.acceleration", (), {"mlx5_0": off, "mlx5_1": off}))
    assert (one.rule, one.node, one.device) == ("rdma.adaptive_routing", NODE, "mlx5_[0-1]")
    assert (one.found, one.expected) == ("off", "on")


def test_a_missing_tool_on_one_node_is_one_finding() -> None:
    one = the_one(("rdma.acceleration", (), {"mlx5_0": {}, "mlx5_1": {}}))
    assert (one.rule, one.device) == ("rdma.adaptive_routing", "mlx5_[0-1]")
    assert one.found.startswith("unknown")


def test_a_register_that_is_refused_is_one_finding() -> None:
    refused = {"unread": "mstreg: exit 1: -E- Failed to send access register"}
    one = the_one(("rdma.acceleration", (), {"mlx5_0": refused, "mlx5_1": refused}))
    assert (one.rule, one.status) == ("rdma.adaptive_routing", Status.UNKNOWN.value)


def test_a_node_without_the_tool_ip_is_one_finding() -> None:
    gone = {name: {"unread": "ip: not installed"} for name in network.NET_READINGS}
    start = recorded.consistent()
    raw = start.reading[NODE].model_dump(mode="json")  # type: ignore[union-attr]  # it was read
    raw["readings"].update(gone)
    reading = {**start.reading, NODE: Record.model_validate(raw)}
    one = recorded.only(recorded.report(recorded.with_reading(start, reading)))
    assert (one.rule, one.status) == ("net.address", Status.UNKNOWN.value)


def test_a_newer_kernel_on_disk_waits_for_a_reboot() -> None:
    one = the_one(("kernel.newest", (), "6.12.57+deb13-amd64"))
    assert (one.rule, one.status) == ("kernel.newest", Status.PENDING_REBOOT.value)


@pytest.mark.parametrize(
    "change",
    [
        ("kernel.tainted", (), 1 << 12 | 1 << 13 | 1 << 9),
        ("memory_mib", (), 67400),
        ("storage.space", ("/",), 89.0),
        ("mounts.shared", ("/scratch",), "nfs4 x:/scratch rw"),
        ("net.addresses", ("docker0",), ["172.17.0.1"]),
        ("services.cpu_share", ("slurmd.service",), 780.0),
        ("net.state", ("fabric1",), "UNKNOWN"),
    ],
    ids=lambda change: change[0],
)
def test_what_may_differ_is_no_finding(change: Change) -> None:
    assert found(change) == []


def test_counters_are_not_compared_over_a_boot() -> None:
    start = changed(("rdma.errors", ("mlx5_1",), 999), ("os.boot_id", (), "another"))
    assert not recorded.report(start).findings
    assert not recorded.report(replace(start, before=None)).findings


def test_two_addresses_of_docker_are_no_clash() -> None:
    start = recorded.consistent()
    for node in ("worker3", "worker4"):
        start = recorded.mutated(start, node, "net.addresses", ("docker0",), ["172.17.0.1"])
        start = recorded.mutated(start, node, "net.mac", ("docker0",), "02:42:00:00:00:01")
    assert not recorded.report(start).findings


def test_an_old_memory_module_that_reports_itself_is_told_by_its_slot() -> None:
    one = the_one(("memory.modules", ("P1-DIMMA",), "32 GiB: 4400 MT/s"))
    assert one.found.startswith("3 x 32 GiB: 4800 MT/s")
    assert one.detail == "P1-DIMMA: 32 GiB: 4400 MT/s"


def test_a_declared_sysctl_is_not_judged_twice() -> None:
    one = the_one(
        ("sysctl.running", ("vm.swappiness",), "60"), ("sysctl.common", ("vm.swappiness",), "60")
    )
    assert one.rule == "sysctl.running"


@pytest.mark.parametrize("node", ["worker1", "worker2"])
def test_of_two_nodes_that_differ_the_one_with_a_cause_explains_it(node: str) -> None:
    start = recorded.clustered(two_workers)
    stopped: Change = (
        *("units", ("prometheus-node-exporter.service",)),
        {"active": "inactive", "sub": "dead", "load": "loaded", "enabled": "enabled"},
    )
    gone: Change = ("collectors", ("prometheus-node-exporter",), [])
    alone = recorded.only(recorded.report(changed(gone, start=start, node=node)))
    assert (alone.rule, alone.status) == ("collector.settings", Status.UNDECIDED.value)
    one = recorded.only(recorded.report(changed(stopped, gone, start=start, node=node)))
    assert (one.rule, one.node) == ("unit.active", node)
    # The consequence is on the same node. The other node is only what it was compared with.
    assert one.detail == "also causes: collector.settings (prometheus-node-exporter)"


def test_a_difference_of_two_nodes_passes_no_cause_from_one_to_the_other() -> None:
    start = recorded.clustered(two_workers)
    old = {f"gpu{number}": "580.1" for number in range(8)}
    module, version = ("driver.module", ("version",), "580.1"), ("gpu.driver_version", (), old)
    drained = recorded.mutated(
        recorded.mutated(start, "head1", "slurm.nodes", ("worker1", "state"), ["DRAIN", "IDLE"]),
        *("head1", "slurm.nodes", ("worker1", "reason"), "lockstep: 7 of 8 GPUs"),
    )
    cause = recorded.only(recorded.report(changed(module, version, start=start, node="worker2")))
    assert (cause.rule, cause.node) == ("driver.module_version", "worker2")
    both = recorded.report(changed(module, version, start=drained, node="worker2"))
    assert {(one.rule, one.node) for one in both} == {
        ("driver.module_version", "worker2"),
        ("slurm.state", "worker1"),
    }


def infiniband(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["nics"]["rdma"] = "infiniband"


def test_interfaces_of_infiniband_may_be_down() -> None:
    start = recorded.clustered(infiniband)
    for port in ("rdma.link_layer", "rdma.netdev"):
        for number in range(1, 9):
            value = "InfiniBand" if port == "rdma.link_layer" else "ib0,ib1"
            each = dict.fromkeys(("mlx5_0", "mlx5_1"), value)
            start = recorded.mutated(start, f"worker{number}", port, (), each)
    assert [one.rule for one in recorded.report(start) if one.rule.startswith("net.")] == []
