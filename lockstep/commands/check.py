"""``lockstep check INVENTORY``: reads every node once and names what is out of step."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from lockstep import secrets
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rule import Rule
from lockstep.facts.gather import GatherError, gather
from lockstep.files import managed
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import ProbeFormatError, dumps, loads
from lockstep.probe.record import Reading, Unreachable
from lockstep.report import ExitStatus, Report, Severity, fold
from lockstep.spec import Role
from lockstep.spec.names import expand

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

PRIVATE = 0o600
"""Mode of saved records: hashes and versions of every node are of use to an attacker."""


class WrongUse(Exception):
    """What was asked for does not exist; the text says what does."""


@dataclass
class Shown(Report):
    """The findings of one severity. What they are out of decides the counts and the status."""

    whole: Report = field(default_factory=Report)

    @property
    @override
    def exit_status(self) -> ExitStatus:
        """Return the status of all findings, shown or not."""
        return self.whole.exit_status

    @override
    def summary(self) -> str:
        """Return the counts of all findings, and how many of them are not shown."""
        hidden = len(self.whole.findings) - len(self.findings)
        left_out = f" {hidden} of them not shown (--severity)." if hidden else ""
        return self.whole.summary() + left_out


def add_parser(subparsers: Subparsers) -> None:
    """Add ``check`` to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="read every node and name what is out of step; changes nothing",
        description="Exit status: 0 consistent, 1 something differs, 2 only readings are missing, "
        "3 wrong use.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="report on these nodes only: names, worker[01-04], or a role; peers are read as well; "
        "repeatable",
    )
    parser.add_argument("--rule", metavar="ID", action="append", help="this rule only; repeatable")
    parser.add_argument(
        "--severity",
        choices=[s.value for s in Severity],
        help="show findings of this severity only; the exit status counts all",
    )
    parser.add_argument(
        "--containers",
        action="store_true",
        help="have each container engine start one container with all GPUs, and read what it sees",
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON; - for stdout")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--records", metavar="FILE", help="judge saved records; contact no node")
    parser.add_argument("--save-records", metavar="FILE", help="keep what was read")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check; return the exit status."""
    plan = load(arguments.inventory)
    try:
        rules = chosen_rules(arguments.rule)
        limit = None
        if arguments.limit is not None:
            limit = frozenset[str]().union(*(chosen_nodes(plan, t) for t in arguments.limit))
        reading = _reading(plan, arguments)
        if arguments.save_records:
            _write_private(arguments.save_records, dumps(reading))
        report = check(rules, context(plan, reading), limit)
        if arguments.severity:
            report = _only(report, arguments.severity)
        if arguments.junit:
            _write(arguments.junit, report.to_junit())
        if arguments.json and arguments.json != "-":
            _write(arguments.json, report.to_json())
    except (WrongUse, secrets.SecretsUnsafe) as error:
        print(f"ERROR {error}", file=sys.stderr)
        return ExitStatus.WRONG_USE
    except GatherError as error:
        print(f"ERROR no node was read: {error}", file=sys.stderr)
        return ExitStatus.UNREAD
    sys.stdout.write(report.to_json() if arguments.json == "-" else report.to_text())
    return report.exit_status


def context(plan: ClusterPlan, reading: Reading) -> Context:
    """Return all that the rules judge, with the secrets that this machine holds."""
    held = secrets.existing(plan.spec.name, plan.spec.secrets_dir)
    return Context(
        plan=plan,
        reading=reading,
        files=partial(managed, secrets=held),
        munge_key_sha256=None if held is None else held.munge_key_sha256,
    )


def chosen_rules(ids: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules with these ids; all without any.

    Raises:
        WrongUse: there is no such rule.
    """
    known = {rule.id: rule for rule in all_rules()}
    for name in ids or ():
        if name not in known:
            raise WrongUse(f"no rule {name!r}\n  expected  {_close(name, known)}")
    return tuple(known[name] for name in dict.fromkeys(ids)) if ids else tuple(known.values())


def chosen_nodes(plan: ClusterPlan, text: str) -> frozenset[str]:
    """Return the nodes of a range of names or of a role.

    Raises:
        WrongUse: one of them is not in the inventory.
    """
    if text in {role.value for role in Role}:
        chosen = [name for name, node in plan.nodes.items() if node.role.value == text]
        if chosen:
            return frozenset(chosen)
    try:
        names = expand(text)
    except ValueError as error:
        raise WrongUse(f"--limit {text!r}: {error}") from error
    missing = [name for name in names if name not in plan.nodes]
    if missing or not names:
        name = missing[0] if missing else text
        raise WrongUse(f"no node {name!r}\n  expected  {_close(name, plan.nodes)}")
    return frozenset(names)


def _close(name: str, known: dict[str, Rule] | dict[str, object] | object) -> str:
    names = list(known) if isinstance(known, dict) else []
    return ", ".join(get_close_matches(name, names, n=3) or _few(names))


def _few(names: list[str]) -> list[str]:
    return names if any("." in name for name in names) else [fold(names)]


def _reading(plan: ClusterPlan, arguments: argparse.Namespace) -> Reading:
    if arguments.records is None:
        print(f"reading {len(plan.nodes)} nodes ...", file=sys.stderr, flush=True)
        return gather(arguments.inventory, containers=arguments.containers)
    try:
        saved = loads(Path(arguments.records).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ProbeFormatError) as error:
        raise WrongUse(f"--records {arguments.records}: {error}") from error
    missing = Unreachable(f"not in {arguments.records}")
    return {name: saved.get(name, missing) for name in plan.nodes}


def _only(report: Report, severity: str) -> Shown:
    findings = [finding for finding in report.findings if finding.severity == severity]
    return Shown(report.nodes, report.rules, findings, report.notes, whole=report)


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error


def _write_private(path: str, text: str) -> None:
    """Write a file that only we can read, also where one of another mode was before."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # /dev/stdout has no mode of ours
        _write(path, text)
        return
    try:
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                os.fchmod(handle, PRIVATE)
                file.write(text)
            os.replace(beside, target)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
