"""Makes the changes of rounds on the nodes of a lab, checks, and undoes them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.lab.changes import Change
from tests.lab.changes.judge import Finding, Key, Outcome, judged, key, left, shown
from tests.lab.changes.rounds import Round, rounds
from tests.lab.labs import ROOT, Lab

INVENTORY = "tests/lab/changes_inventory.py"
SETTLES_S = 3
"""Seconds after which a finding that is left is read again: daemons that were restarted start."""
CHANGE_S = 60
"""Seconds that one change may take."""
MOST_ALONE = 40
"""At most so many changes are tried again alone. If more fail, the lab or the check is at fault."""
MARK = "change-made"


@dataclass
class Trial:
    """The changes that are tried on one lab, which nobody else may change meanwhile."""

    lab: Lab
    records: Path
    """Folder of the history, which is this trial's own: the first check is the healthy past."""
    nodes: tuple[str, ...] = ()
    usual: set[Key] = field(default_factory=set)
    """Findings that were there before."""
    checks: int = 0

    def __post_init__(self) -> None:
        """Find the workers of the lab, and what is found on them before any change."""
        status = json.loads(self.lab.lab("status", "--json").stdout)
        self.nodes = tuple(one["name"] for one in status["nodes"] if one["role"] == "worker")
        self.usual = {key(one) for one in self.new()}

    def new(self) -> list[Finding]:
        """Check the lab as a user does; return the findings that were not there before."""
        self.checks += 1
        lockstep = str(ROOT / ".venv/bin/lockstep")
        done = self.lab.command(
            *("env", f"CHANGES_RECORDS={self.records}"),
            *(lockstep, "check", INVENTORY, "--json", "-"),
            timeout_s=300,
            check=False,
        )
        if not done.stdout.startswith("{"):
            raise AssertionError(f"lockstep check: {done.returncode}\n{done.stderr}")
        findings: list[Finding] = json.loads(done.stdout)["findings"]
        return [one for one in findings if key(one) not in self.usual]

    def outcomes(self, changes: Sequence[Change], together: int = 1) -> Iterator[Outcome]:
        """Yield the outcome of each change; one that was not found is tried again alone.

        Args:
            changes: the changes.
            together: how many are made on each node at once.
        """
        again: list[Change] = []
        apart = [change for change in changes if change.apart]
        joint = [change for change in changes if not change.apart]
        for outcome in self._of_rounds(rounds(joint, self.nodes, together)):
            if outcome.is_good or len(again) == MOST_ALONE:
                yield outcome
            else:
                again.append(outcome.change)
        for outcome in self._of_rounds(_alone([*apart, *again], self.nodes)):
            yield replace(outcome, alone=True)

    def _of_rounds(self, planned: Iterable[Round]) -> Iterator[Outcome]:
        """Make each round, which undoes the one before; the last check follows the last undo."""
        before: Round = {}
        earlier: list[Finding] = []
        waiting: list[Outcome] = []
        for made in (*planned, {}):
            failed = self.step(before, made)
            found = self.new()
            if remaining := left(earlier, found, made):
                time.sleep(SETTLES_S)
                found = self.new()
                remaining = left(earlier, found, made)
            for outcome in waiting:
                stays = [one for one in remaining if one["node"] == outcome.node]
                if stays and outcome.is_good:
                    text = f"{outcome.text} | left: {shown(stays)}"
                    yield replace(outcome, word="stays", text=text)
                else:
                    yield outcome
            self.usual |= {key(one) for one in remaining}  # only the change before is named for it
            found = [one for one in found if key(one) not in self.usual]
            waiting = [
                Outcome(change, node, "failed", failed[change])
                if change in failed
                else judged(change, node, made, found)
                for node, some in made.items()
                for change in some
            ]
            before, earlier = made, found

    def step(self, undone: Round, made: Round) -> dict[Change, str]:
        """Undo changes and make others, on all nodes at once; return those that failed."""
        scripts: dict[str, list[str]] = {}
        for node, changes in undone.items():
            # Two "scontrol reconfigure" within a second make systemd lose slurmd.
            undos = dict.fromkeys(one.undo for one in reversed(changes))
            scripts.setdefault(node, []).extend(map(_limited, undos))
        for node, changes in made.items():
            scripts.setdefault(node, []).extend(
                f"{_limited(one.script)}; status=$?; echo; echo {MARK} {number} $status"
                for number, one in enumerate(changes)
            )
        with ThreadPoolExecutor() as threads:
            running = {
                node: threads.submit(
                    self.lab.lab, "run", node, "--", "sh", "-c", "\n".join(lines), check=False
                )
                for node, lines in scripts.items()
            }
            said = {node: done.result() for node, done in running.items()}
        return {
            change: (said[node].stderr or said[node].stdout).strip()[-200:]
            for node, changes in made.items()
            for number, change in enumerate(changes)
            if not re.search(rf"^{MARK} {number} 0$", said[node].stdout, re.MULTILINE)
        }


def _limited(script: str) -> str:
    return f"timeout {CHANGE_S} sh -c {shlex.quote(script)} </dev/null"


def _alone(changes: Iterable[Change], nodes: Sequence[str]) -> Iterator[Round]:
    """Yield a round for each change, with a round without any after it."""
    for number, change in enumerate(changes):
        yield {change.node or nodes[number % len(nodes)]: (change,)}
        yield {}
