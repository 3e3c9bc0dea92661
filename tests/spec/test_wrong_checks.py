"""Wrong rules of a site: each message has the place, the value and the allowed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep import spec
from lockstep.inventory import plan_or_problems
from lockstep.roles import declared
from lockstep.spec import Problem
from lockstep.spec.problem import message
from tests.spec.example import SOURCE, description

RULE = {
    "id": "site.some",
    "title": "some",
    "reading": "rdma.type",
    "kind": "equal",
    "source": "us",
    "repair": "see {node}",
}


def problem(**checks: Any) -> Problem:
    wanted = description()
    wanted["checks"] = checks
    cluster, problems = spec.load(wanted, declared())
    assert cluster is None
    (one,) = problems
    return one


@pytest.mark.parametrize(
    ("override", "field", "value", "allowed"),
    [
        ({"rule": "gpu.vbio", "off": "x"}, ("rule",), "gpu.vbio", "did you mean gpu.vbios or "),
        ({"rule": "site.some", "off": "x"}, ("rule",), "site.some", "a rule ("),
        ({"rule": "node.reachable", "off": "x"}, ("rule",), "node.reachable", "another rule"),
        ({"rule": "gpu.vbios"}, (), "no change to gpu.vbios", "off (with the reason), severity or"),
        ({"rule": "gpu.vbios", "off": " "}, ("off",), "' '", "non-empty text"),
        (
            {"rule": "gpu.vbios", "off": "x", "severity": "error"},
            *((), "off, and severity or tolerance", "either off, or severity"),
        ),
        (
            {"rule": "gpu.vbios", "tolerance": 0.1},
            *(
                ("tolerance",),
                "0.1",
                "leave it out: only the kinds within and growth have a tolerance",
            ),
        ),
        ({"rule": "memory.total", "tolerance": -1}, ("tolerance",), "-1", "0 or more"),
        (
            {"rule": "gpu.vbios", "severity": "info"},
            ("severity",),
            "'info'",
            "'error', 'warning' or",
        ),
        (
            {"rule": "gpu.vbios", "severity": "error", "classes": ["hgxx"]},
            *(("classes", 0), "hgxx", "did you mean hgx? One of: head, hgx"),
        ),
        ({"rule": "gpu.vbios", "of": "x"}, ("of",), "'of'", "one of rule, off, severity, tol"),
    ],
)
def test_an_override(
    override: dict[str, Any], field: tuple[str | int, ...], value: str, allowed: str
) -> None:
    found = problem(overrides=[override])
    assert (found.path, found.value) == (("checks", "overrides", 0, *field), value)
    assert found.allowed.startswith(allowed)


def test_two_overrides_of_one_rule_for_one_class() -> None:
    change = {"rule": "gpu.vbios", "severity": "error"}
    found = problem(overrides=[change, {**change, "classes": ["hgx"]}])
    assert found.path == ("checks", "overrides", 1, "rule")
    assert found.allowed == (
        "one override per rule and class; overrides[0] already changes this rule"
    )


def test_overrides_of_one_rule_for_two_classes() -> None:
    wanted = description()
    wanted["checks"] = {
        "overrides": [
            {"rule": "gpu.vbios", "severity": "error", "classes": [name]}
            for name in wanted["hardware"]
        ]
    }
    assert len(wanted["hardware"]) > 1
    assert spec.load(wanted, declared())[1] == []


@pytest.mark.parametrize(
    ("change", "field", "value", "allowed"),
    [
        ({"id": "gpu.vbios"}, ("id",), "'gpu.vbios'", "'site.' followed by a name"),
        ({"reading": "rdma.typ"}, ("reading",), "rdma.typ", "did you mean rdma.type, "),
        ({"path": ["*", "*"]}, ("path",), "*, *", "'*' at most once"),
        ({"kind": "same"}, ("kind",), "'same'", "'equal', 'multiset'"),
        (
            {"kind": "unique", "expected": 1},
            ("expected",),
            "1",
            "leave it out: only the kinds equal",
        ),
        (
            {"kind": "absolute", "bound": "at most", "expected": "5"},
            *(("expected",), "'5'", "a number"),
        ),
        ({"kind": "absolute", "expected": 5}, ("bound",), "not set", "at least or at most"),
        ({"bound": "at most"}, ("bound",), "at most", "leave it out: kind equal has no bound"),
        (
            {"kind": "within", "bound": "at most"},
            *(("tolerance",), "not set", "a fraction of the peers' median"),
        ),
        ({"tolerance": 1}, ("tolerance",), "1", "leave it out: only the kinds within"),
        (
            {"repair": "see {nodes}"},
            ("repair",),
            "{nodes}",
            "text; the only names allowed in braces are inven",
        ),
        (
            {"repair": "see {node"},
            ("repair",),
            "see {node",
            "text; the only names allowed in braces are inven",
        ),
        (
            {"repair": "see {}"},
            ("repair",),
            "{}",
            "text; the only names allowed in braces are inven",
        ),
        ({"classes": ["x"]}, ("classes", 0), "x", "one of: head, hgx"),
        ({"local": "health"}, ("local",), "health for kind equal", "one of the kinds equal, slots"),
        (
            {"local": "jobs", "expected": "x", "path": ["*"]},
            *(("local",), "jobs for path *", "a path without '*'"),
        ),
        (
            {"local": "jobs", "expected": "x", "reading": "units"},
            *(("local",), "jobs for reading units", "a reading that the node check takes"),
        ),
    ],
)
def test_a_rule(
    change: dict[str, Any], field: tuple[str | int, ...], value: str, allowed: str
) -> None:
    found = problem(rules=[{**RULE, **change}])
    assert (found.path, found.value) == (("checks", "rules", 0, *field), value)
    assert found.allowed.startswith(allowed)


def test_two_rules_of_one_id() -> None:
    found = problem(rules=[RULE, RULE])
    assert (found.path, found.value) == (("checks", "rules", 1, "id"), "site.some")


def test_every_field_that_has_no_default_is_asked_for() -> None:
    wanted = description()
    wanted["checks"] = {"rules": [{"id": "site.some"}]}
    fields = {p.path[-1] for p in spec.load(wanted, declared())[1]}
    assert fields == {"title", "reading", "kind", "source", "repair"}


def test_the_message_names_file_line_value_and_what_is_near(tmp_path: Path) -> None:
    checks = '"checks": {"overrides": [\n    {"rule": "gpu.powerlimit", "off": "x"},\n]},\n'
    before, name, after = SOURCE.partition('"name"')
    file = tmp_path / "prod.py"
    file.write_text(before + checks + name + after)
    wanted = description()
    wanted["checks"] = {"overrides": [{"rule": "gpu.powerlimit", "off": "x"}]}
    planned, problems = plan_or_problems(wanted, str(file))
    assert planned is None
    line = file.read_text().split("\n").index('    {"rule": "gpu.powerlimit", "off": "x"},') + 1
    assert message(problems, "prod.py") == (
        f"ERROR prod.py:{line} checks.overrides[0].rule\n"
        "  found    gpu.powerlimit\n"
        "  allowed  did you mean gpu.power_limit, cpu.power_limit or gpu.power_default? "
        "(lockstep rules)\n"
        "1 problem in prod.py. No node was contacted. Correct the file and try again."
    )


def test_a_wrong_rule_shows_beside_a_wrong_node() -> None:
    wanted = description()
    wanted["nodes"][0]["management"] = "fd00"
    wanted["checks"] = {"overrides": [{"rule": "gpu.vbio", "off": "x"}]}
    fields = {problem.path[0] for problem in spec.load(wanted, declared())[1]}
    assert fields == {"nodes", "checks"}


@pytest.mark.parametrize(
    ("wrong", "field", "value", "allowed"),
    [
        ({"domain": "flie"}, ("domain",), "flie", "file"),
        ({"object": "/etc/(a"}, ("object",), "/etc/(a: missing ), ", "a regular expression"),
    ],
)
def test_an_exception_names_a_domain_and_a_pattern(
    wrong: dict[str, str], field: tuple[str, ...], value: str, allowed: str
) -> None:
    right = {"domain": "file", "object": "/etc/a", "reason": "ours"}
    found = problem(exceptions=[{**right, **wrong}])
    assert found.path == ("checks", "exceptions", 0, *field)
    assert str(found.value).startswith(value)
    assert allowed in found.allowed


def test_an_exception_needs_a_reason() -> None:
    found = problem(exceptions=[{"domain": "file", "object": "/etc/a"}])
    assert found.path == ("checks", "exceptions", 0, "reason")
