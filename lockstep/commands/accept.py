"""``lockstep accept INVENTORY RULE OBJECT``: records that a difference is wanted."""

from __future__ import annotations

import argparse
import getpass
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from lockstep.checks.accepted import Acceptance, written
from lockstep.checks.accepting import parts_of
from lockstep.checks.engine import REACHABLE, check
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.checks.site import rules_of
from lockstep.commands import (
    INVENTORY,
    NAMED,
    RULES,
    Argument,
    Command,
    WrongUse,
    limit,
    limited,
    replace_file,
)
from lockstep.forms.groups import devices, merged, nodes_of
from lockstep.inventory import load
from lockstep.nearest import did_you_mean
from lockstep.plan import ClusterPlan
from lockstep.reading import accepted, accepted_file, check_now, context, saved_of
from lockstep.report import ExitStatus, Finding, Part, Report, Status, count, fold

PUBLIC = 0o644


@dataclass(frozen=True)
class Wanted:
    """What the user accepts."""

    rule: str
    object: str
    field: str
    nodes: frozenset[str] | None
    by: str
    until: date
    reason: str

    def row(self, place: tuple[str, str], nodes: Sequence[str], found: str,
            values: Sequence[str]) -> Acceptance:  # fmt: skip
        """Return a row of the file."""
        rule, thing = place
        return Acceptance(
            rule=rule,
            object=thing,
            field=self.field,
            nodes=fold(nodes),
            by=self.by,
            until=self.until,
            reason=self.reason,
            found=found,
            values=tuple(dict.fromkeys(values)),
        )


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    wanted = _wanted(plan, arguments)
    file, present = accepted_file(plan), accepted(plan)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise WrongUse(f"{file}: permission denied\n  expected  a file that you can write")
    rows, notes = (
        _any_value(wanted)
        if arguments.any_value
        else _rows(wanted, _report(plan, arguments), present.rows)
    )
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    text = written(before, rows, str(file))
    try:
        replace_file(str(file), text, file.stat().st_mode & 0o777 if before else PUBLIC)
    except OSError as error:
        raise WrongUse(f"{file}: {error.strerror}") from error
    for row in rows:
        print(f"accepted until {row.until}: {row.place}: {row.found or 'any value'}")
    for note in notes:
        print(note)
    print(f"{count(len(rows), 'row')} written to {file}. Next: review and commit it.")
    return ExitStatus.CONSISTENT


def _wanted(plan: ClusterPlan, arguments: argparse.Namespace) -> Wanted:
    """Return what the user accepts.

    Raises:
        WrongUse: an argument is malformed.
    """
    rules = [rule.id for rule in rules_of(plan.spec) if rule.id != REACHABLE]
    today = datetime.fromtimestamp(time.time(), UTC).date()
    try:
        until = date.fromisoformat(arguments.until)
    except ValueError as error:
        raise WrongUse(
            f"--until {arguments.until!r}\n  expected  a date such as {today.year + 1}-01-31"
        ) from error
    by = arguments.by or os.environ.get("SUDO_USER") or getpass.getuser()
    for wrong, problem in (
        (
            arguments.rule == REACHABLE,
            f"{REACHABLE}: a node that cannot be read is always reported\n  expected  another rule",
        ),
        (
            arguments.rule not in rules,
            f"unknown rule {arguments.rule!r}\n"
            f"  expected  {did_you_mean(arguments.rule, rules, RULES)}",
        ),
        (until < today, f"--until {until} is over\n  expected  {today} or later"),
        (
            not arguments.reason.strip(),
            "--reason is empty\n  expected  why the difference is wanted",
        ),
        (not by.strip(), "--by is empty\n  expected  a name"),
        (
            arguments.any_value and not arguments.limit,
            "--any-value needs --limit\n  expected  the nodes that may differ",
        ),
    ):
        if wrong:
            raise WrongUse(problem)
    return Wanted(
        rule=arguments.rule,
        object=arguments.object,
        field=arguments.field or "",
        nodes=limited(plan, arguments.limit),
        by=by.strip(),
        until=until,
        reason=arguments.reason.strip(),
    )


def _report(plan: ClusterPlan, arguments: argparse.Namespace) -> Report:
    rules = rules_of(plan.spec)
    if arguments.records:
        return check(rules, context(plan, saved_of(plan, arguments.records)))
    _, report = check_now(plan, rules, None, fingerprint=arguments.rule.startswith(FAMILY))
    return report


def _any_value(wanted: Wanted) -> tuple[list[Acceptance], list[str]]:
    return [wanted.row((wanted.rule, wanted.object), sorted(wanted.nodes or ()), "", ())], []


