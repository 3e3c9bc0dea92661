"""Generates the tables in docs/nvidia.md from the catalogue, and the line in its sample problem.

The column ``sources`` has numbers from the list of sources on that page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lockstep.catalog import gpus, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import compatibility as facts
from lockstep.spec import Cluster
from lockstep.spec.locate import line_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/nvidia.md"
SAMPLE_LINE = re.compile(r"(?<=ERROR inventories/prod\.py:)\d+(?= software\.nvidia\.cuda\[0\])")
MARK = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

PART_WORDS = {
    "driver": "`driver`",
    "modules_open": "`modules: open`",
    "modules_proprietary": "`modules: proprietary`",
    "cuda_runtime": "`cuda`, `cuda_parts: runtime`",
    "cuda_toolkit": "`cuda`, `cuda_parts: toolkit`",
}


def _table(*rows: tuple[str, ...]) -> str:
    head, *others = rows
    lines = [head, ("---",) * len(head), *others]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def architectures() -> str:
    """Return the table of kernel modules, driver branches and CUDA releases per architecture."""
    models: dict[str, list[str]] = {}
    for name in gpus.known():
        models.setdefault(gpus.load(name).architecture or "", []).append(f"`{name}`")

    return _table(
        ("architecture", "GPUs", "kernel modules", "driver branches", "CUDA", "sources"),
        *(
            (
                name,
                ", ".join(models.get(name, ["none yet"])),
                " or ".join(served.modules),
                f"{served.first_branch} to {served.last_branch}"
                if served.last_branch
                else f"from {served.first_branch}",
                served.cuda,
                "1, 4",
            )
            for name, served in facts.ARCHITECTURES.items()
        ),
    )


def cuda() -> str:
    """Return the table of the drivers for each CUDA release."""
    return _table(
        ("CUDA", "oldest driver that runs it", "driver that it was released with", "sources"),
        *(
            (
                release,
                facts.CUDA_MINIMUM_DRIVER[release.partition(".")[0]],
                made.driver + _mark(made.origin),
                "2, 3" if made.origin.verified else "25",
            )
            for release, made in facts.CUDA_RELEASES.items()
        ),
    )


def _mark(origin: facts.Origin) -> str:
    return "" if origin.verified else " (not verified)"


def branches() -> str:
    """Return the table of the driver branches."""
    return _table(
        ("branch", "kind", "NVIDIA's support", "CUDA", "source, looked up"),
        *(
            (
                str(number),
                (branch.kind or "—") + _mark(branch.origin),
                " ".join(
                    filter(
                        None,
                        (
                            "yes" if branch.supported else "ended",
                            branch.ends and f"({branch.ends})",
                        ),
                    )
                ),
                branch.cuda or "—",
                f"{branch.origin.source}, {branch.origin.looked_up}",
            )
            for number, branch in facts.BRANCHES.items()
        ),
    )


def models() -> str:
    """Return the table of the GPU models."""
    rows = []
    for name in gpus.known():
        gpu = gpus.load(name)
        low, high = gpu.power_limits_w or (0.0, 0.0)
        rows.append(
            (
                f"`{name}`",
                gpu.product_name,
                str(gpu.memory_mib or "—"),
                f"{gpu.default_power_limit_w:g}" if gpu.default_power_limit_w else "—",
                f"{low:g} to {high:g}" if gpu.power_limits_w else "—",
                str(gpu.max_sm_clock_mhz or "—"),
                gpu.nvlinks or "—",
                "—" if gpu.mig_profiles is None else str(len(gpu.mig_profiles)),
                gpu.first_driver or (f"branch {gpu.first_listed}" if gpu.first_listed else "—"),
            )
        )
    head = ("MiB", "W", "lowest to highest W", "MHz", "NVLinks", "MIG profiles", "driver from")
    return _table(("`model`", "name in nvidia-smi", *head), *rows)


def limits() -> str:
    """Return the table of the parts that need a certain version."""
    return _table(
        ("part", "from", "why", "sources"),
        (
            "open kernel modules",
            f"driver {facts.OPEN_MODULES_FROM}",
            "the first branch that has them",
            "1",
        ),
        (
            "`dcgm`",
            facts.DCGM_FROM,
            "package names contain the CUDA major version (`datacenter-gpu-manager-4-cuda12`)",
            "7",
        ),
        (
            "`dcgm` with a driver that runs CUDA 13",
            facts.DCGM_CUDA_13_FROM,
            "the first version for CUDA 13",
            "7",
        ),
        (
            "`container_toolkit`",
            facts.CONTAINER_TOOLKIT_FROM,
            "`nvidia-cdi-refresh` updates the CDI files after a driver change",
            "8",
        ),
        (
            f"`gdrcopy` with the open modules of branch {facts.GDRCOPY_OPEN_DRIVER} or later",
            facts.GDRCOPY_OPEN_FROM,
            "recognizes these modules when it is built",
            "30",
        ),
        (
            "`nvidia_fs` with proprietary modules",
            f"before {facts.NVIDIA_FS_OPEN_ONLY_FROM}",
            "later versions work with the open modules only",
            "31",
        ),
        (
            '`nics.gpudirect: "peermem"`',
            f"driver {facts.PEERMEM_FROM}",
            "the first branch with `nvidia_peermem`",
            "32",
        ),
        (
            '`nics.gpudirect: "dma_buf"`',
            f"open modules of driver {facts.DMA_BUF_FROM}",
            "with Linux 5.12 or later; NVIDIA recommends it",
            "32",
        ),
        (
            "`fabric_manager`, `nscq`, `imex`",
            "the driver's version",
            "other versions do not work with the driver",
            "6",
        ),
    )


def packages() -> str:
    """Return the table of the packages of each part, by packaging."""
    archives = {name: nvidia.PACKAGINGS[name] for name in nvidia.ARCHIVES}
    theirs = nvidia.PACKAGINGS["nvidia"]
    ubuntu = operating_systems.load("ubuntu_24_04")
    on_ubuntu = nvidia.packaging("nvidia", str(nvidia.UBUNTU_RENAMED_FROM), ubuntu)

    def names(packaging: nvidia.Packaging, part: str) -> str:
        entry = packaging.parts[part]
        return ", ".join(
            f"`{name}`"
            + (f" at `{pattern}`" if (pattern := entry.other_versions.get(name)) else "")
            for name in entry.names
        )

    def archived(packaging: nvidia.Packaging, part: str) -> str:
        return names(packaging, part) if part in packaging.from_archive else "as `nvidia`"

    return _table(
        ("part", "`nvidia`", "`nvidia` on Ubuntu", *(f"`{name}`" for name in archives), "version"),
        *(
            (
                PART_WORDS.get(part, f"`{part}`"),
                names(theirs, part),
                "the same" if on_ubuntu.parts[part] == entry else names(on_ubuntu, part),
                *(archived(packaging, part) for packaging in archives.values()),
                f"`{entry.version}`",
            )
            for part, entry in theirs.parts.items()
        ),
    )


def engines() -> str:
    """Return the table of the packages of each container engine."""
    releases = {
        name: release.engines
        for name in operating_systems.known()
        if (release := operating_systems.load(name)).engines
    }
    listed = next(iter(releases.values()))
    return _table(
        ("engine", *(f"`{name}`" for name in releases)),
        *(
            (
                f"`{engine}`",
                *(
                    ", ".join(f"`{name}`" for name in sorted(of[engine]))
                    + (" (no CDI)" if engine in operating_systems.load(release).without_cdi else "")
                    for release, of in releases.items()
                ),
            )
            for engine in listed
        ),
    )


TABLES = {
    "models": models,
    "branches": branches,
    "architectures": architectures,
    "cuda": cuda,
    "limits": limits,
    "packages": packages,
    "engines": engines,
}


def written(text: str) -> str:
    """Return the page with its tables regenerated."""
    return MARK.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[3]}", text)


def marked(text: str) -> Iterator[str]:
    """Yield the names of the tables in a page."""
    yield from (match[2] for match in MARK.finditer(text))


def located(text: str) -> str:
    """Return the page with the line of prod.py that its sample problem is about."""
    source = (ROOT / "inventories" / "prod.py").read_text(encoding="utf-8")
    line = line_of(source, ("software", "nvidia", "cuda", 0), Cluster.model_fields)
    return SAMPLE_LINE.sub(str(line), text)


def files() -> dict[str, bytes]:
    """Return docs/nvidia.md with current tables and lines."""
    return {"docs/nvidia.md": located(written(PAGE.read_text(encoding="utf-8"))).encode("utf-8")}
