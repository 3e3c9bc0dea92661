"""Text output of a report: one block per finding, or a summary that fits on a screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lockstep.forms import Run
from lockstep.forms.groups import Group, Place, Value, grouped, merged
from lockstep.report import Accepted, Finding, Report, Severity, Status, alike, count, fold

BLOCKS = 8
"""Maximum number of blocks on a screen."""
GROUPS_WITH_VALUES = 6
"""Maximum number of groups shown with values and a repair; the others get one line each."""
WHY = "Reasons and limits of a rule: lockstep explain RULE"
VALUES = 2


def text(report: Report, run: Run) -> str:
    """Return the report, summarized if it does not fit on a screen; notices are only counted."""
    shown, notices = folded(report, run)
    counted = ((len(notices), "notice"), (len(report.accepted), "accepted difference"))
    named = ", ".join(count(number, noun) for number, noun in counted if number)
    notes = [f"{named}: {run.alone(*run.rules)} --all"] if named else []
    lines = blocks(shown)
    if len({finding.rule for finding in shown}) > BLOCKS or len(merged(shown)) > BLOCKS:
        lines = _screen(shown, (*notes, *report.remarks), run)
    lines += notes
    return _ended(lines, report)


def whole(report: Report) -> str:
    """Return the report with one block per finding and accepted difference; similar ones merged."""
    lines = blocks(report)
    alike_ones = alike(report.accepted, lambda one: replace(one, node=""))
    for one, same in alike_ones.items():
        lines += _accepted(replace(one, node=fold(other.node for other in same)))
    return _ended(lines, report)


def blocks(findings: Iterable[Finding]) -> list[str]:
    """Return the lines of one block per finding; similar ones are merged."""
    return [line for finding in merged(findings) for line in _block(finding)]


def _accepted(one: Accepted) -> list[str]:
    field = f" field {one.field}" if one.field else ""
    return [
        f"ACCEPTED {one.rule}  {Place(one.node, one.device)}{field}",
        f"  found     {one.found or 'any value'}",
        f"  until     {one.until}, by {one.by}: {one.reason}",
        "",
    ]


def folded(report: Report, run: Run) -> tuple[list[Finding], list[Finding]]:
    """Return the findings to show and those to count: notices that the user did not ask for."""
    apart = alike(report, lambda one: _is_folded(one) and not run.severity)
    return apart.get(False, []), apart.get(True, [])


def _is_folded(finding: Finding) -> bool:
    is_unread = finding.status == Status.UNKNOWN.value  # unknown is never ok
    return finding.severity == Severity.NOTICE.value and not is_unread


def _ended(lines: list[str], report: Report) -> str:
    why = [WHY] if report.findings else []
    return "\n".join([*lines, *why, *report.remarks, report.summary()]) + "\n"


def paragraph(groups: Iterable[Group]) -> str:
    """Return the text for all findings of one rule: values, places and repairs."""
    lines: list[str] = []
    for group in groups:
        for value in group.values:
            lines.append(f"{group.first.label}  {value}")
            lines += [f"  on        {place}" for place in value.places]
            lines += [f"  detail    {detail}" for detail in value.details]
            lines += [f"  since     {value.first.history}"] if value.first.history else []
            lines += [f"  changed   {value.first.changed}"] if value.first.changed else []
        lines.append(f"  reading   {group.first.field}")
        lines += [f"  repair    {repair.text}" for repair in group.repairs]
    return "\n".join(lines)


def _block(finding: Finding) -> list[str]:
    return [
        f"{finding.label:7} {finding.rule}  {Place(finding.node, finding.device)}",
        f"  reading   {finding.field}",
        f"  found     {finding.found}",
        f"  expected  {finding.expected}   (from: {finding.reference})",
        *([f"  detail    {finding.detail}"] if finding.detail else []),
        *([f"  since     {finding.history}"] if finding.history else []),
        *([f"  changed   {finding.changed}"] if finding.changed else []),
        f"  repair    {finding.repair}",
        "",
    ]


def _screen(shown: list[Finding], remarks: tuple[str, ...], run: Run) -> list[str]:
    groups = grouped(shown)
    lines = [line for group in groups[:GROUPS_WITH_VALUES] for line in _folded(group, run.columns)]
    others = groups[GROUPS_WITH_VALUES:]
    room = max(
        0, run.lines - len(lines) - len(("", "more", "one rule", "", WHY, *remarks, "summary"))
    )
    width = max((len(group.first.rule) for group in others[:room]), default=0)
    lines += [_one_line(group, width, run.columns) for group in others[:room]]
    left = len(others) - room
    more = f"... and {count(left, 'more rule')}: " if left > 0 else "All details: "
    return [
        *lines,
        *([""] if others else []),
        f"{more}{run.alone(*run.rules)} --all",
        f"Only one rule: {run.alone(groups[0].first.rule)}",
        "",
    ]


def _folded(group: Group, columns: int) -> list[str]:
    places = f", {group.devices} places" if group.devices > len(group.nodes) else ""
    since = f", since {group.first.since}" if group.first.since else ""
    size = count(len(group.nodes), "node")
    lines = [f"{group.first.label:7} {group.first.rule}  {size}{places}{since}"]
    for value in group.values[:VALUES]:
        found = f"  found     {_found(value, columns // 2)}  "
        lines.append(found + _places(value, columns - len(found)))
    others = group.values[VALUES:]
    if others:
        nodes = frozenset[str]().union(*(value.nodes for value in others))
        lines.append(
            f"  ...       {count(len(others), 'more value')} on {count(len(nodes), 'node')}"
        )
    return [*lines, _repair(group, columns), ""]


def _repair(group: Group, columns: int) -> str:
    repair, *others = group.repairs
    whole = f"  repair    {repair.text}"
    remarks = [f"and {count(len(others), 'other repair')}"] if others else []
    if len(whole) > columns:  # a shortened command cannot be pasted: show it for one node
        whole = f"  repair    {repair.first}"
        if repair.nodes > 1:
            remarks.insert(0, f"same for {count(repair.nodes - 1, 'more node')}")
    return whole + (f"   ({', '.join(remarks)})" if remarks else "")


def _found(value: Value, columns: int) -> str:
    """Return the found value and, if it is short enough, the expected value."""
    if len(whole := str(value)) <= columns:
        return whole
    expected = f", expected {value.first.expected}"
    if len(expected) > columns // 2:
        expected = ""
    found, width = " ".join(value.first.found.split()), columns - len(expected)
    shortened = found if len(found) <= width else f"{found[: width - 3].rstrip()}..."
    return shortened + expected


def _one_line(group: Group, width: int, columns: int) -> str:
    start = (
        f"{group.first.label:7} {group.first.rule:{width}}  {count(len(group.nodes), 'node'):>10}  "
    )
    others = len(group.values) - 1
    more = f" and {count(others, 'more value')}" if others else ""
    return start + _places(group.values[0], columns - len(start) - len(more)) + more


def _places(value: Value, width: int) -> str:
    """Return the places of a value or, if they do not fit, the first few and the node count."""
    whole = ", ".join(map(str, value.places))
    if len(whole) <= width:
        return whole
    first = value.places[0]
    ending = f"{first.device} ({count(len(value.nodes), 'node')})".lstrip()
    room = width - len(ending) - len(",...] ")
    if len(first.nodes) <= room:
        return f"{first.nodes},... {ending}"
    if room <= 0:
        return ending
    kept, comma, _ = first.nodes[:room].rpartition(",")
    bracket = "]" if kept.count("[") > kept.count("]") else ""
    return f"{kept},...{bracket} {ending}" if comma else ending