def _rows(
    wanted: Wanted, report: Report, present: Sequence[Acceptance]
) -> tuple[list[Acceptance], list[str]]:
    """Return the new rows, and notes about findings that a deploy takes back.

    Raises:
        WrongUse: there is no such finding, or it cannot be accepted.
    """
    chosen: dict[tuple[str, str], list[tuple[Part, str]]] = {}
    roles: dict[str, set[str]] = {}
    for finding in report:
        parts = _parts(finding, wanted)
        if not parts:
            continue
        if finding.status == Status.UNDECIDED.value and wanted.nodes is None:
            raise WrongUse(
                f"{finding.node} differ, and nobody knows which is right\n"
                "  expected  --limit with the nodes that may differ from the others"
            )
        for part in parts:
            about = finding.found if part.object == wanted.object else f"with {wanted.object}"
            chosen.setdefault((part.rule, part.object), []).append((part, about))
        for role in finding.roles:
            roles.setdefault(role, set()).add(finding.node)
    if not chosen:
        kept = {(one.rule, one.device) for one in report.accepted}
        again = _again(wanted, present)
        if again and (wanted.rule, wanted.object) in kept:
            return again, []
        raise _no_finding(wanted, report)
    rows = [_row(wanted, place, found) for place, found in chosen.items()]
    notes = [
        f"note: a deploy of role {role} on {fold(nodes)} takes this back; change the description"
        for role, nodes in sorted(roles.items())
    ]
    return rows, notes


def _row(wanted: Wanted, place: tuple[str, str], found: Sequence[tuple[Part, str]]) -> Acceptance:
    nodes = [node for part, _ in found for node in part.nodes]
    values = [value for part, _ in found for value in part.values[wanted.field]]
    return wanted.row(place, sorted(set(nodes)), found[0][1], values)


def _parts(finding: Finding, wanted: Wanted) -> list[Part]:
    """Return what of a finding is accepted, on the chosen nodes.

    Whoever accepts the object of a finding accepts its consequences; a field, or a consequence, is
    accepted alone. A difference whose object is not known could be any other one the next day.
    """
    if finding.rule.startswith(FAMILY) and not finding.device:
        return []
    parts = [
        Part(part.rule, device, nodes, part.values)
        for part in parts_of(finding, nodes_of(finding))
        for device in (devices(finding) if not finding.parts else [part.object])
        if (nodes := tuple(n for n in part.nodes if wanted.nodes is None or n in wanted.nodes))
    ]
    # A report folds gpu0 and gpu1.
    names = {wanted.object, *devices(replace(finding, device=wanted.object))}
    own = [part for part in parts if part.rule == wanted.rule and part.object in names]
    if wanted.field:
        return [part for part in own if wanted.field in part.values]
    is_whole = own and (finding.rule, finding.device) == (wanted.rule, wanted.object)
    return parts if is_whole and finding.parts else own


def _again(wanted: Wanted, present: Sequence[Acceptance]) -> list[Acceptance]:
    """Return rows that are there already, with another last day, author and reason."""
    return [
        wanted.row((row.rule, row.object), sorted(row.names), row.found, row.values)
        for row in present
        if (row.rule, row.object, row.field) == (wanted.rule, wanted.object, wanted.field)
        and (wanted.nodes is None or row.names == wanted.nodes)
    ]


def _no_finding(wanted: Wanted, report: Report) -> WrongUse:
    nodes = "" if wanted.nodes is None else f" on {fold(wanted.nodes)}"
    field = f" field {wanted.field}" if wanted.field else ""
    same = [one for one in merged(report) if one.rule == wanted.rule] or merged(report)
    names = [f"{one.rule} {one.device} on {one.node}".replace("  ", " ") for one in same]
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    said = ", ".join([*names[:NAMED], *more]) or "a difference; now there is none"
    return WrongUse(
        f"{wanted.rule} {wanted.object}{field}{nodes}: no such finding that can be accepted\n"
        f"  expected  {said}\n"
        "  next      --any-value --limit NODES accepts whatever comes"
    )


COMMAND = Command(
    run=_run,
    help="record that a difference is wanted: by whom, until when and why",
    description="Writes a row to the file INVENTORY.accepted.toml (without .py), or to the one "
    "that the description names. lockstep check, repair and the others do not report the "
    "difference until that day, as long as the value stays the same. Run it again to change the "
    "day. "
    "Exit status: 0 rows were written, 2 no node could be read, 3 usage error, or there is no such "
    "finding.",
    arguments=(
        INVENTORY,
        Argument("rule", metavar="RULE", help="rule of the finding, such as fingerprint.file"),
        Argument(
            "object",
            metavar="OBJECT",
            help="object or device, as the finding names it; '' for none",
        ),
        limit("accept it on", peers=True),
        Argument("--field", metavar="FIELD", help="accept only this field, such as content"),
        Argument(
            "--until", metavar="DATE", required=True, help="last day, in UTC, such as 2027-01-31"
        ),
        Argument("--reason", metavar="TEXT", required=True, help="why the difference is wanted"),
        Argument("--by", metavar="NAME", help="who accepts it; default: the name of the login"),
        Argument(
            "--any-value",
            action="store_true",
            help="accept any value, also one that comes later; without reading the nodes",
        ),
        Argument("--records", metavar="FILE", help="use saved records without contacting any node"),
    ),
)
