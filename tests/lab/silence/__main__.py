"""Let labs live, one after the other, and see whether a check finds anything.

    LOCKSTEP_LAB=NAME python -m tests.lab.silence --labs 20 --seed 1 [--first 0]

For each lab: boots a head and two workers, deploys them, lets things happen that leave them equal,
checks, removes the lab, and prints one line. Findings and failed events follow the line whole. The
next lab follows in any case. A lab of this name is removed before.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter

from tests.lab.labs import Lab
from tests.lab.silence.deployments import WORKERS
from tests.lab.silence.life import drawn
from tests.lab.silence.trial import lived


def main() -> int:
    """Try the labs and print what became of each; exit status 1 if one was not silent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first lab, from 0 on")
    given = parser.parse_args()
    lab = Lab(os.environ.get("LOCKSTEP_LAB", "test-silence"))
    counted: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(given.first, given.first + given.labs):
        try:
            with lab.booted(len(WORKERS)):
                outcome = lived(lab, drawn(given.seed, number))
        except KeyboardInterrupt:
            print(f"ended before lab {given.seed}.{number} had a result; it is removed")
            return 130
        for line in outcome.lines():
            print(line, flush=True)
        counted["silent"] += outcome.silent
        counted["findings"] += len(outcome.findings)
        counted["events"] += len(outcome.life.events) - len(outcome.failed)
    print(
        f"{given.labs} labs, {counted['silent']} silent, {counted['findings']} findings, "
        f"{counted['events']} events, {time.monotonic() - began:.0f} s"
    )
    return int(counted["silent"] < given.labs)


if __name__ == "__main__":
    raise SystemExit(main())
