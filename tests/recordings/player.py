"""Plays a recording: answers the commands of the probe as the recorded nvidia-smi would.

A recording is a file of tests/captures/gpus: the driver's version and the values of each GPU, by
their names in ``nvidia-smi --help-query-gpu``. A value that is left out is one that the GPU lacks.
"""

from __future__ import annotations

import configparser
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lockstep.node.readers.gpu_fields import COUNTERS, EVERY, REMAPPED, RESET_STATUS, SENSORS

FOLDER = Path(__file__).parents[1] / "captures" / "gpus"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))
QUERY, REMAPPED_QUERY = "--query-gpu=", "--query-remapped-rows="
LACKS = "[N/A]"
UNBRACKETED = ("fabric.",)
"""Fields for which nvidia-smi prints N/A without brackets (recorded: 590 to 610)."""
OFFERED_FROM = {
    # Field, or group of fields that ends with a dot -> the first branch that offers it: the help of
    # the programs 470, 535, 550 and 555, and recorded answers of 565 to 610.
    "fabric.health.summary": 580,
    "gpu_recovery_action": 570,
    "inforom.checksum_validation": 560,
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": 560,
    "remapped_rows.": 560,
    COUNTERS: 560,
    "fabric.": 535,
    "gsp.": 535,
    "addressing_mode": 535,
    "protected_memory.": 535,
    "clocks_event_reasons.": 535,
    "temperature.gpu.tlimit": 535,
    "reset_status.": 535,
}
RENAMED = {"clocks_throttle_reasons.active": "clocks_event_reasons.active"}
YES_NO = {"Yes": "1", "No": "0"}

Gpu = dict[str, str]


