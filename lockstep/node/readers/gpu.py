"""The NVIDIA GPUs, with their MIG devices, from nvidia-smi."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from lockstep.node.readers.commands import Commands, failure, installed
from lockstep.node.readers.gpu_fields import (
    ALWAYS,
    EVERY,
    FIRST_BRANCH,
    GPU_READINGS,
    OLDER,
    REMAPPED,
    RESET_STATUS,
    SENSORS,
)
from lockstep.node.readers.gpu_lost import (
    ADDRESS,
    ALL,
    EXIT_CORRUPTED_INFOROM,
    NO_GPUS,
    RESET,
    corrupted,
    no_driver,
    silent,
    state,
    unreachable,
)
from lockstep.node.readers.kubernetes_devices import offered
from lockstep.node.readers.reading import (
    NOT_SUPPORTED,
    OF_A_ROLE,
    Readings,
    Request,
    Unread,
    not_available,
)
from lockstep.node.readers.tree import exists, found_by, found_in, text_of

LACKS = ("N/A", "[N/A]", "[Not Supported]", "[Requested functionality has been deprecated]")
"""What nvidia-smi prints for a value that a GPU lacks; other text in brackets means a failure."""
REPEATED = re.compile(r"^(?:state|status) +(?=\S)")
"""The branches from 535 on print the names of fabric.state and fabric.status before the values;
590 does not."""
NO_ROW = "nvidia-smi: not a row of values"
DRIVER = "/proc/driver/nvidia/version"
LOADED = "/sys/module/nvidia/version"
Row = dict[str, str]
"""What nvidia-smi printed about one GPU: field -> text."""


def only_if_loaded(request: Request, program: str = "nvidia-smi") -> None:
    """Raise ``Unread`` if a role's request would load the driver before its options are set."""
    if OF_A_ROLE in request and installed(program) and not (exists(DRIVER) or exists(LOADED)):
        raise Unread(f"{program} was not run, because it would load the driver")


def read_gpus(request: Request, commands: Commands) -> Readings:
    """All values of every GPU, from a single nvidia-smi query.

    The values of a lost GPU are left out; ``gpu.lost`` names it.
    """
    only_if_loaded(request)
    fields, status, out, err, answered_in_s = gpu_rows(commands)
    answered = status in (0, EXIT_CORRUPTED_INFOROM)
    if gone := no_driver(status, out, err):
        raise Unread(gone)
    gpus, lost, reset = sorted_rows(out, fields, strict=answered and NO_GPUS not in out)
    # Some branches name a lost GPU on standard error, and exit with 0.
    lost = {**dict(filter(None, map(unreachable, err.splitlines()))), **lost}
    readings: Readings = {
        name: {} if field in fields else not_available(field) for name, field, _ in EVERY
    }
    if NO_GPUS in out + err and not gpus:
        lost = {ALL: NO_GPUS}
    elif not answered and not lost:
        raise failure("nvidia-smi", status, out, err)
    elif not answered and not gpus:
        # Some branches stop at the first lost GPU, so nothing is known about the others.
        why = failure("nvidia-smi", status, out, err)
        readings = dict.fromkeys(("gpu.count", "gpu.silent", *GPU_READINGS), why)
    for gpu, row in gpus.items():
        for name, field, kind in EVERY:
            if field in fields:
                readings[name][gpu] = gpu_value(name, row[field], field, kind)
    if gpus and "remapped_rows.pending" not in fields:
        readings.update(remapped_rows({row["uuid"]: gpu for gpu, row in gpus.items()}, commands))
    if "gpu_recovery_action" not in fields and {*RESET_STATUS} <= fields.keys():
        readings["gpu.recovery_action"] = {gpu: reset_asked(row) for gpu, row in gpus.items()}
    answers = {gpu: "" if gpu in reset else silent(row) for gpu, row in gpus.items()}
    readings.setdefault("gpu.silent", answers)
    # These two follow from the output, even if the driver does not offer the field.
    corrupt = {*corrupted(f"{out}\n{err}")}
    faulty = [gpu for gpu, row in gpus.items() if {gpu, row["pci.bus_id"][-12:].lower()} & corrupt]
    overrule(readings, "gpu.inforom.checksum", "corrupted", faulty, gpus)
    overrule(readings, "gpu.recovery_action", "Reset", reset, gpus)
    count = {} if "gpu.count" in readings else {"gpu.count": len(gpus)}
    readings["kubernetes.gpus"] = offered({gpu: row["uuid"] for gpu, row in gpus.items()})
    return {**readings, **count, "gpu.lost": lost, "gpu.answered_in_s": answered_in_s}


