"""Whether a node waits for a reboot, and why: what was planned, what the next boot would have,
and what this boot has. Pure; the readings come from ``lockstep.facts``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from typing_extensions import override

from lockstep.plan.driver import BootKernels, Driver
from lockstep.spec.software import fits

REPEATED = ("hugepagesz", "hugepages", "console")
"""Kernel arguments that may stand on the line more than once; of all others the last one counts."""

RECOVERED = ("Reset", "Reboot", "Drain and Reset")
"""Recovery actions of a board that a reboot does (nvidia-smi --help-query-gpu)."""


@dataclass(frozen=True)
class Seen:
    """What a node showed."""

    cmdline: tuple[str, ...]
    """Kernel arguments of this boot."""
    menu: tuple[str, ...]
    """Kernel arguments of the next boot, from the boot loader's menu."""
    pages: Mapping[tuple[str, int], int]
    """(size, NUMA node) -> huge pages of this boot."""
    marker: str | None = None
    """Packages that left /run/reboot-required; None: there is no such file."""
    driver: Mapping[str, str] = field(default_factory=dict)
    """Installed driver packages -> version."""
    module: str = ""
    """Version of the driver's loaded kernel module; "": none is loaded."""
    flavour: str = ""
    """``open`` or ``proprietary``, of the loaded module."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters with which the loaded module works."""
    parameters_written: bool = False
    """The next load of the module has the planned ones: their file is as planned."""
    kernels: BootKernels | None = None
    """None: the machine has no boot loader of its own."""
    modes: tuple[str, ...] = ()
    """UUIDs of boards on which the planned ECC or MIG mode waits for a reset."""
    layouts: tuple[str, ...] = ()
    """UUIDs of boards that are divided in another way than planned."""
    resets: tuple[str, ...] = ()
    """UUIDs of boards that need a reset."""
    in_vain: tuple[str, ...] = ()
    """Reasons, as text, that this boot was made for and did not end."""


@dataclass(frozen=True)
class Reason:
    """One thing that only a reboot brings into force; of boards, one for each.

    It reads the same after a reboot that did not end it: by that it is known again.
    """

    kind: str
    """A few words, for Slurm's reason."""
    detail: str

    @override
    def __str__(self) -> str:
        """Return it as one phrase."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class Pending:
    """Why to reboot, if at all; and what a reboot would not help."""

    reasons: tuple[Reason, ...] = ()
    in_vain: tuple[Reason, ...] = ()
    """What there is instead: a reboot was made for each of them and did not end it."""
    deploy_first: str = ""
    """What the boot loader does not have yet: a reboot now would be for nothing."""
    remark: str = ""
    change: tuple[str, ...] = ()
    """Packages to change before the reboot, while nothing runs on the node."""
    driver: Driver | None = None
    """Its modules must be there for the kernel that boots next."""

    @property
    def kinds(self) -> str:
        """Return the reasons in a few words."""
        return ", ".join(dict.fromkeys(reason.kind for reason in self.reasons))

    @override
    def __str__(self) -> str:
        """Return the reasons as one line."""
        return listed(self.reasons)


def listed(reasons: Iterable[Reason]) -> str:
    """Return reasons as one line, those of a kind together."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(reason.kind, []).append(reason.detail)
    return "; ".join(str(Reason(kind, ", ".join(details))) for kind, details in kinds.items())


