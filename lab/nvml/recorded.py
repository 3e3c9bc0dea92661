"""Turns a recorded ``nvidia-smi -q -x`` into values of the state file.

Every branch from 418 on is understood. What nvidia-smi does not print (MIG profiles, NVLinks,
compute capability and so on) comes from the catalogue's model of the same name. Values that the
state has no place for, and elements that no known branch has, are listed for the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from lab.errors import WrongUseError
from lab.nvml import fields, models, state
from lab.nvml.recorded_tags import LISTS, PAGES, PATHS, REASONS
from lockstep.catalog import gpus

ROOT = "nvidia_smi_log"
ABSENT = ("", "N/A", "[N/A]")
ERRORS = {
    "GPU is lost": "GPU_IS_LOST",
    "GPU requires reset": "RESET_REQUIRED",
    "Insufficient Permissions": "NO_PERMISSION",
    "Requested functionality has been deprecated": "DEPRECATED",
    "Unknown Error": "UNKNOWN",
    "Function Not Found": "FUNCTION_NOT_FOUND",
}
"""What nvidia-smi prints for an error of NVML -> its name in nvml.h (nvmlErrorString)."""
NUMBER = r"-?\d+(?:\.\d+)?"
KINDS = {
    "count": (r"(\d+)", "a whole number"),
    "hex": (r"([0-9A-Fa-f]+)", "a hexadecimal number"),
    "lanes": (r"(\d+)x", "a number and x"),
    "banks": (r"(\d+) bank\(s\)", "a number of bank(s)"),
    "percent": (rf"({NUMBER})%", "a number and %"),
}
# Values of the catalogue's model that no -q -x tells.
UNTOLD = re.compile(
    r"compute_cap|cores|memory\.bus_width|architecture|ecc\.mode\.default|gsp\.mode\..*"
    r"|inforom\.checksum_validation|nvlink\..*|mig\.(profiles|profile\..*|instances)"
    r"|clocks\.locked|cpu_affinity|numa_affinity"
)
ECC = "ecc.mode.current"
ARCHITECTURES = {
    "Ada Lovelace": "ada",
    **{name.capitalize(): name for name in ("volta", "turing", "ampere", "hopper", "blackwell")},
}


class RecordingError(WrongUseError):
    """The file is no recorded ``nvidia-smi -q -x``."""


@dataclass
class Recording:
    """The state that a recording describes."""

    node: dict[str, str] = field(default_factory=dict)
    """Settings of the node: driver, driver_version, cuda_version."""
    gpus: dict[int, dict[str, str]] = field(default_factory=dict)
    """Slot -> values; the slot is the position in the recording."""
    unknown: list[str] = field(default_factory=list)
    """``LINE: PATH = VALUE`` of elements that no known branch has."""
    not_kept: list[str] = field(default_factory=list)
    """``LINE: PATH = VALUE`` of values that the state has no place for."""
    filled: dict[int, list[str]] = field(default_factory=dict)
    """Slot -> keys that the recording does not tell and the catalogue's model does."""
    notes: list[str] = field(default_factory=list)

    def to_state(self) -> state.State:
        """Return the state of a node with these GPUs."""
        found = {
            f"gpu {slot}": {"present": "yes", "lost": "no", **values}
            for slot, values in self.gpus.items()
        }
        return {fields.NODE: {**fields.NODE_DEFAULTS, **self.node}, **found}


@dataclass
class _Element:
    tag: str
    line: int
    text: str = ""
    children: list[_Element] = field(default_factory=list)

    def leaves(self, path: str = "") -> Iterator[tuple[str, _Element]]:
        """Yield path and element of each value below this element."""
        for child in self.children:
            below = f"{path}/{child.tag}" if path else child.tag
            if child.children and below not in LISTS:
                yield from child.leaves(below)
            else:
                yield below, child

    def find(self, tag: str) -> _Element | None:
        return next((child for child in self.children if child.tag == tag), None)


def from_xml(text: str, file: str = "recording") -> Recording:
    """Return the state that an answer of ``nvidia-smi -q -x`` describes.

    Args:
        text: the answer.
        file: its name in error messages.

    Raises:
        RecordingError: the text is something else; the message has file and line.
    """
    root = _parse(text, file)
    if root.tag != ROOT:
        raise _wrong(file, root, f"<{root.tag}>", f"<{ROOT}>: the answer of nvidia-smi -q -x")
    recording = Recording(node={"driver": "ok"})
    for child in root.children:
        if child.tag in ("driver_version", "cuda_version"):
            recording.node[child.tag] = child.text
        elif child.tag == "gpu":
            slot = len(recording.gpus)
            recording.gpus[slot] = _gpu(child, slot, recording, file)
        elif child.tag not in ("timestamp", "attached_gpus", "vgpu_driver_capability", "hic_info"):
            recording.unknown.append(f"{child.line}: {child.tag} = {child.text}")
    if not recording.node.get("driver_version"):
        raise _wrong(file, root, "no driver_version", "<driver_version> of the node")
    if not recording.gpus:
        raise _wrong(file, root, "no gpu", "at least one <gpu>")
    uuids = [values["uuid"] for values in recording.gpus.values()]
    for uuid in sorted({uuid for uuid in uuids if uuids.count(uuid) > 1}):
        recording.notes.append(f"{uuids.count(uuid)} GPUs have the UUID {uuid}")
    attached = root.find("attached_gpus")
    if attached is not None and attached.text != str(len(recording.gpus)):
        recording.notes.append(
            f"{attached.line}: attached_gpus is {attached.text}, but {len(recording.gpus)} are here"
        )
    return recording


