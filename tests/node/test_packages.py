"""The packages of a node as the reader sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typing_extensions import override

from lockstep.node.readers import packages, tree
from lockstep.node.readers.commands import Commands

INSTALLED = """\
glibc i686 2.34-100.el9
glibc aarch64 2.34-100.el9
munge aarch64 0.5.16-1.el9
slurm aarch64 25.05.3-1.el9
"""


class Rpm(Commands):
    @override
    def run(self, *argv: str, text: str = "", user: str = "") -> str:
        assert argv[:2] == ("rpm", "-qa")
        return INSTALLED


@pytest.mark.parametrize(
    ("lock", "held"),
    [
        ("munge-0.5.16-1.el9", ["munge"]),
        ("munge-0:0.5.16-1.el9.*", ["munge"]),  # as `dnf versionlock add` writes it
        ("munge-0.5.16-1.el9.aarch64", ["munge"]),
        ("munge-0.5.16-1.el9.x86_64", []),
        ("munge-0.5.15-1.el9", []),
    ],
)
def test_a_lock_may_name_the_architecture_of_the_package(
    lock: str, held: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    plugins = tmp_path / "etc/dnf/plugins"
    plugins.mkdir(parents=True)
    (plugins / "versionlock.conf").write_text("[main]\nenabled = 1\n")
    (plugins / "versionlock.list").write_text(f"# a comment\n{lock}\n")
    program = tmp_path / packages.PLUGIN.lstrip("/").replace("python3*", "python3.9")
    program.parent.mkdir(parents=True)
    program.touch()
    assert packages.read_rpms(Rpm())["packages.held"] == held
