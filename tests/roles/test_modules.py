"""The driver's kernel modules: built by DKMS and loaded; both are doubles that write down calls."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from lockstep.facts.gpus import LoadedDriver
from lockstep.facts.kernels import Kernels, LoadedModules
from lockstep.facts.kernels import has_module as kernel_has_module
from lockstep.plan.driver import Driver, Kernel
from lockstep.roles.operations.modules import built, loaded
from tests.roles.local import fact, run

DRIVER = Driver("550.163.01", {"tar": "*"}, "open", (), "linux-headers-{release}")
MODULES = ("nvidia", "nvidia-uvm")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that runs kernel 6.12.94 and has no module for it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    (tmp_path / "calls").touch()
    for name in ("dkms", "modprobe"):
        program(tmp_path, name, f'echo "{name} $*" >> {tmp_path}/calls')
    program(tmp_path, "uname", "echo 6.12.94")
    program(tmp_path, "modinfo", "exit 1")
    return tmp_path


def program(node: Path, name: str, script: str) -> None:
    path = node / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def has_module(version: str) -> str:
    return (
        'case "$*" in *nvidia-current-open*) ;; *) exit 1;; esac; '
        f'case "$*" in *license*) echo Dual MIT/GPL;; *) echo {version};; esac'
    )


def calls(node: Path) -> list[str]:
    return (node / "calls").read_text().splitlines()


def test_kernels_are_read_with_what_they_would_load(node: Path) -> None:
    assert fact(Kernels).running == Kernel("6.12.94", headers=False)
    program(node, "modinfo", has_module("550.163.01"))
    assert fact(Kernels).running == Kernel("6.12.94", False, "550.163.01 (open)")
    said = ["menu linux /boot/vmlinuz-6.12.117 ro", "kernel 6.12.94 yes 550.163.01 NVIDIA"]
    assert Kernels().process([*said, "kernel 6.12.117 no "]).every == (
        Kernel("6.12.94", True, "550.163.01 (proprietary)"),
        Kernel("6.12.117", headers=False),
    )


def test_a_module_that_is_missing_is_built_once(node: Path) -> None:
    program(node, "dkms", f'echo "dkms $*" >> {node}/calls; cp {node}/built {node}/bin/modinfo')
    program(node, "modinfo", has_module("550.163.01"))
    (node / "bin/modinfo").rename(node / "built")
    program(node, "modinfo", "exit 1")
    assert run(built, driver=DRIVER).succeeded
    assert calls(node) == ["dkms autoinstall -k 6.12.94"]
    assert run(built, driver=DRIVER).commands == 0


def test_a_build_that_gives_no_module_fails(node: Path) -> None:
    assert not run(built, driver=DRIVER).succeeded
    assert calls(node) == ["dkms autoinstall -k 6.12.94"]


def test_another_version_of_the_packages_is_left_to_the_rollout(node: Path) -> None:
    other = Driver("550.163.01", {"tar": "0.1"}, "open")
    assert run(built, driver=other).commands == 0


def say(monkeypatch: pytest.MonkeyPatch, version: str, *present: str) -> None:
    monkeypatch.setattr(LoadedDriver, "command", lambda self: f"echo {version or 'none'}")
    names = " ".join(present)
    monkeypatch.setattr(
        LoadedModules,
        "command",
        lambda self, names_=names, names=(): f"printf '%s\\n' {names_} end",
    )


def test_modules_are_loaded_in_their_order_where_none_is(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, "")
    assert run(loaded, driver=DRIVER, modules=MODULES).succeeded
    assert calls(node) == ["modprobe nvidia", "modprobe nvidia-uvm"]


def test_what_is_loaded_is_not_loaded_again(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "550.163.01", "nvidia")
    assert run(loaded, driver=DRIVER, modules=MODULES).succeeded
    assert calls(node) == ["modprobe nvidia-uvm"], "what an earlier run did not reach"
    say(monkeypatch, "550.163.01", *MODULES)
    assert run(loaded, driver=DRIVER, modules=MODULES).commands == 0


def test_another_driver_that_is_loaded_is_left_to_the_next_boot(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, "535.1", "nvidia")
    assert run(loaded, driver=DRIVER, modules=MODULES).commands == 0


def test_nouveau_on_the_boards_needs_a_boot(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "", "nouveau")
    done = run(loaded, driver=DRIVER, modules=MODULES)
    assert (done.succeeded, done.commands) == (True, 0), "the rest of the deploy must go on"
    assert calls(node) == []


def test_names_are_no_commands(tmp_path: Path) -> None:
    """What a description says stands in these commands, as root."""
    for command in (
        LoadedModules().command(names=(f"a$(touch {tmp_path}/b)", f"; touch {tmp_path}/b; ")),
        kernel_has_module(f"6.12; touch {tmp_path}/b;", f"1; touch {tmp_path}/b"),
    ):
        subprocess.run(["sh", "-c", command], check=False, capture_output=True)
    assert not (tmp_path / "b").exists()
