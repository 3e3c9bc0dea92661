"""The NVIDIA GPUs, with their MIG devices and links, from nvidia-smi."""

from __future__ import annotations

import csv
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import Commands, failure, installed
from lockstep.node.readers.reading import NOT_SUPPORTED, OF_A_ROLE, Readings, Request, Unread
from lockstep.node.readers.tree import exists, found_by, found_in

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
    # The same for fields that some models lack. For these, "not supported" is a value to compare.
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
"""What nvidia-smi prints for a value that a GPU lacks; other text in brackets means a failure."""
NO_ROW = "nvidia-smi: not a row of values"
LOST = re.compile(
    r"\bGPU ?\d*:? ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): *(.+)", re.IGNORECASE
)
"""A line that nvidia-smi prints instead of a GPU's row: ``... GPU0: 0000:24:00.0: GPU is lost.``"""


DRIVER = "/proc/driver/nvidia/version"
LOADED = "/sys/module/nvidia/version"


def only_if_loaded(request: Request, program: str = "nvidia-smi") -> None:
    """Raise ``Unread`` if a role's request would load the driver before its options are set."""
    if OF_A_ROLE in request and installed(program) and not (exists(DRIVER) or exists(LOADED)):
        raise Unread(f"{program} was not run, because it would load the driver")


def read_gpus(request: Request, commands: Commands) -> Readings:
    """All values of every GPU, from a single nvidia-smi query."""
    only_if_loaded(request)
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
            raise Unread(f"{NO_ROW}: {', '.join(row)[:120]}")
    if status != 0 and not (count and lost):
        raise failure("nvidia-smi", status, out, err)
    found = {"gpu.count": count, "gpu.lost": lost, "gpu.answered_in_s": answered_in_s}
    return {**readings, **found}


