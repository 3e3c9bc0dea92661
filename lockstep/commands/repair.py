"""``lockstep repair INVENTORY``: checks, runs the deploys that the findings name, checks again.

Nothing here changes a node: it starts pyinfra as a person would, with the command that it prints.
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
from lockstep.commands._asked import WrongUse, answered, chosen_rules, limited, write
from lockstep.commands._judged import judged
from lockstep.forms.repairs import outcome, planned
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.repairs import REBOOT, Deploy, Why
from lockstep.report import ExitStatus, Report

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

Done = list[tuple[Deploy, int]]
"""What was run, with pyinfra's exit status."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``repair`` to the command line."""
    parser = subparsers.add_parser(
        "repair",
        help="check, run the deploys that the findings name on their nodes alone, check again",
        description="Exit status, by the last check: 0 consistent, 1 something is left (or a "
        "deploy failed), 2 only readings are missing, 3 wrong use.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="these nodes only: names, worker[01-04], or a role; peers are read as well; "
        "repeatable",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="what this rule finds only, or these: 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check, and print what would be run; run nothing"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not have pyinfra ask before each deploy"
    )
    parser.add_argument("--json", metavar="FILE", help="write what was done and what is left, too")
    parser.set_defaults(run=run)


@answered
def run(arguments: argparse.Namespace) -> int:
    """Repair; return the exit status."""
    plan = load(arguments.inventory)
    rules, limit = chosen_rules(plan, arguments.rule), limited(plan, arguments.limit)
    _, before = judged(plan, rules, limit)
    wanted = repairs.deploys(before, plan)
    for deploy in wanted:
        if not Path(deploy.file).is_file():
            raise WrongUse(f"{deploy.file}: no such file here\n  expected  the folder it lies in")
        words = _command(arguments, plan, deploy)
        print(planned(shlex.join(words), deploy.nodes, deploy.roles, before))
    done: Done = []
    after = before
    if wanted and not arguments.dry_run:
        for deploy in wanted:
            done.append((deploy, _run(_command(arguments, plan, deploy))))
        _, after = judged(plan, rules, limit)
    return _told(arguments, plan, before, after, done)


def _told(
    arguments: argparse.Namespace, plan: ClusterPlan, before: Report, after: Report, done: Done
) -> int:
    """Say what became of the findings; return the exit status."""
    left = repairs.left(after, (deploy for deploy, _ in done))
    gone = repairs.repaired(before, after)
    failed = [shlex.join(_command(arguments, plan, deploy)) for deploy, status in done if status]
    waiting = dict.fromkeys(finding.node for finding in left.get(Why.REBOOT, ()))
    reboot = _words(arguments, plan, REBOOT, list(waiting))
    status = ExitStatus.DIFFERS if failed else after.exit_status
    named = {why.value: findings for why, findings in left.items()}
    said = outcome(after, gone, named, shlex.join(reboot) if waiting else "", failed)
    print(f"{said}{'' if done else ' Nothing was changed.'} Exit {int(status)}.")
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
    """Return pyinfra's command line for a deploy on these nodes alone."""
    yes = ["-y"] if arguments.yes else []
    return [_pyinfra(), *yes, arguments.inventory, file, *repairs.limits(nodes, plan)]


def _pyinfra() -> str:
    """Return the pyinfra of this installation as a person would type it."""
    beside = Path(sys.executable).with_name("pyinfra")
    return os.path.relpath(beside) if beside.is_file() else "pyinfra"


def _run(command: Sequence[str]) -> int:
    print(f"$ {shlex.join(command)}", flush=True)
    return subprocess.run(command, check=False).returncode
