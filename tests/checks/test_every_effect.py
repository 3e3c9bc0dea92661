"""The check reads what roles write: each effect of a role is changed on one node."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.probe.record import Record
from lockstep.report import Finding
from lockstep.roles import declared
from tests.checks import recorded, test_selinux
from tests.checks.effects import OF_KUBERNETES, OF_NO_ROLE, WRITES_NOTHING, WRITTEN, Effect
from tests.golden.write import plan_of
from tests.test_forgotten import ROLES

ROOT = Path(__file__).resolve().parents[2]


@cache
def divided() -> Context:
    """GPUs in MIG devices, shared beyond the node by IMEX; containerd as well."""

    def change(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["hgx-h200"]["gpu"] |= {
            "mig": ["3g.71gb", "3g.71gb"],
            "multi_node_nvlink": True,
        }
        wanted["software"]["nvidia"]["imex"] = recorded.DRIVER
        wanted["software"]["containers"]["engines"].append("containerd")

    return recorded.clustered(change)


@cache
def golden() -> Context:
    plan = plan_of("prod")
    return recorded.context(plan, {n.name: recorded.raw_record(n) for n in plan.nodes.values()})


@cache
def examples() -> Context:
    """The recorded cluster with the examples of all roles."""

    def change(wanted: dict[str, Any]) -> None:
        for role in declared():
            merge(wanted, role.example)

    return recorded.clustered(change)


def merge(wanted: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Put a part of a description into a description."""
    for name, value in part.items():
        if isinstance(value, Mapping) and isinstance(wanted.get(name), dict):
            merge(wanted[name], value)
        else:
            wanted[name] = copy.deepcopy(value)


CLUSTERS: dict[str, tuple[Callable[[], Context], tuple[str, ...]]] = {
    "recorded": (recorded.consistent, ("head1", "worker3")),
    "divided": (divided, ("worker3",)),
    "golden": (golden, ("head1", "head2", "worker01")),
}
CLUSTERS["selinux"] = (test_selinux.cluster, ("head1", "worker3"))
if any(role.example for role in declared()):
    CLUSTERS["examples"] = (examples, ("head1", "worker3"))
NODES = [(cluster, node) for cluster, (_, nodes) in CLUSTERS.items() for node in nodes]


def operations() -> set[str]:
    """Every operation that a role has: ``module.function``."""
    return {
        f"{path.parent.name if path.stem == '__init__' else path.stem}.{node.name}"
        for path in (ROOT / "roles").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and any(
            ast.unparse(decorator).startswith("operation(") for decorator in node.decorator_list
        )
    }


def unchecked() -> list[str]:
    """The operations whose role says why no rule judges their result."""
    functions = [
        getattr(import_module(role.operations), name)
        for role in declared()
        for name in role.unchecked
    ]
    return [f"{one.__module__.rpartition('.')[2]}.{one.__name__}" for one in functions]


def test_every_operation_declares_its_effects_or_why_none_are_visible() -> None:
    listed = [*WRITTEN, *WRITES_NOTHING, *OF_NO_ROLE, *OF_KUBERNETES, *unchecked()]
    assert sorted(listed) == sorted(operations())


@cache
def before(cluster: str, node: str) -> frozenset[tuple[str, str]]:
    """What is found on a node without any change: the golden cluster's records are half made."""
    found = check(all_rules(), CLUSTERS[cluster][0](), [node])
    return frozenset((finding.rule, finding.device) for finding in found)


FINDS: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}
"""Operation and shape of an effect -> the rules that found effects of this kind, on any node."""


def noticed(
    cluster: str, node: str, effect: Effect, rules: frozenset[str] | None = None
) -> list[Finding]:
    """The new findings on the node whose repair names the role, by these rules; None: by all."""
    chosen = [rule for rule in all_rules() if rules is None or rule.id in rules]
    start = CLUSTERS[cluster][0]()
    changed = recorded.mutated(start, node, effect.reading, effect.path, effect.value)
    return [
        finding
        for finding in check(chosen, changed, [node])
        if effect.role in finding.roles
        and (finding.rule, finding.device) not in before(cluster, node)
    ]


ONCE = {effects: operation for operation, effects in reversed(WRITTEN.items())}.values()
"""The first of the operations that have the same effects: they need not be changed twice."""


@pytest.mark.parametrize("operation", ONCE)
@pytest.mark.parametrize(("cluster", "node"), NODES)
def test_a_change_is_found_and_its_repair_names_the_role(
    cluster: str, node: str, operation: str
) -> None:
    missed = []
    for effect in effects(cluster, node, operation):
        kind = (operation, effect.shape)
        # The whole check for the first of a kind, and for each that the rules then do not find.
        found = noticed(cluster, node, effect, FINDS[kind]) if kind in FINDS else []
        if not found:
            found = noticed(cluster, node, effect)
            FINDS[kind] = FINDS.get(kind, frozenset()) | {finding.rule for finding in found}
        if not found:
            missed.append(effect)
    assert missed == []


def test_every_role_writes_something_that_is_proved() -> None:
    written = {
        e.role for where in NODES for operation in WRITTEN for e in effects(*where, operation)
    }
    # The recorded clusters have no Kubernetes; test_kubernetes_drifts.py changes its files.
    assert written == {name for name in ROLES if not name.startswith("kubernetes_")}


def effects(cluster: str, node: str, operation: str) -> list[Effect]:
    """What an operation wrote on a node."""
    start = CLUSTERS[cluster][0]()
    record = start.reading[node]
    assert isinstance(record, Record)
    return list(WRITTEN[operation](start.plan.nodes[node], record))
