"""Removes the labs that tests have created, and no others. Prints nothing if there are none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

NAME = re.compile(r'"(test-[a-z0-9-]+|machines-test)"')


def names() -> list[str]:
    """Return the names of labs in the sources of the tests."""
    sources = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("*.py"))
    return sorted({name for text in sources for name in NAME.findall(text)})


def main() -> int:
    """Return 0 when all are gone."""
    status = 0
    for name in names():
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
