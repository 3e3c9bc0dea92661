"""prod.py's cluster on three releases, and lists of the packages that its nodes need.

The lists have the vendors' names and dependency lines. Those of Debian and Ubuntu were read from
their archives (``archives/``), those of the RHEL family from specs (``tests.lab.vendors_rpms``).
Debian packages of NVIDIA and a site, looked up on 2026-11-24: control files of NVIDIA/enroot
(375e05d), NVIDIA/pyxis (5664e68), NVIDIA/gdrcopy (0125adf), NVIDIA/apt-packaging-fabric-manager
(0340c78), NVIDIA/apt-packaging-libnvidia-nscq (1b8977d) and apptainer (036c6c4); DCGM and the
container toolkit as in the lab. Not verified: the lines of the driver in NVIDIA's repository for
Debian 13, which was not read. A public program that installs it says that every package below
nvidia-driver-cuda and nvidia-kernel-open-dkms is needed in exactly its version. Not verified
either: the lines of NVIDIA's packages for Ubuntu, which were not read, and those of DOCA-OFED. A
public install script says that doca-ofed needs each of its packages in one exact version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab import repository
from lab.package_versions import version_key
from lockstep.mirror.needs import kinds
from tests.golden.write import plan_of as plan_of_example
from tests.lab import vendors_rpms
from tests.lab.vendors_rpms import RPMS, Rpm
from tests.mirror import rpm_site
from tests.mirror.site import Signer, plan_of
from tests.plan.on_release import prod_on

ARCHIVES = Path(__file__).parent / "archives"
UBUNTUS_DRIVER = "595.91.07"

DOCA_LIBRARIES, DOCA_MODULES = "2601.0.7-1", "26.01.OFED.26.01.1.0.0.1"
"""Versions of DOCA-Host 3.3.0: rdma-core in a public install guide; the modules by the scheme of
24.10.OFED.24.10.1.1.4.1, which a list of installed packages shows."""
_LINES: Mapping[str, Mapping[str, str]] = {
    "libcuda1": {},
    "libnvidia-ml1": {},
    "nvidia-driver-cuda": {
        "Depends": "libcuda1 (= {v}), libnvidia-ml1 (= {v}), nvidia-persistenced (= {v})"
    },
    "nvidia-persistenced": {},
    "nvidia-kernel-open-dkms": {"Depends": "dkms", "Conflicts": "nvidia-kernel-dkms"},
    # NVIDIA's repositories for Ubuntu.
    "libnvidia-compute": {"Depends": "libnvidia-gpucomp (>= {v})"},
    "nvidia-dkms-open": {
        "Depends": "dkms, nvidia-firmware (>= {v}), nvidia-kernel-common (>= {v}), "
        "nvidia-kernel-source-open (>= {v})"
    },
    "nvidia-fabricmanager": {"Depends": "libc6 (>= 2.2.1), systemd-coredump"},
    "libnvidia-nscq": {"Provides": "nscq, nscq-api"},
    "datacenter-gpu-manager-4-core": {},
    "datacenter-gpu-manager-4-cuda13": {"Depends": "datacenter-gpu-manager-4-core (= {v})"},
    "datacenter-gpu-manager-exporter": {},
    "nvidia-container-toolkit": {
        "Depends": "nvidia-container-toolkit-base (= {v}), libnvidia-container-tools (= {v})"
    },
    "nvidia-container-toolkit-base": {},
    "libnvidia-container-tools": {"Depends": "libnvidia-container1 (>= {v})"},
    "libnvidia-container1": {},
    "libnccl2": {},
    "gdrdrv-dkms": {"Depends": "dkms (>= 1.95)"},
    "libgdrapi": {"Conflicts": "gdrcopy (<= 2.2-1)"},
    "nvidia-fs": {},
    "nvidia-fs-dkms": {"Depends": "dkms"},
    **{name: {} for name in ("nvidia-gds-12-0", "nvidia-gds-13-1")},
    "cuda-toolkit-13-1": {},
    "doca-ofed": {
        "Depends": f"doca-ofed-userspace (= {{v}}), mlnx-ofed-kernel-dkms (= {DOCA_MODULES})"
    },
    "enroot": {
        "Depends": "bash (>= 4.2), curl, gawk | mawk, jq (>= 1.5), parallel, passwd, "
        "squashfs-tools, zstd, bsdmainutils"
    },
    "enroot+caps": {"Depends": "enroot (= {v}), libcap2-bin"},
    "nvslurm-plugin-pyxis": {"Depends": "enroot (>= 1.1.0)"},
    "apptainer": {"Depends": "squashfs-tools"},
}
"""Package of NVIDIA or of the site -> its fields; {v} stands for its own version."""


@dataclass(frozen=True)
class Stanza:
    """A package in a list, without a file."""

    name: str
    version: str
    fields: Mapping[str, str]

    @property
    def text(self) -> str:
        """The entry of the list."""
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            **self.fields,
            "Filename": f"./{self.name}.deb",
            "Size": "1000",
            "SHA256": hashlib.sha256(self.name.encode()).hexdigest(),
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items())


def description(release: str, uri: str, key: str, packaging: str = "") -> dict[str, Any]:
    """prod.py's description with one repository that has all.

    On Ubuntu it has the archive's driver, or that of ``packaging``. Slurm is locked at the
    archive's version, which is later than that of prod.py on Debian 13.
    """
    if release == "debian_13":
        wanted = plan_of_example("prod").spec.model_dump(mode="json", exclude_unset=True)
    else:
        wanted = prod_on(release)
    wanted["software"]["repositories"] = [{"name": "site", "uri": uri, "suite": "/", "key": key}]
    if release == "ubuntu_24_04" and packaging != "nvidia":
        wanted["software"]["nvidia"].update(
            packaging="ubuntu",
            driver=UBUNTUS_DRIVER,
            fabric_manager=UBUNTUS_DRIVER,
            nscq=UBUNTUS_DRIVER,
            cuda=["12.0"],
        )
    if release == "ubuntu_24_04":
        wanted["software"]["nvidia"]["nccl"] = "2.18.5"
        wanted["software"]["versions"] = {}
    if release == "rocky_9":
        locked = dict.fromkeys(SLURMS, f"{vendors_rpms.SLURM}-1.el9")
        wanted["software"]["versions"].update(locked)
    else:
        versions = {one.name: one.version for one in archive(release)}
        slurm = {
            name: versions[name] for name in ("slurm-client", "slurmctld", "slurmd", "slurmdbd")
        }
        wanted["software"]["versions"].update(slurm)
    return wanted


SLURMS = ("slurm", "slurm-slurmctld", "slurm-slurmd", "slurm-slurmdbd")
LATER_SLURM = "25.05.9"


def archive(release: str) -> list[Stanza]:
    """The packages that were read from the archive of a release."""
    text = (ARCHIVES / f"{release}.packages").read_text(encoding="utf-8")
    found = []
    for stanza in text.split("\n\n")[1:]:
        fields = dict(re.findall(r"^(\S+): (.*)$", stanza, re.MULTILINE))
        found.append(Stanza(fields.pop("Package"), fields.pop("Version"), fields))
    return found


def listed(wanted: dict[str, Any]) -> list[Stanza]:
    """Every package of a description on Debian or Ubuntu, with what they depend on.

    Dependencies outside of the tables have no dependencies of their own.
    """
    found = {one.name: one for one in archive(wanted["os"]["release"])}
    for kind in kinds(plan_of(wanted)):
        for one in kind.packages:
            if one.package not in found:
                version = one.version.replace("*", "1")
                lines = _LINES.get(one.package, {}).items()
                fields = {name: value.format(v=version) for name, value in lines}
                found[one.package] = Stanza(one.package, version, fields)
    of_doca = list(_of_doca(found)) if "doca-ofed" in found else []
    needed = {one.name: one for one in of_doca if one.name not in found}
    return [*found.values(), *of_doca, *_others({**found, **needed})]


def _of_doca(found: Mapping[str, Stanza]) -> Iterable[Stanza]:
    """The packages below doca-ofed, some of which have the names of the distribution's."""
    libraries = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "libibverbs1", "perftest")
    exactly = ", ".join(f"{name} (= {DOCA_LIBRARIES})" for name in libraries)
    version = found["doca-ofed"].version
    yield Stanza("doca-ofed-userspace", version, {"Depends": exactly})
    yield Stanza("mlnx-ofed-kernel-dkms", DOCA_MODULES, {"Depends": "dkms"})
    for name in libraries:
        needs = {} if name == "libibverbs1" else {"Depends": f"libibverbs1 (= {DOCA_LIBRARIES})"}
        yield Stanza(name, DOCA_LIBRARIES, needs)


