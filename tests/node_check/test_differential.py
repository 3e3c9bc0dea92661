"""The node check and the engine judge every rule alike."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks import local
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.rule import Local, Look, OnNode, Rule
from lockstep.node.check import program
from lockstep.node.check.judge import Judgement, Result, judge
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import Record
from lockstep.report import Status
from tests.checks import recorded, recorded_kubernetes
from tests.checks.mutation import Mutation
from tests.checks.recorded import REMOVED
from tests.checks.test_mutations import MUTATIONS

NODE = "worker3"
UNTIL_A_RESET = {"gpu.page_retirement", "gpu.recovery_action", "gpu.row_remap"}
"""Rules about what a reboot repairs, which no job may meet before."""
OF_PODS = {"kubernetes.gpus"}
"""Rules about nodes of Kubernetes, which the recorded cluster does not have."""
LOCAL = {rule.id for rule in all_rules() if rule.on_node is not None} - OF_PODS


def as_installed(context: Context, node: str = NODE) -> tuple[Judgement, ...]:
    """Return the judgements as the program on the node reads them from its file."""
    return program.configuration(local.configuration(context.plan.nodes[node])).judgements


def on_node(context: Context, node: str = NODE) -> list[Result]:
    record = context.reading[node]
    assert isinstance(record, Record)
    return judge(as_installed(context, node), record.model_dump(mode="json")["readings"])


def by_engine(context: Context, node: str = NODE) -> set[tuple[str, str]]:
    """Return what the engine finds wrong by the local rules.

    Without what waits for a reboot, unless no job runs well until then.
    """
    return {
        (one.rule, one.device)
        for one in recorded.report(context)
        if one.rule in LOCAL
        and one.node == node
        and (one.status == Status.DIFFERS.value or one.rule in UNTIL_A_RESET)
    }


def changed(context: Context, reading: str, path: tuple[str, ...], value: Any) -> Context:
    return recorded.mutated(context, NODE, reading, path, value)


def test_a_node_as_planned_is_silent() -> None:
    context = recorded.consistent()
    assert on_node(context) == []
    assert {one.rule for one in as_installed(context)} >= LOCAL - {"rdma.rate"}


OF_NODE = [one for one in MUTATIONS if one.rule in LOCAL and one.node == NODE]
ONLY_THE_ENGINE = {
    # No rate is declared there: the peers say it.
    ("rdma.rate", "rdma.rate"),
    # GSP timeouts and the like: wrong, but no word of the catalogue keeps jobs away.
    ("gpu.xid", "driver.xid"),
    # The node holds library and module against each other.
    ("driver.library_version", "driver.library"),
}
OWN_WORDS = {
    *("remap failed: No", "retirement pending: No"),
    *("state Completed", "status Success"),
    "none",  # of the bits that mean a slowdown
    *("", "No"),
}
"""What the node check expects of a single reading, and the engine says of several in a sentence."""


@pytest.mark.parametrize("one", OF_NODE, ids=lambda m: f"{m.rule}-{'.'.join(m.path) or m.reading}")
def test_node_and_engine_agree_on_each_mutation(one: Mutation) -> None:
    context = changed(recorded.consistent(), one.reading, one.path, one.value)
    found = on_node(context)
    named = {(result.rule, result.device) for result in found if not result.unread}
    if (one.rule, one.reading) in ONLY_THE_ENGINE:
        assert named <= {("driver.library_version", "loaded module")}
        return
    assert named == by_engine(context)
    if one.status is Status.DIFFERS:
        (result,) = found
        (engine,) = recorded.report(context)
        words = {engine.expected, f"at least {engine.expected}", *OWN_WORDS}
        assert result.expected in words


def test_every_local_rule_is_mutated_here_or_below() -> None:
    assert {one.rule for one in OF_NODE} == LOCAL


def test_node_and_engine_agree_on_a_gpu_that_pods_lost() -> None:
    start = recorded_kubernetes.consistent()
    assert on_node(start) == []
    assert {one.rule for one in as_installed(start)} >= OF_PODS
    lost = changed(start, "kubernetes.gpus", ("gpu3",), "unhealthy")
    (result,) = on_node(lost)
    (engine,) = recorded.report(lost)
    assert (result.rule, result.device, result.expected) == ("kubernetes.gpus", "gpu3", "healthy")
    assert (engine.rule, engine.device, engine.expected) == ("kubernetes.gpus", "gpu3", "healthy")


def test_what_only_the_engine_says_is_one_of_the_mutations() -> None:
    assert {rule for rule, _ in ONLY_THE_ENGINE} <= {one.rule for one in OF_NODE}


def test_both_report_unread_values_and_neither_fails_them() -> None:
    context = changed(recorded.consistent(), "gpu.power.enforced_w", ("gpu3",), REMOVED)
    (result,) = on_node(context)
    assert (result.rule, result.device, result.unread) == ("gpu.power_limit", "gpu3", True)
    engine = recorded.only(recorded.report(context))
    assert (engine.rule, engine.device, engine.status) == ("gpu.power_limit", "gpu3", "unknown")


@pytest.mark.parametrize("rule", sorted(LOCAL - {"gpu.xid"}))
def test_a_reading_that_is_gone_is_unread(rule: str) -> None:
    context = recorded.clustered(declared_rate)
    for one in as_installed(context):
        if one.rule == rule:
            results = judge([one], {})
            assert results
            assert all(result.unread for result in results)


def declared_rate(description: dict[str, Any]) -> None:
    description["hardware"]["hgx-h200"]["nics"]["speed_gbit"] = 400


def test_a_declared_rate_is_judged_on_the_node() -> None:
    start = recorded.clustered(declared_rate)
    assert on_node(start) == []
    context = changed(start, "rdma.rate", ("mlx5_1",), "200 Gb/sec (2X NDR)")
    (result,) = on_node(context)
    assert result.text == "rdma.rate mlx5_1: found 200 Gbit/s, expected 400 Gbit/s"
    assert {rule for rule, _ in by_engine(context)} == {"rdma.rate"}


def test_a_fabric_adapter_that_is_lost_beside_others_is_named() -> None:
    further = changed(recorded.consistent(), "rdma.names", (), ["mlx5_0", "mlx5_1", "mlx5_9"])
    further = changed(further, "rdma.count", (), 3)
    assert on_node(further) == []
    lost = changed(further, "rdma.names", (), ["mlx5_0", "mlx5_9"])
    lost = changed(lost, "rdma.count", (), 2)
    (result,) = on_node(lost)
    assert result.text == "rdma.names: found no mlx5_1, expected mlx5_0, mlx5_1"
    assert by_engine(lost) == {("rdma.names", "")}


def test_an_error_with_which_no_job_may_start_is_named_with_its_gpu() -> None:
    context = changed(recorded.consistent(), "driver.xid", ("0000:61:00",), [31, 119, 79])
    (result,) = on_node(context)
    assert result.text == "gpu.xid gpu3: found Xid 79, expected none"
    assert by_engine(context) == {("gpu.xid", "gpu3")}


def test_what_the_site_ignores_takes_no_node_out() -> None:
    def ignored(description: dict[str, Any]) -> None:
        description["monitoring"] = {"xid": {79: "ignore", 95: "warning"}}

    context = changed(recorded.clustered(ignored), "driver.xid", ("0000:61:00",), [79, 95])
    assert on_node(context) == []


def test_a_library_of_another_version_than_the_loaded_module_is_named() -> None:
    context = changed(recorded.consistent(), "driver.library", (), "580.95.05")
    (result,) = on_node(context)
    assert result.text == (
        f"driver.library_version loaded module: found {recorded.DRIVER}, expected 580.95.05"
    )


def test_a_new_driver_in_the_plan_alone_takes_no_node_out() -> None:
    """Every node of the cluster would go at once; the rollout takes them one by one."""

    def newer(description: dict[str, Any]) -> None:
        description["software"]["nvidia"] |= {"driver": "590.50.01", "fabric_manager": "590.50.01"}

    planned = recorded.clustered(newer).plan.nodes[NODE]
    record = recorded.consistent().reading[NODE]
    assert isinstance(record, Record)
    readings = record.model_dump(mode="json")["readings"]
    assert judge(local.judgements(planned), readings) == []


def test_pages_that_the_kernel_was_not_started_with_wait_for_the_reboot() -> None:
    context = changed(recorded.consistent(), "hugepages", ("2M", "0"), 0)
    assert [one.text for one in on_node(context)] == [
        "hugepages 2M node0: found 0 pages, expected 512 pages"
    ]
    context = changed(context, "kernel.cmdline", (), ["quiet"])
    assert on_node(context) == []


REFUSED = (
    "nvidia-smi: exit 9: NVIDIA-SMI has failed because it couldn't communicate with the driver"
)


@pytest.mark.parametrize(
    ("reason", "fails"),
    [
        (REFUSED, True),
        ("nvidia-smi: exit 255: Failed to initialize NVML: Unknown Error", True),
        ("nvidia-smi: exit 255: Unknown Error", False),
        ("nvidia-smi: did not finish within 8 s", False),
        ("nvidia-smi: not installed", False),
    ],
)
def test_a_driver_that_answers_that_it_cannot_is_no_silence(reason: str, fails: bool) -> None:
    counted = [one for one in as_installed(recorded.consistent()) if one.rule == "gpu.count"]
    (result,) = judge(counted, {"gpu.count": {"unread": reason}})
    assert (result.found, not result.unread) == (reason, fails)


@pytest.mark.parametrize("rule", sorted(rule for rule in LOCAL if rule.startswith("gpu.")))
def test_what_a_gpu_does_not_support_takes_no_node_out(rule: str) -> None:
    for one in as_installed(recorded.consistent()):
        gpus = {"value": {"gpu0": NOT_SUPPORTED}}
        readings = dict.fromkeys(one.readings, gpus) | {one.devices: gpus}
        assert one.rule != rule or one.path or one.none_of or judge([one], readings) == []


def test_a_field_that_the_driver_does_not_have_is_not_judged() -> None:
    reason = {"unread": "not available on this driver: gpu_recovery_action"}
    asked = [one for one in as_installed(recorded.consistent()) if "recovery" in one.rule]
    assert judge(asked, {"gpu.recovery_action": reason, "gpu.uuid": {"value": {"gpu0": "a"}}}) == []


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if rule.on_node], ids=lambda r: r.id)
def test_a_local_rule_is_data_or_says_what_the_node_judges(rule: Rule) -> None:
    of_pods = rule.id in OF_PODS
    start = recorded_kubernetes.consistent() if of_pods else recorded.clustered(declared_rate)
    plan = start.plan.nodes[NODE]
    made = [one for one in local.judgements(plan) if one.rule == rule.id]
    assert made
    assert rule.on_node is not None
    assert {one.at_jobs for one in made} == {rule.on_node.when is Local.JOBS}


def test_a_rule_of_code_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    careless = Rule(
        id="x.y", claim="x", reading="r", look=Look(lambda view: {}), on_node=OnNode(Local.HEALTH)
    )
    monkeypatch.setattr(local, "rules_of", lambda spec: (careless,))
    with pytest.raises(TypeError, match=r"x\.y: the rule uses code"):
        local.judgements(recorded.consistent().plan.nodes[NODE])


def test_the_program_reads_the_file_that_is_installed() -> None:
    plan = recorded.consistent().plan.nodes[NODE]
    read = program.configuration(local.configuration(plan))
    assert read.node == NODE
    assert read.housekeeping == plan.hardware.cpu.housekeeping
    assert read.judgements == local.judgements(plan)
