"""Node software: repositories, locked versions, the NVIDIA stack and container engines."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from lockstep.catalog.job_containers import PACKAGES
from lockstep.spec.fields import (
    Certificate,
    CudaRelease,
    CufileItem,
    CufileName,
    CufileValue,
    Folder,
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
    """An additional package repository; sources.list(5), deb822 format."""

    name: Name
    """Name of the file that declares the repository on the nodes."""
    uri: Uri
    """Address of the repository."""
    suite: Word
    """A suite or, for a flat repository such as NVIDIA's, a path that ends in "/"."""
    components: tuple[Word, ...] = ()
    """Components of the suite; empty for a flat repository."""
    key: PublicKey
    """The only key that is trusted to sign this repository."""
    releases: tuple[Name, ...] = ()
    """Releases whose nodes use the repository; required if the cluster has several releases."""
    frozen: bool = False
    """Whether it is a snapshot: apt accepts it after its Valid-Until, and asks it for lists of
    packages only; dnf looks for a new snapshot at each transaction (docs/mirror.md)."""

    architectures: tuple[Literal["x86_64", "arm64"], ...] = ()
    """Architectures whose nodes use it; empty: all. NVIDIA has a repository for each."""

    def serves(self, release: str, architecture: str | None = None) -> bool:
        """Return whether nodes with a release, and with an architecture, use the repository."""
        return (not self.releases or release in self.releases) and (
            architecture is None or not self.architectures or architecture in self.architectures
        )


class Nvidia(Model):
    """A matching set of versions, from the driver to the container toolkit.

    Versions are upstream versions (550.163.01): lockstep/catalog lists the packages, and the
    repository determines their revisions. ``software.versions`` locks individual packages.
    The set is validated before any node is contacted (docs/nvidia.md).
    """

    packaging: Literal["debian", "nvidia", "ubuntu"] = "nvidia"
    """Package source: the distribution's archive, or NVIDIA's repository (or its mirror)."""
    driver: Upstream
    """Version of the driver."""
    modules: Literal["open", "proprietary"] | None = None
    """Which kernel modules to install; None: open if the GPU architecture supports them."""
    module_options: dict[ModuleOption, Word] = Field(default_factory=dict)
    """Parameters (NVreg_...) of the nvidia kernel module; they take effect after a reboot."""
    cuda: tuple[CudaRelease, ...] = ()
    """Releases of CUDA, such as ``13.0``, which are installed side by side."""
    cuda_parts: Literal["runtime", "toolkit"] = "toolkit"
    """"runtime": the libraries for running programs; "toolkit": the compiler as well."""
    fabric_manager: Upstream | None = None
    """Version of the fabric manager; it must equal the driver's."""
    nscq: Upstream | None = None
    """Version of NSCQ, with which DCGM reads NVSwitches."""
    imex: Upstream | None = None
    """Version of IMEX, for NVLink between nodes."""
    dcgm: Upstream | None = None
    """Version of DCGM."""
    dcgm_exporter: Upstream | None = None
    """Version of DCGM exporter."""
    container_toolkit: Upstream | None = None
    """Version of NVIDIA Container Toolkit."""
    nccl: Upstream | None = None
    """Version of NCCL."""
    gdrcopy: Upstream | None = None
    """Version of GDRCopy, its library and its kernel module."""
    nvidia_fs: Upstream | None = None
    """GPUDirect Storage: the version of its kernel module. Its tools follow ``cuda``."""
    cufile: dict[CufileName, CufileValue | tuple[CufileItem, ...]] = Field(default_factory=dict)
    """Settings of cuFile for jobs, named as gdscheck prints them
    (``properties.allow_compat_mode``). Empty: programs read NVIDIA's /etc/cufile.json."""

    def version_of(self, part: str) -> str | None:
        """Return the upstream version of a part; None for CUDA, which has releases instead."""
        versions = {**dict(self), "modules_open": self.driver, "modules_proprietary": self.driver}
        return versions.get(part)


class Containers(Model):
    """Container engines of the workers, and the programs that run Slurm jobs in containers.

    Engines come from the distribution's archive. The other programs have upstream versions and
    need a repository that provides them.
    """

    engines: tuple[Literal["containerd", "docker", "podman"], ...] = ()
    """Container engines."""
    apptainer: Upstream | None = None
    """Version of Apptainer."""
    enroot: Upstream | None = None
    """Version of enroot."""
    pyxis: Upstream | None = None
    """Slurm plugin that starts a job step in an enroot container (``--container-image``)."""

    @property
    def programs(self) -> dict[str, str]:
        """The declared programs that run jobs in containers, with their versions."""
        return {part: getattr(self, part) for part in PACKAGES if getattr(self, part)}


class ModuleSigning(Model):
    """The key with which DKMS signs kernel modules; Secure Boot needs it (docs/kernel-modules.md).

    Lockstep never enrols the certificate: that needs the console of each node.
    """

    key: Folder
    """Absolute path of the private key on the deploying machine: PEM, without a passphrase, with
    mode 0600 or stricter. It is a secret: the description has only its path."""
    certificate: Certificate
    """The certificate of the key: PEM text."""


class Rdma(Model):
    """The RDMA stack of the workers with RDMA devices: modules and libraries (docs/fabric.md)."""

    stack: Literal["distribution", "doca_ofed"] = "distribution"
    """"distribution": the kernel's own modules, and the libraries of the archive. "doca_ofed":
    NVIDIA's, which take the place of both and need a repository of DOCA-Host."""
    version: Upstream | None = None
    """The release of DOCA-Host that "doca_ofed" comes from, such as 3.3.0."""


class Software(Model):
    """Package sources and versions of the cluster."""

    repositories: tuple[Repository, ...] = ()
    """Package repositories of the nodes, beside the distribution's own."""
    versions: dict[str, PackageVersion] = Field(default_factory=dict)
    """Package -> exact version, pinned and checked. Other packages are compared among peers."""
    versions_on: dict[Name, dict[str, PackageVersion]] = Field(default_factory=dict)
    """Release -> package -> exact version on its nodes, in place of the one in ``versions``."""
    nvidia: Nvidia | None = None
    """The NVIDIA stack; None: Lockstep installs no driver, and the nodes keep the one they have."""
    rdma: Rdma | None = None
    """None: the archive's libraries; the check does not say which modules are right."""
    containers: Containers = Containers()
    """Container engines, and programs that run jobs in containers."""
    module_signing: ModuleSigning | None = None
    """None: DKMS signs with a key that it makes on each node, or not at all."""

    @property
    def doca_ofed(self) -> str:
        """The release of DOCA-Host whose DOCA-OFED the workers get; empty for another stack."""
        rdma = self.rdma
        return (rdma.version or "") if rdma and rdma.stack == "doca_ofed" else ""

    @property
    def module_key(self) -> tuple[str, str] | None:
        """The path of the private key for kernel modules, and its certificate."""
        one = self.module_signing
        return None if one is None else (one.key, one.certificate)

    def repositories_on(
        self, release: str, architecture: str | None = None
    ) -> tuple[Repository, ...]:
        """Return the repositories that nodes with a release, and with an architecture, use."""
        return tuple(one for one in self.repositories if one.serves(release, architecture))

    def locked_on(self, release: str) -> dict[str, str]:
        """Return the exact versions of packages on nodes with a release, by package."""
        return {**self.versions, **self.versions_on.get(release, {})}


def fits(version: str, pattern: str) -> bool:
    """Return whether a package version matches a locked version, which may be a pattern."""
    return fnmatchcase(version, pattern)