@dataclass(frozen=True)
class Recording:
    """What one node's GPUs answered."""

    name: str
    driver: str
    gpus: Mapping[str, Gpu]
    """Index -> field -> text."""
    mig: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Index -> profiles of its MIG devices."""
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Index -> what nvlink -s prints for each link."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Index -> the line that is printed instead of the GPU's row."""
    after: str = ""
    """What follows the answer, such as a warning."""
    error: str = ""
    """What is printed on standard error."""
    status: int = 0
    """Exit status of every command."""
    whole: str | None = None
    """The whole answer to every command."""

    @property
    def branch(self) -> int:
        """The driver's branch."""
        return int(self.driver.split(".")[0])

    @property
    def models(self) -> set[str]:
        """The product names of the GPUs."""
        return {gpu["name"] for gpu in self.gpus.values()}

    def on(self, node: int) -> Recording:
        """Return the recording with the identities of another node."""
        gpus = {
            index: {
                **gpu,
                "uuid": f"GPU-{node:04x}{gpu['uuid'][8:]}",
                **({"serial": f"{node}{gpu['serial']}"} if gpu.get("serial", "").isdigit() else {}),
            }
            for index, gpu in self.gpus.items()
        }
        return replace(self, gpus=gpus)

    def with_values(self, index: str, **values: str) -> Recording:
        """Return the recording with other values of one GPU; two underscores stand for a dot."""
        gpus = copy.deepcopy(dict(self.gpus))
        gpus[index] |= {name.replace("__", "."): value for name, value in values.items()}
        return replace(self, gpus=gpus)

    def outcome(self, *argv: str) -> tuple[int, str, str]:
        """Return exit status, output and error output of an nvidia-smi command."""
        if self.whole is not None:
            return self.status, self.whole, ""
        status, out = self._answer(argv)
        return status or self.status, out + self.after, self.error

    def _answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        words = " ".join(argv)
        if words == "--help-query-gpu":
            return 0, "".join(f'"{name}"\nText.\n\n' for name in self._every_field())
        if words.startswith(QUERY):
            return self._rows(argv[0].removeprefix(QUERY).split(","))
        if words.startswith(REMAPPED_QUERY):
            return 0, "".join(self._remapped(argv[0].removeprefix(REMAPPED_QUERY).split(",")))
        if words == "-L":
            return 0, "".join(self._list())
        if words == "nvlink -s":
            return 0, "".join(self._links())
        if words == "nvlink -e":
            return 0, ""
        if words == "topo -m":
            return 0, self._matrix()
        assert words.startswith("--query-compute-apps="), words
        return 0, ""

    def offers(self, name: str) -> bool:
        """Return whether the driver knows a field."""
        if name in RENAMED:
            return True
        if name in RESET_STATUS and self.branch >= 570:
            return False
        known = EVERY_FIELD | {*RESET_STATUS}
        since = max(
            (from_ for group, from_ in OFFERED_FROM.items() if _within(name, group)), default=0
        )
        return name in known and self.branch >= since

    def _every_field(self) -> Iterator[str]:
        names = ("index", *sorted(EVERY_FIELD), *RESET_STATUS, *RENAMED)
        return (name for name in names if self.offers(name))

    def _rows(self, fields: list[str]) -> tuple[int, str]:
        wrong = [name for name in fields if not self.offers(name)]
        if wrong:
            return 2, f'Field "{wrong[0]}" is not a valid field to query.\n\n'
        lines = (
            self.instead.get(index) or ", ".join(self._text(gpu, index, name) for name in fields)
            for index, gpu in self.gpus.items()
        )
        return 0, "".join(f"{line}\n" for line in lines)

    def _text(self, gpu: Gpu, index: str, name: str) -> str:
        known = {"index": index, "driver_version": self.driver, **gpu}
        text = known.get(RENAMED.get(name, name), LACKS)
        if name.startswith(UNBRACKETED):
            text = text.strip("[]")
            # 535 to 555 print the name of the field as well.
            repeated = name in ("fabric.state", "fabric.status") and self.branch < 560
            text = f"{name[7:]}  {text}" if repeated else text
        return text

    def _remapped(self, fields: list[str]) -> Iterator[str]:
        for gpu in self.gpus.values():
            values = (
                (name, gpu.get({"gpu_uuid": "uuid"}.get(name, name), LACKS)) for name in fields
            )
            yield ", ".join(YES_NO.get(value, value) for _, value in values) + "\n"

    def _list(self) -> Iterator[str]:
        for index, gpu in self.gpus.items():
            if index in self.instead:
                yield f"{self.instead[index]}\n"
                continue
            yield f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})\n"
            for number, profile in enumerate(self.mig.get(index, ())):
                yield f"  MIG {profile:<11} Device {number:>2}: (UUID: MIG-{number:08})\n"

    def _links(self) -> Iterator[str]:
        for index, gpu in self.gpus.items():
            if index in self.links:
                yield f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})\n"
                yield from (f"\t Link {at}: {one}\n" for at, one in enumerate(self.links[index]))

    def _matrix(self) -> str:
        heads = [f"GPU{index}" for index in self.gpus]
        first = "\t".join(["", *heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
        rows = (
            "\t".join([row, *(" X " if row == one else "SYS" for one in heads), "0-7", "0", "N/A"])
            for row in heads
        )
        return "\n".join([f"\t\x1b[4m{first[1:]}\x1b[0m", *rows, "", "Legend:", ""])


EVERY_FIELD = {name for _, name, _ in EVERY} | {*REMAPPED, *SENSORS, "index"}


def _within(name: str, group: str) -> bool:
    return name.startswith(group) if group.endswith(".") else name == group


def load(name: str) -> Recording:
    """Return a recording by the name of its file."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(FOLDER / f"{name}.txt", encoding="utf-8")
    own = [section for section in parser.sections() if re.fullmatch(r"gpu\d+", section)]
    gpus = {one[3:]: {**parser["gpus"], **parser[one]} for one in own}
    mig = {index: tuple(gpu.pop("mig").split()) for index, gpu in gpus.items() if "mig" in gpu}
    return Recording(name, parser["node"]["driver"], gpus, mig)


def every(names: Iterable[str] = NAMES) -> Iterator[Recording]:
    """Yield recordings."""
    return map(load, names)


def lost(recording: Recording, index: str, line: str, stream: str, status: int) -> Recording:
    """Return the recording with a message about a GPU instead of its row."""
    gone = {one: gpu for one, gpu in recording.gpus.items() if one != index}
    if stream == "err":
        return replace(recording, gpus=gone, error=f"{line}\n", status=status)
    return replace(recording, instead={index: line}, status=status)


def silenced(recording: Recording, text: str, status: int) -> Recording:
    """Return a recording of which every command answers the same."""
    return replace(recording, whole=text, status=status)


def warned(recording: Recording, text: str) -> Recording:
    """Return the recording with a warning below every answer."""
    return replace(recording, after=text, status=14)


def linked(recording: Recording, links: Iterable[str], index: str = "") -> Recording:
    """Return the recording with the NVLinks of one GPU, or of all."""
    indices = [index] if index else [*recording.gpus]
    return replace(recording, links={**recording.links, **dict.fromkeys(indices, (*links,))})
