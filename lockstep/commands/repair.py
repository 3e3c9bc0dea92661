"""``lockstep repair INVENTORY``: checks, runs the deploys that fix findings, and checks again.

It changes nodes only through pyinfra, with the commands that it prints.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lockstep import lock, repairs
from lockstep.checks.slurm_states import COMPARE_MARK
from lockstep.commands import (
    INVENTORY,
    Argument,
    Command,
    WrongUse,
    chosen_rules,
    limit,
    limited,
    require_writable,
    show,
)
from lockstep.forms.groups import Place, merged
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.reading import check_now
from lockstep.repairs import REBOOT, Deploy, Why
from lockstep.report import ExitStatus, Finding, Report, count, fold

SLURM_STATE = "slurm.state"
LINES = 20
"""Maximum number of findings shown per reason; ``lockstep check --all`` shows all of them."""


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    rules, nodes = chosen_rules(plan, arguments.rule), limited(plan, arguments.limit)
    require_writable(arguments, "json")
    _, before = check_now(plan, rules, nodes)
    commands = {
        deploy: _command(arguments, plan, deploy.file, deploy.nodes, deploy.roles)
        for deploy in repairs.deploys(before, plan)
    }
    for deploy, command in commands.items():
        found = dict.fromkeys(f.rule for f in before if f.roles and f.node in deploy.nodes)
        print(
            f"{shlex.join(command)}\n"
            f"  nodes     {fold(deploy.nodes)}\n"
            f"  roles     {', '.join(deploy.roles)}\n"
            f"  findings  {', '.join(found)}\n"
        )
    done: dict[Deploy, int] = {}
    after = before
    if commands and not arguments.dry_run:
        with locked(plan, shlex.join(["lockstep", *sys.argv[1:]])) as environment:
            for deploy, command in commands.items():
                print(f"$ {shlex.join(command)}", flush=True)
                with _ctrl_c_is_for_pyinfra():
                    done[deploy] = subprocess.run(command, check=False, env=environment).returncode
                if done[deploy] == 128 + signal.SIGINT:
                    raise KeyboardInterrupt
            _, after = check_now(plan, rules, nodes)
    left = repairs.left(after, done)
    gone = repairs.repaired(before, after)
    failed = [shlex.join(commands[deploy]) for deploy, status in done.items() if status]
    waiting = dict.fromkeys(finding.node for finding in left.get(Why.REBOOT, ()))
    reboot = shlex.join(_command(arguments, plan, REBOOT, list(waiting))) if waiting else ""
    status = ExitStatus.DIFFERS if failed else after.exit_status
    outcome = "\n".join(_outcome(failed, gone, left, reboot, after.notes))
    print(f"{outcome}{'' if done else ' Nothing was changed.'} Exit {int(status)}.")
    show(arguments.json, lambda: _document(status, commands, done, gone, left))
    return status


@contextmanager
def _ctrl_c_is_for_pyinfra() -> Iterator[None]:
    """Wait until pyinfra has ended by itself: subprocess would kill it after Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def locked(plan: ClusterPlan, command: str) -> Iterator[dict[str, str]]:
    """Lock the cluster on this machine for several deploys; yield the environment for them.

    Each of them takes the lock on the head for itself.

    Raises:
        WrongUse: another run has the lock.
    """
    holder = lock.this_run(command)
    try:
        taken = lock.Lock(lock.file(plan.spec.name, plan.spec.records_dir), holder)
    except lock.Locked as error:
        raise WrongUse(str(error)) from error
    try:
        yield {**os.environ, lock.PARENT: holder.run}
    finally:
        taken.release()


def _outcome(
    failed: Sequence[str],
    gone: Sequence[Finding],
    left: Mapping[Why, Sequence[Finding]],
    reboot: str,
    notes: Sequence[str],
) -> Iterator[str]:
    """Yield the failed commands, drained nodes, repaired and remaining findings, and totals."""
    yield from (f"failed: {command}" for command in failed)
    yield from (
        f"stays drained: {one.node}: {one.found}"
        for findings in left.values()
        for one in findings
        if one.rule == SLURM_STATE and COMPARE_MARK in one.found
    )
    if gone:
        yield from ("repaired", *_rows(gone, with_repair=False))
    for why, findings in left.items():
        waits = reboot if why is Why.REBOOT else ""
        yield f"left, {why.value}" + (f": {waits}" if waits else "")
        yield from _rows(findings, with_repair=not waits)
    yield from notes
    still = count(sum(map(len, left.values())), "finding")
    parts = ", ".join(f"{len(findings)} {why.value}" for why, findings in left.items())
    yield f"{len(gone)} repaired, " + (f"{still} left: {parts}." if left else "all consistent.")


def _rows(findings: Sequence[Finding], *, with_repair: bool) -> list[str]:
    rows = [
        f"  {one.rule:24} {Place(one.node, one.device)}"
        + (f"\n    repair  {one.repair}" if with_repair else "")
        for one in merged(Report(findings=list(findings)))
    ]
    more = [f"  ... and {len(rows) - LINES} more"] if len(rows) > LINES else []
    return [*rows[:LINES], *more]


def _document(
    status: ExitStatus,
    commands: Mapping[Deploy, Sequence[str]],
    done: Mapping[Deploy, int],
    repaired: Sequence[Finding],
    left: Mapping[Why, Sequence[Finding]],
) -> dict[str, object]:
    return {
        "format": 1,
        "exit_status": int(status),
        "deploys": [
            {
                "command": commands[deploy],
                "nodes": deploy.nodes,
                "roles": deploy.roles,
                "status": ended,
            }
            for deploy, ended in done.items()
        ],
        "repaired": [asdict(finding) for finding in repaired],
        "left": [
            {"why": why.value, **asdict(one)} for why, findings in left.items() for one in findings
        ],
    }


def _command(
    arguments: argparse.Namespace,
    plan: ClusterPlan,
    file: str,
    nodes: Sequence[str],
    roles: Sequence[str] = (),
) -> list[str]:
    """Return the pyinfra command for a deploy to these nodes, limited to ``roles`` if given."""
    installed = Path(sys.executable).with_name("pyinfra")
    pyinfra = os.path.relpath(installed) if installed.is_file() else "pyinfra"
    yes = ["-y"] if arguments.yes else []
    data = ["--data", f"roles={','.join(roles)}"] if roles else []
    path = shlex.split(plan.runnable(file))  # quoted, as it is for a shell
    return [pyinfra, *yes, arguments.inventory, *path, *repairs.limits(nodes, plan), *data]


COMMAND = Command(
    run=_run,
    interrupted="what the deploys above have done stays; lockstep check shows what is left",
    help="check, deploy the affected roles on the affected nodes only, and check again",
    description="Exit status of the last check: 0 all consistent, 1 findings are left or a "
    "deploy failed, 2 some values could not be read, 3 usage error.",
    arguments=(
        INVENTORY,
        limit("repair", peers=True),
        Argument(
            "--rule",
            metavar="ID",
            action="append",
            help="repair only this rule, or the rules that match a pattern (gpu.*); repeatable",
        ),
        Argument(
            "--dry-run",
            action="store_true",
            help="check and print the commands, but do not run them",
        ),
        Argument(
            "-y",
            "--yes",
            action="store_true",
            help="run each deploy without asking for confirmation",
        ),
        Argument("--json", metavar="FILE", help="write the deploys and results as JSON"),
    ),
)
