"""Make each change on one node of a running lab, and see what the check says of it.

    LOCKSTEP_LAB=NAME python -m tests.lab.changes [--domain file] [--part 0/4] [--sample]

For each change: the check names the node and the object, says which value is right, and names
nothing any more after the undo. Each worker of the lab gets another change at the same time; one
that was not found is tried again alone. The lab must be deployed, and nobody else may change it
meanwhile.

With ``--repair --together 12``, the repair that each finding names is run on the node before the
undo: commands as root, with "yes" as the answer to each question, and deploys by ``lockstep repair
-y``, all at the end. The next check may not find the change any more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.lab.changes import Change, catalogue
from tests.lab.changes.repairing import GOOD as REPAIRED
from tests.lab.changes.repairing import Repairing, install_tools
from tests.lab.changes.trial import Trial
from tests.lab.labs import Lab


def repaired(changes: Sequence[Change], together: int) -> int:
    """Try the repairs of changes and print the outcomes; exit status 1 if one did not repair."""
    counted: Counter[tuple[str, str]] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as records:
        lab = Lab(os.environ.get("LOCKSTEP_LAB", "lab"))
        install_tools(lab)
        trial = Trial(lab, Path(records))
        repairing = Repairing(trial)
        for attempt in repairing.attempts(changes, together):
            counted[attempt.how, attempt.word] += 1
            print(f"{time.monotonic() - began:5.0f} s {str(attempt)[:700]}", flush=True)
            while repairing.messages:
                print(f"        {repairing.messages.pop(0)[:900]}", flush=True)
    print(
        f"{len(changes)} changes, {trial.checks} checks, {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{n} {how} {word}" for (how, word), n in counted.most_common())
    )
    return int(any(word not in REPAIRED for _, word in counted))


def main() -> int:
    """Try the chosen changes and print the outcomes; exit status 1 if one was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", action="append", default=[])
    parser.add_argument("--part", default="0/1", help="K/N: every N-th change, from the K-th on")
    parser.add_argument("--name", default="", help="only changes with this text in their name")
    parser.add_argument("--sample", action="store_true", help="the first change of each domain")
    parser.add_argument("--together", type=int, default=1, help="changes on each node at once")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="run the repair that each finding names, and see whether it is found no more",
    )
    given = parser.parse_args()
    first, step = map(int, given.part.split("/"))
    changes = catalogue.sample() if given.sample else catalogue.chosen(given.domain, first, step)
    changes = [change for change in changes if given.name in change.name]
    if given.repair:
        return repaired(changes, given.together)
    counted: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as records:
        trial = Trial(Lab(os.environ.get("LOCKSTEP_LAB", "lab")), Path(records))
        for rule, node, device in sorted(trial.usual):
            print(f"before: {rule} {node} {device}", flush=True)
        for outcome in trial.outcomes(changes, given.together):
            counted[outcome.word] += 1
            sources[outcome.by] += outcome.is_good
            alone = " (alone)" if outcome.alone else ""
            print(f"{time.monotonic() - began:5.0f} s {str(outcome)[:500]}{alone}", flush=True)
    print(
        f"{len(changes)} changes on {len(trial.nodes)} workers, {trial.checks} checks, "
        f"{time.monotonic() - began:.0f} s: "
        + ", ".join(f"{number} {word}" for word, number in counted.most_common())
    )
    print("by " + ", ".join(f"{name}: {number}" for name, number in sources.most_common()))
    return int(any(word not in ("found", "cause", "rule") for word in counted))


if __name__ == "__main__":
    raise SystemExit(main())
