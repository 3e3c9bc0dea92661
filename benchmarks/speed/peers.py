"""The other tools, installed in their own virtual environment, pinned with hashes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.paths import VENV

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER = VENV / "peers"


@dataclass(frozen=True)
class Peers:
    """Paths and versions of the other tools."""

    folder: Path

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.folder / "bin" / name)

    @property
    def mitogen_strategies(self) -> str:
        """Folder of mitogen's strategy plugins for Ansible."""
        found = next(self.folder.glob("lib/python3*/site-packages/ansible_mitogen"))
        return str(found / "plugins" / "strategy")

    @property
    def versions(self) -> dict[str, str]:
        """Package -> version of the measured tools."""
        done = subprocess.run(
            [self.program("pip"), "freeze"], capture_output=True, text=True, check=True
        )
        return dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)


def ensure(folder: Path = FOLDER) -> Peers | str:
    """Return the other tools, installing them if needed; or the reason for a failure."""
    stamp = folder / "requirements.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return Peers(folder)
    install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*install, "--require-hashes", "--requirement", str(REQUIREMENTS)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            return f"{command[0]} failed with exit status {done.returncode}: {last}"
    stamp.write_text(wanted, encoding="utf-8")
    return Peers(folder)
