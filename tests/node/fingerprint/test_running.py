"""Objects of the domain ``running``: what runs against what is configured."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from lockstep.node.fingerprint.conditions import conditions
from lockstep.node.fingerprint.expected import numbers, ranges
from lockstep.node.fingerprint.unitfiles import settings_of
from tests.node.fingerprint.daemon_node import ADMIN, LIMITS, STATUS, UNITS, Node, node

__all__ = ["node"]
LOADED = "/run/systemd/systemd-units-load"
DROP_IN = f"{ADMIN}/munge.service.d/50.conf"


def test_a_healthy_node_has_no_object(node: Node) -> None:
    assert node.read("running") == {}


@pytest.mark.parametrize(
    ("change", "attribute", "running", "configured"),
    [
        ({"nice": 5}, "nice", "5", "0"),
        ({"policy": 3}, "policy", "batch", "other"),
        ({"state": "T"}, "execution", "stopped", "running"),
    ],
)
def test_attributes_of_a_process(
    node: Node, change: dict[str, Any], attribute: str, running: str, configured: str
) -> None:
    node.process(200, "/usr/sbin/munged", "-F", **change)
    expected = {"running": running, "configured": configured}
    assert node.read("running") == {f"munge.service: {attribute}": expected}


@pytest.mark.parametrize(
    ("file", "text", "attribute", "running", "configured"),
    [
        ("oom_score_adj", "700\n", "OOM score adjustment", "700", "0"),
        ("limits", LIMITS.replace("524288", "4096  "), "limit open files", "1024 4096",
         "1024 524288"),
        ("limits", LIMITS.replace("8388608 ", "16777216"), "limit stack size",
         "16777216 unlimited", "8388608 unlimited"),
        ("status", STATUS.format(uid=0).replace("0-3", "1"), "CPUs", "1", "0-3"),
    ],
)  # fmt: skip
def test_files_of_a_process(
    node: Node, file: str, text: str, attribute: str, running: str, configured: str
) -> None:
    node.file(f"/proc/200/{file}", text)
    expected = {"running": running, "configured": configured}
    assert node.read("running") == {f"munge.service: {attribute}": expected}


@pytest.mark.parametrize(
    ("setting", "attribute", "configured"),
    [
        ("Nice=-5", "nice", "-5"),
        ("CPUAffinity=0 1", "CPUs", "0-1"),
        ("LimitNOFILE=777", "limit open files", "777 777"),
        ("LimitSTACK=1G:2G", "limit stack size", "1073741824 2147483648"),
        ("OOMScoreAdjust=-900", "OOM score adjustment", "-900"),
        ("CPUSchedulingPolicy=idle", "policy", "idle"),
        ("User=munge", "user", "munge"),
        ("UMask=77", "umask", "0077"),
        ("NoNewPrivileges=yes", "no new privileges", "1"),
        ("Environment=GOGC=50", "environment GOGC", "50"),
        ('Environment="A=b c" LANG=C', "environment A", "b c"),
    ],
)
def test_settings_that_the_process_lacks(
    node: Node, setting: str, attribute: str, configured: str
) -> None:
    node.file(DROP_IN, f"[Service]\n{setting}\n")
    seen = node.read("running")
    assert seen[f"munge.service: {attribute}"]["configured"] == configured
    assert len(seen) == 1


def test_the_managers_affinity_is_the_default(node: Node) -> None:
    node.file("/etc/systemd/system.conf.d/1.conf", "[Manager]\nCPUAffinity=0\n")
    seen = node.read("running")
    assert sorted(seen) == ["munge.service: CPUs", "slurm.service: CPUs"]
    assert seen["munge.service: CPUs"] == {"running": "0-3", "configured": "0"}


def test_a_cpuset_of_the_control_group_is_respected(node: Node) -> None:
    node.file("/sys/fs/cgroup/system.slice/munge.service/cpuset.cpus.effective", "2-3\n")
    node.file("/proc/200/status", STATUS.format(uid=0).replace("0-3", "2-3"))
    assert node.read("running") == {}


def test_a_soft_limit_of_files_that_the_program_raised(node: Node) -> None:
    node.file("/proc/200/limits", LIMITS.replace("1024  ", "524288"))
    assert node.read("running") == {}
    node.file("/proc/200/limits", LIMITS.replace("1024  ", "4096  "))
    assert node.read("running") == {}
    node.file("/proc/200/limits", LIMITS.replace("1024  ", "512   "))
    assert "munge.service: limit open files" in node.read("running")


def test_a_setting_that_is_not_understood_hides_no_other_service(node: Node) -> None:
    node.file(DROP_IN, "[Service]\nNice=low\n")
    node.process(300, "/usr/sbin/slurmd", "-F", nice=5)
    assert list(node.read("running")) == ["slurm.service: nice"]


def test_a_container_that_cannot_exceed_its_own_limit(node: Node) -> None:
    node.manager.update(DefaultLimitNOFILE="1048576", DefaultLimitNOFILESoft="1048576")
    low = LIMITS.replace("1024  ", "20000 ").replace("524288", "20000 ")
    for number in (1, 200, 300):
        node.file(f"/proc/{number}/limits", low)
    assert "munge.service: limit open files" in node.read("running")
    node.file("/proc/1/status", "Cpus_allowed_list:\t0-3\nCapEff:\t00000000fcecbfff\n")
    assert node.read("running") == {}
    node.file("/proc/200/limits", low.replace("20000 ", "1024  ", 1))
    assert node.read("running")["munge.service: limit open files"]["configured"] == "20000 20000"


def test_more_open_files_than_the_kernel_allows(node: Node) -> None:
    """containerd's own unit has "infinity", and systemd gives it what the kernel allows."""
    node.file(DROP_IN, "[Service]\nLimitNOFILE=infinity\n")
    high = LIMITS.replace("1024  ", "1073741816").replace("524288", "1073741816")
    node.file("/proc/200/limits", high)
    assert "munge.service: limit open files" in node.read("running")
    node.file("/proc/sys/fs/nr_open", "1073741816\n")
    assert node.read("running") == {}
    node.file("/proc/200/limits", high.replace("1073741816", "1048576"))
    found = node.read("running")["munge.service: limit open files"]
    assert found["configured"] == "1073741816 1073741816"


