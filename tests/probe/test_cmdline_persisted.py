"""Kernel arguments of the next boot, from recorded machines and small trees of files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers import collect
from lockstep.plan.reboot import absent
from tests.plan.test_releases import worker

CAPTURES = Path(__file__).resolve().parent.parent / "captures"
MACHINE = "63d587c2144840dcbb5dff9795a00d50"
NEWEST, OLDER = (f"{MACHINE}-5.14.0-427.{n}.1.el9_4.x86_64" for n in (42, 13))


def persisted(monkeypatch: pytest.MonkeyPatch, root: Path) -> Any:
    """What the probe reads below a tree, or why it cannot."""
    monkeypatch.setattr("lockstep.node.readers.tree.ROOT", str(root))
    return collect.collect({})["readings"]["kernel.cmdline_persisted"]


@pytest.mark.parametrize("release", ["ubuntu_24_04", "rocky_9"])
def test_the_recorded_machine_has_our_arguments_only_after_the_deploy(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    wanted = worker(release).system.kernel_args
    before = persisted(monkeypatch, CAPTURES / release / "before")["value"]
    after = persisted(monkeypatch, CAPTURES / release / "after")["value"]
    assert "hugepagesz=1G" in absent(wanted, tuple(before))
    assert absent(wanted, tuple(after)) == ()
    assert "pci=disable_acs_redir=0000:15:01.0;0000:3d:01.0" in after  # GRUB's quotes are gone


@pytest.mark.parametrize("release", ["ubuntu_24_04", "rocky_9"])
def test_a_recorded_machine_runs_what_its_boot_loader_holds(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    root = CAPTURES / release / "before"
    running = (root / "proc/cmdline").read_text().split()[1:]  # the first word is GRUB's BOOT_IMAGE
    assert persisted(monkeypatch, root)["value"] == running


@pytest.mark.parametrize(
    ("release", "name", "version"), [("ubuntu_24_04", "ubuntu", "24.04"), ("rocky_9", "rocky", "9")]
)
def test_the_recorded_machine_is_recognised_as_its_release(
    monkeypatch: pytest.MonkeyPatch, release: str, name: str, version: str
) -> None:
    monkeypatch.setattr("lockstep.node.readers.tree.ROOT", str(CAPTURES / release / "before"))
    seen = collect.collect({})["readings"]
    catalogued = worker(release).release
    assert (seen["os.id"]["value"], catalogued.version_of(seen["os.version_id"]["value"])) == (
        name,
        version,
    )
    assert (catalogued.id, catalogued.version_id) == (name, version)


Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Makes a tree with entries: file name -> options; and a grubenv."""

    def make(entries: dict[str, str], grubenv: str | None) -> Path:
        folder = tmp_path / "boot/loader/entries"
        folder.mkdir(parents=True)
        for name, options in entries.items():
            (folder / f"{name}.conf").write_text(
                f"title Rocky Linux ({name}) 9.4\nlinux /vmlinuz-{name}\noptions {options}\n"
            )
        if grubenv is not None:
            (tmp_path / "boot/grub2").mkdir()
            (tmp_path / "boot/grub2/grubenv").write_text(
                "# GRUB Environment Block\n" + grubenv + "#" * 20
            )
        return tmp_path

    return make


RESCUE = f"{MACHINE}-0-rescue"
ENTRIES = {NEWEST: "ro newest", OLDER: "ro older", RESCUE: "ro rescue"}


@pytest.mark.parametrize(
    ("grubenv", "chosen"),
    [
        (f"saved_entry={OLDER}\n", "older"),
        (f"saved_entry=Rocky Linux ({OLDER}) 9.4\n", "older"),
        ("saved_entry=0\n", "newest"),
        ("saved_entry=1\n", "older"),
        (f"saved_entry={OLDER}\nnext_entry={NEWEST}\n", "newest"),
        (f"saved_entry={OLDER}\nnext_entry=\n", "older"),
        ("saved_entry=\n", "newest"),
        ("", "newest"),
        (None, "newest"),
    ],
)
def test_the_entry_that_grub_boots_is_read(
    monkeypatch: pytest.MonkeyPatch, tree: Tree, grubenv: str | None, chosen: str
) -> None:
    assert persisted(monkeypatch, tree(ENTRIES, grubenv)) == {"value": ["ro", chosen]}


def test_the_highest_version_is_no_matter_of_the_alphabet(
    monkeypatch: pytest.MonkeyPatch, tree: Tree
) -> None:
    names = {f"{MACHINE}-5.14.0-{n}.el9.x86_64": f"ro v{n}" for n in (70, 503, 8)}
    assert persisted(monkeypatch, tree(names, None)) == {"value": ["ro", "v503"]}


def test_variables_of_the_environment_block_are_expanded(
    monkeypatch: pytest.MonkeyPatch, tree: Tree
) -> None:
    root = tree(
        {NEWEST: "$kernelopts ${tuned_params} nosmt $nothing"},
        "kernelopts=root=/dev/sda1 ro \ntuned_params=skew_tick=1\n",
    )
    assert persisted(monkeypatch, root) == {
        "value": ["root=/dev/sda1", "ro", "skew_tick=1", "nosmt"]
    }


