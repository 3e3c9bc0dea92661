"""Removes the labs that tests have created, and no others. Prints nothing if there are none."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    *("test-cluster", "test-absent", "test-killed", "test-debian-12", "test-dkms", "machines-test"),
    *("test-kernel", "test-kernel-machines", "test-changes", "test-description"),
    "test-adopt",
)


def main() -> int:
    """Return 0 when all are gone."""
    status = 0
    for name in NAMES:
        done = subprocess.run(
            [sys.executable, "-m", "lab", "--name", name, "down"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(f"ERROR lab {name}: {done.stdout}{done.stderr}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
