"""One command for a cause and its consequences: nothing of both is left after it."""

from __future__ import annotations

import pytest

from lockstep.checks.fingerprint.reverting.together import FILES, Member, together

NODE = "worker1"
RELOAD = "systemctl daemon-reload"
UNITS = "/etc/systemd/system"
OF_RUN = "/run/systemd/system/a.target.wants/a.service"
DROP_IN = f"{UNITS}/a.service.d/b.conf"
WANTS = f"{UNITS}/a.target.wants"


def of(domain: str, name: str, text: str) -> Member:
    return Member(domain, name, f"on {NODE}: {text}")


def removed(name: str, *, folder: bool = False) -> Member:
    return of("file", name, f"{'rmdir' if folder else 'rm'} {name}")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            [removed("/opt/x", folder=True), removed("/opt/x/a"), removed("/opt/x/b")],
            "rm /opt/x/a /opt/x/b && rmdir /opt/x",
            id="a folder with files",
        ),
        pytest.param(
            [
                removed("/opt/x", folder=True),
                removed("/opt/x/y", folder=True),
                removed("/opt/x/y/z", folder=True),
                removed("/opt/x/y/z/a"),
            ],
            "rm /opt/x/y/z/a && rmdir /opt/x/y/z /opt/x/y /opt/x",
            id="folders below a folder, the deepest first",
        ),
        pytest.param(
            [
                of("file", f"{UNITS}/a.service", f"rm {UNITS}/a.service && {RELOAD}"),
                removed(f"{UNITS}/multi-user.target.wants/a.service"),
                of("unit", "a.service", "systemctl disable --now a.service"),
                of("process", "a.service", "systemctl stop a.service"),
                of("running", "a.service: state", "systemctl stop a.service"),
            ],
            f"systemctl disable --now a.service && rm {UNITS}/a.service && {RELOAD}",
            id="a unit that is enabled and runs",
        ),
        pytest.param(
            [
                of("file", f"{UNITS}/a.service", f"rm {UNITS}/a.service && {RELOAD}"),
                of("running", "a.service: state", "systemctl stop a.service"),
            ],
            f"systemctl stop a.service && rm {UNITS}/a.service && {RELOAD}",
            id="a unit that was started only",
        ),
        pytest.param(
            [
                removed(f"{UNITS}/a.service.d", folder=True),
                of("file", DROP_IN, f"rm {DROP_IN} && {RELOAD}"),
                of("unit", "a.service", "make a.service the same as on worker[2-3]"),
                of("process", "a.service", "systemctl restart a.service"),
            ],
            f"rm {DROP_IN} && rmdir {UNITS}/a.service.d && {RELOAD}"
            " && systemctl restart a.service",
            id="a drop-in, with which the service runs",
        ),
        pytest.param(
            [
                removed("/run/systemd/system/a.target.wants", folder=True),
                of("file", OF_RUN, f"rm {OF_RUN} && {RELOAD}"),
                of("unit", "a.service", "systemctl disable a.service"),
            ],
            f"systemctl disable a.service && rm {OF_RUN} && "
            f"rmdir /run/systemd/system/a.target.wants && {RELOAD}",
            id="a unit that is enabled until the next boot",
        ),
        pytest.param(
            [
                removed("/opt/x", folder=True),
                of("file", "/opt/x/a", "chattr -i /opt/x/a && rm /opt/x/a"),
            ],
            "chattr -i /opt/x/a && rm /opt/x/a && rmdir /opt/x",
            id="a file that cannot be removed at once",
        ),
        pytest.param(
            [
                of("file", "/opt/x", "chattr -i /opt/x && rmdir /opt/x"),
                removed("/opt/x/a"),
                of("file", "/opt/x/y/b", "chattr -i /opt/x/y/b && rm /opt/x/y/b"),
                of("file", "/opt/x/y", "chattr -a /opt/x/y && rmdir /opt/x/y"),
            ],
            "chattr -i /opt/x && chattr -i /opt/x/y/b && chattr -a /opt/x/y && "
            "rm /opt/x/a /opt/x/y/b && rmdir /opt/x/y /opt/x",
            id="folders that keep their files",
        ),
        pytest.param(
            [
                of("file", WANTS, f"chattr -i {WANTS} && rmdir {WANTS}"),
                of("file", f"{WANTS}/b.service", f"rm {WANTS}/b.service && {RELOAD}"),
                of("unit", "b.service", "systemctl disable --now b.service"),
            ],
            f"chattr -i {WANTS} && systemctl disable --now b.service && "
            f"rmdir {WANTS} && {RELOAD}",
            id="a folder that keeps the links of a unit",
        ),
        pytest.param(
            [
                of("file", DROP_IN, f"chattr -i {DROP_IN} && rm {DROP_IN} && {RELOAD}"),
                of("process", "a.service", "systemctl restart a.service"),
            ],
            f"chattr -i {DROP_IN} && rm {DROP_IN} && {RELOAD} && systemctl restart a.service",
            id="a locked drop-in, with which the service runs",
        ),
    ],
)  # fmt: skip
def test_a_cause_is_removed_with_its_consequences(members: list[Member], expected: str) -> None:
    assert together(NODE, members) == f"on {NODE}: {expected}"


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([removed("/opt/x")], id="no consequence"),
        pytest.param(
            [of("package", "x", "apt-get purge x"), removed("/opt/x")], id="no file is the cause"
        ),
        pytest.param(
            [
                of("file", "/etc/x", "make /etc/x the same as on worker2"),
                of("process", "x.service", "systemctl restart x.service"),
            ],
            id="the cause has no command",
        ),
        pytest.param(
            [of("file", "/etc/x", "chmod 644 /etc/x"), removed("/etc/x.d")],
            id="the cause is not removed",
        ),
    ],
)
def test_otherwise_the_repair_of_the_cause_stays(members: list[Member]) -> None:
    assert together(NODE, members) == ""


def test_a_folder_with_a_file_that_no_command_removes_has_no_command() -> None:
    members = [
        removed("/opt/x", folder=True),
        removed("/opt/x/a"),
        of("file", "/opt/x/b", "make /opt/x/b the same as on worker2"),
    ]
    assert together(NODE, members) == "on worker1: find out what created /opt/x, then remove /opt/x"


def test_a_folder_with_very_many_files_has_no_command() -> None:
    files = [removed(f"/opt/x/{number}") for number in range(FILES + 1)]
    some, every = ([removed("/opt/x", folder=True), *many] for many in (files[1:], files))
    assert together(NODE, some).startswith("on worker1: rm ")
    assert together(NODE, every) == "on worker1: find out what created /opt/x, then remove /opt/x"
