"""Properties of every rule: order, unread values, votes, classes, consequences."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.checks import folding
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.not_compared import NOT_JUDGED
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Cause
from lockstep.checks.slurm_states import AWAITS_REBOOT
from lockstep.node.readers import collect
from lockstep.node.record.main import FINGERPRINT
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.report import ExitStatus, Finding, Status
from tests.checks import recorded, recorded_kubernetes, test_firewall, test_selinux
from tests.checks.recorded import REMOVED
from tests.checks.test_mutations import MUTATIONS
from tests.declared import FILES

WORKERS = tuple(f"worker{n}" for n in range(1, 9))
ENFORCED = "gpu.power.enforced_w"


def gpus(value: object) -> dict[str, Any]:
    return {f"gpu{n}": value for n in range(8)}


def on(start: Context, nodes: tuple[str, ...], reading: str, value: object) -> Context:
    for node in nodes:
        start = recorded.mutated(start, node, reading, (), value)
    return start


def test_equal_nodes_give_no_finding() -> None:
    report = recorded.report(recorded.consistent())
    assert report.findings == []
    assert report.exit_status is ExitStatus.CONSISTENT


def test_the_order_of_nodes_and_devices_changes_nothing() -> None:
    start = on(recorded.consistent(), WORKERS[:4], "gpu.vbios", gpus("1"))
    start = recorded.mutated(start, "worker7", ENFORCED, ("gpu3",), 350.0)
    start = recorded.mutated(start, "worker6", "packages", ("bash",), "5.2")
    expected = list(recorded.report(start))
    assert len(expected) == 3
    for seed in range(3):
        assert list(recorded.report(shuffled(start, seed))) == expected


def shuffled(start: Context, seed: int) -> Context:
    chance = random.Random(seed)

    def mix(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        chance.shuffle(keys)
        return {key: mix(value[key]) for key in keys}

    names = list(start.reading)
    chance.shuffle(names)
    mixed: Reading = {}
    for name in names:
        record = start.reading[name]
        assert isinstance(record, Record)
        mixed[name] = Record.model_validate(mix(record.model_dump(mode="json")))
    return recorded.with_reading(start, mixed)


@pytest.mark.parametrize(
    ("rule", "node", "reading"),
    sorted({(one.rule, one.node, one.reading) for one in MUTATIONS}),
)
def test_a_removed_reading_is_unknown_never_ok(rule: str, node: str, reading: str) -> None:
    gone = recorded.mutated(recorded.consistent(), node, reading, (), REMOVED)
    report = recorded.report(gone, rule)
    assert {finding.status for finding in report} == {Status.UNKNOWN.value}
    assert {finding.node for finding in report} == {node}
    assert report.exit_status is ExitStatus.UNREAD
    assert recorded.report(gone).exit_status is ExitStatus.UNREAD


@pytest.mark.parametrize(
    "one",
    [one for one in MUTATIONS if one.path == ("gpu3",)],
    ids=lambda one: f"{one.rule}-{one.reading}",
)
def test_one_unread_gpu_is_named(one: Any) -> None:
    answer = {"unread": "nvidia-smi: it is [N/A]"}
    for value in (REMOVED, answer):
        gone = recorded.mutated(recorded.consistent(), one.node, one.reading, one.path, value)
        found = recorded.only(recorded.report(gone, one.rule))
        assert (found.node, found.device) == (one.node, "gpu3")
        assert found.status == Status.UNKNOWN.value


def test_a_driver_that_does_not_answer_is_one_finding() -> None:
    start = recorded.consistent()
    record = start.reading["worker3"]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name in raw["readings"]:
        if name.startswith("gpu."):
            raw["readings"][name] = {"unread": "nvidia-smi: did not finish within 10 s"}
    silent = recorded.with_reading(start, {**start.reading, "worker3": Record.model_validate(raw)})
    found = recorded.only(recorded.report(silent))
    assert (found.rule, found.node, found.status) == ("gpu.count", "worker3", "unknown")
    assert "did not finish within 10 s" in found.found
    assert "gpu.power_limit" in found.detail


def test_a_lost_gpu_hides_no_other_fault() -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", "gpu.count", (), 7)
    start = recorded.mutated(start, "worker3", ENFORCED, ("gpu2",), 350.0)
    assert {f.rule for f in recorded.report(start)} == {"gpu.count", "gpu.power_limit"}


def test_an_even_split_blames_no_node() -> None:
    start = on(recorded.consistent(), WORKERS[:4], "gpu.vbios", gpus("old"))
    found = recorded.only(recorded.report(start))
    assert found.status == Status.UNDECIDED.value
    assert found.node == "worker[1-8]"
    assert found.found == "96.00.A5.00.03 on worker[5-8]; old on worker[1-4]"
    assert recorded.report(start).exit_status is ExitStatus.DIFFERS


def two_workers(description: dict[str, Any]) -> None:
    description["nodes"][1]["name"] = "worker[1-2]"


def test_two_nodes_do_not_make_a_majority() -> None:
    start = recorded.clustered(two_workers)
    start = recorded.mutated(start, "worker1", "gpu.vbios", ("gpu3",), "old")
    found = recorded.only(recorded.report(start))
    assert found.status == Status.UNDECIDED.value
    assert found.found == "96.00.A5.00.03 on worker2, worker1 gpu[0-2,4-7]; old on worker1 gpu3"


def test_an_unread_value_is_no_vote() -> None:
    start = on(recorded.consistent(), WORKERS[:3], "gpu.vbios", REMOVED)
    start = on(start, WORKERS[3:5], "gpu.vbios", gpus("old"))
    report = recorded.report(start, "gpu.vbios")
    assert [(f.node, f.status) for f in report] == [
        ("worker1", "unknown"),
        ("worker2", "unknown"),
        ("worker3", "unknown"),
        ("worker4", "differs"),
        ("worker5", "differs"),
    ]


def two_classes(description: dict[str, Any]) -> None:
    description["hardware"]["other"] = description["hardware"]["hgx-h200"]
    first = description["nodes"][1]
    description["nodes"][1] = {**first, "name": "worker[1-5]"}
    other = {**first, "name": "worker[6-8]", "hardware": "other", "management": "fd00:1::106"}
    other["fabric"] = "fd00:2::106"
    description["nodes"].append(other)


def test_two_classes_never_vote_on_each_other() -> None:
    start = recorded.clustered(two_classes)
    for reading in ("gpu.vbios", "gpu.driver_version"):
        start = on(start, WORKERS[5:], reading, gpus("another"))
    for reading in ("kernel.release", "kernel.newest"):
        start = on(start, WORKERS[5:], reading, "6.1.0-9")
    assert recorded.report(start).findings == []
    odd = recorded.mutated(start, "worker8", "kernel.release", (), "6.12.48+deb13-amd64")
    found = recorded.only(recorded.report(odd))
    assert (found.rule, found.node, found.expected) == ("kernel.release", "worker8", "6.1.0-9")


def test_a_uniformly_wrong_cluster_is_found_by_the_gpus_own_default() -> None:
    start = on(recorded.consistent(), WORKERS, ENFORCED, gpus(350.0))
    found = list(recorded.report(start))
    assert [(f.node, f.device, f.found, f.expected, f.reference) for f in found] == [
        (worker, "gpu[0-7]", "350 W", "700 W", "device") for worker in WORKERS
    ]


def declared_limit(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["gpu"]["power_limit_w"] = 500.0


def test_a_declared_value_is_asked_before_the_device() -> None:
    start = recorded.clustered(declared_limit)
    assert {f.reference for f in recorded.report(start)} == {"spec"}
    assert recorded.report(on(start, WORKERS, ENFORCED, gpus(500.0))).findings == []


def test_peers_speak_where_spec_and_device_are_silent() -> None:
    start = on(recorded.consistent(), WORKERS, "gpu.power.default_w", REMOVED)
    start = recorded.mutated(start, "worker2", ENFORCED, ("gpu5",), 350.0)
    (found,) = (one for one in recorded.report(start) if one.status == Status.DIFFERS.value)
    assert (found.rule, found.node, found.device) == ("gpu.power_limit", "worker2", "gpu5")
    assert found.reference == "peers: 8 nodes of class hgx-h200"


def test_a_bare_majority_says_out_of_how_many() -> None:
    start = recorded.unreachable(recorded.consistent(), "worker8")
    for node in ("worker1", "worker2", "worker3"):
        start = recorded.mutated(start, node, "gpu.vbios", ("gpu5",), "old")
    found = [one for one in recorded.report(start) if one.rule == "gpu.vbios"]
    assert {one.reference for one in found} == {"peers: 7 nodes of class hgx-h200"}  # other GPUs
    start = on(start, WORKERS[:3], "gpu.vbios", dict.fromkeys(gpus(0.0), "old"))
    found = [one for one in recorded.report(start) if one.rule == "gpu.vbios"]
    assert {one.node for one in found} == {"worker1", "worker2", "worker3"}
    assert {one.reference for one in found} == {"peers: 4 of 7 nodes of class hgx-h200"}
    alone = on(recorded.consistent(), WORKERS[:1], "gpu.vbios", dict.fromkeys(gpus(0.0), "old"))
    assert recorded.only(recorded.report(alone)).reference == "peers: 7 nodes of class hgx-h200"


def test_an_argument_that_is_nowhere_is_no_pending_reboot() -> None:
    start = recorded.consistent()
    line = start.views["worker3"].read("kernel.cmdline")
    assert isinstance(line, list)
    start = recorded.mutated(start, "worker3", "kernel.cmdline", (), line[:-1])
    start = recorded.mutated(start, "worker3", "kernel.cmdline_persisted", (), [])
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.status) == ("kernel.args", Status.DIFFERS.value)


def test_pages_that_wait_for_a_reboot_are_part_of_the_pending_arguments() -> None:
    start = recorded.consistent()
    start = recorded.mutated(start, "worker3", "kernel.cmdline", (), ["quiet"])
    start = recorded.mutated(start, "worker3", "hugepages", ("2M", "0"), 0)
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.status) == ("kernel.args", Status.PENDING_REBOOT.value)
    assert "hugepages (2M node0)" in found.detail


def test_consequences_are_named_in_their_cause() -> None:
    start = recorded.consistent()
    stopped = {"active": "inactive", "sub": "dead", "load": "loaded", "enabled": "enabled"}
    start = recorded.mutated(start, "worker3", "units", ("chrony.service",), stopped)
    for reading in ("time.synchronised", "time.offset_s"):
        start = recorded.mutated(start, "worker3", reading, (), REMOVED)
    start = recorded.mutated(start, "worker3", "munge.decoded", (), "Expired credential")
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.device) == ("unit.active", "chrony.service")
    assert found.detail == "also causes: munge.round_trip, time.offset, time.synchronised"


def test_a_dead_controller_is_named_once() -> None:
    found = recorded.only(recorded.report(recorded.unreachable(recorded.consistent(), "head1")))
    assert (found.rule, found.node) == ("node.reachable", "head1")
    assert found.detail == (
        "also causes: munge.round_trip on worker[1-8], slurm.node on worker[1-8], "
        "slurm.state on worker[1-8]"
    )


@pytest.mark.parametrize("lost", ["record", "answer"])
def test_what_only_the_controller_knows_of_a_node_is_unknown_without_it(lost: str) -> None:
    start = recorded.consistent()
    if lost == "record":
        start = recorded.unreachable(start, "head1")
    else:
        for reading in ("slurm.nodes", "munge.credential"):
            start = recorded.mutated(start, "head1", reading, (), REMOVED)
    report = check(all_rules(), start, ["worker1"])
    assert [(f.rule, f.node, f.status) for f in report] == [
        ("munge.round_trip", "worker1", "unknown"),
        ("slurm.node", "worker1", "unknown"),
        ("slurm.state", "worker1", "unknown"),
    ]
    assert all("the controller head1" in finding.found for finding in report)
    assert report.exit_status is ExitStatus.UNREAD


def test_an_answer_that_the_controller_misses_is_named_there_once() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "slurm.nodes", (), REMOVED)
    assert [(f.rule, f.node, f.detail) for f in recorded.report(start)] == [
        ("slurm.node", "head1", "also causes: slurm.node on worker[1-8]"),
        ("slurm.state", "head1", "also causes: slurm.state on worker[1-8]"),
    ]


def test_a_limit_does_not_drop_what_a_cause_elsewhere_explains() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "munge.key_sha256", (), "1" * 64)
    start = recorded.mutated(start, "worker1", "munge.decoded", (), "Invalid credential")
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.node) == ("munge.key", "head1")
    assert found.detail == "also causes: munge.round_trip on worker1"
    limited = recorded.only(check(all_rules(), start, ["worker1"]))
    assert (limited.rule, limited.node) == ("munge.round_trip", "worker1")


def test_a_stopped_slurmctld_is_named_once() -> None:
    start = recorded.consistent()
    stopped = {"active": "failed", "sub": "failed", "load": "loaded", "enabled": "enabled"}
    start = recorded.mutated(start, "head1", "units", ("slurmctld.service",), stopped)
    start = recorded.mutated(start, "head1", "slurm.nodes", (), REMOVED)
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.device) == ("unit.active", "slurmctld.service")


def test_what_is_unread_explains_nothing_that_differs() -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", "units", (), REMOVED)
    start = recorded.mutated(start, "worker3", "time.synchronised", (), False)
    assert ("time.synchronised", "differs") in {(f.rule, f.status) for f in recorded.report(start)}


def in_state(start: Context, state: str, reason: str = "") -> Context:
    start = recorded.mutated(
        start, "head1", "slurm.nodes", ("worker3", "state"), sorted(state.split("+"))
    )
    if not reason:
        return start
    return recorded.mutated(start, "head1", "slurm.nodes", ("worker3", "reason"), reason)


@pytest.mark.parametrize(
    "state",
    ["MIXED", "ALLOCATED", "IDLE+PLANNED", "IDLE+RESERVED", "COMPLETING+MIXED", "CLOUD+IDLE"],
)
def test_a_state_that_takes_or_runs_jobs_is_no_finding(state: str) -> None:
    assert recorded.report(in_state(recorded.consistent(), state)).findings == []


@pytest.mark.parametrize(
    "state",
    ["REBOOT_REQUESTED+IDLE", "POWERING_DOWN+IDLE", "INVALID_REG+IDLE", "FUTURE", "A_NEW_ONE+IDLE"],
)
def test_any_other_state_is_a_finding(state: str) -> None:
    found = recorded.only(recorded.report(in_state(recorded.consistent(), state)))
    assert (found.rule, found.node) == ("slurm.state", "worker3")


@pytest.mark.parametrize(
    ("reason", "roles"),
    [("lockstep-compare: not compared with its class yet", ("slurm_worker",)), ("fan", ())],
)
def test_a_deploy_resumes_only_nodes_that_a_deploy_drained(
    reason: str, roles: tuple[str, ...]
) -> None:
    start = in_state(recorded.consistent(), "DRAIN+IDLE", reason)
    assert recorded.only(recorded.report(start).findings).roles == roles


@pytest.mark.parametrize("pending", [True, False])
def test_a_drain_until_a_reboot_is_part_of_the_finding_that_waits_for_it(pending: bool) -> None:
    start = recorded.consistent()
    if pending:
        start = recorded.mutated(start, "worker3", "kernel.cmdline", (), ["quiet"])
    start = in_state(start, "DRAIN+IDLE", AWAITS_REBOOT)
    found = [finding.rule for finding in recorded.report(start) if finding.node == "worker3"]
    assert ("slurm.state" in found) is not pending


STOPPED = {"active": "failed", "sub": "failed", "load": "loaded", "enabled": "enabled"}
FAULTS: dict[str, tuple[str, tuple[str, ...], object]] = {
    "unit.active": ("units", ("slurmd.service",), STOPPED),
    "munge.key": ("munge.key_sha256", (), "1" * 64),
    "gpu.count": ("gpu.count", (), 7),
    "cpu.count": ("cpu.online", (), "0-7"),
    "memory.at_least": ("memory_mib", (), 100),
    "time.offset": ("time.offset_s", (), 5.0),
    "hugepages": ("hugepages", ("2M", "1"), 500),
}


def with_fault(rule: str) -> Context:
    reading, path, value = FAULTS[rule]
    return recorded.mutated(recorded.consistent(), "worker3", reading, path, value)


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ("unit.active", "DOWN+NOT_RESPONDING", "Not responding"),
        ("unit.active", "IDLE+NOT_RESPONDING", ""),
        ("munge.key", "DOWN+NOT_RESPONDING", "Not responding"),
        ("gpu.count", "DRAIN+IDLE", "lockstep: gpu.count: 7 of 8 GPUs"),
        ("gpu.count", "DRAIN+IDLE", "lockstep-compare: gpu.count (found 7 GPUs, expected 8 GPUs)"),
        ("gpu.count", "DRAIN+IDLE", "gres/gpu count reported lower than configured (7 < 8)"),
        ("gpu.count", "DRAIN+IDLE", "gres/gpu:nvidia_h200_3g.71gb count too low (14 < 16)"),
        ("memory.at_least", "DRAIN+IDLE", "Low RealMemory (reported:100 < 100.00% of configured)"),
        ("cpu.count", "IDLE+INVALID_REG", "Low socket*core*thread count, Low CPUs"),
    ],
)
def test_a_state_that_follows_from_a_fault_is_part_of_it(
    fault: str, state: str, reason: str
) -> None:
    found = recorded.only(recorded.report(in_state(with_fault(fault), state, reason)))
    assert found.rule == fault
    assert "slurm.state" in found.detail


def test_gpus_that_slurmd_does_not_find_are_one_finding() -> None:
    reason = "gres/gpu count reported lower than configured (7 < 8)"
    start = in_state(with_fault("gpu.count"), "DRAIN+IDLE+INVALID_REG", reason)
    start = recorded.mutated(start, "head1", "slurm.nodes", ("worker3", "gres"), "gpu:h200:7")
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.node) == ("gpu.count", "worker3")
    assert {"slurm.node", "slurm.state"} <= {*re.findall(r"[a-z.]+", found.detail)}


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("DRAIN+IDLE", "bob: replacing a fan"),
        ("DOWN+DRAIN+NOT_RESPONDING", "bob: Low RealMemory, replacing a module"),
        ("DRAIN+IDLE", ""),
        ("DRAIN+IDLE", "Kill task failed"),
        ("IDLE+MAINTENANCE", ""),
    ],
)
def test_a_state_of_another_reason_is_never_swallowed(fault: str, state: str, reason: str) -> None:
    report = recorded.report(in_state(with_fault(fault), state, reason))
    assert {finding.rule for finding in report} == {fault, "slurm.state"}


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ("time.offset", "DRAIN+IDLE", "Low RealMemory (reported:1 < 100.00% of configured:2)"),
        ("hugepages", "DRAIN+IDLE", "gres/gpu count reported lower than configured (7 < 8)"),
        ("cpu.count", "DOWN+NOT_RESPONDING", "Not responding"),
    ],
)
def test_an_unrelated_fault_explains_no_state(fault: str, state: str, reason: str) -> None:
    report = recorded.report(in_state(with_fault(fault), state, reason))
    assert {finding.rule for finding in report} == {fault, "slurm.state"}


def test_a_width_is_not_judged_without_its_most_and_says_so() -> None:
    for path, value in (((), REMOVED), (("gpu3",), REMOVED)):
        start = recorded.mutated(
            recorded.consistent(), "worker3", "gpu.pcie.width_max", path, value
        )
        found = recorded.only(recorded.report(start))
        assert (found.rule, found.status) == ("gpu.pcie_width_max", Status.UNKNOWN.value)
        assert "gpu.pcie_width" in found.detail.replace("gpu.pcie_width_max", "")
        assert found.device == ("gpu3" if path else "")


def no_kernel_of_its_own(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"].update(
        boot_loader="none", kernel={}, housekeeping_cpus="", hugepages=[]
    )


def test_numa_nodes_of_the_machine_below_are_not_judged() -> None:
    start = recorded.clustered(no_kernel_of_its_own)
    start = recorded.mutated(start, "worker3", "numa.cpus", (), {"0": "0-1"})
    assert recorded.report(start, "cpu.numa").findings == []


def test_every_reading_is_judged_or_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    def noting(function: Callable[[Record, str], Any]) -> Callable[[Record, str], Any]:
        def noted(record: Record, name: str) -> Any:
            used.add(name)
            return function(record, name)

        return noted

    for function in (Record.get, Record.parts, Record.items):
        monkeypatch.setattr(Record, function.__name__, noting(function))
    recorded.report(recorded.consistent())
    recorded.report(test_selinux.cluster())
    recorded.report(test_firewall.cluster())
    recorded.report(recorded_kubernetes.consistent())
    # Some are asked for only where something differs: is it on disk for the next boot?
    for reading, path, value in (
        ("kernel.cmdline", (), []),
        ("gpu.count", (), 7),
        ("gpu.power.enforced_w", ("gpu3",), 350.0),
    ):
        recorded.report(recorded.mutated(recorded.consistent(), "worker3", reading, path, value))
    taken = {name for _, names in collect.READERS for name in names}
    assert taken - used == set(NOT_JUDGED)
    assert used - {*FINGERPRINT} <= taken


def test_our_own_drain_is_named() -> None:
    reason = "lockstep: 7 of 8 GPUs"
    start = in_state(recorded.consistent(), "DRAIN+IDLE", reason)
    found = recorded.only(recorded.report(start))
    assert found.found == "DRAIN+IDLE (lockstep: 7 of 8 GPUs)"
    assert found.detail == "set by Lockstep's own health check"


def test_a_limit_reports_its_nodes_and_still_asks_their_peers() -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", "gpu.vbios", ("gpu3",), "old")
    assert check(all_rules(), start, ["worker3"]).exit_status is ExitStatus.DIFFERS
    other = check(all_rules(), start, ["worker4"])
    assert (other.findings, other.nodes) == ([], ("worker4",))


def test_every_rule_says_why_and_what_it_is_blind_to() -> None:
    for rule in all_rules():
        for text in (rule.claim, rule.why, rule.blind):
            assert text.endswith("."), (rule.id, text)
        assert rule.source, rule.id


def test_every_cause_is_a_rule() -> None:
    from fnmatch import fnmatch

    ids = [rule.id for rule in all_rules()]
    for rule in all_rules():
        for cause in rule.explained_by:
            assert any(fnmatch(name, cause.rule) for name in ids), (rule.id, cause.rule)


def test_a_missing_package_explains_its_missing_unit() -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", "packages", ("chrony",), REMOVED)
    lost = {"active": "inactive", "sub": "dead", "load": "not-found", "enabled": ""}
    start = recorded.mutated(start, "worker3", "units", ("chrony.service",), lost)
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.device) == ("package.present", "chrony")
    assert (
        found.detail == "also causes: unit.active (chrony.service), unit.enabled (chrony.service)"
    )


def test_a_node_without_logins_has_no_finding() -> None:
    start = recorded.mutated(recorded.consistent(), "worker3", "cpuset.user_slice", (), None)
    assert recorded.report(start).findings == []


def test_every_file_that_explains_a_finding_is_managed() -> None:
    firewalls = map(test_firewall.cluster, ("nftables", "firewalld"))
    clusters = (recorded.consistent(), recorded_kubernetes.consistent(), *firewalls)
    ours = {file.path for _, file in FILES}  # of all releases
    views = [view for one in clusters for view in one.views.values()]
    units = {unit for view in views for unit in view.plan.system.units}
    for rule in all_rules():
        for cause in rule.explained_by:
            if cause.rule == "file.content" and cause.device is not None:
                assert cause.device in ours, rule.id
            if cause.rule == "unit.active" and cause.device is not None:
                assert cause.device in units, rule.id


def test_a_line_that_is_gone_from_the_hosts_file_is_named_by_its_name() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "hosts.entries", ("worker2",), REMOVED)
    start = recorded.mutated(start, "head1", "files", ("/etc/hosts", "sha256"), "0" * 64)
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.device, found.found) == ("hosts.entries", "worker2", "missing")
    assert found.expected == "fd00:1::102"
    assert found.detail == "also causes: file.content (/etc/hosts)"


def test_a_hosts_file_without_nodes_is_one_finding() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "hosts.entries", (), {})
    found = recorded.only(recorded.report(start))
    assert (found.device, found.found) == ("head1,worker[1-8]", "missing")


def test_a_lost_hosts_file_is_one_finding() -> None:
    start = recorded.mutated(recorded.consistent(), "head1", "hosts.entries", (), REMOVED)
    start = recorded.mutated(start, "head1", "files", ("/etc/hosts",), {"absent": True})
    found = recorded.only(recorded.report(start))
    assert (found.rule, found.device, found.found) == ("file.content", "/etc/hosts", "absent")


def test_rules_that_explain_each_other_still_leave_one_finding() -> None:
    rules = {rule.id: rule for rule in all_rules()}
    first, second = (
        replace(rules[name], explained_by=(Cause(other),))
        for name, other in (("os.time_zone", "os.locale"), ("os.locale", "os.time_zone"))
    )
    finding = Finding("", "worker1", "", "", "", "", "spec", "")
    raw_findings = [
        RawFinding(replace(finding, rule=rule.id), frozenset({"worker1"}), rule)
        for rule in (first, second)
    ]
    kept = folding.explain(raw_findings, {})
    assert [draft.finding.rule for draft in kept] == ["os.time_zone"]
    assert kept[0].finding.detail == "also causes: os.locale"


@pytest.mark.parametrize("reading", ["driver.xid", "rdma.device_files"])
@pytest.mark.parametrize("value", [True, [], "x"])
def test_a_reading_that_should_be_a_map_and_is_none_is_unknown(reading: str, value: Any) -> None:
    one = recorded.only(recorded.report(on(recorded.consistent(), ("worker3",), reading, value)))
    assert (one.node, one.status) == ("worker3", Status.UNKNOWN.value)
    assert "not a map" in one.found


def test_the_next_step_of_a_fault_is_the_repair() -> None:
    """The rule's own repair is for reasons without one."""
    start = recorded.consistent()
    lost: Reading = {
        "worker1": Unreachable("sudo asks for a password. Next: allow it"),
        "worker2": Unreachable("ssh: connection lost"),
    }
    found = recorded.report(replace(start, reading={**start.reading, **lost})).findings
    said = {one.node: (one.found, one.repair) for one in found if one.rule == "node.reachable"}
    assert said["worker1"] == ("sudo asks for a password", "allow it")
    assert said["worker2"][0] == "ssh: connection lost"
    assert said["worker2"][1].startswith("check the power, network, sshd and sudo on worker2;")
