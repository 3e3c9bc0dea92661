"""What runs on the nodes: repositories, locked versions, the NVIDIA stack, container engines."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from lockstep.spec.fields import (
    CudaRelease,
    Model,
    ModuleOption,
    Name,
    PackageVersion,
    PublicKey,
    Upstream,
    Uri,
    Word,
)


class Repository(Model):
    """One package repository beside the distribution's own; sources.list(5), deb822 style."""

    name: Name
    uri: Uri
    suite: Word
    """A suite, or a folder that ends in "/" (NVIDIA's repositories: "/")."""
    components: tuple[Word, ...] = ()
    """None for a folder."""
    key: PublicKey
    """The only key whose signature counts for this repository."""


class Nvidia(Model):
    """One set of versions that belong together, from the driver to the container.

    Versions are upstream's (550.163.01): which packages carry them is the catalogue's business,
    their revision the repository's. ``software.versions`` locks single packages further.
    Judged against each other before a node is touched (docs/nvidia.md).
    """

    packaging: Literal["debian", "nvidia"] = "nvidia"
    """Whose packages: those of the distribution's archive, or of NVIDIA's repository (a mirror)."""
    driver: Upstream
    modules: Literal["open", "proprietary"] | None = None
    """Kernel modules; None: open where the GPU architecture has them."""
    module_options: dict[ModuleOption, Word] = Field(default_factory=dict)
    """Parameters of the kernel module nvidia, NVreg_...; they act after a reboot."""
    cuda: tuple[CudaRelease, ...] = ()
    cuda_parts: Literal["runtime", "toolkit"] = "toolkit"
    """"runtime": the libraries a program needs to run; "toolkit": the compiler as well."""
    fabric_manager: Upstream | None = None
    nscq: Upstream | None = None
    imex: Upstream | None = None
    dcgm: Upstream | None = None
    dcgm_exporter: Upstream | None = None
    container_toolkit: Upstream | None = None
    nccl: Upstream | None = None
    gdrcopy: Upstream | None = None


class Containers(Model):
    """Container engines of the workers, and what starts Slurm's jobs in containers.

    Engines come from the distribution's archive. The others have upstream's version, and a
    repository that holds them.
    """

    engines: tuple[Literal["containerd", "docker", "podman"], ...] = ()
    apptainer: Upstream | None = None
    enroot: Upstream | None = None
    pyxis: Upstream | None = None
    """Slurm's plugin that starts a step in a container of enroot: ``--container-image``."""


class Software(Model):
    """Where packages come from and which versions belong to this cluster."""

    repositories: tuple[Repository, ...] = ()
    versions: dict[str, PackageVersion] = Field(default_factory=dict)
    """Package -> exact version; pinned, and checked on every node. Others: equal to the peers."""
    nvidia: Nvidia | None = None
    """None: GPUs are used as the nodes have them; no driver is installed."""
    containers: Containers = Containers()


def fits(version: str, pattern: str) -> bool:
    """Say whether a package's version is the one of a lock, which may be a pattern."""
    return fnmatchcase(version, pattern)
