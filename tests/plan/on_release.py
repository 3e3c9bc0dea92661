"""The description of inventories/prod.py, for another operating system."""

from typing import Any

from lockstep import spec
from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from tests.golden.write import ROOT, plan_of

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
REPOSITORIES = {
    "ubuntu_22_04": f"{CUDA}/ubuntu2204/x86_64",
    "ubuntu_24_04": f"{CUDA}/ubuntu2404/x86_64",
}
ALL_REPOSITORIES = {**REPOSITORIES, "rocky_9": f"{CUDA}/rhel9/x86_64"}
"""Release -> NVIDIA's repository for it."""
SUITES = {"ubuntu_22_04": "jammy", "ubuntu_24_04": "noble", "rocky_9": "9"}
ANY_KEY = (ROOT / "inventories/keys/example.net.asc").read_text(encoding="ascii")


def prod_on(release: str) -> dict[str, Any]:
    """prod.py's description with a release, its repositories and its archive's version of Slurm.

    Ubuntu 22.04 differs in two more values: its Podman has no CDI, and its Slurm no cgroup v2.
    """
    wanted = plan_of("prod").spec.model_dump(mode="json", exclude_unset=True)
    wanted["os"]["release"] = release
    nvidia, site = wanted["software"]["repositories"]
    nvidia.update(uri=ALL_REPOSITORIES[release], key=ANY_KEY)
    site.update(
        uri=f"https://packages.example.net/{release.partition('_')[0]}", suite=SUITES[release]
    )
    nccl = "libnccl" if release == "rocky_9" else "libnccl2"
    wanted["software"]["versions"] = {nccl: "2.28.9-1+cuda13.1"}
    if release == "ubuntu_22_04":
        wanted["software"]["containers"]["engines"] = ["docker"]
        wanted["hardware"]["hgx-h200"]["cgroup"] = "none"
    return wanted


def accepted(wanted: dict[str, Any]) -> ClusterPlan:
    """The plan of a description in which Lockstep finds no problem."""
    cluster, problems = spec.load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return planned(cluster)


def texts(wanted: dict[str, Any]) -> list[str]:
    """Field, value and allowed values of each problem in a description."""
    _, problems = spec.load(wanted, declared())
    return [f"{'.'.join(map(str, one.path))}: {one.value} -> {one.allowed}" for one in problems]


def planned_on(release: str) -> ClusterPlan:
    """The plan of prod.py's description on a release, also where some of it is not supported."""
    if release == "debian_13":
        return plan_of("prod")
    return planned(spec.Cluster.model_validate(prod_on(release)))
