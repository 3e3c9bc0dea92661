"""Validates the NVIDIA stack before any node is contacted: finds incompatible versions."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog import gpus, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.nvidia import compatibility as table
from lockstep.spec.hardware import Gpu
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem
from lockstep.spec.software import Nvidia, fits

HERE = ("software", "nvidia")

FOLLOWERS = {
    "fabric_manager": "refuses to start",
    "nscq": "cannot be loaded with it",
    "imex": "refuses to start",
}
"""Part that must have the driver's version -> the effect of any other version."""


def nvidia_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield parts of the version set that do not match each other or the hardware."""
    yield from _repositories(cluster)
    yield from _not_yet(cluster)
    yield from _slurm_without_mig(cluster)
    stack = cluster.software.nvidia
    engines = cluster.software.containers.engines
    if stack is None:
        if engines and any(h.gpu for h in cluster.hardware.values()):
            yield Problem(
                ("software", "containers", "engines"),
                ", ".join(engines),
                "software.nvidia with container_toolkit: without it, containers get no GPU",
            )
        return
    yield from _same_version(stack)
    yield from _architectures(cluster, stack)
    yield from _hardware(cluster, stack)
    yield from _cuda(cluster, stack)
    yield from _minimums(cluster, stack)
    yield from _locked(cluster, stack)
    yield from _available(cluster, stack)


def _repositories(cluster: Cluster) -> Iterator[Problem]:
    """Find repositories that apt would reject (sources.list(5))."""
    names: set[str] = set()
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    for number, one in enumerate(cluster.software.repositories):
        here = ("software", "repositories", number)
        if one.name in names:
            yield Problem((*here, "name"), one.name, "a unique name among the repositories")
        names.add(one.name)
        first, key = keys.setdefault((one.uri.rstrip("/"), one.suite), (one.name, one.key.strip()))
        if key != one.key.strip():
            yield Problem(
                (*here, "key"),
                f"not the key that {first} has for {one.uri} {one.suite}",
                "one key per suite: apt rejects two",
            )
        if one.suite.endswith("/") and one.components:
            yield Problem(
                (*here, "components"),
                f"{', '.join(one.components)} for the flat repository {one.suite}",
                'no components: a suite that ends in "/" is a flat repository',
            )
        if not one.suite.endswith("/") and not one.components:
            yield Problem(
                (*here, "components"),
                f"none for the suite {one.suite}",
                'at least one, such as "main"; or a flat repository, whose suite ends in "/"',
            )


SETTINGS = ("power_limit_w", "clocks_mhz", "compute_mode", "ecc", "mig")


def _not_yet(cluster: Cluster) -> Iterator[Problem]:
    """Reject settings that Lockstep cannot apply on the release yet, instead of ignoring them."""
    name = cluster.os.release
    if name not in operating_systems.known():
        return
    release = operating_systems.load(name)
    stack = cluster.software.nvidia
    if stack is not None and release.can("packages") and release.id != "debian":
        yield Problem(
            HERE,
            f"driver {stack.driver}",
            f"leave it out: the NVIDIA stack is not supported on {name} yet, only on Debian",
        )
    for engine in cluster.software.containers.engines:
        if stack is not None and engine in release.without_cdi:
            yield Problem(
                ("software", "containers", "engines"),
                engine,
                f"an engine with CDI: on {name} this one has no CDI, so containers get no GPU",
            )
    if not release.can("packages"):
        for wanted, path, found in (
            (stack, HERE, f"driver {stack.driver}" if stack else ""),
            (
                cluster.software.containers.engines,
                ("software", "containers", "engines"),
                ", ".join(cluster.software.containers.engines),
            ),
            (
                cluster.software.repositories,
                ("software", "repositories"),
                ", ".join(one.name for one in cluster.software.repositories),
            ),
        ):
            if wanted:
                yield Problem(path, found, f"leave it out: no package support on {name} yet")
    if not release.can("gpu_settings"):
        for group, gpu in _gpus(cluster).items():
            for field in SETTINGS:
                if (value := getattr(gpu, field)) != Gpu.model_fields[field].default:
                    yield Problem(
                        ("hardware", group, "gpu", field),
                        ", ".join(map(str, value)) if isinstance(value, tuple) else str(value),
                        f"leave it out: GPU settings are not supported on {name} yet",
                    )


def _slurm_without_mig(cluster: Cluster) -> Iterator[Problem]:
    """Find MIG devices that the release's Slurm cannot manage."""
    name = cluster.os.release
    if cluster.scheduler is None or name not in operating_systems.known():
        return
    release = operating_systems.load(name)
    if release.slurm_mig or not release.can("slurm_worker"):
        return
    for group, gpu in _gpus(cluster).items():
        if gpu.mig:
            yield Problem(
                ("hardware", group, "gpu", "mig"),
                f"{', '.join(gpu.mig)} with Slurm",
                f"leave it out: no Slurm plugin on {name} detects MIG devices",
            )


