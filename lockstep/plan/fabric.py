"""What NCCL, UCX and Open MPI are told of the fabric, and what RDMA needs of the kernel.

Values with their sources are in docs/fabric.md. Each is a default: what a job sets itself wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.spec import names
from lockstep.spec.hardware import Nics
from lockstep.spec.model import Network


@dataclass(frozen=True)
class FabricPlan:
    """Settings of the libraries that use the fabric, by the names that they read."""

    nccl: Mapping[str, str]
    """/etc/nccl.conf"""
    ucx: Mapping[str, str]
    """/etc/ucx/ucx.conf"""
    open_mpi: Mapping[str, str]
    """Environment: the file belongs to Debian's openmpi-common."""


def plan(nics: Nics, network: Network | None) -> FabricPlan:
    """Return the settings for the machines of a class; empty ones where nothing is to be said."""
    if network is None:
        return FabricPlan({}, {}, {})
    prefix, ipv6 = str(network.prefix), network.prefix.version == 6
    return FabricPlan(
        nccl=_nccl(nics, prefix, ipv6),
        ucx=_ucx(nics, prefix, ipv6),
        open_mpi=_open_mpi(nics, ipv6),
    )


def devices(nics: Nics) -> tuple[str, ...]:
    """Return the declared RDMA devices, in order."""
    declared = nics.rdma != "none" and nics.rdma_devices
    return names.expand(nics.rdma_devices) if declared else ()


def interfaces(nics: Nics) -> tuple[str, ...]:
    """Return the declared network interfaces, in order."""
    return names.expand(nics.interfaces) if nics.interfaces else ()


def _nccl(nics: Nics, prefix: str, ipv6: bool) -> dict[str, str]:
    # "=" in front: these names exactly; without it mlx5_1 would also mean mlx5_10.
    return {
        **({"NCCL_SOCKET_FAMILY": "AF_INET6"} if ipv6 else {}),
        **({"NCCL_SOCKET_IFNAME": f"={','.join(interfaces(nics))}"} if nics.interfaces else {}),
        **({"NCCL_IB_HCA": f"={','.join(devices(nics))}"} if devices(nics) else {}),
        # RoCE alone: its GIDs are IP addresses. NCCL looks for IPv4 ones and, finding none, takes
        # the GID at index 0: RoCE v1, link-local.
        **(
            {"NCCL_IB_ADDR_FAMILY": "AF_INET6", "NCCL_IB_ADDR_RANGE": prefix}
            if ipv6 and nics.rdma == "roce"
            else {}
        ),
    }


def _ucx(nics: Nics, prefix: str, ipv6: bool) -> dict[str, str]:
    # The list holds for RDMA and TCP alike: devices that are not declared must not be shut out.
    complete = nics.interfaces and (nics.rdma == "none" or devices(nics))
    listed = (*(f"{device}:1" for device in devices(nics)), *interfaces(nics))
    return {
        **({"UCX_TCP_AF_PRIO": "inet6,inet"} if ipv6 else {}),
        **({"UCX_NET_DEVICES": ",".join(listed)} if complete else {}),
        # Without it the first IPv6 GID is taken, the link-local one, which no router passes on.
        **({"UCX_IB_ROCE_SUBNETS": prefix} if ipv6 and nics.rdma == "roce" else {}),
    }


def _open_mpi(nics: Nics, ipv6: bool) -> dict[str, str]:
    return {
        # Names, not the prefix: in CIDR notation the tcp BTL knows IPv4 only.
        **({"OMPI_MCA_btl_tcp_if_include": ",".join(interfaces(nics))} if nics.interfaces else {}),
        **({"OMPI_MCA_btl_tcp_disable_family": "4"} if ipv6 else {}),
    }


RENAMED = re.compile(r"(ib|roce|iw|opa|rdma)(P[0-9a-f]+)?([op]\d+|x[0-9a-f]{8,16}).*")
"""Names that rdma_rename(8) of rdma-core gives: by board index, PCI address or GUID."""


def keeps_kernel_names(nics: Nics) -> bool:
    """Say whether the declared RDMA devices have the names that their drivers gave them."""
    declared = devices(nics)
    return bool(declared) and not any(RENAMED.fullmatch(name) for name in declared)


SHOWN_BY = {
    "ib_uverbs": "/sys/class/infiniband_verbs/abi_version",
    "rdma_ucm": "/sys/class/misc/rdma_cm/dev",
    "ib_umad": "/sys/class/infiniband_mad/abi_version",
}
"""Kernel module -> the file that is there when it is loaded, or built in; with or without NICs."""


def modules(nics: Nics) -> dict[str, str]:
    """Return the modules that verbs, connections and, on InfiniBand, its tools need."""
    wanted = {
        "none": (),
        "roce": ("ib_uverbs", "rdma_ucm"),
        "infiniband": ("ib_uverbs", "rdma_ucm", "ib_umad"),
    }[nics.rdma]
    return {name: SHOWN_BY[name] for name in wanted}
