"""Decides whether and why a node needs a reboot, by comparing the plan, this boot and the next.

The values come from ``lockstep.facts``; this module itself reads nothing from a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from typing_extensions import override

from lockstep.plan.driver import BootKernels, Driver
from lockstep.report import alike
from lockstep.spec.software import fits

REPEATED = ("hugepagesz", "hugepages", "console")
"""Kernel arguments that may be repeated; if another argument is repeated, the last one counts."""

RECOVERED = ("Reset", "Reboot", "Drain and Reset")
"""GPU recovery actions that the rollout performs (nvidia-smi --help-query-gpu)."""


@dataclass(frozen=True)
class Seen:
    """The values that were read from a node."""

    cmdline: tuple[str, ...]
    """Kernel arguments of the current boot."""
    menu: tuple[str, ...]
    """Kernel arguments of the next boot, from the boot loader's menu."""
    pages: Mapping[tuple[str, int], int]
    """(size, NUMA node) -> number of huge pages in the current boot."""
    marker: str | None = None
    """Packages that need a reboot, from /run/reboot-required; None if the file does not exist."""
    driver: Mapping[str, str] = field(default_factory=dict)
    """Installed driver packages -> version."""
    module: str = ""
    """Version of the driver's loaded kernel module; empty if none is loaded."""
    flavour: str = ""
    """Flavour of the loaded module: ``open`` or ``proprietary``."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the loaded module."""
    parameters_written: bool = False
    """Whether modprobe.d has the planned parameters, which apply when the module is next loaded."""
    kernels: BootKernels | None = None
    """The running kernel and the kernels that may boot next; None without a boot loader."""
    modes: tuple[str, ...] = ()
    """UUIDs of GPUs whose planned ECC or MIG mode takes effect only after a reset."""
    layouts: tuple[str, ...] = ()
    """UUIDs of GPUs whose MIG devices differ from the planned ones."""
    resets: tuple[str, ...] = ()
    """UUIDs of GPUs that need a reset."""
    rdma: str = ""
    """The RDMA driver on disk that is not loaded yet; empty if there is none."""
    in_vain: tuple[str, ...] = ()
    """Texts of the reasons for a reboot that remained after the last reboot."""


@dataclass(frozen=True)
class Reason:
    """One reason for a reboot, concerning the node or one of its GPUs.

    If a reason remains after a reboot, its text stays the same, so that it is recognized.
    """

    kind: str
    """A short phrase that becomes the drain reason in Slurm."""
    detail: str

    @override
    def __str__(self) -> str:
        """Return the reason as one phrase."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class Pending:
    """The reasons to reboot, if any, and the problems that a reboot would not resolve."""

    reasons: tuple[Reason, ...] = ()
    in_vain: tuple[Reason, ...] = ()
    """Reasons that no longer count, because they remained after a reboot."""
    deploy_first: str = ""
    """Planned kernel arguments that the boot menu lacks: only a deploy can add them."""
    remark: str = ""
    change: tuple[str, ...] = ()
    """Packages to change before the reboot, while no jobs are running on the node."""
    driver: Driver | None = None
    """The driver that needs modules for the kernel that boots next."""

    @property
    def kinds(self) -> str:
        """Return the kinds of reasons, separated by commas."""
        return ", ".join(dict.fromkeys(reason.kind for reason in self.reasons))

    @override
    def __str__(self) -> str:
        """Return the reasons as one line."""
        return listed(self.reasons)


def listed(reasons: Iterable[Reason]) -> str:
    """Return reasons as one line, grouped by kind."""
    return "; ".join(
        str(Reason(kind, ", ".join(reason.detail for reason in of_kind)))
        for kind, of_kind in alike(reasons, lambda reason: reason.kind).items()
    )


def absent(wanted: tuple[str, ...], line: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted kernel arguments that a command line does not set."""
    last = {word.partition("=")[0]: word for word in line}
    missing = tuple((Counter(wanted) - Counter(line)).elements())
    return missing + tuple(
        word
        for word in wanted
        if word not in missing
        and (key := word.partition("=")[0]) not in REPEATED
        and last[key] != word
        # If two wanted arguments have the same key (pci=, crashkernel=), the kernel reads both.
        and last[key] not in wanted
    )