def _gpus(cluster: Cluster) -> dict[str, Gpu]:
    """Return the GPUs of each hardware class with GPUs."""
    return {
        name: hardware.gpu
        for name, hardware in cluster.hardware.items()
        if hardware.gpu is not None
    }


def _same_version(stack: Nvidia) -> Iterator[Problem]:
    for part, otherwise in FOLLOWERS.items():
        version = getattr(stack, part)
        if version is not None and version != stack.driver:
            yield Problem(
                (*HERE, part),
                version,
                f"{stack.driver}, the driver's version: any other version {otherwise}",
            )


def _architectures(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    branch = table.branch(stack.driver)
    opened: list[str] = []
    for name, model in _models(cluster).items():
        served = table.ARCHITECTURES[model.architecture]
        where = f"hardware class {name} ({model.architecture})"
        if branch < served.first_branch:
            yield Problem(
                (*HERE, "driver"), stack.driver, f"{served.first_branch} or later for {where}"
            )
        if served.last_branch is not None and branch > served.last_branch:
            yield Problem(
                (*HERE, "driver"), stack.driver, f"{served.last_branch} or earlier for {where}"
            )
        wanted = stack.modules or model.modules
        if wanted not in served.modules:
            yield Problem((*HERE, "modules"), wanted, f"{' or '.join(served.modules)} for {where}")
        elif wanted == "open":
            opened.append(where)
    if opened and branch < table.OPEN_MODULES_FROM:
        yield Problem(
            (*HERE, "driver"),
            f"{stack.driver} with open kernel modules for {', '.join(opened)}",
            f"{table.OPEN_MODULES_FROM} or later, or modules: proprietary",
        )


def _models(cluster: Cluster) -> dict[str, GpuModel]:
    return {
        name: gpus.load(gpu.model)
        for name, gpu in _gpus(cluster).items()
        if gpu.model in gpus.known()
    }


FOR_HARDWARE = (
    ("fabric_manager", "nvswitch", True),
    ("nscq", "nvswitch", False),
    ("imex", "multi_node_nvlink", True),
)
"""Part, the field of ``gpu`` that it serves, whether that field requires it."""


def _hardware(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    every = _gpus(cluster)
    if not every:
        yield Problem(HERE, f"driver {stack.driver}", "leave it out: no hardware class has GPUs")
        return
    for part, field, demanded in FOR_HARDWARE:
        classes = [name for name, gpu in every.items() if getattr(gpu, field)]
        declared = getattr(stack, part)
        if classes and declared is None and demanded:
            yield Problem(
                (*HERE, part),
                "not declared",
                f"{stack.driver}: hardware class {', '.join(classes)} sets {field}",
            )
        if declared is not None and not classes:
            allowed = f"leave it out: no hardware class sets gpu.{field}"
            yield Problem((*HERE, part), declared, allowed)
    if stack.gdrcopy is not None and all(
        cluster.hardware[name].boot_loader == "none" for name in every
    ):
        yield Problem(
            (*HERE, "gdrcopy"),
            stack.gdrcopy,
            "leave it out: it is a kernel module, and no hardware class with GPUs boots its own "
            'kernel (boot_loader: "none")',
        )


def _cuda(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    known = [release for release in stack.cuda if release in table.CUDA_RELEASES]
    for number, release in enumerate(stack.cuda):
        major = release.partition(".")[0]
        if release not in known:
            yield Problem(
                (*HERE, "cuda", number), release, "one of " + ", ".join(table.CUDA_RELEASES)
            )
        elif not table.at_least(stack.driver, table.CUDA_MINIMUM_DRIVER[major]):
            yield Problem(
                (*HERE, "cuda", number),
                f"{release} with driver {stack.driver}",
                f"driver {table.CUDA_MINIMUM_DRIVER[major]} or later for CUDA {major}.x",
            )
    for name, model in _models(cluster).items() if known else ():
        served = table.ARCHITECTURES[model.architecture]
        if not any(served.has_cuda(release) for release in known):
            yield Problem(
                (*HERE, "cuda"),
                ", ".join(known),
                f"one of {served.cuda} for hardware class {name} ({model.architecture})",
            )
    names = [release for release in known if known.count(release) > 1]
    if stack.packaging == "debian" and len(known) > 1 and not names:
        yield Problem(
            (*HERE, "cuda"),
            ", ".join(known),
            "one release: the distribution's archive has only one, in unversioned packages",
        )
    if names:
        yield Problem((*HERE, "cuda"), ", ".join(stack.cuda), "each release once")


def _minimums(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    engines = cluster.software.containers.engines
    for part, minimum, why in (
        ("container_toolkit", table.CONTAINER_TOOLKIT_FROM, "it detects driver changes itself"),
        ("dcgm", table.DCGM_FROM, "its package names contain the CUDA major version"),
    ):
        version = getattr(stack, part)
        if version is not None and not table.at_least(version, minimum):
            yield Problem((*HERE, part), version, f"{minimum} or later: {why}")
    if (
        stack.dcgm is not None
        and table.at_least(stack.dcgm, table.DCGM_FROM)
        and int(table.cuda_major_of(stack.driver)) >= 13
        and not table.at_least(stack.dcgm, table.DCGM_CUDA_13_FROM)
    ):
        yield Problem(
            (*HERE, "dcgm"),
            f"{stack.dcgm} with driver {stack.driver}",
            f"{table.DCGM_CUDA_13_FROM} or later: the driver provides CUDA 13",
        )
    if stack.dcgm_exporter is not None and stack.dcgm is None:
        yield Problem(
            (*HERE, "dcgm"),
            "not declared",
            f"a version: dcgm_exporter {stack.dcgm_exporter} needs DCGM's host engine",
        )
    if engines and stack.container_toolkit is None:
        yield Problem(
            (*HERE, "container_toolkit"),
            "not declared",
            f"a version: without it, containers of {', '.join(engines)} get no GPU",
        )
    enroot = cluster.software.containers.enroot
    if stack.container_toolkit is not None and not engines and enroot is None:
        yield Problem(
            (*HERE, "container_toolkit"),
            stack.container_toolkit,
            "leave it out, or add software.containers.engines: it configures container engines",
        )


def _locked(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    """Find locked package versions that contradict the version set."""
    packaging = nvidia.load(stack.packaging)
    for part in ("driver", "modules_open", "modules_proprietary", *FOLLOWERS):
        version = stack.driver if part.startswith("modules_") else getattr(stack, part)
        if version is None:
            continue
        for name, pattern in packaging.packages(part, version, stack.driver, stack.cuda):
            locked = cluster.software.versions.get(name)
            if locked is not None and not fits(
                locked.partition(":")[2] or locked, pattern.partition(":")[2] or pattern
            ):
                yield Problem(
                    ("software", "versions", name),
                    f"{locked}, but {part} is {version}",
                    f"{pattern}, as in software.nvidia",
                )


DECLARED = {
    **{part: part for part in ("driver", *FOLLOWERS)},
    "cuda": "cuda_runtime",
    **{part: part for part in ("dcgm", "dcgm_exporter", "container_toolkit", "nccl", "gdrcopy")},
}
"""Field of ``software.nvidia`` -> the matching part of a packaging."""


def _available(cluster: Cluster, stack: Nvidia) -> Iterator[Problem]:
    """Find parts that no declared repository can provide."""
    if cluster.software.repositories:
        return
    held = nvidia.load(stack.packaging).from_archive
    missing = [
        field for field, part in DECLARED.items() if getattr(stack, field) and part not in held
    ]
    if missing:
        yield Problem(
            ("software", "repositories"),
            "none",
            f"one that provides {', '.join(missing)}: the distribution's archive does not"
            + (', or packaging: "debian"' if "driver" in missing else ""),
        )