def absent(wanted: tuple[str, ...], line: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted kernel arguments that a command line does not put in force."""
    last = {word.partition("=")[0]: word for word in line}
    missing = tuple((Counter(wanted) - Counter(line)).elements())
    overridden = tuple(
        word
        for word in wanted
        if word not in missing
        and (key := word.partition("=")[0]) not in REPEATED
        and last[key] != word
        # Two of ours with one key (pci=, crashkernel=): the kernel reads both.
        and last[key] not in wanted
    )
    return missing + overridden


def pending(
    args: tuple[str, ...],
    hugepages: Mapping[str, Mapping[int, int]],
    seen: Seen,
    driver: Driver | None = None,
) -> Pending:
    """Say why a node waits for a reboot.

    Args:
        args: planned kernel arguments; none for a machine without a boot loader.
        hugepages: page size -> NUMA node -> planned pages.
        seen: what the node showed.
        driver: the planned driver; None: none is planned.
    """
    short = tuple(
        f"fewer than {count} of {size} on node {node}"
        for size, split in hugepages.items()
        for node, count in split.items()
        if seen.pages.get((size, node), 0) < count
    )
    missing = absent(args, seen.cmdline)
    if missing and (unwritten := absent(args, seen.menu)):
        # Also where something else waits: one reboot for both, once both are there.
        return Pending(deploy_first=" ".join(unwritten))
    reasons = []
    remark = ""
    if missing:
        reasons.append(Reason("pending kernel arguments", " ".join(missing)))
        reasons += [Reason("huge pages", which) for which in short]
    elif short and args:
        remark = (
            f"huge pages {', '.join(short)}, booted with the planned arguments: a reboot does not "
            "change that"
        )
    if seen.marker is not None:
        reasons.append(Reason("reboot-required", seen.marker))
    if seen.kernels is not None:
        running, *others = seen.kernels.every
        if not seen.kernels.unknown:
            reasons += [
                Reason(f"kernel {one.release}", f"{running.release} runs") for one in others
            ]
        elif others or not remark:
            remark = f"which kernel boots next is not known: {seen.kernels.unknown}"
    change = _other_version(driver, seen)
    if driver is not None and (why := _of_driver(driver, seen, change)):
        reasons.append(Reason(f"driver {driver.version}", why))
    elif driver is not None and (wrong := _other_parameters(driver, seen)):
        if seen.parameters_written:
            reasons.append(Reason("driver parameters", wrong))
        else:
            remark = f"driver parameters {wrong}: deploy first"
    reasons += [Reason("ECC or MIG mode waits", board) for board in seen.modes]
    reasons += [Reason("MIG layout differs", board) for board in seen.layouts]
    reasons += [Reason("GPU reset due", board) for board in seen.resets]
    own = driver is not None and driver.flavour is not None and (seen.driver or change)
    due = Pending(tuple(reasons), remark=remark, change=change, driver=driver if own else None)
    if due.reasons and all(str(reason) in seen.in_vain for reason in reasons):
        return replace(due, reasons=(), in_vain=due.reasons, change=())
    return due


def _of_driver(driver: Driver, seen: Seen, change: tuple[str, ...]) -> str:
    """Say what of the driver a boot changes; "" for nothing."""
    if change:
        listed = ", ".join(f"{name} {seen.driver.get(name, 'missing')}" for name in change)
        return f"instead of {listed}"
    if not seen.driver:
        return ""
    if seen.module not in ("", driver.version):
        return f"{seen.module} is loaded"
    if driver.flavour and not seen.module:
        return "no module of it is loaded"
    if driver.flavour and seen.flavour not in ("", driver.flavour):
        return f"its {seen.flavour} module is loaded"
    return ""


def _other_parameters(driver: Driver, seen: Seen) -> str:
    return ", ".join(
        f"{name} {seen.parameters[name]} instead of {value}"
        for name, value in driver.parameters.items()
        if name in seen.parameters and seen.parameters[name] != value
    )


def _other_version(driver: Driver | None, seen: Seen) -> tuple[str, ...]:
    """Return the driver packages to change.

    None on a node without any: a deploy installs them, unless another driver is loaded.
    """
    if driver is None or not (seen.driver or seen.module not in ("", driver.version)):
        return ()
    wrong = tuple(
        name
        for name, version in driver.packages.items()
        if not fits(seen.driver.get(name, ""), version)
    )
    return wrong + tuple(name for name in driver.replaced if name in seen.driver)