def test_secrets_in_variables_are_not_shown(node: Node) -> None:
    node.file(DROP_IN, "[Service]\nEnvironment=API_TOKEN=abc\n")
    seen = node.read("running")["munge.service: environment API_TOKEN"]
    assert "abc" not in str(seen)


def test_programs_and_libraries_that_were_replaced(node: Node) -> None:
    maps = (
        "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so.6 (deleted)\n"
        "7f00-7f01 rw-s 0 00:00 1 /dev/shm/x (deleted)\n7f00-7f01 rw-p 0 00:00 0 \n"
    )
    node.file("/proc/200/maps", maps)
    seen = node.read("running")["munge.service: program"]
    assert seen["running"] == "deleted: /usr/lib/libc.so.6"
    node.link("/proc/300/exe", "/usr/sbin/slurmd (deleted)")
    assert "slurm.service: program" in node.read("running")


@pytest.mark.parametrize(
    "path",
    [DROP_IN, "/etc/munge/munge.key", "/etc/default/munge",
     "/run/systemd/system/munge.service.d/1.conf"],
)  # fmt: skip
def test_files_that_changed_since_the_start(node: Node, path: str) -> None:
    node.unit("munge.service", "[Service]\nEnvironmentFile=-/etc/default/munge\n")
    ticks = os.sysconf("SC_CLK_TCK")
    node.file(path, "[Service]\n")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    node.process(200, "/usr/sbin/munged", "-F", start=int((now + 5) * ticks))
    assert "munge.service: start" not in node.read("running")
    node.process(200, "/usr/sbin/munged", "-F", start=int((now - 50) * ticks))
    assert node.read("running")["munge.service: start"]["configured"] == path


@pytest.mark.parametrize(
    "path",
    [f"{UNITS}/munge.service.d/1.conf", "/run/systemd/system.control/munge.service.d/1.conf"],
)
def test_files_that_packages_write_or_that_apply_at_once(node: Node, path: str) -> None:
    node.file(path, "[Service]\n")
    node.process(200, "/usr/sbin/munged", "-F", start=1)
    assert "munge.service: start" not in node.read("running")


@pytest.mark.parametrize(
    ("state", "running"),
    [("inactive dead", "inactive"), ("failed failed", "failed"),
     ("activating auto-restart", "failing")],
)  # fmt: skip
def test_an_enabled_service_that_does_not_run(node: Node, state: str, running: str) -> None:
    node.states["munge.service"] = f"loaded {state}"
    expected = {"running": running, "configured": "by multi-user.target.wants"}
    assert node.read("running")["munge.service: state"] == expected


def test_a_service_whose_target_is_not_active_need_not_run(node: Node) -> None:
    node.states["munge.service"] = "loaded inactive dead"
    node.states["multi-user.target"] = "loaded inactive dead"
    assert "munge.service: state" not in node.read("running")


def test_a_service_that_runs_although_masked_or_disabled(node: Node) -> None:
    node.link(f"{ADMIN}/munge.service", "/dev/null")
    assert node.read("running")["munge.service: state"]["configured"] == "masked"
    (node.root / f"{ADMIN[1:]}/munge.service").unlink()
    (node.root / f"{ADMIN[1:]}/multi-user.target.wants/munge.service").unlink()
    assert node.read("running")["munge.service: state"]["configured"] == "disabled"
    # Another service wants it.
    node.file(f"{UNITS}/slurm.service.d/1.conf", "[Unit]\nWants=munge.service\n")
    assert node.read("running") == {}


@pytest.mark.parametrize("kind", ["timer", "socket", "path"])
def test_an_enabled_unit_that_waits_for_nothing(node: Node, kind: str) -> None:
    node.unit(
        f"x.{kind}", "[Unit]\n[Install]\nWantedBy=multi-user.target\n", "loaded inactive dead"
    )
    node.enable(f"x.{kind}")
    assert node.read("running")[f"x.{kind}: state"]["running"] == "inactive"


