"""Validates software before any node is contacted: finds incompatible and unavailable versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lockstep.catalog import job_containers, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.nvidia import compatibility as table
from lockstep.catalog.nvidia import cufile
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Path, Problem, Relation, violated
from lockstep.spec.software import Nvidia, Software, fits
from lockstep.spec.validate_packaging import available, packaged
from lockstep.spec.validate_repositories import without_repository

FOLLOWERS = {
    "fabric_manager": ("refuses to start", "nvswitch", True),
    "nscq": ("cannot be loaded", "nvswitch", False),
    "imex": ("refuses to start", "multi_node_nvlink", True),
}
"""Part that must have the driver's version -> the effect of any other version, the ``gpu`` field
that is set in classes that use the part, and whether these classes require the part."""


def software_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find versions that are unavailable, or incompatible with each other or with the hardware."""
    stack = cluster.software.nvidia
    yield from violated(("software", "containers"), *_containers(cluster))
    yield from violated(("software",), *_job_containers(cluster))
    if stack is not None:
        yield from violated(("software",), *_locked(cluster, stack), *available(cluster, stack))
        yield from violated(
            ("software", "nvidia"),
            (
                not cluster.gpus,
                (),
                f"driver {stack.driver}",
                "leave it out: no hardware class has NVIDIA GPUs",
            ),
            *packaged(cluster, stack),
            *_followers(cluster, stack),
            *_architectures(cluster, stack),
            *_cuda(cluster, stack),
            *_parts(cluster, stack),
            *_gpudirect(cluster, stack),
        )


