"""Takes the differences that a site accepts out of a report, and notes which these were."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from lockstep.checks.accepted import WHOLE, Acceptance, hash_of
from lockstep.checks.context import Context, View
from lockstep.checks.raw_findings import RawFinding
from lockstep.report import Accepted, Finding, Part, Status, count

NAMED = 5
"""At most so many rows without a difference are named."""


def parts_of(finding: Finding, nodes: Iterable[str]) -> tuple[Part, ...]:
    """Return what a finding consists of: of most rules, one item with the text that was found."""
    if finding.parts or finding.status == Status.UNKNOWN.value:
        return finding.parts
    values = {WHOLE: (hash_of(finding.found),)}
    return (Part(finding.rule, finding.device, tuple(sorted(nodes)), values),)


@dataclass
class Accepting:
    """The rows of all clusters of a check."""

    contexts: Collection[Context]
    always: str
    """The rule whose findings nobody can accept: unreachable nodes."""
    differences: list[Accepted] = field(default_factory=list)
    _used: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        """Return whether no cluster has any row."""
        return not any(context.accepted.rows for context in self.contexts)

    def note(self, row: Acceptance, view: View) -> None:
        """Note that a row accepts a difference on a node."""
        self._used.add(id(row))
        about = (row.rule, view.name, row.object, row.field, row.found)
        one = Accepted(*about, row.by, row.until.isoformat(), row.reason)
        if one not in self.differences:
            self.differences.append(one)

    def left(self, found: Iterable[RawFinding]) -> Iterator[RawFinding]:
        """Yield the findings of rules that are not accepted on all their nodes."""
        for raw in found:
            rows = [] if self.is_empty else self._rows(raw)
            if rows and all(row is not None for _, row in rows):
                for view, row in rows:
                    if row is not None:
                        self.note(row, view)
            else:
                yield raw

    def _rows(self, raw: RawFinding) -> list[tuple[View, Acceptance | None]]:
        """Return, for each node of a finding, the row that accepts it."""
        if raw.rule.id == self.always:
            return []
        (part, *_) = parts_of(raw.finding, raw.nodes) or (None,)
        values = () if part is None else part.values[WHOLE]
        return [
            (view, next((row for row in rows if values and row.accepts(values)), None))
            for view in self._views(raw.nodes)
            for rows in [context_rows(view, raw.rule.id, raw.finding.device, whole=True)]
        ]

    def _views(self, nodes: Collection[str]) -> Iterator[View]:
        for context in self.contexts:
            yield from (view for name, view in context.views.items() if name in nodes)

    def noted(self, raw: RawFinding) -> RawFinding:
        """Return a finding with a note if it was accepted, but not as it is now."""
        notes = dict.fromkeys(
            f"accepted until {row.until} by {row.by} ({row.reason}): "
            + ("expired" if row.is_over(view.context.accepted.today) else "it has changed since")
            for part in parts_of(raw.finding, raw.nodes)
            for view in ([] if self.is_empty else self._views(part.nodes))
            for row in view.context.accepted.of(part.rule, part.object, view.plan.name)
        )
        if not notes:
            return raw
        detail = "; ".join(filter(None, (raw.finding.detail, *notes)))
        return replace(raw, finding=replace(raw.finding, detail=detail))

    def unused(
        self, found: Iterable[RawFinding], rules: Collection[str], nodes: Collection[str]
    ) -> Iterator[str]:
        """Yield a note about the rows for which there is no difference any more.

        Args:
            found: the findings that are left.
            rules: ids of the rules that were checked.
            nodes: names of the nodes on which they were checked.
        """
        if self.is_empty:
            return
        every = list(found)
        present = {
            (part.rule, part.object, node)
            for raw in every
            for part in parts_of(raw.finding, raw.nodes)
            for node in part.nodes
        }
        unread = Status.UNKNOWN.value
        unknown = {
            (r.rule.id, name) for r in every if r.finding.status == unread for name in r.nodes
        }
        for context in self.contexts:
            gone = [
                row.place
                for row in context.accepted.rows
                if row.rule in rules and id(row) not in self._used
                for names in [{context.labelled(name) for name in row.names}]
                if names <= set(nodes)
                and not any((row.rule, row.object, name) in present for name in names)
                and not any((row.rule, name) in unknown for name in names)
            ]
            if gone:
                more = [f"and {len(gone) - NAMED} more"] if len(gone) > NAMED else []
                yield (
                    f"{context.accepted.file}: {count(len(gone), 'row')} without a difference, "
                    f"to be removed: {', '.join([*gone[:NAMED], *more])}"
                )


def context_rows(view: View, rule: str, thing: str, *, whole: bool) -> list[Acceptance]:
    """Return the valid rows about an object of a node: about the whole of it, or about a field."""
    rows = view.context.accepted.valid(rule, thing, view.plan.name)
    return [row for row in rows if (row.field == WHOLE) is whole]
