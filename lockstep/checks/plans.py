"""Two clusters that should be identical: where their plans differ, except names and addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from pydantic import JsonValue

from lockstep.checks.context import OwnedFile
from lockstep.checks.difference import ABSENT, Difference, of_values
from lockstep.plan import ClusterPlan, NodePlan, plan
from lockstep.report import fold
from lockstep.spec.names import expand

_WORD = re.compile(r"[\w\[][\w.:\[\],/-]*[\w\]]|\w")
"""Names, ranges of names, addresses and what is written like them; no full stop behind them."""


Files = Callable[[NodePlan], tuple[OwnedFile, ...]]
"""The files of a node, without those that hold secrets."""


def differing(left: ClusterPlan, right: ClusterPlan, files: Files) -> list[Difference]:
    """Return where two plans differ, for each kind of node that both have."""
    left, right = _without_name(left), _without_name(right)
    here, there = _kinds(left), _kinds(right)
    found = [*of_values(_checks(left), _checks(right))]
    for kind in sorted({*here, *there}):
        if kind not in here or kind not in there:
            sides = (fold(side[kind]) if kind in side else ABSENT for side in (here, there))
            found.append(Difference(kind, "", *sides))
            continue
        one, other = left.nodes[here[kind][0]], right.nodes[there[kind][0]]
        found += [
            replace(difference, reading=f"{kind}: {difference.reading}")
            for difference in (
                *of_values(_values(one, files), _values(other, files)),
                *_contents(one, other, files),
            )
        ]
    return found


def classes_apart(left: ClusterPlan, right: ClusterPlan) -> frozenset[str]:
    """Return the hardware classes that have one name and are two things."""
    here, there = left.spec.hardware, right.spec.hardware
    return frozenset(name for name in here.keys() & there.keys() if here[name] != there[name])


def _without_name(named: ClusterPlan) -> ClusterPlan:
    """Return the plan of the same cluster without a name: any word of a file may equal a name."""
    cluster = named.spec.model_copy(update={"name": "CLUSTER"})
    return plan(cluster, named.roles, named.inventory)


def _checks(of: ClusterPlan) -> dict[str, JsonValue]:
    return {"checks": of.spec.checks.model_dump(mode="json")}


def _kinds(of: ClusterPlan) -> dict[str, list[str]]:
    """Return kind of node -> names: what has one role, one class and one set of services."""
    kinds: dict[str, list[str]] = {}
    for name, node in of.nodes.items():
        runs = ", ".join(service.value for service in node.node.runs)
        kind = f"{node.role.value} {node.hardware.name}" + (f" with {runs}" if runs else "")
        kinds.setdefault(kind, []).append(name)
    return kinds


def _values(node: NodePlan, files: Files) -> dict[str, JsonValue]:
    """Return everything that a node of an identical cluster has as well."""
    document = node.to_json()
    for own in ("name", "role", "runs", "hardware", "management", "fabric"):
        del document[own]
    packages = document.pop("packages")
    return {
        **document,
        "os": node.spec.os.release,
        "packages": {name: version or "any version" for name, version in packages.items()},
        "masked units": list(node.masked_units),
        "held packages": list(node.held),
        "files": sorted(_files(node, files)),
    }


def _contents(left: NodePlan, right: NodePlan, files: Files) -> Iterator[Difference]:
    here, there = _files(left, files), _files(right, files)
    common = here.keys() & there.keys()
    yield from of_values(
        *({f"file {path}": side[path] for path in common} for side in (here, there))
    )


def _files(node: NodePlan, files: Files) -> dict[str, JsonValue]:
    """Return path -> lines."""
    return {
        file.path: [*dict.fromkeys(_neutral(node.cluster, file.content.decode("utf-8")))]
        for file in files(node)
    }


def _neutral(of: ClusterPlan, text: str) -> Iterator[str]:
    """Yield the lines with the cluster's names of nodes and addresses replaced by what they are."""

    def what(found: re.Match[str]) -> str:
        word = found[0]
        if _is_address(word):
            return "ADDRESS"
        try:
            names = expand(word)
        except ValueError:
            return word
        return "NODES" if names and all(name in of.nodes for name in names) else word

    for line in text.splitlines():
        yield _WORD.sub(what, line)


def _is_address(word: str) -> bool:
    host = re.sub(r"^\[(.*)\](:\d+)?$", r"\1", word)
    try:
        ipaddress.ip_interface(host)
    except ValueError:
        return False
    return not host.isdigit()