@pytest.mark.parametrize(
    ("entries", "grubenv", "reason"),
    [
        (
            ENTRIES,
            "saved_entry=gone\n",
            "/boot/grub2/grubenv: default 'gone' matches 0 entries in /boot/loader/entries",
        ),
        (
            {NEWEST: "ro", "ffff-5.14.0-427.99.1.el9_4.x86_64": "ro"},
            None,
            "/boot/grub2/grubenv sets no saved_entry, "
            "and /boot/loader/entries has entries for several machine IDs",
        ),
        (
            {NEWEST: "$kernelopts"},
            "saved_entry=\n",
            f"/boot/grub2/grubenv does not set kernelopts, but {NEWEST}.conf refers to it",
        ),
    ],
)
def test_what_is_not_clear_is_unread(
    monkeypatch: pytest.MonkeyPatch,
    tree: Tree,
    entries: dict[str, str],
    grubenv: str | None,
    reason: str,
) -> None:
    assert persisted(monkeypatch, tree(entries, grubenv)) == {"unread": reason}


def test_debians_menu_is_asked_before_entries_of_another_boot_loader(
    monkeypatch: pytest.MonkeyPatch, tree: Tree
) -> None:
    root = tree(ENTRIES, None)
    (root / "boot/grub").mkdir()
    (root / "boot/grub/grub.cfg").write_text("\tlinux /boot/vmlinuz root=UUID=1 ro menu\n")
    assert persisted(monkeypatch, root) == {"value": ["root=UUID=1", "ro", "menu"]}


MENU = """\
set default="{default}"
menuentry 'Debian' --id newest {{
    linux /boot/vmlinuz-6.12.117 root=UUID=1 ro new
}}
submenu 'Advanced' --id advanced {{
    menuentry 'Older' --id older {{
        linux /boot/vmlinuz-6.12.94 root=UUID=1 ro old
    }}
    menuentry 'Older, recovery' --id older-recovery-1 {{
        linux /boot/vmlinuz-6.12.94 root=UUID=1 ro single
    }}
}}
"""


@pytest.mark.parametrize(
    ("default", "grubenv", "chosen"),
    [
        ("0", "", "new"),
        ("${saved_entry}", "saved_entry=advanced>older\n", "old"),
        ("1>0", "", "old"),
    ],
)
def test_the_default_of_debians_menu_counts_and_not_its_first_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, default: str, grubenv: str, chosen: str
) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "boot/grub/grub.cfg").write_text(MENU.format(default=default))
    (tmp_path / "boot/grub/grubenv").write_text(f"# GRUB Environment Block\n{grubenv}####")
    assert persisted(monkeypatch, tmp_path) == {"value": ["root=UUID=1", "ro", chosen]}


def test_a_default_that_a_script_decides_is_unread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    menu = tmp_path / "boot/grub/grub.cfg"
    menu.write_text(MENU.format(default="${chosen}"))
    assert "a script decides" in persisted(monkeypatch, tmp_path)["unread"]
    # Whatever is chosen: all entries but those chosen by hand have the same arguments.
    menu.write_text(MENU.format(default="${chosen}").replace("ro old", "ro new"))
    assert persisted(monkeypatch, tmp_path) == {"value": ["root=UUID=1", "ro", "new"]}


@pytest.mark.parametrize("folder", ["grub", "grub2"])
@pytest.mark.parametrize("menu", ["", "configfile /other/grub.cfg\n", "blscfg\n"])
def test_a_menu_without_a_kernel_is_unread_and_its_sources_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, menu: str
) -> None:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX="iommu=pt"\n')
    assert persisted(monkeypatch, tmp_path) == {"value": ["iommu=pt"]}
    (tmp_path / "boot" / folder).mkdir(parents=True)
    (tmp_path / "boot" / folder / "grub.cfg").write_text(menu)
    assert persisted(monkeypatch, tmp_path) == {
        "unread": "/boot/grub and /boot/grub2: no entry with a kernel in grub.cfg"
    }


@pytest.mark.parametrize("folder", ["grub", "grub2"])
def test_entries_of_the_boot_loader_specification_count_only_where_the_menu_adds_them(
    monkeypatch: pytest.MonkeyPatch, tree: Tree, folder: str
) -> None:
    root = tree(ENTRIES, f"saved_entry={OLDER}\n")
    (root / "boot" / folder).mkdir(exist_ok=True)
    menu = root / "boot" / folder / "grub.cfg"
    menu.write_text('set default="${saved_entry}"\ninsmod blscfg\nblscfg\n')
    assert persisted(monkeypatch, root) == {"value": ["ro", "older"]}
    menu.write_text("configfile /other/grub.cfg\n")
    assert "no entry with a kernel" in persisted(monkeypatch, root)["unread"]
    menu.write_text("menuentry 'x' {\n linux /vmlinuz-6.12 root=UUID=1 ro menu\n}\n")
    assert persisted(monkeypatch, root) == {"value": ["root=UUID=1", "ro", "menu"]}
