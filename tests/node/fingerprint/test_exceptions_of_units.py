"""Each exception holds for its object, and for no neighbour."""

from __future__ import annotations

import re

import pytest

from lab.fingerprint_exceptions import LAB_UNITS
from lockstep.node.fingerprint.entry import Entry
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions

TABLE = by_domain((*EXCEPTIONS, *LAB_UNITS))
ROWS = [
    ("unit", "user@1000.service", "user@.service"),
    ("unit", "user-runtime-dir@0.service", "user-runtime-dir.service"),
    ("unit", "sshd@3-10.0.0.1:22-10.0.0.2:5000.service", "sshd@.service"),
    ("unit", "systemd-fsck@dev-sda1.service", "systemd-fsck-root.service"),
    ("unit", "systemd-coredump@5-77-0.service", "systemd-coredump.socket"),
    ("process", "ssh@3-10.0.0.1:22-10.0.0.2:5000.service", "ssh.service"),
    ("process", "netavark-dhcp-proxy.service", "podman.service"),
    ("running", "irqbalance.service: state", "irqbalance.service: nice"),
    ("running", "sshd@3-10.0.0.1:22-x.service: state", "sshd.service: state"),
    ("running", "slurmd.service: CPUs", "slurmctld.service: CPUs"),
    ("running", "slurmd.service: limit core file size", "slurmd.service: limit open files"),
    ("running", "ssh.service: OOM score adjustment", "ssh.service: CPUs"),
    ("running", "systemd-udevd.service: limit open files", "ssh.service: limit open files"),
    ("running", "auditd.service: nice", "auditd.service: policy"),
    ("running", "multipathd.service: policy", "multipathd.service: state"),
    ("running", "slurmctld.service: limit stack size", "slurmctld.service: limit open files"),
    ("running", "slurmdbd.service: limit core file size", "slurmd.service: limit stack size"),
    ("running", "mariadb.service: umask", "mariadb.service: user"),
    ("running", "ntpsec.service: limit locked memory", "ntpsec.service: limit open files"),
    ("running", "kubelet.service: limit open files", "containerd.service: limit open files"),
    ("running", "kubelet.service: OOM score adjustment", "munge.service: OOM score adjustment"),
    ("running", "munge.service: limit core file size", "munge.service: limit stack size"),
    ("running", "docker.service: OOM score adjustment", "slurmd.service: OOM score adjustment"),
    ("listener", "udp 0.0.0.0:68", "udp 0.0.0.0:67"),
    ("listener", "unix /run/systemd/userdb/io.systemd.Machine",
     "unix /run/systemd/userdb/io.systemd.DynamicUser"),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "object_", "neighbour"), ROWS)
def test_objects(domain: str, object_: str, neighbour: str) -> None:
    fields = {"active": "x"}
    assert without_exceptions(domain, Entry(object_, fields), TABLE) is None
    assert without_exceptions(domain, Entry(neighbour, fields), TABLE) == fields


@pytest.mark.parametrize(
    ("unit", "neighbour"),
    [
        ("systemd-hostnamed.service", "systemd-logind.service"),
        ("polkit.service", "dbus.service"),
        ("libvirtd.service", "libvirt-guests.service"),
        ("virtqemud.service", "virtqemud.socket"),
        ("netavark-dhcp-proxy.service", "netavark-dhcp-proxy.socket"),
    ],
)
def test_states_of_units(unit: str, neighbour: str) -> None:
    fields = {"active": "active", "enabled": "static"}
    assert without_exceptions("unit", Entry(unit, fields), TABLE) == {"enabled": "static"}
    assert without_exceptions("unit", Entry(neighbour, fields), TABLE) == fields


def test_options_of_pid_1() -> None:
    fields = {"command": "systemd --system", "program": "/usr/lib/systemd/systemd"}
    expected = {"program": "/usr/lib/systemd/systemd"}
    assert without_exceptions("process", Entry("systemd", fields), TABLE) == expected
    assert without_exceptions("process", Entry("systemd-udevd.service", fields), TABLE) == fields


def test_every_row_is_covered() -> None:
    mine = ("unit", "process", "running", "listener")
    for exempt in (*EXCEPTIONS, *LAB_UNITS):
        if exempt.domain in mine:
            assert any(
                re.fullmatch(exempt.object, object_)
                for row, object_, _ in [
                    *ROWS, ("unit", "polkit.service", ""), ("unit", "libvirtd.service", ""),
                    ("unit", "netavark-dhcp-proxy.service", ""),
                    ("unit", "systemd-hostnamed.service", ""),
                    ("process", "systemd", ""),
                ]
                if row == exempt.domain
            ), exempt  # fmt: skip
