"""Compiles the simulated NVML, ``libnvidia-ml.so.1``.

The library exports every name of the header in the wheel nvidia-nvml-dev and in other_names.txt;
the names that the sources in this folder do not define answer NVML_ERROR_NOT_SUPPORTED. The
result is cached by the content of sources, header and compiler version.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from lab import places
from lab.commands import run
from lab.errors import LabError

SOURCES = Path(__file__).parent
HEADER_PACKAGE = "nvidia-nvml-dev"
SONAME = "libnvidia-ml.so.1"
FLAGS = (
    *("-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE"),
    # The header marks functions as deprecated that the programs of older branches call.
    *("-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-Wno-format-truncation"),
)
DECLARED = re.compile(r"DECLDIR\s+(nvml\w+)\s*\(")
TIMEOUT_S = 300


def header() -> Path:
    """Return the path of NVIDIA's nvml.h.

    Raises:
        LabError: the wheel is not installed.
    """
    try:
        files = importlib.metadata.files(HEADER_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvml.h":
            return Path(str(file.locate()))
    raise LabError(
        f"Python package {HEADER_PACKAGE}: not installed, but the lab builds its NVML with its "
        "header nvml.h",
        f"pip install {HEADER_PACKAGE}, or in a checkout: make setup",
    )


def exported_names() -> list[str]:
    """Return all names that the library must export."""
    names = set(DECLARED.findall(header().read_text(encoding="utf-8", errors="replace")))
    names.update((SOURCES / "other_names.txt").read_text(encoding="utf-8").split())
    return sorted(names)


def library(folder: Path | None = None) -> Path:
    """Return the compiled library; compile it if it is not cached.

    Args:
        folder: the cache; without it, that of all labs.

    Raises:
        LabError: the compiler failed, or the header is missing.
    """
    cache = folder or places.cache_folder() / "nvml"
    target = cache / _digest() / SONAME
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as scratch:
        unfinished = _compile(Path(scratch))
        os.replace(unfinished, target)
    return target


def _digest() -> str:
    compiler = run(["gcc", "-dumpfullversion"], what="asking gcc for its version")
    digest = hashlib.sha256(f"{compiler}{FLAGS}".encode())
    for path in (header(), Path(__file__), *sorted(SOURCES.glob("*.[ch]")), *SOURCES.glob("*.txt")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(folder: Path) -> Path:
    """Compile the sources, then functions for the names that they do not define."""
    include = ("-isystem", str(header().parent), "-I", str(SOURCES))
    objects = folder / "sources.o"
    run(
        ["gcc", *FLAGS, *include, "-r", "-o", str(objects), *map(str, sorted(SOURCES.glob("*.c")))],
        what="compiling the simulated NVML",
        timeout=TIMEOUT_S,
    )
    symbols = run(["nm", "--defined-only", str(objects)], what="reading the symbols")
    defined = {line.split()[-1] for line in symbols.splitlines()}
    others = folder / "others.c"
    answer = '__attribute__((visibility("default"))) int {}(void) {{ return 3; }}\n'
    names = (name for name in exported_names() if name not in defined)
    others.write_text("".join(answer.format(name) for name in names), encoding="utf-8")
    linked = folder / SONAME
    run(
        [
            *("gcc", *FLAGS, "-shared", f"-Wl,-soname,{SONAME}", "-Wl,-Bsymbolic"),
            *("-o", str(linked), str(objects), str(others), "-pthread"),
        ],
        what="linking the simulated NVML",
        timeout=TIMEOUT_S,
    )
    return linked