def _wrong(file: str, element: _Element, found: str, expected: str) -> RecordingError:
    return RecordingError(f"{file}:{element.line}: {found}; expected {expected}")


def _parse(text: str, file: str) -> _Element:
    """Return the tree of an XML document, with the lines of its elements."""
    document = _Element("", 1)
    stack = [document]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = _Element(tag, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def end(tag: str) -> None:
        element = stack.pop()
        element.text = element.text.strip()

    def characters(data: str) -> None:
        stack[-1].text += data

    def entity(name: str, *rest: object) -> None:
        # Nested entities can grow without limit; nvidia-smi writes none.
        raise RecordingError(
            f"{file}:{parser.CurrentLineNumber}: entity {name!r}; expected no entities"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise RecordingError(
            f"{file}:{error.lineno}: {expat.ErrorString(error.code)}; "
            "expected the whole XML answer of nvidia-smi -q -x"
        ) from error
    return document.children[0]


def _gpu(element: _Element, slot: int, recording: Recording, file: str) -> dict[str, str]:
    """Return the values of one GPU; report what has no place."""
    values: dict[str, str] = {}
    for path, leaf in element.leaves():
        if path in LISTS:
            _entries(path, leaf, values, recording, file)
        elif path.startswith(PAGES) and not path.endswith("retired_count"):
            _report(recording.not_kept, path, leaf)
        elif path not in PATHS:
            _report(recording.unknown, path, leaf, every=True)
        else:
            key, kind = PATHS[path]
            if not key:
                _report(recording.not_kept, path, leaf)
            elif (value := _value(leaf, kind, path, file)) is not None:
                values.setdefault(key, value)
    if not values.get("uuid"):
        raise _wrong(file, element, "a <gpu> without uuid", "the <uuid> of every GPU")
    tags = {child.tag for child in element.children}
    _complete(values, tags, recording)
    _fill(values, slot, recording)
    return dict(sorted(values.items()))


def _report(reports: list[str], path: str, leaf: _Element, *, every: bool = False) -> None:
    if every or leaf.text not in (*ABSENT, "0", "None", "No", "Not Active", "disabled"):
        reports.append(f"{leaf.line}: {path} = {leaf.text}")


def _value(leaf: _Element, kind: str, path: str, file: str) -> str | None:
    """Return a value without its unit; None if nvidia-smi has none."""
    text = leaf.text
    if text in ABSENT:
        return None
    if text in ERRORS:
        return f"error:{ERRORS[text]}"
    if kind == "text":
        return text
    pattern, words = KINDS.get(kind, (rf"({NUMBER}) {kind}", f"a number and {kind}"))
    found = re.fullmatch(pattern, text)
    if found is None:
        raise _wrong(file, leaf, f"{path} = {text!r}", f"{words}, N/A or an error of NVML")
    return f"0x{found[1]}" if kind == "hex" else found[1]


def _entries(
    path: str, element: _Element, values: dict[str, str], recording: Recording, file: str
) -> None:
    """Read an element with entries that repeat."""
    if path == "supported_clocks":
        _supported_clocks(element, values, recording, file)
        return
    for entry in element.children:
        _list(recording, path, entry)


def _list(recording: Recording, path: str, entry: _Element) -> None:
    words = ", ".join(f"{below}={leaf.text}" for below, leaf in entry.leaves())
    recording.not_kept.append(f"{entry.line}: {path}/{entry.tag} = {words}")


def _supported_clocks(
    element: _Element, values: dict[str, str], recording: Recording, file: str
) -> None:
    ranges: dict[str, str] = {}
    for entry in element.children:
        texts = [
            _value(leaf, "MHz", f"supported_clocks/{leaf.tag}", file) for leaf in entry.children
        ]
        clocks = [int(text) for text in texts if text is not None and text.isdigit()]
        if len(clocks) > 1 and len(clocks) == len(texts):
            ranges[str(clocks[0])] = _as_range(clocks[1:])
        else:
            _list(recording, "supported_clocks", entry)
    if not ranges:
        return
    values["clocks.supported.memory"] = ",".join(ranges)
    first = next(iter(ranges.values()))
    values["clocks.supported.graphics"] = first
    for memory, graphics in ranges.items():
        if graphics != first:
            values[f"clocks.supported.graphics.{memory}"] = graphics


def _as_range(clocks: list[int]) -> str:
    """Return clocks as LOWEST-HIGHEST:STEP, or one by one if their steps differ."""
    low, high = min(clocks), max(clocks)
    for step in (15.0, 7.5):
        # The highest clock may be rounded down: 2062 for 2062.5.
        exact = [low + step * n for n in range(round((high - low) / step) + 1)]
        if sorted(clocks) == [int(clock) for clock in exact]:
            return f"{low}-{exact[-1]:g}:{step:g}"
    return ",".join(map(str, clocks))


def _complete(values: dict[str, str], tags: set[str], recording: Recording) -> None:
    """Derive the values that --query-gpu has and -q -x expresses otherwise."""
    # A driver that is older than the GPU prints Unknown.
    if (name := values.get("product_architecture", "")) in ARCHITECTURES:
        values["architecture"] = ARCHITECTURES[name]
    if "board_part_number" not in tags and "gpu_part_number" in values:
        # Until 515, gpu_part_number shows the part number of the board.
        values["board_part_number"] = values.pop("gpu_part_number")
    if values.get("gsp.firmware") == recording.node.get("driver_version"):
        values["gsp.firmware"] = "driver"
    if "gsp.firmware" in values:
        # nvidia-smi prints a version only if the firmware runs.
        values["gsp.mode.current"] = "Enabled"
    if values.get("power.management") == "Supported":
        values["power.management"] = "Enabled"
    draws = [values.get(f"power.draw{which}") for which in ("", ".average", ".instant")]
    if draw := next(filter(None, draws), None):
        values["power.draw"] = draw
    active = [reason for reason in REASONS if _reason(values, reason) == "Active"]
    if any(_reason(values, reason) for reason in REASONS):
        told = [reason for reason in REASONS if _reason(values, reason)]
        for name, reasons in (("active", active), ("supported", told)):
            mask = sum(REASONS[reason] for reason in reasons)
            values[f"clocks_event_reasons.{name}"] = f"0x{mask:016X}"
    # --query-gpu has no field for this bit of the mask.
    values.pop("clocks_event_reasons.display_clocks_setting", None)
    for kind in ("corrected", "uncorrected"):
        for scope in ("volatile", "aggregate"):
            _sum_errors(values, f"ecc.errors.{kind}.{scope}")


def _reason(values: dict[str, str], reason: str) -> str:
    return values.get(f"clocks_event_reasons.{reason}", "")


def _sum_errors(values: dict[str, str], prefix: str) -> None:
    """Derive the sums of the error counters (fields of --query-gpu)."""
    checks = [values.get(f"{prefix}.sram.{check}", "") for check in ("parity", "secded")]
    if f"{prefix}.sram" not in values and all(check.isdigit() for check in checks):
        values[f"{prefix}.sram"] = str(sum(map(int, checks)))
    # Two names of one counter; nvidia-smi prints one or the other.
    memory = values.get(f"{prefix}.device_memory")
    dram = values.get(f"{prefix}.dram", memory)
    if dram is not None:
        values[f"{prefix}.dram"] = values[f"{prefix}.device_memory"] = dram
        sram = values.get(f"{prefix}.sram", "")
        if sram.isdigit() and dram.isdigit():
            values.setdefault(f"{prefix}.total", str(int(sram) + int(dram)))


def _fill(values: dict[str, str], slot: int, recording: Recording) -> None:
    """Take what no -q -x tells from the catalogue's model of the same name."""
    name = values.get("name", "")
    # Drivers up to 450 print A100-SXM4-40GB for NVIDIA A100-SXM4-40GB.
    spellings = (name, f"NVIDIA {name}")
    named = [model for model in models.known() if gpus.load(model).product_name in spellings]
    if not named:
        recording.notes.append(
            f"gpu {slot}: no simulated model named {name!r}; what nvidia-smi does not "
            "print is absent: compute_cap, NVLinks, MIG profiles and so on"
        )
        return
    healthy = models.initial(named[0], slot % models.slots(named[0]), seed="recorded")
    # The recording tells whether the GPU has these at all.
    lacking = tuple(
        f"{group}."
        for group, told in (("mig", "mig.mode.current"), ("gsp", "gsp.firmware"), ("ecc", ECC))
        if told not in values
    )
    untold = {
        key: value
        for key, value in healthy.items()
        if UNTOLD.fullmatch(key) and not key.startswith(lacking)
    }
    recording.filled[slot] = sorted(untold.keys() - values.keys())
    values.update({**untold, **values})
