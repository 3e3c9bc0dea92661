"""Kernel arguments, brought to recorded boot loaders; update-grub and grubby are doubles."""

import shlex
from pathlib import Path

import pytest

from lockstep.facts import boot
from lockstep.facts.boot import BootEntries, BootLoader, BootLoaderState, arguments, in_grub
from lockstep.roles.operations.boot_loader import OURS, entries, menu
from tests.plan.test_releases import ARGS
from tests.roles.local import fact, run

CAPTURES = Path(__file__).resolve().parent.parent / "captures"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the doubles write what they were asked for; grubby --info shows tmp_path/info."""
    log = tmp_path / "calls"
    log.touch()
    folder = tmp_path / "bin"
    folder.mkdir()
    doubles = {
        "update-grub": f'echo "update-grub" >> {log}',
        "grubby": f'case "$1" in --info=ALL) cat {tmp_path}/info;; '
        f'*) for word in "$@"; do echo "$word" >> {log}; done;; esac',
    }
    for name, script in doubles.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr(boot, "LATER", str(tmp_path / "no-cmdline"))
    return log


# -- Debian and Ubuntu: the drop-in and the menu


@pytest.fixture
def ubuntu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "MENU", str(CAPTURES / "ubuntu_24_04/after/boot/grub/grub.cfg"))


@pytest.mark.usefixtures("ubuntu")
def test_the_first_entry_of_ubuntus_menu_is_read() -> None:
    state: BootLoaderState = fact(BootLoader, files=("/no/such/file",))
    assert not state.stale
    assert state.args[0] == "root=UUID=48906949-0bb0-44c4-9dc2-2134ae62d9b8"
    assert state.args[1] == "ro"
    assert state.args[2:-2] == ARGS
    assert state.args[-2:] == ("console=tty1", "console=ttyS0")  # the cloud image's own stay


@pytest.mark.usefixtures("ubuntu")
def test_a_menu_with_the_arguments_is_left_alone(calls: Path) -> None:
    assert run(menu, files=("/no/such/file",), args=ARGS).commands == 0
    assert calls.read_text() == ""


def test_a_menu_without_the_arguments_is_made_again(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CAPTURES / "ubuntu_24_04/before/boot/grub/grub.cfg"
    monkeypatch.setattr(boot, "MENU", str(before))
    assert run(menu, files=("/no/such/file",), args=ARGS).succeeded
    assert calls.read_text() == "update-grub\n"


@pytest.mark.usefixtures("ubuntu")
def test_a_menu_older_than_the_drop_in_is_made_again(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "drop-in.cfg").touch()
    assert run(menu, files=(str(tmp_path / "drop-in.cfg"),), args=ARGS).succeeded
    assert calls.read_text() == "update-grub\n"


def test_without_kernel_arguments_nothing_is_asked(calls: Path) -> None:
    assert run(menu, files=(), args=()).commands == 0
    assert calls.read_text() == ""


# -- the RHEL family: grubby

BEFORE = (CAPTURES / "rocky_9/before/grubby-info.txt").read_text()
AFTER = (CAPTURES / "rocky_9/after/grubby-info.txt").read_text()
LATER = (CAPTURES / "rocky_9/after/etc/kernel/cmdline").read_text()


def told(calls: Path, info: str, args: tuple[str, ...], later: str | None = None) -> list[str]:
    """What grubby is told when its entries are those of ``info``."""
    (calls.parent / "info").write_text(info)
    if later is not None:
        (calls.parent / "no-cmdline").write_text(later)
    assert run(entries, args=args).succeeded
    return calls.read_text().splitlines()


def test_every_entry_of_the_recorded_machine_is_read(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "info").write_text(AFTER)
    (tmp_path / "no-cmdline").write_text(LATER)
    found = fact(BootEntries)
    assert len(found) == 3 + 1  # two kernels, the rescue kernel; and kernels to come
    assert all(words[-len(ARGS) :] == ARGS for words in found)
    assert found[0][0] == "ro"
    assert found[3][0] == "root=UUID=b8b13ace-e420-4f42-b36f-6ee51a44fda1"


def test_entries_without_the_arguments_get_them_in_order(calls: Path) -> None:
    command, args = told(calls, BEFORE, ARGS)
    assert command == "--update-kernel=ALL"
    assert args == "--args=" + " ".join(in_grub(argument) for argument in ARGS)
    assert arguments(args.removeprefix("--args=")) == ARGS


@pytest.mark.parametrize("later", [None, LATER])
def test_entries_with_the_arguments_are_left_alone(calls: Path, later: str | None) -> None:
    assert told(calls, AFTER, ARGS, later) == []


def test_kernels_to_come_count_too(calls: Path) -> None:
    assert told(calls, AFTER, ARGS, later="root=UUID=1 ro quiet\n")[0] == "--update-kernel=ALL"


def test_one_entry_that_differs_is_enough(calls: Path) -> None:
    one = AFTER.replace("rcu_nocbs=1-7,", "rcu_nocbs=1-6,", 1)
    assert told(calls, one, ARGS)[0] == "--update-kernel=ALL"


def test_page_sizes_in_another_order_are_put_right(calls: Path) -> None:
    """The kernel takes ``hugepages=`` for the size named before it."""
    text = 'args="ro hugepagesz=2M hugepages=0:1 hugepagesz=1G hugepages=0:2"\n'
    ours = ("hugepagesz=1G", "hugepages=0:2", "hugepagesz=2M", "hugepages=0:1")
    assert told(calls, text, ours) == ["--update-kernel=ALL", "--args=" + " ".join(ours)]


def test_arguments_that_the_plan_has_no_more_are_taken_away(calls: Path) -> None:
    left = ("irqaffinity=0,8,16,24", "iommu=pt")
    assert told(calls, AFTER, left) == [
        "--update-kernel=ALL",
        "--remove-args=hugepagesz hugepages rcu_nocbs nohz_full isolcpus",
        "--args=irqaffinity=0,8,16,24 iommu=pt",
    ]


def test_with_no_arguments_at_all_only_those_that_are_surely_ours_go(calls: Path) -> None:
    assert told(calls, AFTER, ()) == ["--update-kernel=ALL", f"--remove-args={' '.join(OURS)}"]


def test_the_sites_own_arguments_are_no_difference(calls: Path) -> None:
    assert told(calls, BEFORE, ()) == []


def test_a_machine_without_entries_fails(calls: Path) -> None:
    (calls.parent / "info").write_text("")
    assert not run(entries, args=ARGS).succeeded
    assert calls.read_text() == ""


@pytest.mark.parametrize("argument", ["nosmt", "pci=nommconf", "pci=disable_acs_redir=a;b"])
def test_grub_gives_the_kernel_what_the_plan_says(argument: str) -> None:
    assert shlex.split(in_grub(argument)) == [argument]
    assert in_grub(argument).partition("=")[0] == argument.partition("=")[0]