def reset_asked(row: Row) -> Any:
    """Return the recovery action of a GPU on a driver that only says whether it needs a reset."""
    required, recommended = (row[field] for field in RESET_STATUS)
    if required == "Yes":
        return "Reset"
    if recommended == "Yes":
        return "Drain and Reset"
    if required in LACKS:
        return NOT_SUPPORTED
    if required == "No":
        return "None"
    return {"unread": f"nvidia-smi: {RESET_STATUS[0]} is {required}"}


def gpu_rows(commands: Commands) -> tuple[dict[str, str], int, str, str, float]:
    """Query all GPUs; return the fields, exit status, output, error output and duration.

    The fields are mapped to the names by which this driver knows them. If the driver does not know
    one of the names, nvidia-smi rejects the whole query. The query is then repeated with the fields
    that the driver knows.
    """
    fields = {field: field for field in (*(field for _, field, _ in EVERY), *SENSORS)}
    begin = time.monotonic()
    status, out, err = 2, NOT_A_FIELD, ""
    if not 0 < branch_of_driver() < FIRST_BRANCH:
        status, out, err = commands.outcome(*gpu_query(fields))
    if status != 0 and NOT_A_FIELD in out + err:
        offered = fields_offered(commands)
        asked = (*fields, *RESET_STATUS)
        names = {field: field if field in offered else OLDER.get(field) for field in asked}
        fields = {field: name for field, name in names.items() if name in offered}
        begin = time.monotonic()
        status, out, err = commands.outcome(*gpu_query(fields.values()))
    return fields, status, out, err, round(time.monotonic() - begin, 3)


NOT_A_FIELD = "is not a valid field to query"


def branch_of_driver() -> int:
    """Return the branch of the loaded driver (550), or 0 if it is unknown."""
    found = re.search(r"\b(\d{3})\.\d+", text_of(DRIVER, text_of(LOADED, "")))
    return int(found.group(1)) if found else 0


def said(outcome: tuple[int, str, str]) -> str:
    """Return the output of nvidia-smi; a corrupted infoROM, which another reading has, is no error.

    Raises:
        Unread: nvidia-smi failed otherwise.
    """
    status, out, err = outcome
    if status not in (0, EXIT_CORRUPTED_INFOROM):
        raise failure("nvidia-smi", status, out, err)
    return "".join(line for line in out.splitlines(keepends=True) if not corrupted(line))


def fields_offered(commands: Commands) -> set[str]:
    """Return all names of fields that this driver's nvidia-smi knows."""
    return {
        name
        for line in said(commands.outcome("nvidia-smi", "--help-query-gpu")).splitlines()
        if line.startswith('"')
        for name in re.findall(r'"([\w.]+)"', line)
    }


def gpu_query(fields: Iterable[str]) -> tuple[str, str, str]:
    """Return the command that reads these fields from every GPU."""
    query = ",".join(["index", *fields])
    return ("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits")


def sorted_rows(
    out: str, fields: Iterable[str], strict: bool
) -> tuple[dict[str, Row], dict[str, str], list[str]]:
    """Return the rows of the GPUs, the lost GPUs with their errors, and those to be reset.

    Args:
        out: what nvidia-smi printed.
        fields: the fields after the index, with the name of the GPU first.
        strict: raise ``Unread`` for any other line.
    """
    gpus: dict[str, Row] = {}
    lost: dict[str, str] = {}
    reset: list[str] = []
    for line in out.splitlines():
        message = unreachable(line)
        values = split_row(line, len([*fields]) + 1)
        if message:
            lost[message[0]] = message[1]
        elif values:
            row = {field: values[at] for at, field in enumerate(fields, 1)}
            error = state(values[1:])
            slot = row["pci.bus_id"].lower()
            if not values[0].isdigit():
                place = slot if re.fullmatch(ADDRESS, slot) else f"row {len(gpus) + len(lost) + 1}"
                lost[place] = error or values[0]
            elif error and error != RESET:
                lost["gpu" + values[0]] = error
            else:
                gpus["gpu" + values[0]] = row
                reset += ["gpu" + values[0]] if error else []
        elif strict and line.strip() and not corrupted(line):
            raise Unread(f"{NO_ROW}: {line.strip()[:120]}")
    return gpus, lost, reset


def split_row(line: str, columns: int) -> list[str]:
    """Return the values of a row, or [] if the line is none.

    nvidia-smi quotes nothing, so a name with commas takes several parts. It is the second value.
    """
    parts = [part.strip() for part in line.split(",")]
    more = len(parts) - columns
    if more < 0 or not (parts[0].isdigit() or parts[0].startswith("[")):
        return []
    return [parts[0], ", ".join(parts[1 : more + 2]), *parts[more + 2 :]]


