"""Rules about errors in GPUs and their memory."""

from __future__ import annotations

from collections import Counter
from functools import partial

from lockstep.catalog.nvidia.xid import MEMORY, NVLINKS, OFF_THE_BUS, UNLISTED, XIDS
from lockstep.checks.context import Items, View
from lockstep.checks.looks import made
from lockstep.checks.rule import (
    REBOOT,
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Local,
    Look,
    OnNode,
    Pending,
    Rule,
    Severities,
    Text,
    by_hand,
    same,
    same_device,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    LOST,
    OF_MEMORY,
    OF_NVLINK,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    both,
    has_gpus,
    has_whole_gpus,
    of_gpus,
    of_model,
    of_own_model,
    supported,
    told,
)
from lockstep.checks.rules.boot import own_kernel
from lockstep.node.check.judge import Judgement
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import Unread
from lockstep.report import Severity

PENDING, FAILURE = "gpu.remapped.pending", "gpu.remapped.failure"
WITHOUT = ("volta", "turing")
FINE, WAITS, FAILED = "no remap pending or failed", "row remap pending", "row remap failed"


def _row_remap(pending: object, failure: object) -> str:
    if failure != "No":
        return FAILED
    return FINE if pending == "No" else WAITS


_row_remaps = both(PENDING, FAILURE, _row_remap)


NO_REMAPS = Unread(unread="nvidia-smi: remapped rows are not supported")


def _row_remap_items(view: View) -> Items:
    """Return the state of each GPU. A GPU with ECC must tell it; others remap no rows.

    A model of an unknown architecture may be older than Ampere, and remap none either.
    """
    may_lack = not of_gpus(lambda gpu: gpu.ecc_wanted)(view) or bool(of_own_model(view))
    without = FINE if may_lack else NO_REMAPS
    return {
        device: without if one == NOT_SUPPORTED else one
        for device, one in _row_remaps(view).items()
    }


_all_volatile = told("gpu.ecc.uncorrected_volatile")


def _volatile(view: View) -> Items:
    """Return the errors of each GPU. Without ECC, it counts none."""
    modes = view.items("gpu.ecc.current")
    off = {device for device, mode in modes.items() if mode in ("Disabled", NOT_SUPPORTED)}
    items = _all_volatile(view)
    return {**items, **dict.fromkeys(off & items.keys(), NOT_SUPPORTED)} if off else items


_can_remap = of_model(lambda model: model.architecture not in WITHOUT)


def _severity(view: View, number: int) -> str:
    severity = view.plan.spec.monitoring.xid.get(number, XIDS.get(number, UNLISTED).severity)
    return "none" if severity == "ignore" else severity


def _numbers(view: View) -> dict[str, Counter[int]]:
    """Return how often each Xid occurred on each GPU.

    A GPU that nvidia-smi does not list appears under its PCI address. Ignored Xids, such as errors
    that programs cause, are left out.
    """
    slots = {
        str(address)[-12:].rpartition(".")[0].lower(): device
        for device, address in view.items("gpu.pci_bus_id").items()
        if not isinstance(address, Unread)
    }
    return {
        slots.get(address, address): Counter(
            number
            for number in numbers
            if isinstance(number, int) and _severity(view, number) != "none"
        )
        for address, numbers in view.items("driver.xid").items()
        if isinstance(numbers, list)
    }


def _worst(view: View, device: str) -> Severity:
    levels = {_severity(view, number) for number in _numbers(view)[device]}
    return Severity.WARNING if levels == {"warning"} else Severity.ERROR


def _xid_tags(view: View, device: str) -> frozenset[str]:
    numbers = set(_numbers(view)[device])
    lost = {LOST} if OFF_THE_BUS in numbers else set()
    of_memory = {OF_MEMORY} if numbers <= MEMORY else set()
    return frozenset(lost | of_memory | ({OF_NVLINK} if numbers <= NVLINKS else set()))


_counter = partial(Rule, look=Look(pick=supported, devices=DEVICES), kind=Kind.GROWTH)
"""A rule about an error counter of GPU memory."""

