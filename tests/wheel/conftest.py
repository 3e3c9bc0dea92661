"""Lockstep's wheel, built from a copy of the checkout and installed into an environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel; its dependencies are those of the tests' environment."""

    folder: Path

    def run(
        self, cwd: Path, program: str, *words: str, status: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, and require its exit status."""
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            [self.folder / "bin" / program, *words],
            cwd=cwd,
            env={
                **inherited,
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "XDG_STATE_HOME": str(self.folder / "state"),
                "NO_COLOR": "1",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done


def _pip(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of what git has; a build in the checkout would leave files there."""
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "wheels"))
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not name.startswith("tests/golden/") and (path.is_symlink() or path.exists()):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, source / name, follow_symlinks=False)
    _pip("wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", target, source)
    (made,) = target.glob("lockstep-*.whl")
    return made


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel without a network."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    _pip("--python", python, "install", *OFFLINE, "--no-compile", wheel)
    (site,) = folder.glob("lib/python3.*/site-packages")
    # Lockstep itself is not among them: path files, as an editable install has one, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    for name in ("pyinfra", "pytest"):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {python} -m {name} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return Installed(folder)
