"""A repository of tiny RPMs with the names, versions and dependencies of the real ones.

Read on 2026-11-24. Sources: SchedMD/slurm, slurm.spec; dun/munge, munge.spec.in; NVIDIA's specs
(yum-packaging-nvidia-driver, yum-packaging-dkms-nvidia, enroot, pyxis); apptainer.spec.in of
apptainer; lest/prometheus-rpm. Versions are examples; dependencies outside of this table are left
out.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

DRIVERS = ("580.95.05", "580.105.08")
SIGNER = "Lockstep's tests <tests@example.invalid>"


@dataclass(frozen=True)
class Rpm:
    """One package; ``lines`` are of its spec file."""

    name: str
    version: str
    release: str = "1.el9"
    lines: tuple[str, ...] = ()


def _driver(version: str) -> list[Rpm]:
    epoch, same = "Epoch: 3", f"= 3:{version}"
    return [
        Rpm("nvidia-driver-cuda", version, lines=(
            epoch,
            f"Requires: nvidia-driver-cuda-libs {same}",
            f"Requires: nvidia-kmod-common {same}",
            f"Requires: nvidia-persistenced {same}",
        )),
        Rpm("nvidia-driver-cuda-libs", version, lines=(
            epoch, f"Requires: libnvidia-ml {same}-1.el9", f"Requires: libnvidia-cfg {same}-1.el9",
        )),
        *(Rpm(name, version, lines=(epoch,)) for name in ("libnvidia-ml", "libnvidia-cfg")),
        Rpm("nvidia-persistenced", version, lines=(epoch,)),
        Rpm("nvidia-kmod-common", version, lines=(epoch, f"Requires: nvidia-kmod {same}")),
        Rpm("kmod-nvidia-open-dkms", version, lines=(
            epoch,
            f"Provides: nvidia-kmod {same}",
            "Requires: dkms",
            "Conflicts: kmod-nvidia-latest-dkms",
        )),
        Rpm("kmod-nvidia-latest-dkms", version, lines=(
            epoch,
            f"Provides: nvidia-kmod {same}",
            "Requires: dkms",
            "Conflicts: kmod-nvidia-open-dkms",
        )),
        Rpm("nvidia-fabricmanager", version),
        Rpm("libnvidia-nscq", version),
        Rpm("nvidia-imex", version),
    ]  # fmt: skip


SLURM = "25.05.3"
RPMS: tuple[Rpm, ...] = (
    *(one for version in DRIVERS for one in _driver(version)),
    Rpm("dkms", "3.2.2", lines=("Requires: kernel-devel-matched",)),
    Rpm("kernel-devel-matched", "5.14.0", "503.el9", lines=("Requires: kernel-devel",)),
    Rpm("kernel-devel", "5.14.0", "503.el9"),
    Rpm("kernel-core", "5.14.0", "999.el9"),
    # A package that would bring another kernel.
    Rpm("brings-a-kernel", "1", lines=("Requires: kernel-core",)),
    Rpm("datacenter-gpu-manager-4-core", "4.4.1", "1", lines=("Epoch: 1",)),
    Rpm("datacenter-gpu-manager-4-cuda13", "4.4.1", "1", lines=(
        "Epoch: 1", "Requires: datacenter-gpu-manager-4-core = 1:4.4.1",
    )),
    Rpm("nvidia-container-toolkit", "1.18.0", "1", lines=(
        "Requires: nvidia-container-toolkit-base = 1.18.0-1",
        "Requires: libnvidia-container-tools >= 1.18.0",
    )),
    Rpm("nvidia-container-toolkit-base", "1.18.0", "1"),
    Rpm("libnvidia-container-tools", "1.18.0", "1", lines=(
        "Requires: libnvidia-container1 >= 1.18.0",
    )),
    Rpm("libnvidia-container1", "1.18.0", "1"),
    Rpm("cuda-toolkit-13-0", "13.0.2", "1"),
    Rpm("slurm", SLURM),
    *(
        Rpm(f"slurm-{part}", SLURM, lines=(f"Requires: slurm = {SLURM}-1.el9",))
        for part in ("slurmctld", "slurmd", "slurmdbd")
    ),
    # EPEL's, which is older.
    Rpm("slurm", "22.05.9"),
    Rpm("slurm-slurmd", "22.05.9", lines=("Requires: slurm = 22.05.9-1.el9",)),
    Rpm("munge", "0.5.16", lines=("Requires: munge-libs = 0.5.16-1.el9",)),
    Rpm("munge-libs", "0.5.16", lines=("Requires: munge = 0.5.16-1.el9",)),
    Rpm("enroot", "4.1.2"),
    Rpm("enroot+caps", "4.1.2", lines=("Requires: enroot = 4.1.2-1.el9",)),
    Rpm("nvslurm-plugin-pyxis", "0.24.0", "1.sl2505.el9", lines=(
        "Requires: (enroot >= 3.1.0 or enroot-hardened >= 3.1.0)",
        f"Requires: slurm = {SLURM}-1.el9",
    )),
    Rpm("apptainer", "1.5.3", lines=("Requires: fakeroot",)),
    Rpm("fakeroot", "1.33"),
    Rpm("node_exporter", "1.9.0"),
    Rpm("prometheus2", "3.2.1", lines=("Provides: prometheus",)),
    *(
        Rpm(name, version)
        for name, version in {
            "busybox": "1.36.1", "chrony": "4.6.1", "crun": "1.19.1", "podman": "5.4.0",
            "mariadb-server": "10.5.27", "python3-dnf-plugin-versionlock": "4.3.0",
            "libibverbs-utils": "54.0", "perftest": "24.07", "rdma-core": "54.0",
        }.items()
    ),
)  # fmt: skip
_LIBRARIES = ("libibverbs", "libibverbs-utils", "perftest", "rdma-core")
DOCA: tuple[Rpm, ...] = (
    Rpm("doca-ofed", "3.3.0", lines=(
        "Requires: mlnx-ofa_kernel-dkms = 26.01-1.el9",
        *(f"Requires: {name} = 2601.0.7-1.el9" for name in _LIBRARIES),
    )),
    Rpm("mlnx-ofa_kernel-dkms", "26.01", lines=("Requires: dkms",)),
    *(Rpm(name, "2601.0.7") for name in _LIBRARIES),
)  # fmt: skip
"""DOCA-OFED: names and the version of the libraries from public scripts (Azure/azhpc-images); the
dependency lines were not read."""


def build(
    folder: Path,
    rpms: Sequence[Rpm] = RPMS,
    unsigned: Sequence[str] = (),
    drivers: Sequence[str] = DRIVERS,
    home: Path | None = None,
    architecture: str = "noarch",
) -> Path:
    """Build a signed repository, and return the path of its public key.

    Args:
        folder: a folder for it.
        rpms: its packages.
        unsigned: names of packages that stay without a signature.
        drivers: the driver's versions, whose packages are in module streams.
        home: folder of gpg with the key that signs it; None: a new key signs it.
        architecture: RPM's name of the packages' architecture.
    """
    (folder / "specs").mkdir(parents=True)
    repository = folder / "repository"
    specs = []
    # Without the field, packages have the architecture of --target.
    noarch = "BuildArch: noarch\n" if architecture == "noarch" else ""
    for number, one in enumerate(rpms):
        spec = folder / "specs" / f"{number}.spec"
        spec.write_text(
            f"Name: {one.name}\nVersion: {one.version}\nRelease: {one.release}\nSummary: a test\n"
            f"License: none\n{noarch}" + "\n".join(one.lines) + "\n"
            "%description\nFor a test.\n%files\n"
        )
        specs.append(str(spec))
    _run("rpmbuild", "-bb", "--quiet", f"--target={architecture}", f"-D_rpmdir {repository}",
         f"-D_topdir {folder / 'build'}", *specs)  # fmt: skip
    signed = [
        str(path)
        for path in repository.rglob("*.rpm")
        if not path.name.startswith(tuple(f"{name}-" for name in unsigned))
    ]
    key = folder / "key.asc"
    with signer(home) as environment:
        key.write_bytes(_run("gpg", "--armor", "--export", environment=environment))
        sign = ("rpmsign", "--addsign", "-D__gpg /usr/bin/gpg", f"-D_gpg_name {SIGNER}")
        _run(*sign, *signed, environment=environment)
    index(repository, rpms, drivers, architecture)
    return key


@contextmanager
def signer(home: Path | None = None) -> Iterator[dict[str, str]]:
    """Give the environment of gpg with a key that signs; it ends without gpg's processes.

    The folder has a short path, which the socket of gpg's agent needs.
    """
    with TemporaryDirectory(prefix="gpg-") as own:
        environment = {**os.environ, "GNUPGHOME": str(home or own)}
        try:
            if not any(Path(environment["GNUPGHOME"]).iterdir()):
                make = ("gpg", "--batch", "--passphrase", "", "--quick-gen-key", SIGNER)
                _run(*make, "rsa2048", "default", environment=environment)
            yield environment
        finally:
            _run("gpgconf", "--kill", "all", environment=environment)


def index(
    repository: Path, rpms: Sequence[Rpm], drivers: Sequence[str], architecture: str = "noarch"
) -> None:
    """Write the lists of a repository, with NVIDIA's module streams."""
    _run("createrepo_c", "--quiet", str(repository))
    branches = dict.fromkeys(version.partition(".")[0] for version in drivers)
    streams = [f"{branch}-{kind}" for branch in branches for kind in ("open", "dkms")]
    modules = repository.parent / "modules.yaml"
    modules.write_text("".join(_stream(one, rpms, drivers, architecture) for one in streams))
    if streams:
        _run("modifyrepo_c", "--mdtype=modules", str(modules), str(repository / "repodata"))


def _stream(stream: str, rpms: Sequence[Rpm], drivers: Sequence[str], architecture: str) -> str:
    """Return a stream of NVIDIA's module, as the vendor's repository has it (modulemd, version 2).

    dnf shows the packages of a module only while one of its streams is enabled.
    """
    other = "kmod-nvidia-latest-dkms" if stream.endswith("open") else "kmod-nvidia-open-dkms"
    artifacts = "".join(
        f"      - {one.name}-{3 if 'Epoch: 3' in one.lines else 0}:"
        f"{one.version}-{one.release}.{architecture}\n"
        for one in rpms
        if one.version in drivers
        and one.version.partition(".")[0] == stream.partition("-")[0]
        and one.name != other
    )
    return (
        "---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n"
        f"  stream: '{stream}'\n  version: 20251101000000\n  context: test\n"
        f"  arch: {architecture}\n"
        "  summary: driver\n  description: driver\n  license:\n    module: [MIT]\n"
        f"  artifacts:\n    rpms:\n{artifacts}...\n"
    )


def _run(*words: str, environment: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(words, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, f"{words[0]}: {done.stderr.decode()[-2000:]}"
    return done.stdout
