"""Rules about the running kernel, the kernel that boots next, and their arguments."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.looks import whole
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.rule import (
    DEPLOY,
    REBOOT,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Expected,
    Look,
    Peers,
    Pending,
    Repair,
    Rule,
    Text,
    by_hand,
    by_role,
    same,
)
from lockstep.plan.reboot import absent
from lockstep.probe.record import Unread

DROP_IN = "/etc/default/grub.d/50-lockstep.cfg"
RUNNING, NEXT = "kernel.cmdline", "kernel.cmdline_persisted"

STARTED_OTHERWISE = "started with other arguments"
STARTED_SO = (
    Cause("kernel.args", of=Effect(tag=STARTED_OTHERWISE)),
    Cause("kernel.args_foreign", of=Effect(tag=STARTED_OTHERWISE)),
)
"""If the kernel was not started with the planned arguments, only its command line is reported, not
the settings that depend on it."""


def own_kernel(view: View) -> bool:
    """Return whether the machine runs its own kernel."""
    return view.plan.hardware.hardware.boot_loader != "none"


def planned_cpus(view: View, isolation: str) -> str:
    """Return the workload CPUs if the plan isolates them with the method ``isolation``, else ""."""
    hardware = view.plan.hardware
    return hardware.cpu.workload if isolation in hardware.hardware.kernel.isolation else ""


def key(word: object) -> str:
    """Return the name of a kernel argument."""
    return str(word).partition("=")[0]


def given(view: View, reading: str) -> tuple[str, ...]:
    """Return the words of a command line, or () if it could not be read."""
    line = view.read(reading)
    return tuple(str(word) for word in line) if isinstance(line, list) else ()


def started_otherwise(view: View, *keys: str) -> frozenset[str]:
    """Return a tag if the kernel was not started with the planned arguments for ``keys``."""
    return frozenset() if _planned(view, RUNNING, keys) else frozenset({STARTED_OTHERWISE})


def waits(view: View, *keys: str) -> bool:
    """Return whether the planned arguments are set for the next boot but are not yet in force."""
    return _planned(view, NEXT, keys) and not _planned(view, RUNNING, keys)


def waiting_argument(*keys: str, peers: str | None = None) -> Repair:
    """Return the repair for a setting that the kernel arguments ``keys`` control."""
    return by_role(
        "boot_loader",
        f"{DEPLOY}, then {REBOOT}",
        peers=peers,
        pending=Pending(
            lambda view, device: waits(view, *keys),
            "The argument is in the boot loader's configuration. It takes effect after the "
            "next reboot.",
        ),
    )


def _planned(view: View, reading: str, keys: tuple[str, ...]) -> bool:
    wanted = {word for word in view.plan.system.kernel_args if key(word) in keys}
    known = isinstance(view.read(reading), list)
    return known and {word for word in given(view, reading) if key(word) in keys} == wanted


NOT_ON_DISK = "not on disk"


def _absent(view: View, line: str) -> tuple[str, ...]:
    return absent(view.plan.system.kernel_args, given(view, line))


def _args_pending(view: View, device: str) -> bool:
    return isinstance(view.read(NEXT), list) and not _absent(view, NEXT)


def _words(value: JsonValue) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


OWNED = (
    *("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"),
    *("hugepages", "hugepagesz", "default_hugepagesz"),
)
"""Kernel arguments that only the plan may set. spec/validate_hardware.py rejects them in
``kernel_args``."""


def _args_foreign_items(view: View) -> Items:
    # An argument that follows from a role of the site is not foreign, either.
    planned = view.plan.with_every_role.system.kernel_args
    running, later = (
        [word for word in given(view, line) if key(word) in OWNED and word not in planned]
        for line in (RUNNING, NEXT)
    )
    items: Items = {
        word: "in force" + (" and at the next boot" if word in later else "") for word in running
    }
    items |= {word: "at the next boot" for word in later if word not in running}
    for line in (RUNNING, NEXT):
        if isinstance(value := view.read(line), Unread):
            items[""] = value
    return items


LOST = "lost at the next boot"


OWN = ("BOOT_IMAGE", "root", "initrd", "resume", "rd.luks.uuid", "ip")
"""Arguments that differ from machine to machine."""


KEYS = ("processor.max_cstate", "intel_idle.max_cstate")
OTHER_PAGES = (
    "install the kernel with {expected} on {node} (for 64k: linux-image-generic-64k of Ubuntu, "
    "kernel-64k of the RHEL family), make it the default entry of the boot loader, and reboot "
    "{node} into it when it is idle"
)


RULES = (
    Rule(
        id="kernel.args",
        claim="Every planned kernel argument is in force.",
        why=(
            "CPUs can be isolated only at boot, and after boot there may not be enough contiguous "
            "memory for huge pages."
        ),
        blind=(
            "Undeclared arguments. kernel.args_foreign checks undeclared arguments for CPU "
            "isolation and huge pages, and kernel.cmdline compares all others with those of the "
            "peers."
        ),
        source="kernel documentation, admin-guide/kernel-parameters",
        reading=RUNNING,
        look=Look(whole(RUNNING, lambda view, line: [*_absent(view, RUNNING)])),
        expected=same([]),
        text=Text(words=lambda seen, expected: (f"not in force: {_words(seen)}", _words(seen))),
        repair=by_role(
            "boot_loader",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                _args_pending,
                "The argument is in the boot loader's configuration. It takes effect after the "
                "next reboot.",
            ),
        ),
        tags=lambda view, device: frozenset(() if _args_pending(view, device) else (NOT_ON_DISK,)),
        applies=lambda view: own_kernel(view) and bool(view.plan.system.kernel_args),
        # A changed file is not the cause of arguments that take effect after the next reboot.
        explained_by=(Cause("file.content", device=DROP_IN, of=Effect(tag=NOT_ON_DISK)),),
    ),
    Rule(
        id="kernel.args_foreign",
        claim="Only the plan sets kernel arguments for CPU isolation and huge pages.",
        why="Leftover arguments take CPUs or memory from jobs, and no deploy removes them.",
        blind="All other kernel arguments, which kernel.cmdline compares with those of the peers.",
        source="kernel documentation, admin-guide/kernel-parameters",
        reading=RUNNING,
        look=Look(_args_foreign_items),
        expected=replace(same(""), set_by="boot_loader"),
        text=Text(words=lambda seen, expected: (str(seen), "absent")),
        # deploys/reboot.py reboots for missing arguments, not for extra ones.
        repair=by_hand(
            (
                "on {node}: remove {device} from /etc/default/grub or from the file in grub.d "
                "that adds it, then run update-grub (with grubby: grubby --update-kernel=ALL "
                "--remove-args={device}); reboot {node} when it is idle"
            ),
            pending=Pending(
                lambda view, word: (
                    isinstance(view.read(NEXT), list) and word not in given(view, NEXT)
                ),
                "The argument is gone from the boot loader's menu, but stays in force until the "
                "next boot.",
                repair="reboot {node} when it is idle",
            ),
        ),
        # The command lines in which the word overrides a planned argument.
        tags=lambda view, word: frozenset(
            line
            for line in (RUNNING, NEXT)
            if word in given(view, line) and key(word) in map(key, _absent(view, line))
        ),
        objects=lambda view, word: (Object(ObjectKind.KERNEL_ARGUMENT, word),),
        applies=own_kernel,
        explained_by=(
            Cause("kernel.args", of=Effect(tag=RUNNING)),
            Cause("kernel.args_persisted", of=Effect(tag=NEXT)),
            Cause("kernel.args", of=UNREAD),
            Cause("kernel.args_persisted", of=UNREAD),
        ),
    ),
    Rule(
        id="kernel.args_persisted",
        claim="Every planned kernel argument is set for the next boot.",
        why=(
            "CPU isolation that is in force today but missing from the boot loader's menu is lost "
            "at the next reboot."
        ),
        blind="Other boot menu entries. Arguments that someone types at the boot prompt.",
        source="kernel documentation, admin-guide/kernel-parameters; grub-mkconfig(8)",
        reading=NEXT,
        look=Look(whole(NEXT, lambda view, line: " ".join(_absent(view, NEXT)))),
        expected=same(""),
        text=Text(words=lambda seen, expected: (f"missing at the next boot: {seen}", str(seen))),
        repair=by_role("boot_loader"),
        tags=lambda view, device: frozenset({LOST}),
        applies=lambda view: own_kernel(view) and bool(view.plan.system.kernel_args),
        explained_by=(
            Cause("file.content", device=DROP_IN, of=Effect(tag=LOST)),
            Cause("kernel.args", of=Effect(tag=LOST)),
        ),
    ),
    Rule(
        id="kernel.cmdline",
        claim="All nodes of a hardware class booted with the same kernel arguments.",
        why="A leftover debugging argument can slow one node and every job on it.",
        blind="Arguments that are wrong on all nodes. kernel.args checks the planned arguments.",
        source="proc_cmdline(5)",
        reading="kernel.cmdline",
        look=Look(
            pick=lambda line: (
                [word for word in line if key(word) not in OWN] if isinstance(line, list) else line
            )
        ),
        peers=Peers.CLASS,
        text=Text(_words),
        repair=by_hand(
            peers=(
                "compare /etc/default/grub and /etc/default/grub.d on {node} with those on its "
                "peers, correct the arguments, then reboot {node}"
            )
        ),
        applies=own_kernel,
        explained_by=(Cause("kernel.args"), Cause("kernel.args_foreign")),
    ),
    Rule(
        id="kernel.max_cstate",
        claim="Idle CPUs do not enter C-states deeper than declared.",
        why=(
            "Waking a CPU from a deep C-state takes tens of microseconds, which adds to the "
            "latency of messages."
        ),
        blind=(
            "C-states that the firmware enters on its own. Limits on individual states "
            "(cpuidle/state*)."
        ),
        source="kernel documentation, admin-guide/pm/intel_idle",
        reading="kernel.max_cstate",
        expected=same(lambda view: view.plan.hardware.hardware.kernel.max_cstate),
        text=Text(lambda value: f"C{value}"),
        repair=waiting_argument(*KEYS),
        tags=lambda view, device: started_otherwise(view, *KEYS),
        applies=lambda view: view.plan.hardware.hardware.kernel.max_cstate is not None,
        explained_by=STARTED_SO,
    ),
    Rule(
        id="kernel.newest",
        claim="The running kernel is the newest installed kernel.",
        why=(
            "At its next boot, the node would start a different kernel from the one that its peers "
            "are running. Drivers and performance may differ between kernels."
        ),
        blind="Kernels of a different flavour. A boot loader that is set to start an older kernel.",
        source="uname(2); file names /boot/vmlinuz-*",
        reading="kernel.release",
        expected=Expected(default="kernel.newest"),
        severity=WARNING,
        repair=by_hand(
            DEPLOY,
            pending=Pending(
                lambda view, device: True,
                repair="reboot {node} when it is idle, or remove the kernel {expected}",
            ),
        ),
        applies=own_kernel,
        explained_by=(Cause("kernel.release"),),
    ),
    Rule(
        id="kernel.page_size",
        claim=(
            "All kernels of a hardware class have the declared page size or, if none is declared, "
            "the same one."
        ),
        why=(
            "Kernels with 4 KiB and with 64 KiB pages differ in page faults, TLB misses and sizes "
            "of huge pages, so one job runs at two speeds."
        ),
        blind="The same wrong page size on all nodes, if none is declared.",
        source="sysconf(3), PAGESIZE; NVIDIA Grace performance tuning guide, Page Size",
        reading="kernel.page_size",
        expected=same(lambda view: view.plan.hardware.hardware.kernel.page_size),
        text=Text(lambda size: f"pages of {size}"),
        repair=by_hand(OTHER_PAGES, peers=OTHER_PAGES),
        applies=own_kernel,
        peers=Peers.CLASS,
    ),
    Rule(
        id="kernel.release",
        claim="All nodes of a hardware class run the same kernel.",
        why=(
            "Drivers are built for a particular kernel, and a job can run at a different speed on "
            "another one."
        ),
        blind="A new kernel that is installed on all nodes but not running on any of them.",
        source="uname(2)",
        reading="kernel.release",
        peers=Peers.CLASS,
        repair=by_hand(
            "reboot {node} into {expected} when it is idle (install that kernel if it is missing)",
            peers=(
                "reboot {node} into {expected} when it is idle (install that kernel if it is "
                "missing)"
            ),
        ),
        # The two kernels are two packages, whose names for uname(2) differ, too.
        explained_by=(Cause("kernel.page_size"),),
    ),
)
