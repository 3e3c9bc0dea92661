"""Settings of the fabric libraries: address family, interfaces and RDMA devices."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.plan import fabric
from lockstep.render import render
from lockstep.spec.hardware import Nics
from lockstep.spec.networks import Network
from tests.declared import FILES
from tests.plan.example import planned

IPV6 = Network.model_validate({"prefix": "fd00:2::/60", "rails": 2})
IPV4 = Network.model_validate({"prefix": "10.2.0.0/16"})


def nics(**fields: object) -> Nics:
    return Nics.model_validate({"count": 2, **fields})


ROCE = nics(rdma="roce", rdma_devices="mlx5_[0-1]", interfaces="fabric[0-1]")
INFINIBAND = nics(rdma="infiniband", rdma_devices="mlx5_[0-1]", interfaces="ib[0-1]")
TCP = nics(interfaces="fabric0")


def test_roce_over_ipv6() -> None:
    assert fabric.plan(ROCE, IPV6) == fabric.FabricPlan(
        nccl={
            "NCCL_SOCKET_FAMILY": "AF_INET6",
            "NCCL_SOCKET_IFNAME": "=fabric0,fabric1",
            "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
            "NCCL_IB_ADDR_FAMILY": "AF_INET6",
            "NCCL_IB_ADDR_RANGE": "fd00:2::/60",
        },
        ucx={
            "UCX_TCP_AF_PRIO": "inet6,inet",
            "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1,fabric0,fabric1",
            "UCX_IB_ROCE_SUBNETS": "fd00:2::/60",
        },
        open_mpi={
            "OMPI_MCA_btl_tcp_if_include": "fabric0,fabric1",
            "OMPI_MCA_btl_tcp_disable_family": "4",
        },
    )


def test_infiniband_has_no_addresses_in_its_gids() -> None:
    planned = fabric.plan(INFINIBAND, IPV6)
    assert planned.nccl == {
        "NCCL_SOCKET_FAMILY": "AF_INET6",
        "NCCL_SOCKET_IFNAME": "=ib0,ib1",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
    }
    assert planned.ucx == {
        "UCX_TCP_AF_PRIO": "inet6,inet",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1,ib0,ib1",
    }


def test_ipv4_is_what_the_libraries_look_for_anyway() -> None:
    planned = fabric.plan(ROCE, IPV4)
    assert set(planned.nccl) == {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"}
    assert set(planned.ucx) == {"UCX_NET_DEVICES"}
    assert set(planned.open_mpi) == {"OMPI_MCA_btl_tcp_if_include"}


@pytest.mark.parametrize("network", [IPV4, None], ids=["IPv4", "no fabric"])
def test_nothing_declared_is_nothing_to_say(network: Network | None) -> None:
    assert fabric.plan(nics(), network) == fabric.FabricPlan({}, {}, {})


def test_ipv6_without_names_says_the_family_alone() -> None:
    assert fabric.plan(nics(), IPV6) == fabric.FabricPlan(
        {"NCCL_SOCKET_FAMILY": "AF_INET6"},
        {"UCX_TCP_AF_PRIO": "inet6,inet"},
        {"OMPI_MCA_btl_tcp_disable_family": "4"},
    )


def test_ucx_gets_no_device_list_that_excludes_rdma() -> None:
    """UCX_NET_DEVICES is one list for RDMA and TCP: interfaces alone would shut RDMA out."""
    assert "UCX_NET_DEVICES" not in fabric.plan(nics(rdma="roce", interfaces="fabric0"), IPV6).ucx
    assert "UCX_NET_DEVICES" not in fabric.plan(nics(rdma="roce", rdma_devices="rxe0"), IPV6).ucx
    assert fabric.plan(TCP, IPV6).ucx["UCX_NET_DEVICES"] == "fabric0"


def test_devices_of_nics_without_rdma_are_not_named() -> None:
    assert "NCCL_IB_HCA" not in fabric.plan(nics(rdma_devices="mlx5_0"), IPV6).nccl


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("mlx5_[0-7]", True),
        ("rxe0", True),
        ("bnxt_re[0-1]", True),
        ("irdma0", True),
        ("ibp24s0", False),
        ("rocep193s0f0", False),
        ("roceP2p1s0", False),
        ("ibo3", False),
        ("rocex525400c0", False),
        ("", False),
    ],
)
def test_driver_names_are_kept_and_persistent_ones_are_left_to_rdma_core(
    declared: str, kept: bool
) -> None:
    assert fabric.keeps_kernel_names(nics(rdma="roce", rdma_devices=declared)) is kept


def test_modules() -> None:
    assert fabric.modules(nics()) == {}
    assert list(fabric.modules(ROCE)) == ["ib_uverbs", "rdma_ucm"]
    assert list(fabric.modules(INFINIBAND)) == ["ib_uverbs", "rdma_ucm", "ib_umad"]


# -- files


def rendered(template: str, chosen: Nics = ROCE) -> str:
    """The template for a node of these NICs on the IPv6 fabric."""
    plan: Any = SimpleNamespace(
        fabric=fabric.plan(chosen, IPV6),
        hardware=SimpleNamespace(hardware=SimpleNamespace(nics=chosen)),
    )
    return render(template, plan=plan)


def settings(text: str) -> dict[str, str]:
    """As NCCL reads its file: # begins a comment, the first = ends the name."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_the_files_of_nccl_and_ucx_say_what_is_planned() -> None:
    planned = fabric.plan(ROCE, IPV6)
    assert settings(rendered("fabric/nccl.conf.j2")) == planned.nccl
    assert settings(rendered("fabric/ucx.conf.j2")) == planned.ucx
    assert "NCCL_SOCKET_IFNAME==fabric0,fabric1\n" in rendered("fabric/nccl.conf.j2")


