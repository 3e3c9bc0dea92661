"""Which kernel GRUB boots next: from recorded menus, and by its own rules."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.facts import kernels
from lockstep.facts.kernels import NO_MENU, Kernels
from lockstep.plan.driver import BootKernels

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
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Next:
    """Reads a node that has this grub.cfg, grubenv and folder of entries."""

    def read(menu: str, env: str = "", entries: Path = tmp_path) -> BootKernels:
        (tmp_path / "grub.cfg").write_text(menu)
        (tmp_path / "grubenv").write_text(f"# GRUB Environment Block\n{env}\n####")
        command = Kernels().command()
        for theirs, ours in (("/boot/grub /boot/grub2", tmp_path), (kernels.ENTRIES, entries)):
            assert theirs in command
            command = command.replace(theirs, str(ours))
        said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return Kernels().process(said.stdout.splitlines())

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
    assert boots("").unknown == NO_MENU


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
