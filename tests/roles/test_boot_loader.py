"""Kernel arguments in recorded boot loaders, with simulated update-grub and grubby."""

import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from lockstep.facts import boot
from lockstep.facts.boot import boot_entries, in_grub, menu_is_due, next_arguments
from lockstep.node.readers.grub import grub_words
from lockstep.question import Taken, Unreadable
from lockstep.roles.operations.boot_loader import OURS, entries, menu
from tests.plan.test_releases import ARGS
from tests.roles.local import asked, read_below, run

CAPTURES = Path(__file__).resolve().parent.parent / "captures"


TICK_S = 0.02
"""Two files that are changed within one tick of the kernel have the same time."""
DROP_IN = "/etc/default/grub.d/50-lockstep.cfg"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is read as the root of this machine."""
    read_below(monkeypatch, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def calls(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the doubles write what they were asked for."""
    log = root.parent / "calls"
    log.touch()
    folder = root.parent / "bin"
    folder.mkdir()
    doubles = {
        "update-grub": f'echo "update-grub" >> {log}',
        "grubby": f'for word in "$@"; do echo "$word" >> {log}; done',
    }
    for name, script in doubles.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    return log


# -- Debian and Ubuntu: the drop-in and the menu


def ubuntu(root: Path, when: str = "after") -> Path:
    """Make the root a recorded Ubuntu; return its menu, which is its youngest file."""
    shutil.copytree(CAPTURES / "ubuntu_24_04" / when, root)
    menu = root / "boot/grub/grub.cfg"
    menu.touch()
    return menu


def test_a_menu_with_the_arguments_is_left_alone(calls: Path, root: Path) -> None:
    ubuntu(root)
    assert run(menu, files=(DROP_IN, "/no/such/file"), args=ARGS).commands == 0
    assert calls.read_text() == ""


def test_a_menu_without_the_arguments_is_made_again(calls: Path, root: Path) -> None:
    ubuntu(root, "before")
    assert run(menu, files=("/no/such/file",), args=ARGS).succeeded
    assert calls.read_text() == "update-grub\n"


def test_a_menu_older_than_the_drop_in_is_made_again(calls: Path, root: Path) -> None:
    ubuntu(root)
    time.sleep(TICK_S)
    (root / DROP_IN[1:]).touch()
    assert run(menu, files=(DROP_IN,), args=ARGS).succeeded
    assert calls.read_text() == "update-grub\n"


def test_a_machine_without_a_menu_gets_one(calls: Path, root: Path) -> None:
    ubuntu(root).unlink()
    assert run(menu, files=(DROP_IN,), args=ARGS).succeeded
    assert calls.read_text() == "update-grub\n"


ENTRY = "menuentry '{name}' --id {name} {{\n linux /boot/vmlinuz-6.12 root=UUID=1 ro {words}\n}}\n"


def default(root: Path, chosen: str) -> None:
    """Make a menu whose first entry lacks an argument; ``chosen`` is GRUB's default."""
    entries = ENTRY.format(name="first", words="") + ENTRY.format(name="second", words="iommu=pt")
    menu = root / "boot/grub/grub.cfg"
    menu.parent.mkdir(parents=True)
    menu.write_text(f'set default="{chosen}"\n{entries}')


def test_the_default_entry_counts_and_not_the_first_of_the_menu(calls: Path, root: Path) -> None:
    default(root, "second")
    assert asked(next_arguments()) == ("root=UUID=1", "ro", "iommu=pt")
    assert run(menu, files=("/no/such/file",), args=("iommu=pt",)).commands == 0
    assert run(menu, files=("/no/such/file",), args=("nosmt",)).succeeded
    assert calls.read_text() == "update-grub\n"


def test_where_a_script_decides_the_menu_is_made_when_it_is_old_and_else_the_host_fails(
    calls: Path, root: Path
) -> None:
    default(root, "${chosen}")
    drop_in = root / DROP_IN[1:]
    assert not run(menu, files=(DROP_IN,), args=("iommu=pt",)).succeeded
    assert calls.read_text() == ""
    with pytest.raises(Unreadable, match="a script decides"):
        asked(menu_is_due((DROP_IN,), ("iommu=pt",)))
    drop_in.parent.mkdir(parents=True)
    time.sleep(TICK_S)
    drop_in.touch()
    assert run(menu, files=(DROP_IN,), args=("iommu=pt",)).succeeded
    assert calls.read_text() == "update-grub\n"


def test_without_kernel_arguments_nothing_is_asked(calls: Path) -> None:
    assert run(menu, files=(), args=()).commands == 0
    assert calls.read_text() == ""


# -- the RHEL family: grubby

BEFORE = (CAPTURES / "rocky_9/before/grubby-info.txt").read_text()
AFTER = (CAPTURES / "rocky_9/after/grubby-info.txt").read_text()
LATER = (CAPTURES / "rocky_9/after/etc/kernel/cmdline").read_text()