def _others(found: Mapping[str, Stanza]) -> Iterable[Stanza]:
    """The packages on which others depend and which are in no table."""
    provided = set(found)
    for one in found.values():
        provided |= {clause.split()[0] for clause in _clauses(one.fields.get("Provides", ""))}
    needed: dict[str, str] = {}
    for one in found.values():
        for field in ("Pre-Depends", "Depends"):
            for clause in _clauses(one.fields.get(field, "")):
                choices = [choice.strip() for choice in clause.split("|")]
                if provided.isdisjoint(choice.split()[0] for choice in choices):
                    name, version = _parts(choices[0].replace(":any", ""))
                    known = needed.get(name, "0")
                    needed[name] = max(known, version, key=version_key)
    return [Stanza(one, version, {"Multi-Arch": "allowed"}) for one, version in needed.items()]


def _clauses(text: str) -> list[str]:
    return [clause.strip() for clause in text.split(",") if clause.strip()]


def _parts(choice: str) -> tuple[str, str]:
    """Name and lowest version of a dependency."""
    found = re.fullmatch(r"(\S+)(?: \((?:>=|=) (\S+)\))?", choice)
    assert found is not None, choice
    return found[1], found[2] or "1"


def publish(stanzas: Iterable[Stanza], folder: Path, signer: Signer) -> None:
    """Write the signed list of a flat repository whose packages are only listed."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(one.text for one in stanzas).encode()
    (folder / "Packages").write_bytes(text)
    digest = hashlib.sha256(text).hexdigest()
    release = f"Architectures: amd64\nSHA256:\n {digest} {len(text)} Packages\n"
    (folder / "InRelease").write_text(repository.sign(release, signer.home)[0])


def rpms(wanted: dict[str, Any]) -> list[Rpm]:
    """Every package of a description on Rocky 9, with the lines of the table for its version."""
    known = {one.name: one for one in reversed(RPMS)}
    driver = wanted["software"]["nvidia"]["driver"]
    found = {}
    for one in rpm_site.rpms(wanted):
        like = known.get(one.name, one)
        if one.version == rpm_site.FREE:  # the description locks no version
            found[one.name] = like
            continue
        lines = tuple(line.replace(like.version, one.version) for line in like.lines)
        release = like.release if one.release == "1.el9" else one.release
        found[one.name] = replace(one, release=release, lines=lines)
    for one in known.values():
        if one.version in vendors_rpms.DRIVERS:
            lines = tuple(line.replace(one.version, driver) for line in one.lines)
            found.setdefault(one.name, replace(one, version=driver, lines=lines))
        elif one.name != "brings-a-kernel":
            found.setdefault(one.name, one)
    later = [
        replace(
            found[name],
            version=LATER_SLURM,
            lines=tuple(
                line.replace(vendors_rpms.SLURM, LATER_SLURM) for line in found[name].lines
            ),
        )
        for name in SLURMS
    ]
    found.pop("doca-ofed")
    return [*found.values(), *vendors_rpms.DOCA, *later]
