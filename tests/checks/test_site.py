"""Rules of a site: changed rules of Lockstep, and added ones."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from ClusterShell.NodeSet import NodeSet

from lockstep.checks import local
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rule import Bound, Kind, Local, Peers
from lockstep.checks.site import LOCAL, rules_of
from lockstep.node.check.judge import judge
from lockstep.probe.record import Record
from lockstep.report import Finding, Report, Severity, Status
from lockstep.spec.checks import SEVERITIES, SiteRule
from tests.checks import recorded

PAGE = Path(__file__).resolve().parents[2] / "docs/checks.md"
POWER = "gpu.power.max_w"


def example() -> dict[str, Any]:
    """The part of a description that docs/checks.md shows."""
    (block,) = re.findall(r'```python\n("checks".*?)```', PAGE.read_text(encoding="utf-8"), re.S)
    shown: dict[str, Any] = ast.literal_eval("{" + block + "}")["checks"]
    return shown


def site(*rules: dict[str, Any], overrides: tuple[dict[str, Any], ...] = ()) -> Context:
    """The recorded cluster with rules of a site."""
    return described({"rules": rules, "overrides": overrides})


def described(checks: dict[str, Any]) -> Context:
    def change(description: dict[str, Any]) -> None:
        description["checks"] = checks

    return recorded.clustered(change)


def rule(**given: Any) -> dict[str, Any]:
    """A rule of a site; ``given`` says what matters."""
    return {
        "id": "site.some",
        "title": "some",
        "source": "us",
        "repair": "see {node}",
        "classes": ["hgx-h200"],
        **given,
    }


def report(context: Context) -> Report:
    return check(rules_of(context.plan.spec), context)


def found(context: Context) -> list[tuple[str, str, str, str]]:
    return [(f.rule, f.node, f.device, f.found) for f in report(context)]


def changed(context: Context, reading: str, path: tuple[str, ...], value: Any) -> Context:
    return recorded.mutated(context, "worker3", reading, path, value)


# --- rules that a site adds


def test_the_example_of_the_page_finds_nothing_on_consistent_nodes() -> None:
    assert found(described(example())) == []


def test_the_page_has_every_field() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Rules of a site")[2]
    for name in SiteRule.model_fields:
        assert f'"{name}"' in section or f"`{name}`" in section, name


def test_a_rule_of_the_page_names_the_node_and_repairs_it_as_the_site_says() -> None:
    start = changed(described(example()), POWER, ("gpu3",), 600.0)
    finding = next(f for f in report(start) if f.rule == "site.power_ceiling")
    assert finding == Finding(
        rule="site.power_ceiling",
        node="worker3",
        device="gpu3",
        field=POWER,
        found="600",
        expected="at least 650",
        reference="spec",
        repair="have gpu3 of worker3 replaced: it takes at least 650 W only",
        severity="error",
    )


@pytest.mark.parametrize(
    ("given", "reading", "path", "value", "device", "said"),
    [
        (
            {"kind": "equal", "reading": "rdma.type"},
            "rdma.type",
            ("mlx5_0",),
            "MT1",
            "mlx5_0",
            "MT1",
        ),
        (
            {"kind": "slots", "reading": "rdma.type"},
            *("rdma.type", ("mlx5_1",), "MT1", "mlx5_1", "MT1"),
        ),
        (
            {"kind": "multiset", "reading": "rdma.type"},
            *("rdma.type", ("mlx5_1",), "MT1", "", "MT1, MT4129"),
        ),
        (
            {"kind": "equal", "reading": "hugepages.free", "path": ["2M", "0"], "expected": 512},
            *("hugepages.free", ("2M", "0"), 500, "2M 0", "500"),
        ),
        (
            {
                "kind": "within",
                "reading": "hugepages.free",
                "path": ["2M", "*"],
                "bound": "at least",
                "tolerance": 0.1,
            },
            *("hugepages.free", ("2M", "1"), 400, "1", "400"),
        ),
        (
            {"kind": "unique", "reading": "os.boot_id"},
            *("os.boot_id", (), "00000000-0000-4000-8000-000000000004", "", "worker3, worker4"),
        ),
        (
            {"kind": "growth", "reading": "gpu.slowdown.power_cap_us", "tolerance": 10},
            *("gpu.slowdown.power_cap_us", ("gpu3",), 11, "gpu3", "11: 11 more in 1 h"),
        ),
        (
            {
                "kind": "absolute",
                "reading": "hugepages.free",
                "path": ["1G", "1"],
                "bound": "at most",
                "expected": 90,
            },
            *("hugepages.free", ("1G", "1"), 95, "1G 1", "95"),
        ),
    ],
    ids=lambda given: given["kind"] if isinstance(given, dict) else None,
)
def test_each_kind_finds_what_differs_and_nothing_else(
    given: dict[str, Any],
    reading: str,
    path: tuple[str, ...],
    value: Any,
    device: str,
    said: str,
) -> None:
    start = site(rule(**given))
    assert found(start) == []
    finding = recorded.only(report(changed(start, reading, path, value)))
    assert (finding.rule, finding.device) == ("site.some", device)
    assert said in finding.found
    assert "worker3" in NodeSet(finding.repair.removeprefix("see "))


def test_a_growth_within_the_tolerance_is_fine() -> None:
    given = rule(kind="growth", reading="gpu.slowdown.power_cap_us", tolerance=10)
    assert found(changed(site(given), "gpu.slowdown.power_cap_us", ("gpu3",), 10)) == []


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (["3M"], None, "the record has no 3M"),
        (["2M", "0", "x"], None, "x not found: 512 is not a map"),
        (["2M", "0"], "many", "not a number: 'many'"),
    ],
)
def test_what_a_path_does_not_lead_to_is_unknown_never_ok(
    path: list[str], value: Any, why: str
) -> None:
    kind = {"kind": "absolute", "bound": "at least", "expected": 1}
    start = site(rule(reading="hugepages.free", path=path, **kind))
    if value is not None:
        start = changed(start, "hugepages.free", ("2M", "0"), value)
    nodes = {f.node for f in report(start)}
    finding = next(f for f in report(start) if f.node == "worker3")
    assert (finding.status, finding.found) == (Status.UNKNOWN.value, f"not read: {why}")
    assert len(nodes) == (1 if value else 8)


@pytest.mark.parametrize(
    ("reading", "unread", "cause"),
    [
        ("gpu.vbios", ("gpu.vbios",), "gpu.vbios"),
        ("gpu.pstate", ("gpu.pstate", "gpu.count"), "gpu.count"),
    ],
)
def test_a_reading_that_ours_finds_unread_is_one_finding(
    reading: str, unread: tuple[str, ...], cause: str
) -> None:
    start = site(rule(kind="slots", reading=reading))
    record = start.reading["worker3"]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    for name in unread:
        raw["readings"][name] = {"unread": "nvidia-smi: did not finish within 10 s"}
    start = recorded.with_reading(start, {**start.reading, "worker3": Record.model_validate(raw)})
    findings = {finding.rule: finding for finding in report(start)}
    assert "site.some" not in findings
    assert "site.some" in findings[cause].detail


def test_nodes_of_other_classes_are_not_judged() -> None:
    given = {"kind": "equal", "reading": "os.version_id", "expected": "12"}
    nodes = {f.node for f in report(site(rule(**given)))}
    assert nodes == {f"worker{n}" for n in range(1, 9)}
    assert "head1" in {f.node for f in report(site(rule(**given, classes=[])))}


# --- rules of ours that a site changes

VBIOS = ("gpu.vbios", ("gpu3",), "96.00.A5.00.01")


def test_a_rule_that_is_off_finds_nothing_and_says_why() -> None:
    off = {"rule": "gpu.vbios", "off": "two firmwares until May"}
    made = report(changed(site(overrides=(off,)), *VBIOS))
    assert (made.findings, made.remarks) == (
        [],
        ("switched off: gpu.vbios: two firmwares until May",),
    )
    assert "gpu.vbios" not in made.rules
    assert "switched off: gpu.vbios: two firmwares until May\n" in recorded.text(made)


def test_a_rule_may_be_off_for_a_class_alone() -> None:
    drift = ("os.locale", (), "C")
    off = {"rule": "os.locale", "off": "a trial", "classes": ["head"]}
    start = site(overrides=(off,))
    assert [name for _, name, _, _ in found(changed(start, *drift))] == ["worker3"]
    head = recorded.mutated(start, "head1", *drift)
    assert found(head) == []
    assert report(head).remarks == ("switched off for class head: os.locale: a trial",)
    assert "os.locale" in report(head).rules


def test_many_rules_that_are_off_are_one_line() -> None:
    ids = ("gpu.acs", "gpu.bar", "gpu.iommu", "gpu.mig", "gpu.name", "gpu.order")
    made = report(site(overrides=tuple({"rule": one, "off": "a trial"} for one in ids)))
    assert made.remarks == ("switched off (lockstep rules INVENTORY shows why): " + ", ".join(ids),)


@pytest.mark.parametrize(("classes", "wanted"), [([], "error"), (["head"], "warning")])
def test_the_severity_is_the_sites(classes: list[str], wanted: str) -> None:
    start = site(overrides=({"rule": "gpu.vbios", "severity": "error", "classes": classes},))
    assert recorded.only(report(changed(start, *VBIOS))).severity == wanted


def test_a_tie_and_a_value_used_twice_have_the_severity_of_the_site() -> None:
    start = site(overrides=({"rule": "gpu.vbios", "severity": "error"},))
    for number in (1, 2, 3, 4):
        for gpu in range(8):
            start = recorded.mutated(
                start, f"worker{number}", "gpu.vbios", (f"gpu{gpu}",), "96.00.A5.00.01"
            )
    tie = recorded.only(report(start))
    assert (tie.status, tie.severity) == (Status.UNDECIDED.value, "error")
    start = site(overrides=({"rule": "os.machine_id", "severity": "warning"},))
    twice = changed(start, "os.machine_id", (), "1d000000000000000000000000000004")
    assert recorded.only(report(twice)).severity == "warning"


@pytest.mark.parametrize(("tolerance", "findings"), [(None, 1), (0.2, 0), (0.02, 1)])
def test_the_tolerance_of_a_share_is_the_sites(tolerance: float | None, findings: int) -> None:
    override = {"rule": "memory.total", "tolerance": tolerance, "classes": ["hgx-h200"]}
    start = site(overrides=(override,) if tolerance is not None else ())
    drift = changed(start, "memory_mib", (), 66000)
    assert len([f for f in report(drift) if f.rule == "memory.total"]) == findings


@pytest.mark.parametrize(("tolerance", "findings"), [(None, 1), (100, 0), (40, 1)])
def test_the_tolerance_of_growth_is_the_sites(tolerance: float | None, findings: int) -> None:
    override = {"rule": "gpu.ecc_corrected", "tolerance": tolerance}
    start = site(overrides=(override,) if tolerance is not None else ())
    drift = changed(start, "gpu.ecc.corrected_volatile", ("gpu3",), 50)
    assert [f.rule for f in report(drift)] == ["gpu.ecc_corrected"] * findings


# --- nodes that judge themselves


def on_node(context: Context, edit: Callable[[dict[str, Any]], None]) -> list[str]:
    """What worker3 finds wrong with itself, rules of the site and gpu.power_limit alone."""
    record = context.reading["worker3"]
    assert isinstance(record, Record)
    raw = copy.deepcopy(record.model_dump(mode="json"))["readings"]
    edit(raw)
    judgements = [
        one
        for one in local.judgements(context.plan.nodes["worker3"])
        if one.rule.startswith("site.") or one.rule == "gpu.power_limit"
    ]
    return [one.text for one in judge(judgements, raw)]


def test_a_local_rule_of_the_site_is_judged_on_the_node() -> None:
    start = described(example())
    assert on_node(start, lambda raw: None) == []

    def low(raw: dict[str, Any]) -> None:
        raw[POWER]["value"]["gpu3"] = 600.0

    said = ["site.power_ceiling gpu3: found 600, expected at least 650"]
    assert on_node(start, low) == said

    def no_number(raw: dict[str, Any]) -> None:
        raw[POWER]["value"]["gpu3"] = "much"

    assert on_node(start, no_number) == ["site.power_ceiling gpu3: not read: not a number: 'much'"]


def test_a_path_is_judged_on_the_node_as_in_a_check() -> None:
    given = {"kind": "equal", "reading": "hugepages.free", "path": ["2M", "0"], "expected": 512}
    start = site(rule(**given, local="jobs"))
    (one,) = (j for j in local.judgements(start.plan.nodes["worker3"]) if j.rule == "site.some")
    assert one.at_jobs

    def fewer(raw: dict[str, Any]) -> None:
        raw["hugepages.free"]["value"]["2M"]["0"] = 500

    assert on_node(start, fewer) == ["site.some 2M 0: found 500, expected 512"]
    assert not [j for j in local.judgements(start.plan.nodes["head1"]) if j.rule == "site.some"]


def test_a_rule_that_is_off_is_off_on_the_node() -> None:
    def capped(raw: dict[str, Any]) -> None:
        raw["gpu.power.enforced_w"]["value"]["gpu3"] = 350.0

    off = {"rule": "gpu.power_limit", "off": "measured with a cap this week"}
    assert len(on_node(site(), capped)) == 1
    assert on_node(site(overrides=(off,)), capped) == []


# --- words that stand in two places


def test_a_description_has_the_words_of_the_rules() -> None:
    def words(field: str) -> set[str]:
        annotation = SiteRule.model_fields[field].annotation
        inner = [get_args(a) or (a,) for a in get_args(annotation)]
        return {word for group in inner for word in group if isinstance(word, str)}

    assert words("kind") == {kind.value for kind in Kind}
    assert words("peers") == {peers.value for peers in Peers}
    assert words("bound") == {bound.value for bound in Bound}
    assert words("local") == LOCAL.keys()
    assert set(LOCAL.values()) == set(Local)
    assert set(get_args(SEVERITIES)) == {severity.value for severity in Severity}


def test_without_checks_only_built_in_rules_apply() -> None:
    assert rules_of(recorded.consistent().plan.spec) == tuple(
        replace(one) for one in rules_of(site().plan.spec)
    )
