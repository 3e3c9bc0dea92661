"""The driver's kernel modules: built by a simulated DKMS, and loaded by a simulated modprobe."""

from __future__ import annotations

import stat
import subprocess
import time
from pathlib import Path

import pytest

from lockstep.facts.driver import LoadedDriver, boot_kernels, loaded_driver
from lockstep.facts.driver import has_module as kernel_has_module
from lockstep.plan.driver import Driver, Kernel
from lockstep.question import Unreadable
from lockstep.roles.operations.nvidia_driver import built, initramfs, loaded
from tests.roles.local import asked, has_loaded, on_node, read_below, run

DRIVER = Driver("550.163.01", {"tar": "*"}, "open")
MODULES = ("nvidia", "nvidia-uvm")
NOT_FOUND = "echo 'modinfo: ERROR: Module not found.' >&2; exit 1"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that runs kernel 6.12.94 and has no module for it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    (tmp_path / "calls").touch()
    for name in ("dkms", "modprobe"):
        program(tmp_path, name, f'echo "{name} $*" >> {tmp_path}/calls')
    program(tmp_path, "modinfo", NOT_FOUND)
    on_node(monkeypatch, "os.uname().release", "'6.12.94'")
    read_below(monkeypatch, tmp_path / "root")
    return tmp_path


def program(node: Path, name: str, script: str) -> None:
    path = node / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def has_module(version: str) -> str:
    return (
        f'case "$*" in *nvidia-current-open*) ;; *) {NOT_FOUND};; esac; '
        f'case "$*" in *license*) echo Dual MIT/GPL;; *) echo {version};; esac'
    )


def calls(node: Path) -> list[str]:
    return (node / "calls").read_text().splitlines()


def test_kernels_are_read_with_what_they_would_load(node: Path) -> None:
    assert asked(boot_kernels()).running == Kernel("6.12.94", headers=False)
    program(node, "modinfo", has_module("550.163.01"))
    assert asked(boot_kernels()).running == Kernel("6.12.94", False, "550.163.01 (open)")
    program(
        node,
        "modinfo",
        f'case "$2 $4 $5" in "6.12.94 version nvidia") echo 550.163.01;; '
        f'"6.12.94 license nvidia") echo NVIDIA;; *) {NOT_FOUND};; esac',
    )
    (node / "root/lib/modules/6.12.94/build").mkdir(parents=True)
    (node / "root/boot/grub").mkdir(parents=True)
    (node / "root/boot/grub/grub.cfg").write_text(
        "menuentry {\nlinux /boot/vmlinuz-6.12.117 ro\n}\n"
    )
    assert asked(boot_kernels()).every == (
        Kernel("6.12.94", True, "550.163.01 (proprietary)"),
        Kernel("6.12.117", headers=False),
    )


def test_a_module_that_is_missing_is_built_once(node: Path) -> None:
    program(node, "dkms", f'echo "dkms $*" >> {node}/calls; cp {node}/built {node}/bin/modinfo')
    program(node, "modinfo", has_module("550.163.01"))
    (node / "bin/modinfo").rename(node / "built")
    program(node, "modinfo", NOT_FOUND)
    assert run(built, driver=DRIVER).succeeded
    assert calls(node) == ["dkms autoinstall -k 6.12.94"]
    assert run(built, driver=DRIVER).commands == 0


def test_a_build_that_gives_no_module_fails(node: Path) -> None:
    assert not run(built, driver=DRIVER).succeeded
    assert calls(node) == ["dkms autoinstall -k 6.12.94"]


def test_another_version_of_the_packages_is_left_to_the_rollout(node: Path) -> None:
    other = Driver("550.163.01", {"tar": "0.1"}, "open")
    assert run(built, driver=other).commands == 0


def test_modules_are_loaded_in_their_order_where_none_is(node: Path) -> None:
    has_loaded(node / "root", "")
    assert run(loaded, driver=DRIVER, modules=MODULES).succeeded
    assert calls(node) == ["modprobe nvidia", "modprobe nvidia-uvm"]


def test_what_is_loaded_is_not_loaded_again(node: Path) -> None:
    has_loaded(node / "root", "550.163.01", "nvidia")
    assert run(loaded, driver=DRIVER, modules=MODULES).succeeded
    assert calls(node) == ["modprobe nvidia-uvm"], "what an earlier run did not reach"
    has_loaded(node / "root", "550.163.01", "nvidia", "nvidia_uvm")
    assert run(loaded, driver=DRIVER, modules=MODULES).commands == 0


def test_another_driver_that_is_loaded_is_left_to_the_next_boot(node: Path) -> None:
    has_loaded(node / "root", "535.1", "nvidia")
    assert run(loaded, driver=DRIVER, modules=MODULES).commands == 0


def test_nouveau_on_the_gpus_needs_a_boot(node: Path) -> None:
    has_loaded(node / "root", "", "nouveau")
    done = run(loaded, driver=DRIVER, modules=MODULES)
    assert (done.succeeded, done.commands) == (True, 0), "the rest of the deploy must go on"
    assert calls(node) == []


def test_the_loaded_driver_is_read_with_its_parameters(node: Path) -> None:
    assert asked(loaded_driver()) == LoadedDriver()
    has_loaded(node / "root", "", "nouveau", "loop")
    assert asked(loaded_driver()) == LoadedDriver(frozenset({"nouveau"}))
    has_loaded(node / "root", "550.163.01", "nvidia", "nvidia_uvm")
    parameters = {"EnableMSI": "1", "RegistryDwords": "a=1"}
    modules = frozenset({"nvidia", "nvidia_uvm"})
    assert asked(loaded_driver()) == LoadedDriver(modules, "550.163.01", "open", parameters)


def test_a_driver_whose_version_cannot_be_read_is_not_absent(node: Path) -> None:
    has_loaded(node / "root", "unknown", "nvidia")
    with pytest.raises(Unreadable, match=r"driver\.module could not be read: .* no driver version"):
        asked(loaded_driver())
    assert not run(loaded, driver=DRIVER, modules=MODULES).succeeded
    assert calls(node) == []


REBUILD = "update-initramfs -u -k all"


def test_an_initramfs_older_than_the_options_of_modules_is_made_anew(node: Path) -> None:
    program(node, "update-initramfs", f'echo "update-initramfs $*" >> {node}/calls')
    options = "/etc/modprobe.d/lockstep.conf"
    (node / "root/etc/modprobe.d").mkdir(parents=True)
    (node / "root/boot").mkdir()
    made = node / "root/boot/initrd.img-6.12.94"
    assert run(initramfs, files=(options,), rebuild=REBUILD).commands == 0, "there is neither"
    made.touch()
    assert run(initramfs, files=(options,), rebuild=REBUILD).commands == 0, "no file is younger"
    time.sleep(0.02)
    (node / "root" / options[1:]).touch()
    assert run(initramfs, files=(options,), rebuild=REBUILD).succeeded
    assert calls(node) == [REBUILD]
    time.sleep(0.02)
    made.touch()
    assert run(initramfs, files=(options,), rebuild=REBUILD).commands == 0
    made.unlink()
    assert run(initramfs, files=(options,), rebuild=REBUILD).commands == 0, "this kernel has none"


def test_names_are_no_commands(tmp_path: Path) -> None:
    """The command contains values of the description, and root runs it."""
    command = kernel_has_module(f"6.12; touch {tmp_path}/b;", f"1; touch {tmp_path}/b")
    subprocess.run(["sh", "-c", command], check=False, capture_output=True)
    assert not (tmp_path / "b").exists()
