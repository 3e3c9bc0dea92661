"""Notes about a description: what Lockstep leaves out, and what its catalogue does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lockstep.catalog import nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import compatibility as table
from lockstep.catalog.nvidia import doca
from lockstep.catalog.nvidia.repositories import cuda_folder, of_doca, of_vendor
from lockstep.report import alike, count, fold
from lockstep.spec import Cluster
from lockstep.spec.model import EVERY_ROLE
from lockstep.spec.software import Nvidia

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

VENDORS = {"amd": "AMD", "intel": "Intel"}


def left_out(cluster: Cluster) -> Iterator[str]:
    """Yield a line for each class whose GPUs Lockstep neither sets nor checks."""
    for name, hardware in cluster.hardware.items():
        gpu = hardware.gpu
        if gpu is not None and gpu.vendor in VENDORS:
            gpus = count(gpu.count, f"{VENDORS[gpu.vendor]} GPU")
            yield (
                f"hardware class {name}: Lockstep does not set up or check its {gpus}, and does "
                "not declare them to Slurm"
            )


def unmanaged(cluster: Cluster) -> Iterator[str]:
    """Yield a line for the roles that the site manages itself, on all nodes or on some."""
    if cluster.manages_nothing:
        yield "unmanaged: every role; Lockstep only checks: it compares nodes with each other"
        return
    left = {"all nodes": cluster.unmanaged} if cluster.unmanaged else {}
    left |= {group.name: group.unmanaged for group in cluster.nodes if group.unmanaged}
    for where, roles in left.items():
        names = "every role" if EVERY_ROLE in roles else ", ".join(sorted({*roles}))
        yield (
            f"unmanaged on {where}: {names}; Lockstep does not deploy this or compare it with the "
            "plan, but compares it between nodes"
        )


def not_installed(nodes: Iterable[NodePlan]) -> Iterator[str]:
    """Yield a line for the packages of managed roles that the site installs itself."""
    left = [node for node in nodes if not node.manages("packages") and node.software.needed]
    for packages, same in alike(left, lambda node: node.software.needed).items():
        yield (
            f"packages is unmanaged: the site installs what other roles need on "
            f"{fold(node.name for node in same)}: {', '.join(packages)}"
        )


def gpudirect(cluster: Cluster) -> Iterator[str]:
    """Yield a line for each class whose RDMA devices cannot reach GPU memory."""
    stack = cluster.software.nvidia
    for name, gpu in cluster.gpus.items():
        hardware = cluster.hardware[name]
        if stack is None or hardware.boot_loader == "none" or hardware.nics.rdma == "none":
            continue
        flavour = stack.modules or gpu.values.modules(stack.driver)
        if flavour == "proprietary" and hardware.nics.gpudirect == "dma_buf":
            yield (
                f"hardware class {name}: no GPUDirect RDMA, because the proprietary modules have "
                'no DMA-BUF; set modules: "open", or nics.gpudirect: "peermem" if the nodes have '
                "NVIDIA's network driver (DOCA-OFED)"
            )


def not_verified(cluster: Cluster) -> Iterator[str]:
    """Yield a line for each release and part of the stack that the catalogue cannot vouch for."""
    for name in cluster.releases:
        known_release = operating_systems.find(name)
        for what in known_release.not_verified if known_release else ():
            yield f"not verified: {name}: {what}"
    if cluster.software.doca_ofed:
        for name in cluster.releases:
            if name in doca.NOT_VERIFIED:
                yield f"not verified: {name}: {doca.NOT_VERIFIED[name]}"
    for one in cluster.software.repositories:
        of_nvidia = cuda_folder(one.uri, one.suite) or of_doca(one.uri, one.suite)
        if of_nvidia and of_vendor(one.uri, one.suite) is None:
            yield (
                f"not verified: the key of NVIDIA's repository {one.uri}: Lockstep knows no "
                "fingerprint for it; compare the key with the one that NVIDIA publishes"
            )
    stack = cluster.software.nvidia
    if stack is None:
        return
    yield from _branch(stack)
    if cluster.gpus:
        yield from _names(cluster, stack)
    for release in stack.cuda:
        known = table.CUDA_RELEASES.get(release)
        if known is None:
            yield f"not verified: CUDA {release} is newer than the catalogue"
        elif not known.origin.verified:
            yield f"not verified: CUDA {release} ({known.origin.source})"
    for name, gpu in cluster.gpus.items():
        model, branch = gpu.values, table.branch(stack.driver)
        what = f"hardware class {name} ({model.product_name})"
        if model.architecture is None:
            yield f"not verified: driver {stack.driver} for {what}: no architecture is declared"
        elif branch < model.first_listed:
            yield (
                f"not verified: driver {stack.driver} for {what}: branch {model.first_listed} is "
                "the first one that lists the model"
            )


def _names(cluster: Cluster, stack: Nvidia) -> Iterator[str]:
    for name in cluster.releases:
        release = operating_systems.find(name)
        origin = nvidia.packaging(stack.packaging, stack.driver, release).origin
        if not origin.verified:
            yield (
                f"not verified: names of the driver's packages on {name} with packaging: "
                f"{stack.packaging} ({origin.source}, {origin.looked_up})"
            )


def _branch(stack: Nvidia) -> Iterator[str]:
    number = table.branch(stack.driver)
    branch = table.BRANCHES.get(number)
    if branch is None:
        yield f"not verified: driver {stack.driver}: branch {number} is not in the catalogue"
        return
    if not branch.origin.verified:
        yield f"not verified: driver branch {number} ({branch.origin.source})"
    if not branch.supported:
        others = ", ".join(str(one) for one, data in table.BRANCHES.items() if data.supported)
        when = branch.origin.looked_up
        yield (
            f"NVIDIA no longer supports driver branch {number} (as of {when}). Supported branches: "
            f"{others}; check which of them your repository has"
        )