RULES = (
    _counter(
        id="gpu.ecc_corrected",
        claim="GPUs have few corrected memory errors.",
        why=(
            "A few corrected errors are harmless. Many errors within an hour often precede an "
            "uncorrectable error."
        ),
        blind="Errors at a rate below the tolerance. Errors before the first record after a boot.",
        source=(
            "nvidia-smi --help-query-gpu, ecc.errors.corrected.volatile.total; Lockstep chose the "
            "tolerance"
        ),
        reading="gpu.ecc.corrected_volatile",
        tolerance=10.0,
        severity=WARNING,
        repair=by_hand(
            "on {node}: watch {device}; if errors continue, drain the node and run dcgmi diag -r 3"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.ecc_uncorrected", "gpu.row_remap")),
    ),
    Rule(
        id="gpu.ecc_sram_threshold",
        claim="No GPU has more SRAM errors than its threshold allows.",
        why="A GPU above the threshold is likely to have more errors and must be replaced.",
        blind="Errors below the threshold.",
        source=(
            "nvidia-smi --help-query-gpu, ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"
        ),
        reading="gpu.ecc.sram_threshold",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("No"),
        text=Text(
            words=lambda found, expected: (f"threshold exceeded: {found}", "threshold exceeded: No")
        ),
        repair=by_hand("drain {node} and replace {device}"),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.ecc")),
    ),
    Rule(
        id="gpu.ecc_uncorrected",
        claim="No GPU has had an uncorrected memory error since its last reset.",
        why="An uncorrected error kills the affected job or leaves a wrong value in its data.",
        blind="Errors before the last reset or reboot. Corrected errors.",
        source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.volatile.total",
        reading="gpu.ecc.uncorrected_volatile",
        look=Look(_volatile, pick=supported, devices=DEVICES),
        expected=same(0),
        text=Text(lambda value: f"{value} errors" if value != 1 else "1 error"),
        repair=by_hand(
            f"{REBOOT}; if the errors come back, run dcgmi diag -r 3 and have {{device}} replaced"
        ),
        applies=has_gpus,
        on_node=OnNode(
            Local.JOBS,
            lambda view: [
                Judgement(
                    ("gpu.ecc.uncorrected_volatile",),
                    devices=DEVICES,
                    expected=0,
                    shown="{} errors",
                )
            ],
        ),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.ecc", at=SAME_DEVICE, of=UNREAD)),
    ),
    _counter(
        id="gpu.ecc_uncorrected_lifetime",
        claim="No GPU has had an uncorrected memory error since the last record.",
        why="A reset clears the volatile count, but not the lifetime (aggregate) count.",
        blind="Errors before the first record after a boot.",
        source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.aggregate.total",
        reading="gpu.ecc.uncorrected_aggregate",
        repair=by_hand(
            "drain {node} and run dcgmi diag -r 3; if the errors come back, replace {device}"
        ),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.ecc_uncorrected", "gpu.ecc_sram_threshold", "gpu.row_remap"),
            Cause("gpu.xid", tag=OF_MEMORY, at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="gpu.page_retirement",
        claim="No GPU has a memory page that waits for its retirement.",
        why="Until the next reset, programs still get the bad page.",
        blind="Pages that are already retired. GPUs from Ampere on, which remap rows instead.",
        source="NVIDIA dynamic page retirement; nvidia-smi --help-query-gpu, retired_pages.pending",
        reading="gpu.retired.pending",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("No"),
        text=Text(lambda value: f"retirement pending: {value}"),
        repair=by_hand(
            "drain {node} and reset {device}",
            pending=Pending(
                lambda view, device: view.items("gpu.retired.pending").get(device) == "Yes",
                "The page is retired at the next GPU reset. A reboot resets the GPU.",
            ),
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.ecc_uncorrected")),
    ),
    Rule(
        id="gpu.row_remap",
        claim="No GPU has a pending or failed row remap.",
        why=(
            "While a remap is pending, the bad memory row stays in use. After a failed remap, jobs "
            "on this GPU keep failing."
        ),
        blind=(
            "Rows that are already remapped, which gpu.row_remapped counts. GPUs that are "
            "partitioned with MIG, and GPUs older than Ampere, which cannot remap rows."
        ),
        source="NVIDIA GPU memory error management, row remapping",
        reading=PENDING,
        look=Look(_row_remap_items, devices=DEVICES),
        expected=same(FINE),
        repair=by_hand(
            "drain {node} and replace {device}",
            pending=Pending(
                lambda view, device: _row_remap_items(view).get(device) == WAITS,
                "The remap takes effect at the next GPU reset. A reboot resets the GPU.",
            ),
        ),
        applies=lambda view: has_whole_gpus(view) and bool(_can_remap(view)),
        on_node=OnNode(
            Local.JOBS,
            lambda view: [
                Judgement((FAILURE,), devices=DEVICES, expected="No", shown="remap failed: {}"),
                Judgement((PENDING,), devices=DEVICES, expected="No", shown="remap pending: {}"),
            ],
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *UNREAD_WITH_MIG,
            *same_device("gpu.ecc_uncorrected"),
            Cause("gpu.ecc", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    _counter(
        id="gpu.row_remapped",
        claim="No memory row of a GPU has been remapped since the last record.",
        why=(
            "A row is remapped after an uncorrectable error, which kills the job. A GPU has a "
            "limited number of spare rows."
        ),
        blind=(
            "Rows that were remapped because of correctable errors. Rows that were remapped before "
            "the first record after a boot."
        ),
        source="NVIDIA GPU memory error management, row remapping",
        reading="gpu.remapped.uncorrectable",
        text=Text(lambda value: f"{value} rows" if value != 1 else "1 row"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: watch {device}; if more rows fail, drain the node, run dcgmi diag -r 3 and "
            "replace {device}"
        ),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.ecc_uncorrected", "gpu.ecc_uncorrected_lifetime", "gpu.row_remap"),
            Cause("gpu.xid", tag=OF_MEMORY, at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="gpu.row_spares",
        claim="Every memory bank of a GPU has a spare row left.",
        why=(
            "The next bad row in a bank without spare rows cannot be remapped, and jobs on this "
            "GPU keep failing."
        ),
        blind="Banks with few spare rows left.",
        source="NVIDIA GPU memory error management, bank remap availability",
        reading="gpu.remapped.banks_without_spare",
        look=Look(pick=supported, devices=DEVICES),
        expected=same(0),
        text=Text(lambda value: f"banks without a spare row: {value}"),
        severity=WARNING,
        repair=by_hand("replace {device} in {node} at the next opportunity"),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.row_remap")),
    ),
    Rule(
        id="gpu.xid",
        claim="The driver has reported no Xid error for any GPU since boot.",
        why=(
            "An Xid is often the first sign of a failing GPU, hours before a job fails. An error "
            "is reported until the next boot, even after a reset has cleared it. monitoring.xid in "
            "the description can change the severity of an Xid."
        ),
        blind=(
            "Errors that programs cause (for example 13, 31 and 43), errors that need no action, "
            "and errors that monitoring.xid ignores. Machines without their own kernel, which "
            "cannot read the kernel log."
        ),
        source="NVIDIA Xid catalogue, lockstep/catalog/nvidia/xid.py",
        reading="driver.xid",
        look=Look(
            made(
                "driver.xid",
                lambda view, found: {
                    device: ", ".join(
                        f"Xid {number} ({XIDS.get(number, UNLISTED).name})"
                        for number in sorted(seen)
                    )
                    for device, seen in _numbers(view).items()
                },
            )
        ),
        expected=same(""),
        text=Text(
            words=lambda found, expected: (str(found), "no Xid error"),
            detail=lambda view, device: ", ".join(
                f"Xid {number} ({times}x): {XIDS.get(number, UNLISTED).action.value}"
                for number, times in sorted(_numbers(view)[device].items())
            ),
        ),
        severity=Severities(of=_worst),
        repair=by_hand(
            "drain {node}, then take the action named in the detail; replace the GPU if the "
            "error comes back"
        ),
        tags=_xid_tags,
        applies=lambda view: has_gpus(view) and own_kernel(view),
        on_node=OnNode(
            Local.HEALTH,
            lambda view: [
                # No job may start after these Xids. lockstep check reports the others.
                Judgement(
                    ("driver.xid",),
                    none_of=tuple(xid for xid in XIDS if _severity(view, xid) == "critical"),
                    slots="gpu.pci_bus_id",
                    shown="Xid {}",
                )
            ],
        ),
        explained_by=(
            *same_device("gpu.ecc_uncorrected", "gpu.row_remap", tag=OF_MEMORY),
            *same_device("gpu.nvlink", tag=OF_NVLINK),
            Cause("gpu.sxid", of=Effect(tag=OF_NVLINK)),
        ),
    ),
)
