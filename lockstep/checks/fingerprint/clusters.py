"""Differences between clusters that come from the names and addresses of their own nodes.

Two clusters that should be identical have other names, addresses and networks. An object that
contains them differs between the clusters, and its nodes are then compared within each cluster.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from lockstep.checks.context import View
from lockstep.checks.fingerprint.objects import Difference, Side
from lockstep.checks.fingerprint.places import RUNNING, Place
from lockstep.checks.fingerprint.texts import CONTENT
from lockstep.plan import ClusterPlan
from lockstep.report import alike
from lockstep.spec.names import expand

NODE, ADDRESS, NAME = "<node>", "<address>", "<cluster>"
WORD = re.compile(
    r"<[^<>\n]* of this node>"
    r"|[A-Za-z][\w-]*\[[\d,-]+\]"  # worker[1-8]
    r"|(?<![\w.:])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)"  # an IPv4 address
    r"|(?<![\w:])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}(?!\w)"  # an IPv6 address
    r"|\w(?:[\w-]*\w)?"
)
SEVERAL = re.compile(rf"({NODE}|{ADDRESS})(?:[\s,]+\1)+")


@dataclass(frozen=True)
class Words:
    """Replaces what belongs to one cluster in the texts of its nodes."""

    plan: ClusterPlan

    @cached_property
    def _networks(self) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        found = self.plan.spec.networks.values()
        every = (family for network in found for family in network.families)
        return tuple(ipaddress.ip_network(str(family.prefix)) for family in every)

    def forms(self, text: str) -> tuple[str, str]:
        """Return a text without names and addresses of nodes, and also without the cluster's name.

        The name of a cluster can be a word that means something else in the other cluster's text.
        """
        # Clusters may have different numbers of nodes: equal lines count once.
        lines = dict.fromkeys(self._replaced(line) for line in text.split("\n"))
        nodes = "\n".join(lines)
        named = re.sub(rf"(?<![\w-]){re.escape(self.plan.spec.name)}(?![\w-])", NAME, nodes)
        return nodes, named

    def _replaced(self, line: str) -> str:
        return SEVERAL.sub(r"\1", WORD.sub(self._word, line))

    def _word(self, found: re.Match[str]) -> str:
        word = found[0]
        if word in self.plan.nodes:
            return NODE
        if word.endswith("]"):
            try:
                names = expand(word)
            except ValueError:
                return word
            return NODE if names and all(name in self.plan.nodes for name in names) else word
        try:
            address = ipaddress.ip_address(word)
        except ValueError:
            return word
        return ADDRESS if any(address in network for network in self._networks) else word


Form = tuple[str, tuple[tuple[str, str], ...]]
"""The name of an object and its fields, without what belongs to its cluster."""


@dataclass
class Clusters:
    """The clusters of a group of nodes."""

    views: Mapping[str, View]
    _words: dict[str, Words] = field(default_factory=dict)

    @cached_property
    def of(self) -> dict[str, str]:
        """Node -> the label of its cluster."""
        return {name: view.context.label for name, view in self.views.items()}

    def compared(self, differences: Iterable[Difference]) -> Iterator[Difference]:
        """Yield the differences; objects of which each cluster has its own, cluster by cluster."""
        if len(set(self.of.values())) < 2:
            yield from differences
            return
        for same in alike(differences, lambda one: one.domain).values():
            usual = [(one, self._usual(one)) for one in same]
            renamed = self._renamed(usual)
            for one, sides in usual:
                if one.domain != RUNNING and (self._is_own(one, sides) or one.name in renamed):
                    yield from self._apart(one)
                else:
                    yield one

    def _usual(self, difference: Difference) -> dict[str, Side]:
        """Return for each cluster the side on which most of its nodes are."""
        counts = {
            number: Counter(self.of[node] for node in side.nodes)
            for number, side in enumerate(difference.sides)
        }
        return {
            label: difference.sides[max(counts, key=lambda number: counts[number][label])]
            for label in {label for count in counts.values() for label in count}
        }

    def _is_own(self, difference: Difference, usual: Mapping[str, Side]) -> bool:
        """Return whether the clusters have the same object, each with its own names."""
        fields = [side.fields for side in usual.values()]
        if len(usual) < 2 or any(one is None for one in fields):
            return False
        if len({id(side) for side in usual.values()}) == 1:
            return False
        forms = [self._forms(difference.name, label, side) for label, side in usual.items()]
        if any(len(set(same)) == 1 for same in zip(*forms, strict=True)):
            return True
        # A rule compares these contents with the plan, and the plans were compared.
        rest = [{k: v for k, v in (one or {}).items() if k != CONTENT} for one in fields]
        return all(one == rest[0] for one in rest) and self._is_managed(difference)

    def _is_managed(self, difference: Difference) -> bool:
        views = alike(self.views.values(), lambda view: view.context.label).values()
        return difference.domain == "file" and all(
            difference.name in same[0].context.files_of(same[0].plan) for same in views
        )

    def _renamed(self, usual: Iterable[tuple[Difference, Mapping[str, Side]]]) -> set[str]:
        """Return the objects that each cluster has under its own name, such as routes.

        Each cluster must have equally many that are equal but for the names.
        """
        found: dict[Form, dict[str, list[str]]] = {}
        labels = set(self.of.values())
        for difference, sides in usual:
            having = [label for label, side in sides.items() if side.fields is not None]
            if len(sides) == len(labels) and len(having) == 1:
                for form in set(self._forms(difference.name, having[0], sides[having[0]])):
                    found.setdefault(form, {}).setdefault(having[0], []).append(difference.name)
        return {
            name
            for names in found.values()
            if len(names) == len(labels) and len({len(same) for same in names.values()}) == 1
            for same in names.values()
            for name in same
        }

    def _forms(self, name: str, label: str, side: Side) -> tuple[Form, Form]:
        if label not in self._words:
            plans = (
                view.context.plan for view in self.views.values() if view.context.label == label
            )
            self._words[label] = Words(next(plans))
        words = self._words[label]
        fields = {key: words.forms(value) for key, value in sorted((side.fields or {}).items())}
        first, second = words.forms(name)
        return (
            (first, tuple((key, both[0]) for key, both in fields.items())),
            (second, tuple((key, both[1]) for key, both in fields.items())),
        )

    def _apart(self, difference: Difference) -> Iterator[Difference]:
        """Yield the difference within each cluster that has one."""
        for label in dict.fromkeys(self.of.values()):
            sides = tuple(
                Side(nodes, side.fields)
                for side in difference.sides
                if (nodes := self._of_cluster(side.nodes, label))
            )
            if len(sides) > 1:
                ordered = sorted(sides, key=lambda side: (-len(side.nodes), side.nodes))
                place = Place(
                    difference.place.domain,
                    difference.place.name,
                    tuple(
                        nodes
                        for side in difference.place.sides
                        if (nodes := self._of_cluster(side, label))
                    ),
                )
                yield replace(difference, sides=tuple(ordered), place=place)

    def _of_cluster(self, nodes: Iterable[str], label: str) -> tuple[str, ...]:
        return tuple(node for node in nodes if self.of[node] == label)
