"""GPUs that do not answer, as nvidia-smi shows them.

The forms were seen with the programs of the branches 418, 450, 470, 535, 550 and 555, over a
library that returns the errors of nvml.h; those of newer branches are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.node.readers.gpu_fields import ANSWERED

ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
_UNREACHABLE = re.compile(rf"\bGPU ?(?:(?:\d+: )?({ADDRESS})|(\d+)): *(\S.*)", re.IGNORECASE)
"""A line that nvidia-smi prints instead of a GPU's row::

    Unable to determine the device handle for GPU0: 0000:24:00.0: GPU is lost.  Reboot the ...
    Unable to determine the device handle for gpu 0000:34:00.0: Unknown Error
    Unable to determine the device handle for GPU 1: GPU is lost.  Reboot the system to ...
"""
_NAMED = re.compile(r"^(?:GPU \d+: .*\(UUID: |.*\bWARNING\b)", re.IGNORECASE)
"""A line that names a GPU without saying that it does not answer."""
_CORRUPTED = re.compile(
    rf"infoROM is corrupted at gpu ({ADDRESS}|\d+)\s*$", re.IGNORECASE | re.MULTILINE
)

NO_ANSWER = ("[Unknown Error]", "[GPU is lost]", "[Timeout]", "ERR!", "[ERR!]")
LOST, RESET, UNKNOWN = "GPU is lost", "GPU requires reset", "Unknown Error"
"""What nvmlErrorString(3) says of NVML_ERROR_GPU_IS_LOST, RESET_REQUIRED and UNKNOWN. nvidia-smi
prints these words in brackets in place of a value."""

NO_GPUS = "No devices were found"
"""All that nvidia-smi prints, with exit status 6, if the driver has no GPU left."""
EXIT_CORRUPTED_INFOROM = 14
"""Exit status of nvidia-smi(1)."""
NO_DRIVER = "nvidia-smi: no driver"
_NO_DRIVER = re.compile(
    r"^.*(?:NVIDIA-SMI has failed because|Failed to initialize NVML|NVIDIA-SMI couldn't find).*$",
    re.MULTILINE,
)
"""What all branches print if the driver, its module or its library is missing or broken."""
SAID_BY_STATUS = (9, 12, 15, 18)
"""Exit statuses that already say so: no driver, no library, a lost GPU, versions that differ."""
ALL = "all"
"""The device to report if every GPU is lost."""


def unreachable(line: str) -> tuple[str, str] | None:
    """Return the GPU (address or ``gpu1``) and the error of a line that reports a lost GPU."""
    found = None if _NAMED.search(line) else _UNREACHABLE.search(line)
    if found is None:
        return None
    address, index, error = found.groups()
    return address.lower() if address else f"gpu{index}", error.strip()


def corrupted(text: str) -> list[str]:
    """Return the GPUs with a corrupted infoROM, from nvidia-smi's warnings: address or ``gpu1``."""
    named = _CORRUPTED.findall(text)
    return [f"gpu{one}" if one.isdigit() else one.lower()[-12:] for one in named]


def no_driver(status: int, out: str, err: str) -> str:
    """Return why no GPU can be used, if only the text of nvidia-smi says so; else ""."""
    found = None if status in SAID_BY_STATUS else _NO_DRIVER.search(f"{err}\n{out}")
    return f"{NO_DRIVER}: {found.group().strip()[:200]}" if found else ""


def silent(row: Mapping[str, str]) -> str:
    """Return the errors that the driver gets when it asks a GPU how it is; "" if it answers.

    nvidia-smi prints ERR! in its table where a query has [Unknown Error].
    """
    errors = (f"{name} is {row[name]}" for name in ANSWERED if row.get(name) in NO_ANSWER)
    return ", ".join(errors)


def state(values: list[str]) -> str:
    """Return why a GPU gives no values (``GPU is lost``), from its row; "" if it gives some.

    A lost GPU may still show its index, name and address. A single unknown error is no sign of a
    lost GPU, but half of the row is.
    """
    for word in (LOST, RESET):
        if f"[{word}]" in values:
            return word
    return UNKNOWN if 2 * values.count(f"[{UNKNOWN}]") >= len(values) else ""