def gpu_rows(commands: Commands) -> tuple[list[str], int, str, str, float]:
    """Query all GPUs; return the fields, exit status, output, error output and duration.

    If the driver does not know one of the fields, nvidia-smi rejects the whole query. The query is
    then repeated with the fields that the driver knows.
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
    """Return the command that reads these fields from every GPU."""
    query = ",".join(["index", *fields])
    return ("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits")


def read_processes(request: Request, commands: Commands) -> Readings:
    """UUIDs of the GPUs on which a process has a compute context."""
    only_if_loaded(request)
    listed = commands.run(
        "nvidia-smi", "--query-compute-apps=gpu_uuid", "--format=csv,noheader,nounits"
    )
    return {"gpu.processes": sorted({line.strip() for line in listed.splitlines()})}


OPTIONAL = frozenset(name for name, _, _ in GPU_OPTIONAL_FIELDS)


def gpu_value(name: str, text: str, field: str, kind: Callable[[str], Any]) -> Any:
    """Return a value; unread if nvidia-smi prints no valid one.

    For a value of ``GPU_OPTIONAL_FIELDS`` that the GPU lacks, return "not supported".
    """
    if name in OPTIONAL and text in LACKS:
        return NOT_SUPPORTED
    if text in ("", "N/A", "ERR!") or text.startswith("["):
        return {"unread": f"nvidia-smi: {field} is {text or 'empty'}"}
    try:
        return kind(text)
    except ValueError:
        return {"unread": f"nvidia-smi: {field} is {text[:60]!r}"}


GPU_LINE = re.compile(r"GPU (\d+): .*\(UUID: GPU-[^)\s]+\)")
MIG_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


def read_mig_devices(request: Request, commands: Commands) -> Readings:
    """The MIG devices of each GPU; none for a GPU without MIG.

    A GPU instance without a compute instance is not a MIG device, because no job can use it.
    """
    only_if_loaded(request)
    status, out, err = commands.outcome("nvidia-smi", "-L")
    gpus = mig_devices(out)
    if status != 0 and not (gpus and LOST.search(out)):
        raise failure("nvidia-smi", status, out, err)
    return {"gpu.mig.devices": gpus}


def mig_devices(listed: str) -> dict[str, list[str]]:
    """Return the sorted MIG profiles of each GPU, from the output of ``nvidia-smi -L``."""
    gpus: dict[str, list[str]] = {}
    profiles: list[str] = []
    for line in listed.splitlines():
        gpu, device = GPU_LINE.match(line), MIG_DEVICE.match(line)
        if gpu:
            profiles = gpus["gpu" + gpu.group(1)] = []
        elif device and gpus:
            profiles.append(device.group(1))
            profiles.sort()
        elif line.strip() and not LOST.search(line):
            raise Unread(f"nvidia-smi -L printed an unexpected line: {line.strip()[:120]!r}")
    return gpus


INSTANCES = "/proc/driver/nvidia/capabilities/gpu*/mig/gi*"


def read_instance_files(request: Request, commands: Commands) -> Readings:
    """Capability device files of MIG instances; a process needs them to use an instance."""
    what = "DeviceFileMinor"
    minors = [
        found_in(path, r"^DeviceFileMinor:\s*(\d+)$", what)
        for pattern in (f"{INSTANCES}/access", f"{INSTANCES}/ci*/access")
        for path in found_by(pattern)
    ]
    return {"driver.instance_files": sorted(f"/dev/nvidia-caps/nvidia-cap{n}" for n in minors)}


NVLINK_ERRORS = ("replay", "recovery", "crc")


def read_nvlinks(request: Request, commands: Commands) -> Readings:
    """Speed of every NVLink on every GPU; empty for a GPU without active links."""
    link = re.compile(r"^\s*Link (\d+): (.+?)\s*$", re.MULTILINE)
    gpus = by_gpu(commands.run("nvidia-smi", "nvlink", "-s"))
    return {"gpu.nvlink.links": {gpu: dict(link.findall(lines)) for gpu, lines in gpus.items()}}


def read_nvlink_errors(request: Request, commands: Commands) -> Readings:
    """NVLink errors of every GPU, summed over its links."""
    counter = re.compile(r"^\s*Link \d+: (\w+)(?: \w+)? Errors: (\d+)\s*$", re.MULTILINE)
    gpus: dict[str, Counter[str]] = {}
    for gpu, lines in by_gpu(commands.run("nvidia-smi", "nvlink", "-e")).items():
        gpus[gpu] = Counter()
        for kind, errors in counter.findall(lines):
            gpus[gpu][kind.lower()] += int(errors)
    return {
        f"gpu.nvlink.{kind}": {gpu: found.get(kind, NOT_SUPPORTED) for gpu, found in gpus.items()}
        for kind in NVLINK_ERRORS
    }


def by_gpu(text: str) -> dict[str, str]:
    """Return the lines below each GPU's heading in the output of ``nvidia-smi nvlink``."""
    parts = re.split(r"^GPU (\d+): .*$", text, flags=re.MULTILINE)
    return {f"gpu{parts[at]}": parts[at + 1] for at in range(1, len(parts), 2)}


def read_topology(request: Request, commands: Commands) -> Readings:
    """Connection between each pair of GPUs or network adapters: ``gpu0 mlx5_0`` -> ``PIX``."""
    out = re.sub(r"\x1b\[[0-9;]*m", "", commands.run("nvidia-smi", "topo", "-m"))
    names = dict(re.findall(r"^\s+(NIC\d+): (\S+)\s*$", out, re.MULTILINE))
    lines = [[word.strip() for word in line.split("\t")] for line in out.splitlines()]
    heads = next((line[1:] for line in lines if line[:2] == ["", "GPU0"]), None)
    if heads is None:
        raise Unread("nvidia-smi topo -m printed no matrix")
    pairs: dict[str, str] = {}
    for row in lines:
        start = heads.index(row[0]) + 1 if row[0] in heads else len(heads)
        for column in range(start, len(heads)):
            if re.fullmatch(r"(GPU|NIC)\d+", heads[column]):
                ends = (names.get(end, end.lower()) for end in (row[0], heads[column]))
                pairs[" ".join(ends)] = row[column + 1]
    return {"gpu.topology": pairs}
