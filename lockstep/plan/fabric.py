"""Settings of NCCL, UCX and Open MPI for the fabric, and the kernel modules that RDMA needs.

docs/fabric.md lists the values and their sources. Each value is a default that a job can override.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.catalog.nvidia import doca
from lockstep.spec import names
from lockstep.spec.hardware import Nics
from lockstep.spec.networks import Network

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan


@dataclass(frozen=True)
class FabricPlan:
    """Settings of the libraries that use the fabric: name -> value."""

    nccl: Mapping[str, str]
    """/etc/nccl.conf"""
    ucx: Mapping[str, str]
    """/etc/ucx/ucx.conf"""
    open_mpi: Mapping[str, str]
    """Environment variables, because Debian's openmpi-common owns the configuration file."""


def plan(nics: Nics, network: Network | None) -> FabricPlan:
    """Return the fabric settings of a class's machines; none if there is no fabric network."""
    if network is None:
        return FabricPlan({}, {}, {})
    prefix, ipv6 = str(network.prefix), network.prefix.version == 6
    named, rdma = interfaces(nics), devices(nics)
    # UCX has one list for RDMA and TCP devices, and ignores every device that is not in it.
    complete = named and (nics.rdma == "none" or rdma)
    return FabricPlan(
        nccl={
            **({"NCCL_SOCKET_FAMILY": "AF_INET6"} if ipv6 else {}),
            # A leading "=" means exactly these names; without it mlx5_1 would match mlx5_10, too.
            **({"NCCL_SOCKET_IFNAME": f"={','.join(named)}"} if named else {}),
            **({"NCCL_IB_HCA": f"={','.join(rdma)}"} if rdma else {}),
            # Only for RoCE, whose GIDs are IP addresses. By default, NCCL looks for IPv4; if there
            # is none, it takes the GID at index 0, which is RoCE v1 and link-local.
            **(
                {"NCCL_IB_ADDR_FAMILY": "AF_INET6", "NCCL_IB_ADDR_RANGE": prefix}
                if ipv6 and nics.rdma == "roce"
                else {}
            ),
        },
        ucx={
            **({"UCX_TCP_AF_PRIO": "inet6,inet"} if ipv6 else {}),
            **(
                {"UCX_NET_DEVICES": ",".join((*(f"{device}:1" for device in rdma), *named))}
                if complete
                else {}
            ),
            # Without it, UCX takes the first IPv6 GID, which is link-local and not routed.
            **({"UCX_IB_ROCE_SUBNETS": prefix} if ipv6 and nics.rdma == "roce" else {}),
        },
        open_mpi={
            # Names, not the prefix: the tcp BTL accepts CIDR notation only for IPv4.
            **({"OMPI_MCA_btl_tcp_if_include": ",".join(named)} if named else {}),
            **({"OMPI_MCA_btl_tcp_disable_family": "4"} if ipv6 else {}),
        },
    )


def doca_packages(plan: NodePlan) -> dict[str, str]:
    """Return the package of DOCA-OFED that a node gets, with its version as a pattern.

    Empty for another RDMA stack, and for nodes without RDMA devices.
    """
    if not has_rdma(plan) or not plan.manages("rdma"):
        return {}
    own_kernel = plan.hardware.hardware.boot_loader != "none"
    wanted = doca.WITH_MODULES if own_kernel else doca.WITHOUT_MODULES
    found = doca.packages(plan.spec.software.doca_ofed).items()
    return {name: version for name, version in found if name == wanted}


def has_rdma(plan: NodePlan) -> bool:
    """Return whether a node is a worker with RDMA devices."""
    return plan.is_worker and plan.hardware.hardware.nics.rdma != "none"


def is_declared(plan: NodePlan) -> bool:
    """Return whether the description says which RDMA stack a node has."""
    return has_rdma(plan) and plan.spec.software.rdma is not None


DRIVER = "mlx5_core"
"""The driver of NVIDIA's RDMA adapters, in the kernel and in DOCA-OFED."""


def waits_for_boot(loaded: str, on_disk: str) -> bool:
    """Return whether the driver on disk is another one than the loaded one, by their versions.

    Args:
        loaded: version or srcversion of the loaded module; "loaded" without one, "absent" if none.
        on_disk: the same of the module file; "none" without one, "absent" without the file.
    """
    return loaded != on_disk and not {loaded, on_disk} & {"absent", "loaded", "none"}


def devices(nics: Nics) -> tuple[str, ...]:
    """Return the declared RDMA devices, in order."""
    return names.expand(nics.rdma_devices) if nics.rdma != "none" else ()


def interfaces(nics: Nics) -> tuple[str, ...]:
    """Return the declared network interfaces, in order."""
    return names.expand(nics.interfaces)


RENAMED = re.compile(r"(ib|roce|iw|opa|rdma)(P[0-9a-f]+)?([op]\d+|x[0-9a-f]{8,16}).*")
"""Matches the names that rdma-core's rdma_rename assigns: by onboard index, PCI address or GUID."""


def keeps_kernel_names(nics: Nics) -> bool:
    """Return whether the declared RDMA devices have the names that their drivers assign."""
    declared = devices(nics)
    return bool(declared) and not any(RENAMED.fullmatch(name) for name in declared)


SHOWN_BY = {
    "ib_uverbs": "/sys/class/infiniband_verbs/abi_version",
    "rdma_ucm": "/sys/class/misc/rdma_cm/dev",
    "ib_umad": "/sys/class/infiniband_mad/abi_version",
}
"""Kernel module -> a file that exists if the module is loaded or built in, even without a NIC."""


def modules(nics: Nics) -> dict[str, str]:
    """Return the kernel modules that the RDMA devices need, each with its ``SHOWN_BY`` file."""
    wanted = {
        "none": (),
        "roce": ("ib_uverbs", "rdma_ucm"),
        "infiniband": ("ib_uverbs", "rdma_ucm", "ib_umad"),
    }[nics.rdma]
    return {name: SHOWN_BY[name] for name in wanted}