@pytest.mark.parametrize(
    ("text", "virtual", "hold"),
    [
        ("", "", True),
        ("ConditionPathExists=/there", "", True),
        ("ConditionPathExists=!/there", "", False),
        ("ConditionPathExists=/missing", "", False),
        ("ConditionPathExists=|/missing\nConditionPathExists=|/there", "", True),
        ("ConditionVirtualization=!container", "systemd-nspawn", False),
        ("ConditionVirtualization=!container", "", True),
        ("ConditionVirtualization=vm", "kvm", True),
        ("ConditionVirtualization=no", "kvm", False),
        ("ConditionCapability=CAP_SYS_TIME", "", True),
        ("ConditionKernelCommandLine=quiet", "", True),
        ("ConditionKernelCommandLine=!root", "", False),
        ("ConditionFileNotEmpty=/there", "", True),
        ("ConditionDirectoryNotEmpty=/missing", "", False),
        ("ConditionSecurity=selinux", "", False),
        ("ConditionSecurity=selinux\nConditionSecurity=", "", True),
    ],
)
def test_conditions(node: Node, text: str, virtual: str, hold: bool) -> None:
    node.file("/there", "x")
    node.file("/proc/cmdline", "quiet root=/dev/vda\n")
    node.file("/unit", f"[Unit]\n{text}\n")
    assert conditions(settings_of(["/unit"]), virtual) is hold


def test_systemd_is_asked_only_about_units_with_younger_files(node: Node) -> None:
    node.reload = "yes"
    assert node.read("running") == {}  # an old systemd, which does not say when it loaded units
    os.utime(node.file(LOADED), (2e9 * 2, 2e9 * 2))
    assert node.read("running") == {}
    (node.root / ADMIN[1:] / "munge.service.d").mkdir()
    os.utime(node.file(LOADED), (time.time() + 9, time.time() + 9))
    assert node.read("running") == {}
    os.utime(node.file(LOADED), (5, 5))
    assert "munge.service: unit files" in node.read("running")
    node.reload = "no"
    assert node.read("running") == {}


@pytest.mark.parametrize("path", ["/etc/fstab", "/etc/systemd/system.conf.d/1.conf"])
def test_files_that_systemd_reads_at_each_reload(node: Node, path: str) -> None:
    node.file(path, "[Manager]\n")
    os.utime(node.file(LOADED), (time.time() + 9, time.time() + 9))
    assert node.read("running") == {}
    os.utime(node.file(LOADED), (5, 5))
    assert f"systemd: {path}" in node.read("running")


@pytest.mark.parametrize(
    ("name", "running", "configured"),
    [("LogLevel", "debug", "info"), ("ServiceWatchdogs", "no", "yes")],
)
def test_the_manager_itself(node: Node, name: str, running: str, configured: str) -> None:
    node.manager[name] = running
    expected = {"running": running, "configured": configured}
    assert node.read("running") == {f"systemd: {name}": expected}
    node.file("/etc/systemd/system.conf", f"[Manager]\n{name}={running}\n")
    assert node.read("running") == {}


def test_the_kernels_command_line_configures_the_manager(node: Node) -> None:
    node.manager["LogLevel"] = "debug"
    node.file("/proc/cmdline", "quiet systemd.log_level=debug\n")
    assert node.read("running") == {}


def test_the_hosts_name_and_time_zone(node: Node) -> None:
    node.file("/proc/sys/kernel/hostname", "spare\n")
    assert node.read("running") == {"host name: name": {"running": "spare", "configured": "n1"}}
    node.file("/etc/hostname", "spare\n")
    zones = node.root / "usr/share/zoneinfo"
    node.file("/usr/share/zoneinfo/Etc/UTC")
    node.file("/usr/share/zoneinfo/Europe/Berlin")
    node.link("/etc/localtime", f"{zones}/Europe/Berlin")
    node.file("/etc/timezone", "Europe/Berlin\n")
    assert node.read("running") == {}
    node.file("/etc/timezone", "Etc/UTC\n")
    assert node.read("running")["time zone: zone"]["running"] == "Europe/Berlin"


def test_refused_logins(node: Node) -> None:
    node.file("/run/nologin")
    assert "logins: state" in node.read("running")
    node.file("/etc/nologin")
    assert node.read("running") == {}


def test_an_exception_spares_its_neighbour(node: Node) -> None:
    node.daemon("munged", 700)
    for number in (200, 700):
        lower = LIMITS.replace("0                    unlimited", "0                    0        ")
        node.file(f"/proc/{number}/limits", lower)
    assert sorted(node.read("running")) == ["munged.service: limit core file size"]


def test_lists_of_cpus() -> None:
    assert numbers(["0-2", "8 9,11"]) == {0, 1, 2, 8, 9, 11}
    assert ranges({0, 1, 2, 8, 9, 11}) == "0-2,8-9,11"
    assert ranges(set()) == ""