def of_grubby(info: str) -> list[str]:
    """The arguments that grubby prints of each entry; root= stands on a line of its own there."""
    return re.findall(r'^args="(.*)"$', info, re.MULTILINE)


def told(
    calls: Path, root: Path, info: str, args: tuple[str, ...], later: str | None = None
) -> list[str]:
    """What grubby is told when its entries are those of ``info``."""
    folder = root / "boot/loader/entries"
    folder.mkdir(parents=True)
    for number, options in enumerate(of_grubby(info)):
        (folder / f"{number}.conf").write_text(f"options {options}\n")
    if later is not None:
        (root / "etc/kernel").mkdir(parents=True)
        (root / "etc/kernel/cmdline").write_text(later)
    assert run(entries, args=args).succeeded
    return calls.read_text().splitlines()


def test_every_entry_of_the_recorded_machine_is_read_as_grubby_reads_it(root: Path) -> None:
    shutil.copytree(CAPTURES / "rocky_9/after", root)
    found = [[word for word in words if "root=" not in word] for words in asked(boot_entries())]
    assert len(found) == 3 + 1  # two kernels, the rescue kernel; and kernels to come
    assert sorted(found[:3]) == sorted(grub_words(options) for options in of_grubby(AFTER))
    assert all(tuple(words[-len(ARGS) :]) == ARGS for words in found)


def test_an_entry_that_cannot_be_read_is_no_entry_without_arguments() -> None:
    unread = {"/boot/loader/entries/a.conf": {"unread": "Input/output error"}}
    with pytest.raises(Unreadable, match=r"a\.conf could not be read: Input/output error"):
        boot_entries().answer(Taken({boot.ENTRIES: {"value": unread}}))


def test_entries_without_the_arguments_get_them_in_order(calls: Path, root: Path) -> None:
    command, args = told(calls, root, BEFORE, ARGS)
    assert command == "--update-kernel=ALL"
    assert args == "--args=" + " ".join(in_grub(argument) for argument in ARGS)
    assert tuple(grub_words(args.removeprefix("--args="))) == ARGS


@pytest.mark.parametrize("later", [None, LATER])
def test_entries_with_the_arguments_are_left_alone(
    calls: Path, root: Path, later: str | None
) -> None:
    assert told(calls, root, AFTER, ARGS, later) == []


def test_kernels_to_come_count_too(calls: Path, root: Path) -> None:
    assert (
        told(calls, root, AFTER, ARGS, later="root=UUID=1 ro quiet\n")[0] == "--update-kernel=ALL"
    )


def test_one_entry_that_differs_is_enough(calls: Path, root: Path) -> None:
    one = AFTER.replace("rcu_nocbs=1-7,", "rcu_nocbs=1-6,", 1)
    assert told(calls, root, one, ARGS)[0] == "--update-kernel=ALL"


def test_page_sizes_in_another_order_are_put_right(calls: Path, root: Path) -> None:
    """The kernel takes ``hugepages=`` for the size named before it."""
    text = 'args="ro hugepagesz=2M hugepages=0:1 hugepagesz=1G hugepages=0:2"\n'
    ours = ("hugepagesz=1G", "hugepages=0:2", "hugepagesz=2M", "hugepages=0:1")
    assert told(calls, root, text, ours) == ["--update-kernel=ALL", "--args=" + " ".join(ours)]


def test_arguments_that_the_plan_has_no_more_are_taken_away(calls: Path, root: Path) -> None:
    left = ("irqaffinity=0,8,16,24", "iommu=pt")
    assert told(calls, root, AFTER, left) == [
        "--update-kernel=ALL",
        "--remove-args=hugepagesz hugepages rcu_nocbs nohz_full isolcpus",
        "--args=irqaffinity=0,8,16,24 iommu=pt",
    ]


def test_with_no_arguments_at_all_only_those_that_are_surely_ours_go(
    calls: Path, root: Path
) -> None:
    assert told(calls, root, AFTER, ()) == [
        "--update-kernel=ALL",
        f"--remove-args={' '.join(OURS)}",
    ]


def test_the_sites_own_arguments_are_no_difference(calls: Path, root: Path) -> None:
    assert told(calls, root, BEFORE, ()) == []


def test_a_machine_without_entries_fails(calls: Path) -> None:
    assert not run(entries, args=ARGS).succeeded
    with pytest.raises(Unreadable, match="no entries in"):
        asked(boot_entries())
    assert calls.read_text() == ""


@pytest.mark.parametrize("argument", ["nosmt", "pci=nommconf", "pci=disable_acs_redir=a;b"])
def test_grub_gives_the_kernel_what_the_plan_says(argument: str) -> None:
    assert shlex.split(in_grub(argument)) == [argument]
    assert in_grub(argument).partition("=")[0] == argument.partition("=")[0]