def remapped_rows(gpus: dict[str, str], commands: Commands) -> Readings:
    """Return the readings of remapped rows from the query that older branches offer.

    Args:
        gpus: UUID -> name of a GPU.
        commands: runs nvidia-smi.
    """
    readings = [row for row in EVERY if row[1] in REMAPPED]
    query = ",".join(("gpu_uuid", *(field for _, field, _ in readings)))
    try:
        status, out, err = commands.outcome(
            "nvidia-smi", "--query-remapped-rows=" + query, "--format=csv,noheader,nounits"
        )
    except Unread as silence:
        return dict.fromkeys((name for name, _, _ in readings), silence)
    if status == EXIT_INVALID and NO_QUERY in out + err:
        return {}  # 418 does not have this query
    rows = [[word.strip() for word in line.split(",")] for line in out.splitlines()]
    found = {row[0]: row[1:] for row in rows if len(row) == len(readings) + 1}
    # This query prints numbers where --query-gpu prints words.
    word = {"remapped_rows.pending": YES_NO, "remapped_rows.failure": YES_NO}
    why = {"unread": str(failure("nvidia-smi", status, out, err))}
    return {
        name: {
            gpu: gpu_value(
                name, word.get(field, {}).get(found[uuid][at], found[uuid][at]), field, kind
            )
            if uuid in found
            else why
            for uuid, gpu in gpus.items()
        }
        for at, (name, field, kind) in enumerate(readings)
    }


YES_NO = {"0": "No", "1": "Yes"}
EXIT_INVALID = 2
NO_QUERY = "Invalid combination of input arguments"


def overrule(
    readings: Readings, name: str, value: str, faulty: Iterable[str], gpus: Iterable[str]
) -> None:
    """Set a reading of the faulty GPUs, also if it is unread for all GPUs."""
    faulty = [*faulty]
    if faulty and isinstance(readings[name], Unread):
        readings[name] = {gpu: {"unread": str(readings[name])} for gpu in gpus}
    for gpu in faulty:
        readings[name][gpu] = value


def read_processes(request: Request, commands: Commands) -> Readings:
    """UUIDs of the GPUs on which a process has a compute context."""
    only_if_loaded(request)
    listed = said(
        commands.outcome(
            "nvidia-smi", "--query-compute-apps=gpu_uuid", "--format=csv,noheader,nounits"
        )
    )
    return {"gpu.processes": sorted({line.strip() for line in listed.splitlines()})}


def gpu_value(name: str, text: str, field: str, kind: Callable[[str], Any]) -> Any:
    """Return a value; unread if nvidia-smi prints no valid one.

    For a value that the GPU lacks, return "not supported", unless every GPU has it (``ALWAYS``).
    """
    text = REPEATED.sub("", text)
    if name not in ALWAYS and text in LACKS:
        return NOT_SUPPORTED
    if text in ("", "N/A", "ERR!") or text.startswith("["):
        return {"unread": f"nvidia-smi: {field} is {text or 'empty'}"}
    try:
        return kind(text)
    except ValueError:
        return {"unread": f"nvidia-smi: {field} is {text[:60]!r}"}


GPU_LINE = re.compile(r"GPU (\d+): .*\(UUID: (.+)\)")
MIG_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")
WITHOUT_MEANING = ("", ".", "No devices found.")
"""Lines of ``nvidia-smi -L`` that name no GPU. The single dot ends the message about a GPU that
needs a reset."""


def read_mig_devices(request: Request, commands: Commands) -> Readings:
    """The MIG devices of each GPU; none for a GPU without MIG.

    A GPU instance without a compute instance is not a MIG device, because no job can use it.
    """
    only_if_loaded(request)
    status, out, err = commands.outcome("nvidia-smi", "-L")
    gpus = mig_devices(out)
    lost = any(unreachable(line) for line in out.splitlines())
    if status not in (0, EXIT_CORRUPTED_INFOROM) and not (gpus and lost):
        raise failure("nvidia-smi", status, out, err)
    return {"gpu.mig.devices": gpus}


def mig_devices(listed: str) -> dict[str, list[str]]:
    """Return the sorted MIG profiles of each GPU, from the output of ``nvidia-smi -L``."""
    gpus: dict[str, list[str]] = {}
    profiles: list[str] | None = None
    for line in listed.splitlines():
        gpu, device = GPU_LINE.match(line), MIG_DEVICE.match(line)
        if gpu:
            profiles = []
            if gpu.group(2).startswith("GPU-"):  # of a lost GPU, it is "GPU is lost"
                gpus["gpu" + gpu.group(1)] = profiles
        elif device and profiles is not None:
            profiles.append(device.group(1))
            profiles.sort()
        elif not (line.strip() in WITHOUT_MEANING or unreachable(line) or corrupted(line)):
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
