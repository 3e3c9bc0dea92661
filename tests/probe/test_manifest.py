"""The reading of the manifest, without the entries that other readings cover."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers import collect
from lockstep.node.readers.manifest import MANIFEST
from tests.probe.test_collect import Node, node

__all__ = ["node"]

EMPTY: dict[str, Any] = {
    section: {} for section in ("files", "groups", "masked", "packages", "sysctl", "units", "users")
}
BOOT = "9f2e 77"
OLD = hashlib.sha256(b"old\n").hexdigest()


def manifest(node: Node, **sections: Any) -> None:
    node.file(MANIFEST, json.dumps({"format": 1, **EMPTY, **sections}))
    node.file("/proc/sys/kernel/random/boot_id", "9f2e\n")
    node.file("/proc/1/stat", f"1 (init (x)) S {' '.join(map(str, range(4, 22)))} 77 0\n")


def value(node: Node, **request: Any) -> Any:
    return node.read(**request)["manifest"]["value"]


def test_a_node_without_a_manifest_is_no_failure(node: Node) -> None:
    assert node.read()["manifest"] == {"value": "absent"}


def test_an_unreadable_manifest_is_unread(node: Node) -> None:
    node.file(MANIFEST, "half of a li")
    assert "unread" in node.read()["manifest"]
    node.file(MANIFEST, '{"format": 7}')
    assert node.read()["manifest"] == {"unread": f"{MANIFEST} is not a manifest in format 1"}


def test_files_say_whether_somebody_changed_them(node: Node) -> None:
    entry = {"role": "fabric", "sha256": "new", "before": OLD, "package": "p"}
    names = ("/etc/same", "/etc/odd", "/etc/none", "/etc/link", "/etc/asked")
    manifest(node, files=dict.fromkeys(names, entry))
    node.file("/etc/same", "old\n")
    node.file("/etc/odd", "by hand\n")
    Path(f"{node.root}/etc/link").symlink_to("same")
    seen = value(node, files=["/etc/asked"])["files"]
    assert seen["/etc/same"] == {
        "role": "fabric",
        "state": "unchanged",
        "sha256": OLD,
        "package": "p",
    }
    assert {path: one["state"] for path, one in seen.items()} == {
        "/etc/same": "unchanged",
        "/etc/odd": "changed",
        "/etc/none": "",
        "/etc/link": "a symbolic link",
    }


def test_units_say_what_is_left_of_them(node: Node) -> None:
    role = {"role": "prometheus"}
    shown = (("enabled", "active"), ("disabled", "inactive"), ("masked", "inactive"))
    node.tool(
        "systemctl",
        "\n".join(
            f"echo UnitFileState={enabled}; echo ActiveState={active}; echo"
            for enabled, active in shown
        ),
    )
    manifest(
        node,
        units={"a.service": role, "b.service": role, "asked.service": role},
        masked={"c.timer": role},
    )
    seen = value(node, units=["asked.service"])
    assert seen["units"] == {
        "a.service": {**role, "state": "enabled, active"},
        "b.service": {**role, "state": ""},
    }
    assert seen["masked"] == {"c.timer": {**role, "state": "masked"}}


def test_a_dropped_sysctl_is_gone_with_the_boot_that_dropped_it(node: Node) -> None:
    entry = {"role": "kernel", "value": "1  2"}
    manifest(
        node,
        sysctl={
            "vm.now": {**entry, "dropped": BOOT},
            "vm.before": {**entry, "dropped": "another 77"},
            "vm.other": {**entry, "dropped": BOOT},
            "vm.listed": entry,
        },
    )
    for key in ("now", "before", "listed"):
        node.file(f"/proc/sys/vm/{key}", "1\t2\n")
    node.file("/proc/sys/vm/other", "3\n")
    assert {key: one["state"] for key, one in value(node)["sysctl"].items()} == {
        "vm.now": "1 2",
        "vm.before": "",
        "vm.other": "",
        "vm.listed": "1 2",
    }


def test_accounts_and_packages(node: Node) -> None:
    role = {"role": "hugepages"}
    manifest(
        node,
        users={"root": role, "no-such-user": role},
        groups={"no-such-group": role},
        packages={"p": {**role, "held": "yes"}, "q": role},
    )
    seen = value(node)
    assert [one["state"] for one in seen["users"].values()] == ["there", ""]
    assert [one["state"] for one in seen["groups"].values()] == [""]
    assert seen["packages"] == {"p": {**role, "state": "on hold"}, "q": {**role, "state": ""}}


# -- what roles ask for


def asked(node: Node, reading: str, **request: Any) -> Any:
    return collect.collect(request, frozenset({reading}))["readings"][reading]


def test_a_role_that_removes_things_sees_what_others_asked_for_by_name(node: Node) -> None:
    manifest(node, files={"/etc/asked": {"role": "fabric", "sha256": "new"}})
    assert value(node, files=["/etc/asked"])["files"] == {}
    assert set(asked(node, "manifest.whole", files=["/etc/asked"])["value"]["files"]) == {
        "/etc/asked"
    }


def test_the_manifest_as_it_was_written_and_the_boot(node: Node) -> None:
    manifest(node)
    held = asked(node, "manifest.held")["value"]
    assert (json.loads(held["text"])["format"], held["boot"]) == (1, BOOT)
    Path(f"{node.root}{MANIFEST}").unlink()
    assert asked(node, "manifest.held")["value"] == {"text": "", "boot": BOOT}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("libc-bin: /etc/gai.conf", {"/etc/gai.conf": "libc-bin"}),
        ("libc6:amd64, libc6:i386: /etc/x", {"/etc/x": "libc6"}),
        ("chrony: /etc/chrony/chrony.conf", {"/etc/chrony/chrony.conf": "chrony"}),
        ("diversion by dash from: /bin/sh", {}),
    ],
)
def test_packages_that_ship_a_path(node: Node, line: str, found: dict[str, str]) -> None:
    node.tool("dpkg-query", f"echo '{line}'; exit 1")
    assert asked(node, "packages.shipped", shipped=["/etc/x"]) == {"value": found}


def test_a_file_that_a_package_made_by_itself_is_shipped_as_well(node: Node) -> None:
    node.tool("dpkg-query", "exit 1")
    node.file("/var/lib/ucf/registry", "grub /etc/default/grub\nx /etc/other\n")
    shipped = asked(node, "packages.shipped", shipped=["/etc/default/grub", "/etc/none"])
    assert shipped == {"value": {"/etc/default/grub": "grub"}}
    node.tool("dpkg-query", "echo 'no database' >&2; exit 2")
    shipped = asked(node, "packages.shipped", shipped=["/etc/default/grub"])
    assert shipped == {"unread": "dpkg-query: exit 2: no database"}


def test_steps_of_jobs_are_counted(node: Node) -> None:
    node.file("/proc/1/cmdline", "/sbin/init\0")
    node.file("/proc/70/cmdline", "slurmstepd: [3.0]\0")
    node.file("/proc/71/cmdline", "slurmstepd: [3.batch]\0")
    node.file("/proc/72/cmdline", "/usr/sbin/slurmstepd\0infinity\0")
    node.file("/proc/self/cmdline", "slurmstepd: [9.0]\0")
    assert asked(node, "slurm.steps") == {"value": 2}
