"""Make each change on one node of a running lab, and see what the check says of it.

    python -m tests.lab.changes --node worker2 [--domain file] [--inventory inventories/lab.py]

For each change: the check names the node and the object, says which value is right, and is silent
again after the undo. The lab must be deployed, and nobody else may change it meanwhile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.lab import changes
from tests.lab.changes import Change

Finding = dict[str, Any]
USUAL_S = 60


@dataclass(frozen=True)
class Outcome:
    """What the check said of one change."""

    change: Change
    word: str
    """found, cause (another object of the same cause), rule, side, missed, blamed, stays, failed"""
    text: str


def every_change() -> list[Change]:
    """Return all changes, of all modules in this package."""
    modules = [
        importlib.import_module(f"{changes.__name__}.{module.name}")
        for module in pkgutil.iter_modules(changes.__path__)
        if not module.name.startswith("_")
    ]
    return [change for module in modules for change in module.CHANGES]


def on_node(node: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root on a node."""
    return subprocess.run(
        [sys.executable, "-m", "lab", "run", node, "--", "timeout", "60", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def findings(inventory: str) -> list[Finding]:
    """Return what a check finds."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "check", inventory, "--json", "-"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if not done.stdout.startswith("{"):
        raise SystemExit(f"the check failed: {done.stderr[-2000:]}")
    found: list[Finding] = json.loads(done.stdout)["findings"]
    return found


def judged(change: Change, node: str, new: list[Finding]) -> tuple[str, str]:
    """Return the word and the text for the new findings after a change."""
    where = [one for one in new if node in one["node"]]
    blamed = [one for one in new if node not in one["node"]]
    texts = "; ".join(
        f"{one['rule']} {one['node']} {one['device']}: {one['found']} (from: {one['reference']}, "
        f"changed {one['changed'] or 'unknown'})"
        for one in new
    )
    if blamed:
        return "blamed", texts
    named = [one for one in where if change.object in (one["device"], *one["device"].split(", "))]
    detail = [one for one in where if change.object in one["detail"]]
    if any(one["status"] == "undecided" for one in where):
        return "side", texts
    if named:
        return "found" if named[0]["rule"].startswith("fingerprint.") else "rule", texts
    if detail:
        return "cause", texts
    return ("rule", texts) if where else ("missed", "")


def tried(change: Change, node: str, inventory: str, usual: set[tuple[str, str, str]]) -> Outcome:
    """Make a change, check, undo it, and check again."""
    node = change.node or node

    def new() -> list[Finding]:
        found = findings(inventory)
        return [one for one in found if (one["rule"], one["node"], one["device"]) not in usual]

    done = on_node(node, change.script)
    if done.returncode:
        on_node(node, change.undo)
        return Outcome(change, "failed", (done.stderr or done.stdout).strip()[-200:])
    word, text = judged(change, node, new())
    on_node(node, change.undo)
    left = new()
    if left:
        time.sleep(3)
        left = new()
    if left:
        names = "; ".join(f"{one['rule']} {one['node']} {one['device']}" for one in left)
        return Outcome(change, "stays" if word != "missed" else word, f"{text} | left: {names}")
    return Outcome(change, word, text)


def main() -> int:
    """Try the chosen changes and print the outcomes; exit status 1 if one was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", default="worker2")
    parser.add_argument("--inventory", default="inventories/lab.py")
    parser.add_argument("--domain", action="append")
    parser.add_argument("--name", default="", help="only changes whose name begins so")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th change, from the K-th on")
    given = parser.parse_args()
    first, step = map(int, given.part.split("/"))
    chosen = [one for one in every_change() if not given.domain or one.domain in given.domain]
    chosen = [one for one in chosen if one.name.startswith(given.name)]
    usual = {(one["rule"], one["node"], one["device"]) for one in findings(given.inventory)}
    for rule, node, device in sorted(usual):
        print(f"before: {rule} {node} {device}", flush=True)
    counted: Counter[str] = Counter()
    for change in chosen[first::step]:
        began = time.monotonic()
        outcome = tried(change, given.node, given.inventory, usual)
        counted[outcome.word] += 1
        print(
            f"{outcome.word:7} {time.monotonic() - began:4.0f} s {change.domain:10} "
            f"{change.object} | {change.name} | {outcome.text[:300]}",
            flush=True,
        )
    print(", ".join(f"{number} {word}" for word, number in counted.most_common()))
    return int(any(word not in ("found", "cause", "rule") for word in counted))


if __name__ == "__main__":
    raise SystemExit(main())
