"""Whether a difference breaks, opens or slows a node, or is only a notice."""

from __future__ import annotations

import re

import pytest

from lockstep.checks.fingerprint.severities import ROWS, severity_of
from lockstep.checks.rules.fingerprint import DOMAINS
from lockstep.node.fingerprint.entry import Fields
from lockstep.report import Severity

FILE = {"type": "file", "owner": "root:root", "mode": "644", "content": "a = 1\n"}
ERROR, WARNING, NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE


def judged(domain: str, name: str, wrong: Fields | None, right: Fields | None = None) -> Severity:
    return severity_of(DOMAINS[domain][1].differs, domain, name, wrong, right)


def test_a_program_that_runs_as_its_owner_or_is_open_is_an_error() -> None:
    """The same as of a file of configuration."""
    for mode, severity in (("4755", ERROR), ("777", ERROR), ("755", WARNING)):
        found = {"type": "file", "mode": mode, "owner": "root:root", "package": "none"}
        assert judged("program", "/usr/lib/site/tool", found) is severity


def changed(domain: str, name: str, **fields: str) -> Severity:
    """Return the severity of some fields that differ from FILE, or from another value."""
    other = FILE if domain == "file" else dict.fromkeys(fields, "0")
    return judged(domain, name, {**other, **fields}, other)


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        ({"content": "a = 2\n"}, WARNING),
        ({"mode": "600"}, WARNING),
        ({"flags": "i"}, WARNING),
        ({"mode": "4755"}, ERROR),
        ({"mode": "666"}, ERROR),
        ({"mode": "2775"}, WARNING),
        ({"mode": "1777"}, WARNING),
        ({"owner": "ops:ops"}, ERROR),
        ({"capabilities": "cap_net_raw=ep"}, ERROR),
        ({"acl": "user:ops:rw-"}, ERROR),
        ({"content": "# a comment\n\n a = 1\n"}, WARNING),
        ({"content": "# a comment\n\na = 1\n; another\n"}, NOTICE),
        ({"content": "#!/bin/sh\na = 1\n"}, WARNING),
        ({"content": "# a comment\na = 1\n", "mode": "4755"}, ERROR),
    ],
)
def test_fields_of_a_file(fields: Fields, severity: Severity) -> None:
    assert changed("file", "/etc/some.conf", **fields) is severity


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("/etc/ssh/sshd_config", ERROR),
        ("/etc/sudoers.d/ops", ERROR),
        ("/etc/sudoers.d/README", ERROR),
        ("/etc/pam.d/sshd", ERROR),
        ("/home/ops/.ssh/authorized_keys", ERROR),
        ("/etc/ld.so.preload", ERROR),
        ("/etc/slurm/slurm.conf", WARNING),
        ("/etc/motd", NOTICE),
        ("/etc/some.conf.bak", NOTICE),
        ("/etc/some.conf~", NOTICE),
        ("/etc/logrotate.d/some.dpkg-dist", NOTICE),
        ("/usr/local/share/doc/some/changes", NOTICE),
        ("/opt/some/README.md", NOTICE),
        ("/root/.vimrc", NOTICE),
        ("/root/.bashrc", WARNING),
    ],
)
def test_contents_of_files(name: str, severity: Severity) -> None:
    assert changed("file", name, content="another\n") is severity
    assert judged("file", name, FILE) is severity
    assert judged("file", name, None, FILE) is severity
    assert judged("file", name, {**FILE, "mode": "4755"}) is ERROR


def test_a_comment_of_sudoers_can_be_a_directive() -> None:
    assert changed("file", "/etc/sudoers", content="#include /tmp/x\na = 1\n") is ERROR


def test_a_folder_too_many_is_a_notice_and_a_missing_one_is_not() -> None:
    folder = {"type": "folder", "owner": "root:root", "mode": "755"}
    assert judged("file", "/etc/some.d", folder) is NOTICE
    assert judged("file", "/etc/some.d", None, folder) is WARNING
    assert judged("file", "/etc/some.d", {**folder, "mode": "777"}) is ERROR
    assert judged("file", "/etc/x", {**FILE, "content": "type=folder\n"}) is WARNING


