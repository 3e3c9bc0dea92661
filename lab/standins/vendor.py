"""Simulated packages at the versions that a description asks for, under NVIDIA's names.

For the driver, ``software.nvidia.packaging: nvidia``. NVIDIA's repository could not be read, so
which file lies in which package is the lab's choice: libraries where ldconfig finds them, programs
in /usr/bin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

from lab.nvml import build as nvml
from lab.nvml import smi
from lab.standins import job_containers, packages, toolkit
from lab.standins.library import shared_object
from lab.standins.package import LIBRARIES, Package

PERSISTENCED_UNIT = (
    "[Unit]\nDescription=NVIDIA Persistence Daemon\n\n"
    "[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --verbose\n\n"
    "[Install]\nWantedBy=multi-user.target\n"
)
SMI = "550"
"""Branch of the nvidia-smi in the packages: NVIDIA alone has the programs of branches after 555,
and that of 555 cannot set the persistence mode over the simulated NVML (seen on 2026-11-24)."""
NVCC = """#!/bin/sh
# simulated (Lockstep's lab): it compiles nothing
echo 'nvcc: NVIDIA (R) Cuda compiler driver'
echo 'Cuda compilation tools, release @RELEASE@, V@RELEASE@.0'
"""


def _library(package: str, library: str, version: str, content: bytes | None = None) -> Package:
    """Return a package with one library of the driver."""
    file = f"{library}.so.{version}"
    soname = f"{library}.so.1"
    ml = library == "libnvidia-ml"
    # nvidia-ctk mounts every file with the driver's version that lies beside libcuda.
    state = {f"{LIBRARIES}/nvidia-lockstep-state.so.{version}": packages.STATE} if ml else {}
    return Package(
        package,
        f"{version}-1",
        files={f"{LIBRARIES}/{file}": nvml.library() if ml else content or shared_object(soname)},
        links={f"{LIBRARIES}/{soname}": file, f"{LIBRARIES}/{library}.so": soname, **state},
        provides=f"{soname} (= {version})",
        multi_arch="same",
    )


def _smi(name: str, version: str) -> Package:
    depends = ("libcuda1", "libnvidia-ml1", "nvidia-persistenced")
    return Package(
        name,
        f"{version}-1",
        files={"usr/bin/nvidia-smi": smi.program(SMI)},
        depends=", ".join(f"{one} (= {version}-1)" for one in depends),
    )


def _persistenced(name: str, version: str) -> Package:
    return Package(
        name,
        f"{version}-1",
        files={
            # The lab's nodes divert it, and have a simulated one there.
            "usr/bin/nvidia-persistenced": "#!/bin/sh\nexit 1\n",
            f"{packages.UNITS}/nvidia-persistenced.service": PERSISTENCED_UNIT,
        },
        scripts=packages.of_unit("nvidia-persistenced.service"),
    )


def _cuda(name: str, version: str) -> Package:
    """Return CUDA's toolkit or its libraries; the name ends in the release: 13-1."""
    release = ".".join(name.split("-")[-2:])
    folder = f"usr/local/cuda-{release}"
    soname = f"libcudart.so.{release.split('.')[0]}"
    files: dict[str, str | bytes] = {f"{folder}/lib64/{soname}": shared_object(soname)}
    if name.startswith("cuda-toolkit-"):
        files[f"{folder}/bin/nvcc"] = NVCC.replace("@RELEASE@", release)
    return Package(name, f"{version}-1", files=files)


def _nccl(name: str, version: str) -> Package:
    soname = "libnccl.so.2"
    upstream = version.partition("-")[0]
    return Package(
        name,
        version,
        files={f"{LIBRARIES}/{soname}.{upstream}": shared_object(soname)},
        links={f"{LIBRARIES}/{soname}": f"{soname}.{upstream}"},
    )


OF_THE_DRIVER: dict[str, Callable[[str, str], Package]] = {
    r"libcuda1": lambda name, version: _library(name, "libcuda", version),
    r"libnvidia-ml1": lambda name, version: _library(name, "libnvidia-ml", version),
    r"nvidia-driver-cuda": _smi,
    r"nvidia-persistenced": _persistenced,
    r"nvidia-fabricmanager(-\d+)?": packages.fabric_manager,
    r"libnvidia-nscq(-\d+)?": packages.nscq,
    r"nvidia-imex(-\d+)?": packages.imex,
}
"""Name of a package with the driver's version, as a regular expression -> what makes it."""
OTHERS: dict[str, Callable[[str, str], Package]] = {
    r"datacenter-gpu-manager-4-core": lambda name, version: packages.dcgm(version),
    r"datacenter-gpu-manager-4-cuda\d+": lambda name, version: packages.dcgm_for_cuda(
        name.rpartition("cuda")[2], version
    ),
    r"datacenter-gpu-manager-exporter": lambda name, version: packages.exporter(version),
    r"cuda-(toolkit|libraries)-\d+-\d+": _cuda,
}
"""The same for other packages, by upstream version."""
WHOLE_VERSION: dict[str, Callable[[str, str], Package]] = {r"libnccl2": _nccl}
"""The same for packages whose versions have no common form."""


def following(version: str) -> str:
    """Return the next driver version, which the lab has for upgrades: 590.48.01 -> 590.48.02."""
    begin, _, last = version.rpartition(".")
    return f"{begin}.{int(last) + 1:0{len(last)}}"


def upstream(pattern: str) -> str:
    """Return the upstream version of a pattern: ``1:4.6.0-*`` -> 4.6.0, ``13.1.*`` -> 13.1.0."""
    plain = re.sub(r"^\d+:|-[^-]*$", "", pattern)
    return plain.replace("*", "0")


def made(name: str, pattern: str) -> Iterator[Package]:
    """Yield the packages of a name that fit a version pattern; none if the lab has no stand-in.

    Packages with the driver's version come in the following version as well.

    Args:
        name: the package.
        pattern: its version, as apt_preferences(5) has it.
    """
    if pattern == "*":
        return
    for one in (*job_containers.packages(), *toolkit.packages()):
        if one.name == name and fnmatchcase(one.version, pattern):
            yield one
    version = upstream(pattern)
    found = _maker(OF_THE_DRIVER, name)
    if found is not None:
        yield from (found(name, one) for one in (version, following(version)))
    elif (found := _maker(OTHERS, name)) is not None:
        yield found(name, version)
    elif (found := _maker(WHOLE_VERSION, name)) is not None:
        yield found(name, pattern.replace("*", "1"))


def _maker(
    table: dict[str, Callable[[str, str], Package]], name: str
) -> Callable[[str, str], Package] | None:
    return next((make for form, make in table.items() if re.fullmatch(form, name)), None)


def in_vendors_repository(name: str) -> bool:
    """Return whether NVIDIA's repository for Debian 13 has a package of the lab.

    By the reports in docs/nvidia.md, it has no DCGM and no container toolkit.
    """
    every = {**OF_THE_DRIVER, **WHOLE_VERSION}
    return name.startswith("cuda-") or _maker(every, name) is not None


def split(wanted: Iterable[Package], repositories: list[str]) -> dict[str, list[Package]]:
    """Return the packages of each repository: NVIDIA's are in the first, others in the last."""
    found: dict[str, list[Package]] = {name: [] for name in repositories}
    for one in wanted:
        first = in_vendors_repository(one.name)
        found[repositories[0] if first else repositories[-1]].append(one)
    return found