def _architectures(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    branch = table.branch(stack.driver)
    opened: list[str] = []
    for name, model in _models(cluster).items():
        served = table.ARCHITECTURES.get(model.architecture or "")
        kind = model.product_name if model.only_open else model.architecture
        where = f"hardware class {name} ({kind})"
        modules = stack.modules or model.modules(stack.driver)
        if modules == "open" and modules in model.kernel_modules:
            opened.append(where)
        yield (
            modules not in model.kernel_modules,
            ("modules",),
            modules,
            f"{' or '.join(model.kernel_modules)} for {where}",
        )
        first, last = (served.first_branch, served.last_branch) if served else (0, None)
        yield from (
            (
                branch < first,
                ("driver",),
                stack.driver,
                f"{first} or later for {where}{_nearest(stack.driver, first, last)}",
            ),
            (
                branch > (last or branch),
                ("driver",),
                stack.driver,
                f"{last} or earlier for {where}{_nearest(stack.driver, first, last)}",
            ),
            (
                model.first_driver
                and first <= branch
                and not table.at_least(stack.driver, model.first_driver),
                ("driver",),
                stack.driver,
                f"{model.first_driver} or later for hardware class {name} ({model.product_name})",
            ),
        )
    yield (
        opened and branch < table.OPEN_MODULES_FROM,
        ("driver",),
        f"{stack.driver} with open kernel modules for {', '.join(opened)}",
        f"{table.OPEN_MODULES_FROM} or later, or modules: proprietary",
    )


def _nearest(driver: str, first: int, last: int | None) -> str:
    """Return the nearest branch that NVIDIA supports, as the end of a message."""
    nearest = table.nearest_branch(driver, first, last)
    return f"; the nearest branch that NVIDIA supports is {nearest}" if nearest else ""


def _models(cluster: Cluster) -> dict[str, GpuModel]:
    return {name: gpu.values for name, gpu in cluster.gpus.items() if gpu.model is not None}


def _followers(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    for part, (otherwise, field, required) in FOLLOWERS.items():
        declared = getattr(stack, part)
        classes = [name for name, gpu in cluster.gpus.items() if getattr(gpu, field)]
        yield from (
            (
                declared not in (None, stack.driver),
                (part,),
                declared,
                f"{stack.driver}, the driver's version: any other version {otherwise}",
            ),
            (
                required and classes and declared is None,
                (part,),
                "not declared",
                f"{stack.driver}: hardware class {', '.join(classes)} sets gpu.{field}",
            ),
            (
                cluster.gpus and declared is not None and not classes,
                (part,),
                declared,
                f"leave it out: no hardware class sets gpu.{field}",
            ),
        )


def _cuda(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    known = [one for one in stack.cuda if one in table.CUDA_RELEASES or table.is_newer(one)]
    for number, release in enumerate(stack.cuda):
        major = release.partition(".")[0]
        nearest = table.nearest_cuda([release], lambda one: table.runs(stack.driver, one))
        yield from (
            (
                release not in known,
                ("cuda", number),
                release,
                "one of " + ", ".join(table.CUDA_RELEASES),
            ),
            (
                release in known and not table.runs(stack.driver, release),
                ("cuda", number),
                f"{release} with driver {stack.driver}",
                f"driver {table.CUDA_MINIMUM_DRIVER.get(major)} or later for CUDA {major}.x"
                + (f", or CUDA {nearest} with this driver" if nearest else ""),
            ),
        )
    repeated = len({*known}) < len(known)
    for name, model in _models(cluster).items():
        served = table.ARCHITECTURES.get(model.architecture or "")
        if served is None:
            continue
        fits = _both(served.has_cuda, lambda one: table.runs(stack.driver, one))
        nearest = table.nearest_cuda(known, fits)
        yield (
            known and not any(map(served.has_cuda, known)),
            ("cuda",),
            ", ".join(known),
            f"{served.cuda} for hardware class {name} ({model.architecture})"
            + (f"; the nearest one for this driver is {nearest}" if nearest else ""),
        )
    yield from (
        (
            stack.packaging in nvidia.ARCHIVES and len(known) > 1 and not repeated,
            ("cuda",),
            ", ".join(known),
            "one release: the distribution's archive has only one, in unversioned packages",
        ),
        (repeated, ("cuda",), ", ".join(stack.cuda), "each release once"),
    )


def _both(one: Callable[[str], bool], other: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: one(text) and other(text)


def _gpudirect(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    """Find modules for direct access to GPU memory that do not work with the driver's modules."""
    own = {n: gpu for n, gpu in cluster.gpus.items() if cluster.hardware[n].boot_loader != "none"}
    flavours = {
        name: stack.modules or gpu.values.modules(stack.driver) for name, gpu in own.items()
    }
    opened, closed = (
        [name for name, one in flavours.items() if one == flavour]
        for flavour in ("open", "proprietary")
    )
    for part, version in (("gdrcopy", stack.gdrcopy), ("nvidia_fs", stack.nvidia_fs)):
        yield (
            version and cluster.gpus and not own,
            (part,),
            str(version),
            "leave it out: it needs a kernel module, and no hardware class with GPUs boots its own "
            'kernel (boot_loader: "none")',
        )
    yield (
        stack.cufile and not (stack.nvidia_fs and stack.cuda),
        ("cufile",),
        ", ".join(stack.cufile),
        "leave it out, or declare nvidia_fs and cuda: cuFile and its kernel module come with them",
    )
    for name, value in stack.cufile.items():
        yield (
            not cufile.is_of(cufile.SETTINGS[name], value),
            ("cufile", name),
            str(value),
            cufile.SETTINGS[name],
        )
    branch = table.branch(stack.driver)
    yield (
        stack.gdrcopy
        and opened
        and branch >= table.GDRCOPY_OPEN_DRIVER
        and not table.at_least(stack.gdrcopy, table.GDRCOPY_OPEN_FROM),
        ("gdrcopy",),
        f"{stack.gdrcopy} with the open modules of driver {stack.driver}",
        f"{table.GDRCOPY_OPEN_FROM} or later for the open modules of branch "
        f"{table.GDRCOPY_OPEN_DRIVER} and later",
    )
    yield (
        stack.nvidia_fs
        and closed
        and table.at_least(stack.nvidia_fs, table.NVIDIA_FS_OPEN_ONLY_FROM),
        ("nvidia_fs",),
        f"{stack.nvidia_fs} with the proprietary modules of hardware class {', '.join(closed)}",
        f'modules: "open", or nvidia_fs before {table.NVIDIA_FS_OPEN_ONLY_FROM}',
    )
    for name in own:
        yield (
            cluster.hardware[name].nics.gpudirect == "peermem" and branch < table.PEERMEM_FROM,
            ("driver",),
            f"{stack.driver} with nics.gpudirect: peermem of hardware class {name}",
            f"branch {table.PEERMEM_FROM} or later: earlier drivers have no nvidia_peermem",
        )


def _parts(cluster: Cluster, stack: Nvidia) -> Iterable[Relation]:
    containers = cluster.software.containers
    dcgm, toolkit, engines = stack.dcgm, stack.container_toolkit, containers.engines
    return (
        (
            toolkit and not table.at_least(toolkit, table.CONTAINER_TOOLKIT_FROM),
            ("container_toolkit",),
            str(toolkit),
            f"{table.CONTAINER_TOOLKIT_FROM} or later, which updates CDI after driver changes",
        ),
        (
            engines and not toolkit,
            ("container_toolkit",),
            "not declared",
            f"a version: without it, containers of {', '.join(engines)} get no GPUs",
        ),
        (
            toolkit and not engines and not containers.enroot,
            ("container_toolkit",),
            str(toolkit),
            "leave it out, or add software.containers.engines: only containers need it",
        ),
        (
            dcgm and not table.at_least(dcgm, table.DCGM_FROM),
            ("dcgm",),
            str(dcgm),
            f"{table.DCGM_FROM} or later: earlier versions have different package names",
        ),
        (
            dcgm
            and int(table.cuda_major_of(stack.driver)) >= 13
            and table.at_least(dcgm, table.DCGM_FROM)
            and not table.at_least(dcgm, table.DCGM_CUDA_13_FROM),
            ("dcgm",),
            f"{dcgm} with driver {stack.driver}",
            f"{table.DCGM_CUDA_13_FROM} or later: the driver provides CUDA 13",
        ),
        (
            stack.dcgm_exporter and not dcgm,
            ("dcgm",),
            "not declared",
            f"a version: dcgm_exporter {stack.dcgm_exporter} needs DCGM's host engine",
        ),
    )


def _locked(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    """Find locked package versions that contradict the version set."""
    of_releases = [
        nvidia.packaging(stack.packaging, stack.driver, operating_systems.find(name))
        for name in cluster.releases
    ]
    for part in ("driver", "modules_open", "modules_proprietary", *FOLLOWERS):
        version = stack.version_of(part)
        if version is not None:
            packages = dict(
                one
                for packaging in of_releases
                for one in packaging.packages(part, version, stack.driver)
            )
            declared = f"{part} is {version}"
            yield from locks(cluster.software, declared, packages.items(), "software.nvidia")


def locks(
    software: Software, declared: str, packages: Iterable[tuple[str, str]], field: str
) -> Iterator[Relation]:
    """Yield the relations between locked versions and the versions that another field declares.

    Args:
        software: the software of the cluster, with the locks.
        declared: what the other field says, as a clause such as ``driver is 550.163.01``.
        packages: each package that the other field declares, and its version as a pattern.
        field: the name of the other field.
    """
    locks: dict[Path, dict[str, str]] = {("versions",): software.versions}
    locks |= {("versions_on", name): one for name, one in software.versions_on.items()}
    for name, pattern in packages:
        for path, versions in locks.items():
            locked = versions.get(name)
            yield (
                locked and not fits(_without_epoch(locked), _without_epoch(pattern)),
                (*path, name),
                f"{locked}, but {declared}",
                f"{pattern}, as in {field}",
            )


def _without_epoch(version: str) -> str:
    return version.partition(":")[2] or version


def _job_containers(cluster: Cluster) -> Iterator[Relation]:
    """Find programs that are declared without a repository, or locked to a different version."""
    software = cluster.software
    declared = software.containers.programs
    releases = [operating_systems.find(name) for name in cluster.releases]
    for where in without_repository(cluster):
        yield (
            declared and all(not one or one.supports("packages") for one in releases),
            ("repositories",),
            f"none{where}",
            "a repository that provides "
            f"{', '.join(declared)}: the distribution's archive does not",
        )
    for part, version in declared.items():
        packages = job_containers.packages(part, version).items()
        yield from locks(software, f"{part} is {version}", packages, "software.containers")


def _containers(cluster: Cluster) -> Iterable[Relation]:
    containers, stack = cluster.software.containers, cluster.software.nvidia
    pyxis, enroot, oldest = containers.pyxis, containers.enroot, job_containers.ENROOT_FOR_PYXIS
    needs_toolkit = "software.nvidia with container_toolkit: without it, containers get no GPUs"
    return (
        (
            pyxis and not enroot,
            ("enroot",),
            "not declared",
            f"a version: pyxis {pyxis} starts its containers with enroot",
        ),
        (
            pyxis and enroot and not table.at_least(enroot, oldest),
            ("enroot",),
            str(enroot),
            f"{oldest} or later for pyxis {pyxis}",
        ),
        (
            pyxis and not cluster.slurm,
            ("pyxis",),
            str(pyxis),
            "leave it out, or add Slurm: pyxis is a Slurm plugin",
        ),
        (
            # With the NVIDIA stack, _parts() reports a missing toolkit.
            containers.engines and cluster.gpus and not stack,
            ("engines",),
            ", ".join(containers.engines),
            needs_toolkit,
        ),
        (
            # enroot's hook needs nvidia-container-cli. With engines, the problem is reported there.
            enroot
            and cluster.gpus
            and not (stack and stack.container_toolkit)
            and not containers.engines,
            ("enroot",),
            str(enroot),
            needs_toolkit,
        ),
    )
