"""``lockstep repair INVENTORY``: checks, runs the deploys that fix the findings, checks again.

It changes nodes only through pyinfra, with the commands that it prints.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep import repairs
from lockstep.commands._arguments import (
    WrongUse,
    chosen_rules,
    limited,
    reports_errors,
    require_writable,
    write,
)
from lockstep.commands._check_now import check_now
from lockstep.forms.repairs import outcome, planned
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.repairs import REBOOT, Deploy, Why
from lockstep.report import ExitStatus, Report

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

Done = list[tuple[Deploy, int]]
"""Deploys that were run, each with pyinfra's exit status."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``repair`` to the command line."""
    parser = subparsers.add_parser(
        "repair",
        help="check, deploy the affected roles on the affected nodes only, and check again",
        description="Exit status of the last check: 0 all consistent, 1 findings are left or a "
        "deploy failed, 2 some values could not be read, 3 usage error.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="repair these nodes only: names, worker[01-04], or a role; their peers are still "
        "read; repeatable",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="repair findings of this rule only, or of a pattern such as 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check and print the commands, but do not run them"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="run each deploy without asking for confirmation"
    )
    parser.add_argument("--json", metavar="FILE", help="write the deploys and results as JSON")
    parser.set_defaults(run=run)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Run the repair; return the exit status."""
    plan = load(arguments.inventory)
    rules, limit = chosen_rules(plan, arguments.rule), limited(plan, arguments.limit)
    require_writable(arguments, "json")
    _, before = check_now(plan, rules, limit)
    wanted = repairs.deploys(before, plan)
    for deploy in wanted:
        if not Path(deploy.file).is_file():
            raise WrongUse(
                f"{deploy.file}: no such file in the current folder\n"
                "  next      run this command from the Lockstep checkout"
            )
        words = _command(arguments, plan, deploy)
        print(planned(shlex.join(words), deploy.nodes, deploy.roles, before))
    done: Done = []
    after = before
    if wanted and not arguments.dry_run:
        for deploy in wanted:
            done.append((deploy, _run(_command(arguments, plan, deploy))))
        _, after = check_now(plan, rules, limit)
    return _report_outcome(arguments, plan, before, after, done)


def _report_outcome(
    arguments: argparse.Namespace, plan: ClusterPlan, before: Report, after: Report, done: Done
) -> int:
    """Print which findings were repaired and which are left; return the exit status."""
    left = repairs.left(after, (deploy for deploy, _ in done))
    gone = repairs.repaired(before, after)
    failed = [shlex.join(_command(arguments, plan, deploy)) for deploy, status in done if status]
    waiting = dict.fromkeys(finding.node for finding in left.get(Why.REBOOT, ()))
    reboot = _words(arguments, plan, REBOOT, list(waiting))
    status = ExitStatus.DIFFERS if failed else after.exit_status
    named = {why.value: findings for why, findings in left.items()}
    summary = outcome(after, gone, named, shlex.join(reboot) if waiting else "", failed)
    print(f"{summary}{'' if done else ' Nothing was changed.'} Exit {int(status)}.")
    if arguments.json:
        document = {
            "format": 1,
            "exit_status": int(status),
            "deploys": [
                {
                    "command": _command(arguments, plan, deploy),
                    "nodes": deploy.nodes,
                    "roles": deploy.roles,
                    "status": ended,
                }
                for deploy, ended in done
            ],
            "repaired": [asdict(finding) for finding in gone],
            "left": [
                {"why": why, **asdict(one)} for why, findings in named.items() for one in findings
            ],
        }
        write(arguments.json, json.dumps(document, indent=2) + "\n")
    return status


def _command(arguments: argparse.Namespace, plan: ClusterPlan, deploy: Deploy) -> list[str]:
    words = _words(arguments, plan, deploy.file, deploy.nodes)
    return [*words, "--data", f"roles={','.join(deploy.roles)}"]


def _words(
    arguments: argparse.Namespace, plan: ClusterPlan, file: str, nodes: Sequence[str]
) -> list[str]:
    """Return pyinfra's command line for a deploy limited to these nodes."""
    yes = ["-y"] if arguments.yes else []
    return [_pyinfra(), *yes, arguments.inventory, file, *repairs.limits(nodes, plan)]


def _pyinfra() -> str:
    """Return the path of this installation's pyinfra, for printed commands."""
    installed = Path(sys.executable).with_name("pyinfra")
    return os.path.relpath(installed) if installed.is_file() else "pyinfra"


def _run(command: Sequence[str]) -> int:
    print(f"$ {shlex.join(command)}", flush=True)
    return subprocess.run(command, check=False).returncode
