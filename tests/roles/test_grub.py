"""The kernel that GRUB boots next, from recorded menus and by GRUB's rules."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.facts.driver import boot_kernels
from lockstep.plan.driver import BootKernels
from lockstep.question import Taken, Unreadable
from tests.probe.test_collect import Node, node

__all__ = ["node"]

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
OLD, NEW = "6.8.0-71-generic", "6.8.0-149-generic"
ADVANCED = "gnulinux-advanced-48906949-0bb0-44c4-9dc2-2134ae62d9b8"
HEADER = """\
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
else
   set default="{default}"
fi
if [ x"${{feature_menuentry_id}}" = xy ]; then
  menuentry_id_option="--id"
fi
function savedefault {{
  if [ -z "${{boot_once}}" ]; then
    save_env saved_entry
  fi
}}
"""

Next = Callable[..., BootKernels]


@pytest.fixture
def boots(node: Node) -> Next:
    """Reads a node that has this grub.cfg, grubenv and folder of entries."""
    node.tool("modinfo", "echo 'modinfo: ERROR: Module not found.' >&2; exit 1")

    def read(menu: str, env: str = "", entries: Path | None = None) -> BootKernels:
        node.file("/boot/grub/grub.cfg", menu)
        node.file("/boot/grub/grubenv", f"# GRUB Environment Block\n{env}\n####")
        if entries is not None:
            shutil.copytree(entries, node.root / "boot/loader/entries", dirs_exist_ok=True)
        return boot_kernels().answer(Taken(node.read()))

    return read


def ubuntu(default: str) -> str:
    menu = (CAPTURES / "ubuntu_24_04/after/boot/grub/grub.cfg").read_text()
    return HEADER.format(default=default) + menu


def release(found: BootKernels) -> str:
    (kernel,) = found.next
    assert not found.unknown
    return kernel.release


@pytest.mark.parametrize(
    ("default", "kernel"),
    [
        ("0", NEW),
        ("", NEW),
        ("Ubuntu", NEW),
        ("1>0", NEW),
        ("1>2", OLD),
        (f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}", OLD),
        (f"{ADVANCED}>gnulinux-{OLD}-advanced-48906949-0bb0-44c4-9dc2-2134ae62d9b8", OLD),
    ],
)
def test_the_default_is_followed_by_number_title_and_id(
    boots: Next, default: str, kernel: str
) -> None:
    assert release(boots(ubuntu(default))) == kernel
    assert release(boots(ubuntu("${saved_entry}"), f"saved_entry={default}")) == kernel


def test_what_is_chosen_for_one_boot_wins_and_what_it_set_aside_comes_back(boots: Next) -> None:
    assert release(boots(ubuntu("0"), "next_entry=1>2")) == OLD
    saved = "saved_entry=0\nprev_saved_entry=1>2"
    assert release(boots(ubuntu("${saved_entry}"), saved)) == OLD


@pytest.mark.parametrize("default", ["7", "1", "1>9", "Debian", "${chosen}", f"with Linux {OLD}"])
def test_what_is_no_entry_of_the_menu_is_not_known(boots: Next, default: str) -> None:
    found = boots(ubuntu(default))
    assert found.unknown
    assert {one.release for one in found.next} == {OLD, NEW}, "any of them may boot"


def test_numbers_behind_a_condition_are_not_known(boots: Next) -> None:
    before, submenu, after = ubuntu("1>2").partition("submenu ")
    condition = 'if [ "$grub_platform" = "efi" ]; then\nmenuentry "Firmware" {\nfwsetup\n}\nfi\n'
    assert boots(before + condition + submenu + after).unknown
    first = ubuntu("0").replace("submenu ", f"{condition}submenu ")
    assert release(boots(first)) == NEW


def test_a_menu_of_one_kernel_boots_it_whatever_the_default(boots: Next) -> None:
    assert release(boots(ubuntu("7").replace(OLD, NEW))) == NEW


def test_without_a_menu_nothing_is_known(boots: Next) -> None:
    assert boots("").unknown.endswith("no entry with a kernel in grub.cfg")


def test_a_module_that_cannot_be_read_is_not_absent(boots: Next, node: Node) -> None:
    node.tool("modinfo", "echo 'modinfo: ERROR: Bad message' >&2; exit 1")
    with pytest.raises(Unreadable, match=r"driver\.kernels: .* Bad message"):
        boots(ubuntu("0"))
    node.tool("modinfo", 'case "$4" in license) echo GPL;; *) echo 550.163.01;; esac')
    with pytest.raises(Unreadable, match="flavour could not be read: modinfo: license is 'GPL'"):
        boots(ubuntu("0"))


def test_entries_of_their_own_files_are_found_by_id_and_title(boots: Next) -> None:
    folder = CAPTURES / "rocky_9/after/boot"
    entries = folder / "loader/entries"
    menu = HEADER.format(default="${saved_entry}") + "blscfg\n"
    grubenv = (folder / "grub2/grubenv").read_text()
    assert release(boots(menu, grubenv, entries)) == "5.14.0-427.42.1.el9_4.x86_64"
    older = "5.14.0-427.13.1.el9_4.x86_64"
    title = f"next_entry=Rocky Linux ({older}) 9.4 (Blue Onyx)"
    assert release(boots(menu, title, entries)) == older
    numbered = boots(menu, "saved_entry=0", entries)
    assert numbered.unknown, "the order is GRUB's own"
    assert not [one for one in numbered.next if "rescue" in one.release]
