"""Compares the plans of two clusters that should be equal except for names and addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from pydantic import JsonValue

from lockstep.checks.difference import ABSENT, Difference, of_values
from lockstep.files import ManagedFile
from lockstep.plan import ClusterPlan, NodePlan, plan
from lockstep.report import alike, fold
from lockstep.spec.names import expand

_WORD = re.compile(r"[\w\[][\w.:\[\],/-]*[\w\]]|\w")
"""Matches names, name ranges, addresses and similar words, without a trailing period."""


Files = Callable[[NodePlan], tuple[ManagedFile, ...]]
"""Returns a node's files, except files that contain secrets."""
Texts = dict[str, JsonValue]
"""Path -> the distinct lines of a file, with placeholders for node names and addresses."""


def differing(left: ClusterPlan, right: ClusterPlan, files: Files) -> list[Difference]:
    """Return the differences between two plans, for each kind of node."""
    left, right = _without_name(left), _without_name(right)
    here, there = _kinds(left), _kinds(right)
    found = [
        *of_values(
            *({"checks": side.spec.checks.model_dump(mode="json")} for side in (left, right))
        )
    ]
    for kind in sorted({*here, *there}):
        if kind not in here or kind not in there:
            sides = (fold(side[kind]) if kind in side else ABSENT for side in (here, there))
            found.append(Difference(kind, "", *sides))
            continue
        one, other = left.nodes[here[kind][0]], right.nodes[there[kind][0]]
        texts_here, texts_there = _files(one, files), _files(other, files)
        found += [
            replace(difference, reading=f"{kind}: {difference.reading}")
            for difference in (
                *of_values(_values(one, texts_here), _values(other, texts_there)),
                *_contents(texts_here, texts_there),
            )
        ]
    return found


def classes_apart(left: ClusterPlan, right: ClusterPlan) -> frozenset[str]:
    """Return the hardware classes that have the same name but different definitions."""
    here, there = left.spec.hardware, right.spec.hardware
    return frozenset(name for name in here.keys() & there.keys() if here[name] != there[name])


def _without_name(named: ClusterPlan) -> ClusterPlan:
    """Return the plan with the cluster renamed to CLUSTER.

    Replacing the name in the rendered files instead could change other words.
    """
    return plan(named.spec.model_copy(update={"name": "CLUSTER"}), named.roles, named.inventory)


def _kinds(of: ClusterPlan) -> dict[str, list[str]]:
    """Group the node names by node role, hardware class, own release and set of services."""

    def kind(name: str) -> str:
        node = of.nodes[name]
        runs = ", ".join(service.value for service in node.node.runs)
        # The clusters may differ in ``os.release``, which is a difference of each kind.
        own = node.release.name if node.release.name != of.spec.os.release else ""
        return (
            f"{node.role.value} {node.hardware.name}"
            + (f" on {own}" if own else "")
            + (f" with {runs}" if runs else "")
        )

    return alike(of.nodes, kind)


def _values(node: NodePlan, texts: Texts) -> dict[str, JsonValue]:
    """Return the values that must be the same on equivalent nodes of the two clusters."""
    document = node.to_json()
    for own in ("name", "role", "runs", "hardware", "management", "fabric"):
        del document[own]
    packages = document.pop("packages")
    return {
        **document,
        "packages": {name: version or "any version" for name, version in packages.items()},
        "masked units": list(node.system.masked_units),
        "held packages": list(node.software.held),
        "files": sorted(texts),
    }


def _contents(here: Texts, there: Texts) -> Iterator[Difference]:
    common = here.keys() & there.keys()
    yield from of_values(
        *({f"file {path}": side[path] for path in common} for side in (here, there))
    )


def _files(node: NodePlan, files: Files) -> Texts:
    """Return each file's distinct lines by path, with placeholders for node names and addresses."""
    return {
        file.path: [*dict.fromkeys(_neutral(node.cluster, _text(file)))] for file in files(node)
    }


def _text(file: ManagedFile) -> str:
    """Return the content; of a file that is no text, such as a certificate in DER, its hash."""
    try:
        return file.content.decode("utf-8")
    except UnicodeDecodeError:
        return f"SHA256 {file.sha256}"


def _neutral(of: ClusterPlan, text: str) -> Iterator[str]:
    """Yield the lines with node names and addresses replaced by placeholders."""

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


@lru_cache(maxsize=2**16)  # a file such as /etc/hosts names the same addresses again and again
def _is_address(word: str) -> bool:
    host = re.sub(r"^\[(.*)\](:\d+)?$", r"\1", word)
    try:
        ipaddress.ip_interface(host)
    except ValueError:
        return False
    return not host.isdigit()
