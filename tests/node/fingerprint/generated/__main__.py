"""Compares many generated clusters. Exit status: 0 if there is no finding, 1 otherwise."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.node.fingerprint.generated.clusters import cluster


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.node.fingerprint.generated")
    parser.add_argument("--clusters", type=int, default=200, help="number of clusters")
    parser.add_argument("--seed", default="1", help="another seed gives other clusters")
    given = parser.parse_args()
    kinds: Counter[str] = Counter()
    number = 0
    for at in range(given.clusters):
        seed = given.seed if given.clusters == 1 else f"{given.seed}.{at}"
        with cluster(seed) as made:
            about = made.kind
            kinds.update((about.layout, about.network, about.pods, about.family, about.root_by))
            for finding in made.findings():
                number += 1
                print(f"seed {seed}: {finding.rule} {finding.node} {finding.device}: "
                      f"{finding.found} / {finding.expected} {finding.detail}")  # fmt: skip
    drawn = ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
    print(f"{given.clusters} clusters with seed {given.seed} ({drawn}): {number} findings")
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
