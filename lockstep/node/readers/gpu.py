"""Every NVIDIA board, from one nvidia-smi."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import NOT_SUPPORTED, Readings, Request, Unread

GPU_FIELDS = (
    # reading, nvidia-smi's name, type
    ("gpu.name", "name", str),
    ("gpu.uuid", "uuid", str),
    ("gpu.pci_bus_id", "pci.bus_id", str),
    ("gpu.vbios", "vbios_version", str),
    ("gpu.driver_version", "driver_version", str),
    ("gpu.power.enforced_w", "enforced.power.limit", float),
    ("gpu.power.default_w", "power.default_limit", float),
    ("gpu.persistence", "persistence_mode", str),
    ("gpu.ecc.current", "ecc.mode.current", str),
    ("gpu.ecc.pending", "ecc.mode.pending", str),
    ("gpu.mig.current", "mig.mode.current", str),
    ("gpu.compute_mode", "compute_mode", str),
    ("gpu.pcie.width_current", "pcie.link.width.current", int),
    ("gpu.pcie.width_max", "pcie.link.width.max", int),
    ("gpu.clocks.max_sm_mhz", "clocks.max.sm", int),
    ("gpu.memory.total_mib", "memory.total", int),
    ("gpu.power.requested_w", "power.limit", float),
    ("gpu.mig.pending", "mig.mode.pending", str),
    ("gpu.clocks.sm_mhz", "clocks.current.sm", int),
    ("gpu.pstate", "pstate", str),
    ("gpu.utilization", "utilization.gpu", int),
    ("gpu.memory.used_mib", "memory.used", int),
    ("gpu.recovery_action", "gpu_recovery_action", str),
    ("gpu.remapped.pending", "remapped_rows.pending", str),
    ("gpu.remapped.failure", "remapped_rows.failure", str),
    ("gpu.ecc.uncorrected_volatile", "ecc.errors.uncorrected.volatile.total", int),
    ("gpu.fabric.state", "fabric.state", str),
    ("gpu.fabric.status", "fabric.status", str),
)
REASONS, COUNTERS = "clocks_event_reasons.", "clocks_event_reasons_counters."
GPU_OPTIONAL_FIELDS = (
    # The same of what some models do not have: there "not supported" is a value, for peers to vote.
    ("gpu.serial", "serial", str),
    ("gpu.power.min_w", "power.min_limit", float),
    ("gpu.power.max_w", "power.max_limit", float),
    ("gpu.clocks.memory_mhz", "clocks.current.memory", int),
    ("gpu.clocks.max_memory_mhz", "clocks.max.memory", int),
    ("gpu.inforom.image", "inforom.img", str),
    ("gpu.inforom.ecc", "inforom.ecc", str),
    ("gpu.inforom.checksum", "inforom.checksum_validation", str),
    ("gpu.gsp.current", "gsp.mode.current", str),
    ("gpu.gsp.default", "gsp.mode.default", str),
    ("gpu.addressing", "addressing_mode", str),
    ("gpu.memory.protected_mib", "protected_memory.total", int),
    ("gpu.slowdown.active", REASONS + "active", lambda text: int(text, 16)),
    ("gpu.slowdown.power_cap_us", COUNTERS + "sw_power_cap", int),
    ("gpu.slowdown.power_brake_us", COUNTERS + "hw_power_brake_slowdown", int),
    ("gpu.slowdown.thermal_hw_us", COUNTERS + "hw_thermal_slowdown", int),
    ("gpu.slowdown.thermal_sw_us", COUNTERS + "sw_thermal_slowdown", int),
    ("gpu.temperature.margin_c", "temperature.gpu.tlimit", int),
    ("gpu.pcie.generation", "pcie.link.gen.current", int),
    ("gpu.pcie.generation_max", "pcie.link.gen.max", int),
    ("gpu.ecc.corrected_volatile", "ecc.errors.corrected.volatile.total", int),
    ("gpu.ecc.uncorrected_aggregate", "ecc.errors.uncorrected.aggregate.total", int),
    (
        "gpu.ecc.sram_threshold",
        "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
        str,
    ),
    ("gpu.remapped.uncorrectable", "remapped_rows.uncorrectable", int),
    ("gpu.remapped.banks_without_spare", "remapped_rows.histogram.none", int),
)
GPU_READINGS = tuple(name for name, _, _ in (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS))
LACKS = ("N/A", "[N/A]", "[Not Supported]", "[Requested functionality has been deprecated]")
"""What nvidia-smi prints for what a board does not have; other words in brackets are failures."""
LOST = re.compile(
    r"\bGPU ?\d*:? ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): *(.+)", re.IGNORECASE
)
"""What nvidia-smi prints in place of a row: ``... GPU0: 0000:24:00.0: GPU is lost.``"""


def read_gpus(request: Request, commands: Commands) -> Readings:
    """Every board, from one nvidia-smi."""
    known, status, out, err, answered_in_s = gpu_rows(commands)
    every = (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS)
    readings: Readings = {
        name: {} if field in known else Unread(f"nvidia-smi: {field} is not known to this driver")
        for name, field, _ in every
    }
    fields = [row for row in every if row[1] in known]
    lost: dict[str, str] = {}
    count = 0
    for line in out.splitlines():
        message = LOST.search(line)
        row = [word.strip() for word in next(csv.reader([line], skipinitialspace=True), [])]
        if message:
            lost[message.group(1).lower()] = message.group(2).strip()
        elif len(row) == len(fields) + 1 and row[0].startswith("["):
            lost[f"row {count + len(lost) + 1}"] = row[0]
        elif len(row) == len(fields) + 1 and row[0].isdigit():
            count += 1
            for column, (name, field, kind) in enumerate(fields, 1):
                readings[name]["gpu" + row[0]] = gpu_value(name, row[column], field, kind)
        elif row and status == 0:
            raise Unread(f"nvidia-smi: not a row of values: {', '.join(row)[:120]}")
    if status != 0 and not (count and lost):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"nvidia-smi: exit {status}: {said[:200]}")
    readings["gpu.count"] = count
    readings["gpu.lost"] = lost
    readings["gpu.answered_in_s"] = answered_in_s
    return readings


def gpu_rows(commands: Commands) -> tuple[list[str], int, str, str, float]:
    """Return the fields that were asked for, how nvidia-smi answered, and in how many seconds.

    One field that a driver does not know spoils the whole answer: the driver is asked which it has.
    """
    fields = [field for _, field, _ in (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS)]
    begin = time.monotonic()
    status, out, err = commands.outcome(*gpu_query(fields))
    if status != 0 and "is not a valid field to query" in out + err:
        listed = commands.run("nvidia-smi", "--help-query-gpu")
        offered = {
            name
            for line in listed.splitlines()
            if line.startswith('"')
            for name in re.findall(r'"([\w.]+)"', line)
        }
        fields = [field for field in fields if field in offered]
        begin = time.monotonic()
        status, out, err = commands.outcome(*gpu_query(fields))
    return fields, status, out, err, round(time.monotonic() - begin, 3)


def gpu_query(fields: list[str]) -> tuple[str, str, str]:
    """Return the command that asks for these fields of every board."""
    query = ",".join(["index", *fields])
    return ("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits")


OPTIONAL = frozenset(name for name, _, _ in GPU_OPTIONAL_FIELDS)


def gpu_value(name: str, text: str, field: str, kind: Callable[[str], Any]) -> Any:
    """Return one value; what the driver does not know is unread, never a value."""
    if name in OPTIONAL and text in LACKS:
        return NOT_SUPPORTED
    if text in ("", "N/A", "ERR!") or text.startswith("["):
        return {"unread": f"nvidia-smi: {field} is {text or 'empty'}"}
    try:
        return kind(text)
    except ValueError:
        return {"unread": f"nvidia-smi: {field} is {text[:60]!r}"}
