"""The identities that a node reads from itself, in the forms in which files have them."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.identity import identities
from lockstep.node.fingerprint.installed import volumes
from lockstep.node.fingerprint.own import Own
from tests.probe.test_collect import Node, node

__all__ = ["node"]
NM = "/etc/NetworkManager/system-connections"


def test_ports_of_a_bond_have_their_permanent_addresses(node: Node) -> None:
    for port in ("eth0", "eth1"):
        node.file(f"/sys/class/net/{port}/address", "3c:fd:fe:00:00:0a\n")
    node.file(
        "/proc/net/bonding/bond0",
        "Bonding Mode: x\n\nSlave Interface: eth1\nPermanent HW addr: 3c:fd:fe:00:00:0b\n",
    )
    assert identities()["MAC address of eth1"] == ["3c:fd:fe:00:00:0b"]
    node.file(f"{NM}/eth1.nmconnection", "[connection]\nid=eth1\nuuid=u-1\n")
    assert "3C:FD:FE:00:00:0B" in identities()["MAC address of eth1"]
    assert identities()["UUID of the connection eth1"] == ["u-1"]


BONDING = (
    "Slave Interface: eth0\nPermanent HW addr: {}\n\nSlave Interface: eth1\nPermanent HW addr: {}\n"
)


@pytest.mark.parametrize("first", [0, 1])
def test_each_address_of_a_bond_is_that_of_one_port(node: Node, first: int) -> None:
    macs = ("3c:fd:fe:00:00:0a", "3c:fd:fe:00:00:0b")
    for interface in ("bond0", "eth0", "eth1", "vlan7"):
        node.file(f"/sys/class/net/{interface}/address", f"{macs[first]}\n")
    node.file("/proc/net/bonding/bond0", BONDING.format(*macs))
    own = Own(identities())
    assert own.replaced("{} {}".format(*macs)) == (
        "<MAC address of eth0 of this node> <MAC address of eth1 of this node>"
    )


def test_a_connection_without_an_id_or_a_uuid_is_read(node: Node) -> None:
    node.file(f"{NM}/port1.nmconnection", "[connection]\nuuid=u-1\n")
    node.file(f"{NM}/port2.nmconnection", "[connection]\nid=port2\n")
    node.file(f"{NM}/empty", "")
    found = {kind: values for kind, values in identities().items() if "connection" in kind}
    assert found == {"UUID of the connection port1": ["u-1"]}


def test_what_an_installation_draws(node: Node) -> None:
    node.file("/var/lib/cloud/data/instance-id", "i-0123456789abcdef0\n")
    node.file(
        "/run/flannel/subnet.env", "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\n"
    )
    (node.root / "etc").mkdir(exist_ok=True)
    (node.root / "etc/hostid").write_bytes(bytes((0x0D, 0xF0, 0xAD, 0x8B)))
    found = identities()
    assert found["instance ID"] == ["i-0123456789abcdef0"]
    assert found["pod network"] == ["10.244.3.1/24", "10.244.3.0/24"]
    assert found["host ID"] == ["8badf00d", "0x8badf00d"]


def test_an_instance_that_is_named_after_the_machine_is_one_identity(node: Node) -> None:
    node.file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    node.file("/var/lib/cloud/data/instance-id", "0123456789abcdef0123456789abcdef\n")
    assert "instance ID" not in identities()


def test_a_device_is_told_by_kind_and_order_in_all_forms_of_its_address(node: Node) -> None:
    for address, kind in (("0000:17:00.0", "30200"), ("0000:2a:00.0", "30200"),
                          ("0000:00:01.0", "60400")):  # fmt: skip
        node.file(f"/sys/bus/pci/devices/{address}/uevent", f"PCI_CLASS={kind}\nPCI_ID=10DE:2335\n")
    own = Own(identities())
    second = "<PCI address of 10de:2335 #2 of this node>"
    for text in ("0000:2a:00.0", "2a:00.0", "00000000:2A:00.0", "PCI:42:0:0"):
        assert own.replaced(f"at {text}") == f"at {second}"
    for text in ("0000:2b:00.0", "0001:2a:00.0", "1:2a:00.0", "PCI:42:0:1", "0000:00:01.0"):
        assert own.replaced(f"at {text}") == f"at {text}"


def test_guids_of_a_fabric(node: Node) -> None:
    folder = "/sys/class/infiniband/mlx5_0"
    node.file(f"{folder}/node_guid", "e8eb:d303:00a1:b2c3\n")
    node.file(f"{folder}/ports/1/gids/0", "fe80:0000:0000:0000:e8eb:d303:00a1:b2c4\n")
    node.file("/sys/class/infiniband/mlx5_1/node_guid", "0000:0000:0000:0000\n")
    found = identities()
    assert "0xe8ebd30300a1b2c3" in found["node GUID of mlx5_0"]
    assert "e8:eb:d3:03:00:a1:b2:c4" in found["port GUID of mlx5_0/1"]
    assert not [kind for kind in found if "mlx5_1" in kind]


def test_volume_groups_that_are_named_after_the_host(node: Node) -> None:
    for number, name in enumerate(("rhel_gpu--1-root", "vg0-root", "rhel_gpu--10-root", "plain")):
        node.file(f"/sys/block/dm-{number}/dm/name", f"{name}\n")
    assert volumes("gpu-1") == {
        "volume group rhel_HOST": ["rhel_gpu-1"],
        "volume root in rhel_HOST": [
            "rhel_gpu--1-root", "rhel_gpu-1/root", r"rhel_gpu\x2d\x2d1\x2droot",
        ],
    }  # fmt: skip


def test_a_uuid_is_replaced_within_a_name_and_an_address_is_not() -> None:
    uuid = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
    own = Own({"UUID": [uuid], "machine ID": ["0123456789abcdef0123456789abcdef"], "name": ["n1"]})
    assert own.replaced(f"luks-{uuid}") == "luks-<UUID of this node>"
    assert own.replaced("/e/0123456789abcdef0123456789abcdef-6.1.conf").startswith("/e/<machine ID")
    for text in (f"{uuid}0", f"a{uuid}", "0123456789abcdef0123456789abcdef0", "luks-n1"):
        assert own.replaced(text) is text


def test_lines_that_differ_in_the_disk_have_no_order() -> None:
    of = "of a disk of model M"
    one = Own({f"identifier {of}": ["disk-11"], "identifier of disk of role root": ["disk-22"]})
    other = Own({f"identifier {of}": ["disk-33"], "identifier of disk of role root": ["disk-07"]})
    text = "first\ndisk-{} -a\ndisk-{} -a\nlast\n"
    assert one.replaced(text.format("11", "22")) == other.replaced(text.format("07", "33"))
    assert one.replaced(text.format("11", "22")) != other.replaced(text.format("07", "99"))
    far = "disk-{} -a\nbetween\ndisk-{} -a\n"
    assert one.replaced(far.format("11", "22")) != other.replaced(far.format("07", "33"))
