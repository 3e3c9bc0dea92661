"""Packages of dpkg, RPM, snap and flatpak."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint import dpkg
from lockstep.node.fingerprint.packages import read_packages
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from tests.node.fingerprint.conftest import Root

STATUS = """\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.22

Package: less
Status: hold ok installed
Architecture: amd64
Version: 668-1
Conffiles:
 /etc/less 0123456789abcdef0123456789abcdef
 /etc/old 0123456789abcdef0123456789abcdee obsolete
 /etc/a name with spaces 0123456789abcdef0123456789abcded
Description: pager
 Status: this is no field

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: tool
Status: install reinstreq half-installed
Architecture: all
Version: 2
"""
EXTENDED = "Package: tool\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: less\n" + (
    "Architecture: amd64\nAuto-Installed: 0\n"
)


@pytest.fixture
def debian(root: Root) -> Root:
    root.file("/var/lib/dpkg/status", STATUS)
    root.file("/var/lib/apt/extended_states", EXTENDED)
    return root


def test_packages_of_dpkg(debian: Root) -> None:
    assert debian.read(read_packages) == {
        "dpkg:amd64": {"version": "1.22", "status": "installed", "installed": "manually"},
        "less:amd64": {
            "version": "668-1", "status": "installed", "selection": "hold",
            "installed": "manually",
        },
        "gone:all": {"version": "1", "status": "config-files", "selection": "deinstall"},
        "tool:all": {
            "version": "2", "status": "half-installed", "error": "reinstreq",
            "installed": "automatically",
        },
    }  # fmt: skip


def test_conffiles_that_packages_still_ship(debian: Root) -> None:
    assert dpkg.conffiles() == {
        "/etc/less": ("less", "0123456789abcdef0123456789abcdef"),
        "/etc/a name with spaces": ("less", "0123456789abcdef0123456789abcded"),
    }


@pytest.mark.parametrize(
    ("path", "old", "new", "fields"),
    [
        ("status", "hold ok", "install ok", {"selection"}),
        ("status", "668-1", "668-2", {"version"}),
        ("status", "hold ok installed", "hold ok half-configured", {"status"}),
        ("extended", "Auto-Installed: 0", "Auto-Installed: 1", {"installed"}),
    ],
)
def test_a_change_of_a_package(
    debian: Root, path: str, old: str, new: str, fields: set[str]
) -> None:
    before = debian.read(read_packages)
    if path == "status":
        debian.file("/var/lib/dpkg/status", STATUS.replace(old, new))
    else:
        debian.file("/var/lib/apt/extended_states", EXTENDED.replace(old, new))
    assert debian.changed(read_packages, before) == {"less:amd64": fields}


def test_what_an_administrator_told_dpkg(debian: Root) -> None:
    debian.file("/var/lib/dpkg/diversions", "/usr/bin/a\n/usr/bin/a.real\n:\n/b\n/c\nglx\n")
    debian.file("/var/lib/dpkg/statoverride", "root _chrony 640 /etc/chrony/chrony.keys\n")
    debian.file("/var/lib/dpkg/arch", "amd64\ni386\n")
    found = debian.read(read_packages)
    assert found["diversion of /usr/bin/a"] == {"to": "/usr/bin/a.real", "by": "local"}
    assert found["diversion of /b"] == {"to": "/c", "by": "glx"}
    override = found["statoverride of /etc/chrony/chrony.keys"]
    assert override == {"owner": "root:_chrony", "mode": "640"}
    assert "architecture i386" in found


def rpm(root: Root, script: str) -> None:
    root.file("/var/lib/rpm/rpmdb.sqlite")
    tool = root.path.parent / "bin" / "rpm"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_packages_of_rpm(root: Root) -> None:
    lines = "".join(
        rf"package\t{package}.x86_64\t0:{version}\n"
        for package, version in (("kernel", "6-2"), ("kernel", "6-1"), ("bash", "5-1"))
    )
    rpm(root, f"printf '{lines}'")
    assert root.read(read_packages) == {
        "kernel.x86_64": {"version": "0:6-1, 0:6-2", "status": "installed"},
        "bash.x86_64": {"version": "0:5-1", "status": "installed"},
    }


def test_rpm_that_prints_something_else(root: Root) -> None:
    rpm(root, "echo warning")
    with pytest.raises(Unread):
        list(read_packages({}, Commands()))


def test_a_node_without_packages_is_unread(root: Root) -> None:
    with pytest.raises(Unread):
        list(read_packages({}, Commands()))


def test_snaps_and_flatpaks(debian: Root) -> None:
    debian.link("/snap/lxd/current", "123")
    debian.link("/var/lib/flatpak/app/org.example/x86_64/stable/active", "abcdef")
    found = debian.read(read_packages)
    assert found["snap lxd"] == {"revision": "123"}
    assert found["flatpak org.example/x86_64/stable"] == {"commit": "abcdef"}
