"""Files of kernel settings, CPU sets, huge pages, and the boot loader."""

from __future__ import annotations

from functools import partial

from lockstep.files._entry import Entry, drop_in
from lockstep.plan import NodePlan

TMPFILES = (
    # In an empty tree there is nothing to write to: only the syntax is judged.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; systemd-tmpfiles --create --root="$d" {new}'
)


def _has_kernel_drop_in(plan: NodePlan) -> bool:
    return bool(plan.hardware.kernel_args) and plan.cluster.release.boot_loader == "grub_drop_in"


def _has_housekeeping(plan: NodePlan) -> bool:
    return bool(plan.hardware.cpu.housekeeping)


def _has_cpusets(plan: NodePlan) -> bool:
    return _has_housekeeping(plan) and plan.hardware.hardware.cgroup == "v2"


def _has_pages(plan: NodePlan, size: str) -> bool:
    return size in plan.hardware.hugepages


def _has_hugetlb_group(plan: NodePlan) -> bool:
    return bool(plan.hardware.hugepages) and plan.spec.os.hugetlb_gid is not None


ENTRIES = (
    Entry(
        "kernel",
        "/etc/tmpfiles.d/50-lockstep-kernel.conf",
        "kernel/tmpfiles.conf.j2",
        validate=TMPFILES,
        wanted=lambda plan: bool(plan.hardware.kernel_files),
    ),
    Entry(
        "cpu_sets",
        "/etc/systemd/system.conf.d/50-lockstep-cpus.conf",
        "cpu_sets/system.conf.j2",
        wanted=_has_housekeeping,
    ),
    Entry(
        "cpu_sets",
        "/etc/systemd/system/user.slice.d/50-lockstep.conf",
        "cpu_sets/slice.conf.j2",
        validate=drop_in("user.slice"),
        wanted=_has_housekeeping,
    ),
    Entry(
        "cpu_sets",
        "/etc/systemd/system/service.d/50-lockstep-cpus.conf",
        "cpu_sets/service.conf.j2",
        validate=drop_in("systemd-journald.service", "50-lockstep-cpus.conf"),
        wanted=_has_cpusets,
    ),
    Entry(
        "cpu_sets",
        "/etc/tmpfiles.d/50-lockstep-cpus.conf",
        "cpu_sets/tmpfiles.conf.j2",
        validate=TMPFILES,
        wanted=lambda plan: bool(plan.hardware.cpu_files),
    ),
    Entry(
        "hugepages",
        "/etc/sysusers.d/50-lockstep-hugetlb.conf",
        "hugepages/sysusers.conf.j2",
        wanted=_has_hugetlb_group,
    ),
    Entry(
        "hugepages",
        "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf",
        "hugepages/mount.conf.j2",
        validate=drop_in("dev-hugepages.mount"),
        wanted=partial(_has_pages, size="2M"),
    ),
    Entry(
        "hugepages",
        "/etc/systemd/system/dev-hugepages1G.mount",
        "hugepages/dev-hugepages1G.mount.j2",
        wanted=partial(_has_pages, size="1G"),
    ),
    Entry(
        "boot_loader",
        "/etc/default/grub.d/50-lockstep.cfg",
        "boot_loader/grub.cfg.j2",
        validate="sh -n {new}",
        wanted=_has_kernel_drop_in,
    ),
)