def pending(
    args: tuple[str, ...],
    hugepages: Mapping[str, Mapping[int, int]],
    seen: Seen,
    driver: Driver | None = None,
) -> Pending:
    """Return the reasons why a node needs a reboot.

    Args:
        args: planned kernel arguments; empty without a boot loader.
        hugepages: page size -> NUMA node -> planned pages.
        seen: the values that were read from the node.
        driver: the planned driver; None if none is planned.
    """
    short = tuple(
        f"fewer than {count} x {size} on NUMA node {node}"
        for size, split in hugepages.items()
        for node, count in split.items()
        if seen.pages.get((size, node), 0) < count
    )
    missing = absent(args, seen.cmdline)
    if missing and (unwritten := absent(args, seen.menu)):
        # Even if there are other reasons: after a deploy, one reboot resolves all of them.
        return Pending(deploy_first=" ".join(unwritten))
    reasons = []
    remark = ""
    if missing:
        reasons.append(Reason("pending kernel arguments", " ".join(missing)))
        reasons += [Reason("huge pages", which) for which in short]
    elif short and args:
        remark = (
            f"huge pages: {', '.join(short)}, although the node booted with the planned "
            "arguments; a reboot would not help"
        )
    if seen.marker is not None:
        reasons.append(Reason("reboot-required", seen.marker))
    if seen.kernels is not None:
        running, *others = seen.kernels.every
        if not seen.kernels.unknown:
            reasons += [
                Reason(f"kernel {one.release}", f"{running.release} is running") for one in others
            ]
        elif others or not remark:
            remark = f"the kernel that boots next is unknown: {seen.kernels.unknown}"
    change = _other_version(driver, seen)
    if driver is not None and (why := _of_driver(driver, seen, change)):
        reasons.append(Reason(f"driver {driver.version}", why))
    elif driver is not None and (wrong := _other_parameters(driver, seen)):
        if seen.parameters_written:
            reasons.append(Reason("driver parameters", wrong))
        else:
            remark = f"driver parameters {wrong}: deploy first"
    if seen.rdma:
        reasons.append(Reason("RDMA driver", seen.rdma))
    of_gpus = {
        "ECC or MIG mode pending": seen.modes,
        "MIG layout differs": seen.layouts,
        "GPU reset due": seen.resets,
    }
    reasons += [Reason(kind, gpu) for kind, gpus in of_gpus.items() for gpu in gpus]
    own = driver is not None and driver.flavour is not None and (seen.driver or change)
    due = Pending(tuple(reasons), remark=remark, change=change, driver=driver if own else None)
    if due.reasons and all(str(reason) in seen.in_vain for reason in reasons):
        return replace(due, reasons=(), in_vain=due.reasons, change=())
    return due


def _of_driver(driver: Driver, seen: Seen, change: tuple[str, ...]) -> str:
    """Return why a reboot is needed for the driver; empty if no reboot is needed."""
    installed = (f"{name} {seen.driver.get(name, 'missing')}" for name in change)
    changes = (
        (change, f"instead of {', '.join(installed)}"),
        (not seen.driver, ""),
        (seen.module not in ("", driver.version), f"{seen.module} is loaded"),
        (driver.flavour and not seen.module, "its module is not loaded"),
        (
            driver.flavour and seen.flavour not in ("", driver.flavour),
            f"its {seen.flavour} module is loaded",
        ),
    )
    return next((text for holds, text in changes if holds), "")


def _other_parameters(driver: Driver, seen: Seen) -> str:
    return ", ".join(
        f"{name} {seen.parameters[name]} instead of {value}"
        for name, value in driver.parameters.items()
        if name in seen.parameters and seen.parameters[name] != value
    )


def _other_version(driver: Driver | None, seen: Seen) -> tuple[str, ...]:
    """Return the driver packages to change.

    If no driver package is installed and no other driver version is loaded, the result is
    empty: a deploy installs the packages.
    """
    if driver is None or not (seen.driver or seen.module not in ("", driver.version)):
        return ()
    return (
        *(
            name
            for name, version in driver.packages.items()
            if not fits(seen.driver.get(name, ""), version)
        ),
        *(name for name in driver.replaced if name in seen.driver),
    )
