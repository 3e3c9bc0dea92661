"""A folder into which the real dnf installs, as on a node of the RHEL family."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lockstep.facts.packages import PackageState
from lockstep.files import managed
from lockstep.node.readers import packages as reader
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.plan import NodePlan
from lockstep.roles.operations.packages import change

NOTHING = PackageState({}, interrupted=False)
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"


@dataclass(frozen=True)
class Root:
    """A folder into which dnf installs, with the configuration that a node would have."""

    folder: Path

    def configure(self, plan: NodePlan, repository: Path, key: Path) -> None:
        """Write the files of the role ``packages``; the repository is a folder of this machine."""
        self.write(plan)
        for name, old, new in (
            (
                "yum.repos.d/lockstep.repo",
                "https://mirror.example.net/el9/",
                f"file://{repository}",
            ),
            ("pki/rpm-gpg/RPM-GPG-KEY-lockstep", KEY.strip(), key.read_text().strip()),
        ):
            path = self.folder / "etc" / name
            path.write_text(path.read_text().replace(old, new))

    def write(self, plan: NodePlan) -> None:
        """Write the files of the role ``packages``, with the folder's own path of the keys."""
        for file in managed(plan, None, "packages"):
            path = self.folder / file.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = file.content.decode()
            path.write_text(text.replace("file:///etc/pki/", f"file://{self.folder}/etc/pki/"))
        plugins = self.folder / "etc/dnf/plugins"
        (plugins / "versionlock.conf").write_text(
            f"[main]\nenabled = 1\nlocklist = {plugins}/versionlock.list\n"
        )

    @classmethod
    def made(cls, folder: Path) -> Root:
        """Make a folder in which dnf's plugin is installed: the RPM of the tests has no files."""
        plugin = folder / "usr/lib/python3.9/site-packages/dnf-plugins/versionlock.py"
        plugin.parent.mkdir(parents=True)
        (folder / "var/log").mkdir(parents=True)
        plugin.touch()
        return cls(folder)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a deploy; dnf and rpm work in the folder."""
        programs = self.folder.parent / f"{self.folder.name}-bin"
        programs.mkdir(exist_ok=True)
        options = {
            "dnf": f"--installroot={self.folder} --releasever=9 --forcearch=x86_64 "
            f"--setopt=reposdir={self.folder}/etc/yum.repos.d "
            f"--setopt=pluginconfpath={self.folder}/etc/dnf/plugins "
            f"--setopt=cachedir={self.folder}/var/cache/dnf --setopt=logdir={self.folder}/var/log",
            "rpm": f"--root={self.folder}",
        }
        for name in ("dnf", "rpm"):
            double = programs / name
            double.write_text(f'#!/bin/sh\nexec {shutil.which(name)} {options[name]} "$@"\n')
        for double in programs.iterdir():
            double.chmod(double.stat().st_mode | stat.S_IXUSR)
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, env=environment
        )

    def install(self, plan: NodePlan, state: PackageState = NOTHING) -> str:
        """Run the commands with which a deploy installs a node's packages; return the errors."""
        names, versions = plan.software.packages, plan.software.versions
        for command in change(state, names, versions, plan.software.held, family="rhel"):
            done = self.run(command)
            if done.returncode != 0:
                return done.stdout + done.stderr
        return ""

    def readings(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """What the probe reads of the folder."""
        folder = self.folder

        class Below(Commands):
            @override
            def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
                assert argv[0] == "rpm"
                return super().outcome("rpm", f"--root={folder}", *argv[1:])

        # Debian's RPM has its database elsewhere.
        (folder / "var/lib/rpm").mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(tree, "ROOT", str(folder))
        return dict(reader.read_packages({}, Below()))