@pytest.mark.parametrize(
    ("before", "seen"),
    [
        ("", "fabric0,fabric1 4"),
        ("OMPI_MCA_btl_tcp_if_include=eth0", "eth0 4"),
        ("OMPI_MCA_btl_tcp_disable_family=", "fabric0,fabric1 "),
    ],
    ids=["not set", "set", "emptied"],
)
def test_what_a_login_has_set_already_stays(before: str, seen: str) -> None:
    script = (
        f"set -eu; {before}\n{rendered('fabric/open_mpi.sh.j2')}"
        "sh -c 'echo $OMPI_MCA_btl_tcp_if_include $OMPI_MCA_btl_tcp_disable_family'"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == seen.strip()


def test_the_naming_rule_takes_the_place_of_the_packages() -> None:
    (entry,) = (entry for role, entry in FILES if role == "rdma")
    assert entry.path == "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
    (rule,) = (line for line in rendered(entry.template).splitlines() if line[0] != "#")
    assert rule == 'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_KERNEL"'


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["/etc/nccl.conf", "/etc/ucx/ucx.conf", "/etc/profile.d/50-lockstep-fabric.sh"]),
        (
            {"rdma": "roce", "rdma_devices": "mlx5_[0-7]"},
            [
                "/etc/udev/rules.d/60-rdma-persistent-naming.rules",
                *("/etc/nccl.conf", "/etc/ucx/ucx.conf", "/etc/profile.d/50-lockstep-fabric.sh"),
            ],
        ),
    ],
    ids=["TCP", "RoCE"],
)
def test_workers_have_the_files_and_heads_have_none(
    chosen: dict[str, object], expected: list[str]
) -> None:
    cluster = planned(lambda wanted: wanted["hardware"]["hgx"].update(nics={"count": 8, **chosen}))
    for node in cluster.nodes.values():
        files = [file.path for file in managed(node, None) if file.role in ("rdma", "fabric")]
        assert files == (expected if node.hardware.name == "hgx" else []), node.name