@pytest.mark.parametrize(
    ("domain", "name", "fields", "severity"),
    [
        ("user", "eve", {"uid": "0", "password": "none"}, ERROR),
        ("user", "eve", {"uid": "1001", "password": "set"}, ERROR),
        ("user", "eve", {"uid": "1001", "password": "locked"}, WARNING),
        ("group", "sudo", {"gid": "27", "members": "eve"}, ERROR),
        ("group", "users2", {"gid": "1001", "members": "eve"}, WARNING),
        ("unit", "x.service", {"enabled": "static", "active": "failed"}, ERROR),
        ("unit", "x.service", {"enabled": "disabled", "active": "active"}, WARNING),
        ("package", "htop:amd64", {"version": "1", "status": "installed"}, WARNING),
        ("package", "htop:amd64", {"version": "1", "status": "config-files"}, NOTICE),
        ("package", "bash-doc:all", {"version": "1", "status": "installed"}, NOTICE),
        ("listener", "tcp *:99", {"unit": "x.service"}, ERROR),
        ("listener", "tcp 127.0.0.1:99", {"unit": "x.service"}, WARNING),
        ("engine", "docker image debian:13", {"id": "sha256:1"}, NOTICE),
        ("engine", "docker network x", {"scope": "local"}, WARNING),
        ("mount", "/data", {"type": "xfs", "options": "rw"}, ERROR),
        ("firewall", "inet x chain y", {"rules": "drop"}, ERROR),
        ("route", "10.0.0.0/8", {"dev": "eth0"}, ERROR),
        ("process", "by hand: /opt/x", {"user": "root", "nice": "0"}, WARNING),
        ("file", "/notes", {"type": "file", "mode": "644"}, NOTICE),
        ("file", "/var/opt/notes", {"type": "file", "mode": "644"}, NOTICE),
        ("file", "/notes", {"type": "file", "mode": "4755"}, ERROR),
        ("file", "/notes", {"type": "link", "target": "/etc"}, WARNING),
        ("file", "/etc/notes", {"type": "file", "mode": "644"}, WARNING),
        ("file", "/forcefsck", {"type": "file", "mode": "644"}, WARNING),
    ],
)
def test_objects_that_only_one_node_has(
    domain: str, name: str, fields: Fields, severity: Severity
) -> None:
    assert judged(domain, name, fields) is severity


@pytest.mark.parametrize(
    ("domain", "name", "field", "severity"),
    [
        ("user", "ops", "comment", NOTICE),
        ("user", "ops", "shell", WARNING),
        ("user", "ops", "password hash", ERROR),
        ("package", "bash:amd64", "installed", NOTICE),
        ("package", "bash:amd64", "version", WARNING),
        ("package", "bash:amd64", "selection", WARNING),
        ("unit", "x.service", "enabled", WARNING),
        ("unit", "x.service", "active", ERROR),
        ("process", "x.service", "nice", WARNING),
        ("process", "x.service", "CPUs", WARNING),
        ("process", "x.service", "limit open files", WARNING),
        ("process", "x.service", "user", ERROR),
        ("process", "x.service", "capabilities effective", ERROR),
        ("process", "x.service", "stopped", ERROR),
        ("process", "x.service", "folder", NOTICE),
        ("sysctl", "vm.swappiness", "value", WARNING),
        ("sysctl", "net.ipv4.conf.eth0", "rp_filter", ERROR),
        ("sysctl", "kernel.randomize_va_space", "value", ERROR),
        ("module", "nvidia", "parameter NVreg_X", WARNING),
        ("kernel", "/sys/fs/selinux/enforce", "value", ERROR),
        ("kernel", "/sys/kernel/mm/transparent_hugepage/enabled", "value", WARNING),
        ("interface", "eth0", "mtu", WARNING),
        ("interface", "eth0", "flags", ERROR),
        ("interface", "eth0", "ifalias", NOTICE),
        ("mount", "/data", "options", ERROR),
        ("mount", "/data", "super_options", WARNING),
    ],
)
def test_fields_of_other_objects(domain: str, name: str, field: str, severity: Severity) -> None:
    assert changed(domain, name, **{field: "1"}) is severity


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("reservation root_1", NOTICE),
        ("Slurm node worker1: Comment", NOTICE),
        ("Slurm node worker1: Weight", ERROR),
        ("slurmctld: SlurmctldDebug", NOTICE),
        ("slurmctld: slurm.conf", ERROR),
        ("slurmd.service: SlurmdDebug", NOTICE),
        ("slurmd.service: nice", ERROR),
    ],
)
def test_what_runs_otherwise(name: str, severity: Severity) -> None:
    assert changed("running", name, running="1") is severity


def test_a_difference_is_as_severe_as_its_worst_field() -> None:
    assert changed("user", "ops", comment="x", shell="/bin/sh") is WARNING
    assert changed("user", "ops", comment="x", **{"password hash": "x"}) is ERROR


@pytest.mark.parametrize("row", ROWS)
def test_rows_are_few_and_have_reasons(row: tuple[Severity, str, str, str, str]) -> None:
    _, domain, name, what, reason = row
    assert domain in DOMAINS
    assert re.compile(name)
    assert re.compile(what)
    assert reason.endswith(".")
    assert len(ROWS) < 40
