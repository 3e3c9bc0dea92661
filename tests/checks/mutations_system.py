"""Changed values of services, mounts, disks or identity, and the rule that finds each."""

from __future__ import annotations

from typing import Any

from tests.checks import recorded
from tests.checks.mutation import NODE, each, one
from tests.checks.recorded_machine import DCGM_EXPORTER

HEALTHY: Any = recorded.consistent().reading[NODE]
ENABLED = HEALTHY.get("units.enabled")
EXPORTER = "dcgm-exporter"
LEFT_OVER = (
    ("file", "files", "/etc/old.conf", {"state": "unchanged", "package": "p"}, "unchanged"),
    ("file", "files", "/etc/odd.conf", {"state": "changed"}, "changed"),
    ("unit", "units", "old.service", {"state": "enabled, active"}, "enabled, active"),
    ("unit", "masked", "old.timer", {"state": "masked"}, "masked"),
    ("package", "packages", "adduser", {"state": "on hold"}, "installed, on hold"),
    ("sysctl", "sysctl", "vm.old", {"state": "1"}, "1"),
    ("user", "users", "old", {"state": "there"}, "there"),
    ("user", "groups", "old", {"state": "there"}, "there"),
)

SYSTEM = (
    one("selinux.mode", "selinux.mode", "running", "permissive", "permissive", "running"),
    one("selinux.mode", "selinux.mode", "persisted", "enforcing", "enforcing", "persisted"),
    one("selinux.mode", "selinux.mode", "policy", "mls", "mls", "policy"),
    each(
        *("limits.open_files", "limits.open_files", "slurmd.service"),
        *({"soft": "1024", "hard": "524288"}, "1024 (at most 524288)"),
    ),
    one("unit.failed", "units.failed", "", ["backup.service"], "failed", "backup.service"),
    one("unit.peers", "units.enabled", "", [*ENABLED, "x.timer"], "additional: x.timer"),
    one("cron.jobs", "cron.jobs", "/etc/cron.d/x", "00", "additional: /etc/cron.d/x"),
    one("cron.jobs", "cron.jobs", "/etc/cron.daily/dpkg", "00", "different: /etc/cron.daily/dpkg"),
    each("collector.settings", "collectors", EXPORTER, [f"{EXPORTER} -c 1000"], "-c 1000"),
    each(
        *("collector.single", "collectors", EXPORTER),
        *([DCGM_EXPORTER, f"{EXPORTER} -c 1000"], "2 running"),
    ),
    each("collector.single", "collectors", "nvidia-smi", ["nvidia-smi dmon"], "1 running"),
    each("service.cpu", "services.cpu_share", "munge.service", 35.5, "35.5 % of a CPU"),
    each("mounts.shared", "mounts.shared", "/home", "nfs4 x:/home rw", "x:/home rw"),
    each("mounts.fstab", "mounts.fstab", "/boot", "absent", "absent"),
    each("mounts.writable", "mounts.local", "/", "ro", "ro"),
    each("storage.space", "storage.space", "/", 97.5, "97.5 % full"),
    each("storage.inodes", "storage.inodes", "/", 99.0, "99 % of the inodes"),
    one("storage.nvme", "storage.nvme", "nvme1", "SOLIDIGM, 9CV10200", "1 x SOLIDIGM, 9CV10200"),
    one("os.machine_id", "os.machine_id", "", f"1d{7:030x}", "worker3, worker7"),
    one("os.host_keys", "os.host_keys", "ed25519", f"1d{7:062x}", "worker3, worker7"),
    *(
        one(f"left_over.{rule}", "manifest", section, {name: {"role": "x", **now}}, found, name)
        for rule, section, name, now, found in LEFT_OVER
    ),
    each("os.resolver", "os.resolver", "nameserver", "fd00:1::54", "fd00:1::54"),
)
