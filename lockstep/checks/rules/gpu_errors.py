"""Rules about errors of GPUs and their memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from lockstep.catalog.nvidia.xid import MEMORY, NVLINKS, OFF_THE_BUS, UNLISTED, XIDS
from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    REBOOT,
    Pending,
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Rule,
    Severities,
    Text,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._gpu import (
    DEVICES,
    LOST,
    OF_MEMORY,
    OF_NVLINK,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    asks,
    both,
    has_ecc,
    has_gpus,
    has_whole_gpus,
    in_this_driver,
    same_gpu,
    supported,
)
from lockstep.node.check.judge import Judgement
from lockstep.plan.reboot import RECOVERED
from lockstep.probe.record import Unread
from lockstep.report import Severity

ASKED = "the driver asks for an action"


def _recovery_action_applies(view: View) -> bool:
    return has_gpus(view) and in_this_driver(view, "gpu.recovery_action")


PENDING, FAILURE = "gpu.remapped.pending", "gpu.remapped.failure"
WITHOUT = ("volta", "turing")
FINE, WAITS, FAILED = "no row waits", "a row waits for a reset", "no spare row left"


def _row_remap_items(view: View) -> Items:
    def say(pending: object, failure: object) -> str:
        if failure != "No":
            return FAILED
        return FINE if pending == "No" else WAITS

    return both(view, PENDING, FAILURE, say)


def _row_remap_applies(view: View) -> bool:
    model = view.plan.hardware.gpu_model
    return has_whole_gpus(view) and model is not None and model.architecture not in WITHOUT


def _severity(view: View, number: int) -> str:
    site = view.plan.spec.monitoring.xid.get(number)
    if site is not None:
        return "none" if site == "ignore" else site
    return XIDS.get(number, UNLISTED).severity


def _numbers(view: View) -> dict[str, Counter[int]]:
    """Return GPU -> Xid -> count. A GPU that nvidia-smi no longer lists has its address as name."""
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


def _xid_items(view: View) -> Items:
    found = view.read("driver.xid")
    if isinstance(found, Unread):
        return {"": found}
    return {device: ", ".join(map(_text, sorted(seen))) for device, seen in _numbers(view).items()}


def _text(number: int) -> str:
    return f"Xid {number} ({XIDS.get(number, UNLISTED).name})"


def _xid_detail(view: View, device: str) -> str:
    return ", ".join(
        f"Xid {number} ({times}x): {XIDS.get(number, UNLISTED).action.value}"
        for number, times in sorted(_numbers(view)[device].items())
    )


def _worst(view: View, device: str) -> Severity:
    levels = {_severity(view, number) for number in _numbers(view)[device]}
    return Severity.WARNING if levels == {"warning"} else Severity.ERROR


def _xid_tags(view: View, device: str) -> frozenset[str]:
    numbers = set(_numbers(view)[device])
    lost = {LOST} if OFF_THE_BUS in numbers else set()
    of_memory = {OF_MEMORY} if numbers <= MEMORY else set()
    return frozenset(lost | of_memory | ({OF_NVLINK} if numbers <= NVLINKS else set()))


def _xid_on_node(view: View) -> Iterator[Judgement]:
    """Yield the Xids with which no job may start; the check judges the others."""
    critical = tuple(number for number in XIDS if _severity(view, number) == "critical")
    yield Judgement(("driver.xid",), none_of=critical, slots="gpu.pci_bus_id", shown="Xid {}")


_counter = partial(Rule, look=Look(pick=supported, devices=DEVICES), kind=Kind.GROWTH)
"""Error counters of GPU memory."""

RULES = (
    _counter(
        id="gpu.ecc_corrected",
        claim="The memory of a GPU corrects few errors.",
        why=(
            "Single corrected errors are harmless. Many in an hour often precede one that "
            "cannot be corrected."
        ),
        blind="A rate below the tolerance. The first record of a boot.",
        source=(
            "nvidia-smi --help-query-gpu, ecc.errors.corrected.volatile.total; tolerance of "
            "Lockstep"
        ),
        reading="gpu.ecc.corrected_volatile",
        tolerance=10.0,
        severity=WARNING,
        repair=by_hand(
            "watch {device} of {node}; if errors continue, drain the node and run dcgmi diag -r 3"
        ),
        applies=asks("gpu.ecc.corrected_volatile"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.ecc_uncorrected", "gpu.row_remap")),
    ),
    Rule(
        id="gpu.ecc_sram_threshold",
        claim="No GPU has more SRAM errors than its threshold allows.",
        why="Replace a GPU beyond the threshold: more errors follow.",
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
        applies=asks("gpu.ecc.sram_threshold"),
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.ecc")),
    ),
    Rule(
        id="gpu.ecc_uncorrected",
        claim="No GPU had an uncorrected memory error since its last reset.",
        why="The job with that error ended, or computed with a wrong value.",
        blind="Errors before the last reset or reboot. Corrected errors.",
        source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.volatile.total",
        reading="gpu.ecc.uncorrected_volatile",
        look=Look(devices=DEVICES),
        expected=same(0),
        text=Text(lambda value: f"{value} errors" if value != 1 else "1 error"),
        repair=by_hand(
            f"{REBOOT}; when they come back, have {{device}} replaced (dcgmi diag -r 3)"
        ),
        applies=has_ecc,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.ecc", at=SAME_DEVICE, of=UNREAD)),
    ),
    _counter(
        id="gpu.ecc_uncorrected_lifetime",
        claim="No GPU had an uncorrected memory error since the last record.",
        why="A reset clears the volatile count, but not the count of a GPU's lifetime.",
        blind="Errors before the first record of a boot: a GPU keeps its count for life.",
        source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.aggregate.total",
        reading="gpu.ecc.uncorrected_aggregate",
        repair=by_hand(
            "drain {node} and run dcgmi diag -r 3; if errors come back, replace {device}"
        ),
        applies=asks("gpu.ecc.uncorrected_aggregate"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.ecc_uncorrected", "gpu.ecc_sram_threshold", "gpu.row_remap"),
            Cause("gpu.xid", tag=OF_MEMORY, at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="gpu.recovery_action",
        claim="No GPU needs a recovery action.",
        why=(
            "A GPU in a bad state takes jobs and ends them. The driver knows it and reports it "
            "here."
        ),
        blind="Drivers without this field: the rule is then not judged.",
        source="nvidia-smi --help-query-gpu, gpu_recovery_action",
        reading="gpu.recovery_action",
        look=Look(devices=DEVICES),
        expected=same("None"),
        repair=by_hand(
            "drain {node}, then do the action that the driver names for {device}",
            pending=Pending(
                lambda view, device: view.items("gpu.recovery_action").get(device) in RECOVERED,
                "The GPU needs a reset or a reboot; the rollout does it.",
            ),
        ),
        tags=lambda view, device: frozenset({ASKED}),
        applies=_recovery_action_applies,
        on_node=OnNode(Local.JOBS),
        explained_by=(
            *UNREAD_WITH_COUNT,
            # Where it is unread, it is the cause of other unread fields.
            *same_gpu("gpu.ecc_uncorrected", "gpu.row_remap", "gpu.xid", tag=ASKED),
        ),
    ),
    Rule(
        id="gpu.row_remap",
        claim="No memory row of a GPU waits for a remap, and no remap failed.",
        why=(
            "The bad row stays in use until the reset. Without a spare row the GPU ends jobs "
            "for good."
        ),
        blind=(
            "Rows that were remapped (remapped_rows.uncorrectable). Divided GPUs (MIG), and "
            "GPUs before Ampere, which cannot remap rows."
        ),
        source="NVIDIA GPU memory error management, row remapping",
        reading=PENDING,
        look=Look(_row_remap_items, devices=DEVICES),
        expected=same(FINE),
        repair=by_hand(
            "drain {node} and replace {device}",
            pending=Pending(
                lambda view, device: _row_remap_items(view).get(device) == WAITS,
                "A row waits for the next reset of the GPU; a reboot does it.",
            ),
        ),
        applies=_row_remap_applies,
        # The rollout resets GPUs with waiting rows: it drains the node itself.
        on_node=OnNode(
            Local.JOBS, lambda view: [Judgement((FAILURE,), devices=DEVICES, expected="No")]
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *UNREAD_WITH_MIG,
            *same_gpu("gpu.ecc_uncorrected"),
            Cause("gpu.ecc", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    _counter(
        id="gpu.row_remapped",
        claim="No memory row of a GPU was remapped since the last record.",
        why="Each remapped row had an error that ended a job, and spare rows are few.",
        blind="Rows that were remapped before the first record of a boot.",
        source="NVIDIA GPU memory error management, row remapping",
        reading="gpu.remapped.uncorrectable",
        text=Text(lambda value: f"{value} rows"),
        severity=WARNING,
        repair=by_hand(
            "watch {device} of {node}; if more rows fail, run dcgmi diag -r 3 and replace it"
        ),
        applies=asks("gpu.remapped.uncorrectable"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.ecc_uncorrected", "gpu.ecc_uncorrected_lifetime", "gpu.row_remap"),
            Cause("gpu.xid", tag=OF_MEMORY, at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="gpu.row_spares",
        claim="Every memory bank of a GPU has a spare row left.",
        why=(
            "The next bad row of a bank without spare rows cannot be remapped: it ends jobs "
            "for good."
        ),
        blind="Banks with few spare rows.",
        source="NVIDIA GPU memory error management, bank remap availability",
        reading="gpu.remapped.banks_without_spare",
        look=Look(pick=supported, devices=DEVICES),
        expected=same(0),
        text=Text(lambda value: f"{value} banks without a spare row"),
        severity=WARNING,
        repair=by_hand("replace {device} of {node} at the next opportunity"),
        applies=asks("gpu.remapped.banks_without_spare"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.row_remap")),
    ),
    Rule(
        id="gpu.xid",
        claim="The driver reported no Xid error of a GPU in this boot.",
        why="An Xid is the first sign of a failing GPU, hours before a job fails.",
        blind=(
            "Errors of programs (13, 31, 43). How often an error occurred. An error that a "
            "reset cured is reported until the next boot. Machines without a kernel of their "
            "own, which do not see its log. monitoring.xid of the description changes how a "
            "number is judged."
        ),
        source="NVIDIA Xid catalogue, lockstep/catalog/nvidia/xid.py",
        reading="driver.xid",
        look=Look(_xid_items),
        expected=same(""),
        text=Text(
            words=lambda found, expected: (str(found), "no error of the GPU"), detail=_xid_detail
        ),
        severity=Severities(of=_worst),
        repair=by_hand(
            "drain {node}, then do the action of the detail; replace the GPU if the error "
            "comes back"
        ),
        tags=_xid_tags,
        applies=lambda view: has_gpus(view) and own_kernel(view),
        on_node=OnNode(Local.HEALTH, _xid_on_node),
        explained_by=(
            *same_gpu("gpu.ecc_uncorrected", "gpu.row_remap", tag=OF_MEMORY),
            *same_gpu("gpu.nvlink", tag=OF_NVLINK),
            Cause("gpu.sxid", of=Effect(tag=OF_NVLINK)),
        ),
    ),
)
