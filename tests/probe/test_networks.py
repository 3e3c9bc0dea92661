"""The probe on small trees of files: RDMA ports, PCI devices and network interfaces."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

import pytest

from lockstep.node.readers import network, reading
from lockstep.node.readers.commands import Commands
from tests.probe.test_collect import Node, node

__all__ = ["node"]

BRIDGE = "/sys/devices/pci0000:15/0000:15:01.0"
REGISTER = """Sending access register...

Field Name                                     | Data
============================================================
roce_adp_retrans_field_select                  | 0x00000001
roce_adp_retrans_en                            | 0x00000001
roce_tx_window_en                              | 0x00000000
adaptive_routing_forced_en                     | 0x00000001
"""


def value(node: Node, name: str) -> Any:
    return node.read()[name]["value"]


def adapter(node: Node, device: str = "mlx5_0", width: str = "16") -> str:
    """Make an RDMA device of hardware; return its folder below /sys/devices."""
    folder = f"{BRIDGE}/0000:16:00.0/0000:17:00.0"
    node.file(f"{folder}/current_link_speed", "32.0 GT/s PCIe\n")
    node.file(f"{folder}/current_link_width", f"{width}\n")
    node.file(f"{folder}/max_link_speed", "32.0 GT/s PCIe\n")
    node.file(f"{folder}/max_link_width", "16\n")
    node.file(f"{folder}/numa_node", "1\n")
    node.file(f"{folder}/config", "")
    top = node.root / f"sys/class/infiniband/{device}"
    top.mkdir(parents=True)
    (top / "device").symlink_to(node.root / folder.lstrip("/"))
    node.file(f"/sys/class/infiniband/{device}/ports/1/link_layer", "Ethernet\n")
    node.file(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0", "fabric0\n")
    return folder


def gpu(node: Node, address: str, folder: str) -> None:
    """Make a GPU below a folder."""
    node.file(f"{folder}/vendor", "0x10de\n")
    node.file(f"{folder}/class", "0x030200\n")
    link = node.root / f"sys/bus/pci/devices/{address}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(node.root / folder.lstrip("/"))


def test_counters_are_summed_by_what_they_say(node: Node) -> None:
    top = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, number in (("symbol_error", 3), ("port_rcv_errors", 4), ("link_downed", 1)):
        node.file(f"{top}/counters/{name}", f"{number}\n")
    node.file(f"{top}/hw_counters/packet_seq_err", "5\n")
    node.file(f"{top}/hw_counters/out_of_sequence", "99\n")
    node.file(f"{top}/pkeys/0", "0xffff\n")
    node.file(f"{top}/pkeys/1", "0x0000\n")
    node.file(f"{top}/sm_lid", "0x1\n")
    seen = node.read()
    assert seen["rdma.errors"] == {"value": {"mlx5_0": 7}}
    assert seen["rdma.link_downed"] == {"value": {"mlx5_0": 1}}
    assert seen["rdma.sequence_errors"] == {"value": {"mlx5_0": 5}}
    assert seen["rdma.ack_timeouts"] == {"value": {}}
    assert seen["rdma.pkeys"] == {"value": {"mlx5_0": "0xffff"}}
    assert seen["rdma.sm_lid"] == {"value": {"mlx5_0": "0x1"}}


def test_one_counter_that_cannot_be_read_costs_itself(node: Node) -> None:
    top = "/sys/class/infiniband/mlx5_0/ports/1"
    (node.root / f"{top}/counters/link_downed".lstrip("/")).mkdir(parents=True)
    node.file(f"{top}/counters/port_xmit_discards", "5\n")
    seen = node.read()
    assert "unread" in seen["rdma.link_downed"]["value"]["mlx5_0"]
    assert seen["rdma.discards"] == {"value": {"mlx5_0": 5}}


def test_a_narrow_link_is_told_with_what_both_ends_can_do(node: Node) -> None:
    folder = adapter(node, width="8")
    upper = folder.rpartition("/")[0]
    node.file(f"{upper}/max_link_speed", "16.0 GT/s PCIe\n")
    node.file(f"{upper}/max_link_width", "16\n")
    seen = node.read()
    assert seen["rdma.pcie"] == {"value": {"mlx5_0": "32 GT/s x8"}}
    assert seen["rdma.pcie_most"] == {"value": {"mlx5_0": "16 GT/s x16"}}
    assert seen["rdma.numa"] == {"value": {"mlx5_0": 1}}


def test_a_link_whose_speed_is_unknown_is_unread(node: Node) -> None:
    folder = adapter(node)
    node.file(f"{folder}/current_link_speed", "Unknown\n")
    assert "Unknown" in value(node, "rdma.pcie")["mlx5_0"]["unread"]


def test_a_device_without_hardware_has_no_place(node: Node) -> None:
    node.file("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n")
    assert value(node, "rdma.pcie") == {"rxe0": ""}
    assert value(node, "rdma.numa") == {"rxe0": ""}


def test_the_device_control_register_is_read_behind_its_capability(node: Node) -> None:
    folder = adapter(node)
    space = bytearray(256)
    space[0x34] = 0x40
    space[0x40:0x42] = bytes((0x01, 0x60))  # power management, then PCI Express
    space[0x60:0x62] = bytes((0x10, 0x00))
    struct.pack_into("<H", space, 0x68, 5 << 12 | 2 << 5 | 1 << 4)
    (node.root / f"{folder}/config".lstrip("/")).write_bytes(bytes(space))
    said = {"mlx5_0": "MaxReadReq 4096, MaxPayload 512, RlxdOrd+"}
    assert value(node, "rdma.pci_control") == said
    (node.root / f"{folder}/config".lstrip("/")).write_bytes(bytes(space[:64]))
    assert "root is required" in value(node, "rdma.pci_control")["mlx5_0"]["unread"]


def test_the_nearest_gpus_share_a_bridge(node: Node) -> None:
    adapter(node)
    gpu(node, "0000:18:00.0", f"{BRIDGE}/0000:16:00.0/0000:18:00.0")
    gpu(node, "0000:19:00.0", f"{BRIDGE}/0000:19:00.0")
    gpu(node, "0000:97:00.0", "/sys/devices/pci0000:97/0000:97:00.0")
    assert value(node, "rdma.nearest_gpus") == {"mlx5_0": "gpu0"}


def test_gpus_below_other_root_ports_are_not_near(node: Node) -> None:
    adapter(node)
    gpu(node, "0000:15:02.0", "/sys/devices/pci0000:15/0000:15:02.0")
    assert value(node, "rdma.nearest_gpus") == {"mlx5_0": "none"}


def test_the_firmwares_register_tells_of_adaptive_routing(node: Node) -> None:
    adapter(node)
    node.tool("mstreg", f"cat <<'EOF'\n{REGISTER}EOF")
    node.tool("cat", 'exec /bin/cat "$@"')
    assert value(node, "rdma.acceleration") == {
        "mlx5_0": {
            "adaptive_routing_forced_en": 1,
            "roce_adp_retrans_en": 1,
            "roce_tx_window_en": 0,
        }
    }


def test_a_register_that_is_refused_is_unread_and_a_missing_tool_is_not(node: Node) -> None:
    adapter(node)
    assert value(node, "rdma.acceleration") == {"mlx5_0": {}}
    node.tool("mlxreg", "echo '-E- Failed to send access register' >&2; exit 1")
    assert "Failed to send" in value(node, "rdma.acceleration")["mlx5_0"]["unread"]


def test_priorities_of_a_port_are_read_where_the_driver_has_them(node: Node) -> None:
    adapter(node)
    node.file("/sys/class/net/fabric0/ecn/roce_np/enable/0", "1\n")
    node.file("/sys/class/net/fabric0/ecn/roce_rp/enable/0", "0\n")
    node.tool(
        "dcb", 'echo "pfc-cap 8 macsec-bypass on delay 0"; echo "$1 prio"; echo "prio-pfc 3:on"'
    )
    seen = node.read()
    assert seen["rdma.pfc"] == {"value": {"mlx5_0": "prio-pfc 3:on"}}
    assert seen["rdma.ecn"] == {"value": {"mlx5_0": "np 1 rp 0"}}
    assert seen["rdma.traffic_class"] == {"value": {"mlx5_0": "absent, absent"}}
    node.tool("dcb", "echo 'Attribute read: Operation not supported' >&2; exit 1")
    assert value(node, "rdma.pfc") == {"mlx5_0": "not supported"}
    node.tool("dcb", "echo 'No such device' >&2; exit 1")
    assert "No such device" in value(node, "rdma.pfc")["mlx5_0"]["unread"]


def test_settings_of_the_driver_are_told_by_device(node: Node) -> None:
    adapter(node)
    assert value(node, "rdma.settings") == {"mlx5_0": {}}
    row = {"name": "flow_steering_mode", "values": [{"cmode": "runtime", "value": "smfs"}]}
    shown = json.dumps({"param": {"pci/0000:17:00.0": [row], "pci/0000:99:00.0": []}})
    node.tool("devlink", f"echo '{shown}'")
    assert value(node, "rdma.settings") == {"mlx5_0": {"flow_steering_mode (runtime)": "smfs"}}
    node.tool("devlink", "echo 'Failed to connect to devlink Netlink' >&2; exit 1")
    assert value(node, "rdma.settings") == {"mlx5_0": {}}
    node.tool("devlink", "echo 'kernel answers: Permission denied' >&2; exit 1")
    assert "Permission denied" in node.read()["rdma.settings"]["unread"]


SHOWN = [
    {"ifname": "lo", "mtu": 65536, "qdisc": "noqueue", "operstate": "UNKNOWN", "addr_info": []},
    {
        "ifname": "eno1",
        "mtu": 9000,
        "qdisc": "mq",
        "operstate": "UP",
        "txqlen": 1000,
        "address": "a0:88:c2:00:00:01",
        "addr_info": [
            {"local": "fe80::1", "scope": "link"},
            {"local": "fd00::7", "scope": "global"},
        ],
    },
    {"ifname": "veth7", "mtu": 1500, "qdisc": "noqueue", "operstate": "UP", "addr_info": []},
]


def interfaces(node: Node) -> None:
    node.tool("ip", f"echo '{json.dumps(SHOWN)}'")
    top = "/sys/class/net/eno1"
    node.file(f"{top}/speed", "25000\n")
    node.file(f"{top}/duplex", "full\n")
    node.file(f"{top}/statistics/rx_errors", "3\n")
    node.file(f"{top}/statistics/tx_errors", "4\n")
    node.file(f"{top}/carrier_changes", "2\n")


def test_interfaces_that_others_reach_are_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        network.GET_DRIVER: b"mlx5_core".ljust(64, b"\0") + b"28.39.1002".ljust(128, b"\0"),
        network.GET_RINGS: struct.pack("=8I", 8192, 0, 0, 8192, 1024, 0, 0, 512),
        network.GET_CHANNELS: struct.pack("=8I", 0, 0, 1, 63, 0, 0, 1, 63),
        network.OFFLOADS["tso"]: struct.pack("=I", 1),
    }
    monkeypatch.setattr(network, "ethtool", lambda name, command, size: answers.get(command, b""))
    interfaces(node)
    seen = node.read()
    expected = {
        "net.addresses": ["fd00::7"],
        "net.mac": "a0:88:c2:00:00:01",
        "net.state": "UP",
        "net.mtu": 9000,
        "net.queue": "mq, 1000 packets",
        "net.speed": "25000 Mb/s full",
        "net.errors": 7,
        "net.carrier_changes": 2,
        "net.driver": "mlx5_core 28.39.1002",
        "net.rings": "rx 1024, tx 512",
        "net.channels": "rx 0, tx 0, combined 63",
        "net.pause": "not supported",
        "net.offloads": "rx- tx- sg- tso+ gso- gro-",
    }
    assert {name: seen[name]["value"] for name in expected} == {
        name: {"eno1": shown} for name, shown in expected.items()
    }


def test_default_routes_are_told_from_others(node: Node) -> None:
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n"
    node.file(
        "/proc/net/route",
        head + "eno1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\n"
        "eno2\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\n",
    )
    nothing = "0" * 32
    rows = [f"{nothing} 00 {nothing} 00 fe80{'0' * 28} 00000400 1 0 00000003 eno1"]
    rows += [f"{nothing} 00 {nothing} 00 {nothing} ffffffff 1 0 00200200 lo"]
    rows += [f"fd00{'0' * 28} 40 {nothing} 00 {nothing} 00000100 1 0 00000001 eno2"]
    node.file("/proc/net/ipv6_route", "\n".join(rows) + "\n")
    assert value(node, "net.default_route") == {"ipv4": ["eno1"], "ipv6": ["eno1"]}


ROUTES = {
    "-6": [
        {"dst": "default", "gateway": "fe80::1", "dev": "eno1", "metric": 100, "pref": "medium"},
        {"dst": "default", "gateway": "fe80::2", "dev": "eno2", "metric": 1024, "flags": []},
        {"dst": "default", "type": "unreachable", "dev": "lo", "metric": 1},
    ],
    "-4": [
        {
            "dst": "default",
            "nexthops": [
                {"via": {"family": "inet6", "host": "fe80::9"}, "dev": "eno2", "weight": 1},
                {"gateway": "10.0.0.1", "dev": "eno1", "weight": 1},
                {"gateway": "10.0.0.2", "dev": "eno1", "weight": 1},
            ],
        },
        {"dst": "default", "dev": "eno3", "metric": 100},
    ],
}
"""Routes as ip of iproute2 6.1 shows them; unreachable ones do not count, nor a worse metric."""


def test_the_routers_of_default_routes_are_read_by_interface(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = Commands()
    monkeypatch.setattr(commands, "run", lambda *argv, **_: json.dumps(ROUTES[argv[2]]))
    seen = network.read_gateways({"gateways": ["ipv4", "ipv6"]}, commands)["net.gateway"]
    assert seen == {
        "ipv4": {"eno1": ["10.0.0.1", "10.0.0.2"], "eno2": ["fe80::9"]},
        "ipv6": {"eno1": ["fe80::1"]},
    }
    monkeypatch.setattr(commands, "run", lambda *argv, **_: "")
    assert network.read_gateways({"gateways": ["ipv6"]}, commands)["net.gateway"] == {"ipv6": {}}
    monkeypatch.setattr(commands, "run", lambda *argv, **_: '[{"dst":"default","dev":"tun0"}]')
    seen = network.read_gateways({"gateways": ["ipv4"]}, commands)["net.gateway"]
    assert seen == {"ipv4": {"tun0": []}}


def test_a_link_that_is_down_has_no_speed(node: Node) -> None:
    interfaces(node)
    node.file("/sys/class/net/eno1/speed", "-1\n")
    assert value(node, "net.speed") == {"eno1": "unknown"}


def test_the_drivers_interface_answers_on_a_real_machine() -> None:
    """The loopback has a driver interface everywhere; its layout is the kernel's."""
    assert network.offloads("lo").startswith("rx")
    assert network.driver("lo") in (reading.NOT_SUPPORTED, *network.driver("lo").split("\n"))
    with pytest.raises(reading.Unread, match="No such device"):
        network.driver("none0")


NO_DRIVER = {"folder": "absent", "version": "absent", "ofed": "absent"}
OF_DKMS = """filename:       /lib/modules/{kernel}/updates/dkms/mlx5_core.ko.xz
version:        25.07-0.9.7
srcversion:     A1B2
"""
OF_KERNEL = """filename:       /lib/modules/{kernel}/kernel/drivers/net/ethernet/mlx5_core.ko
depends:        mlxfw
"""


@pytest.mark.parametrize(
    ("modinfo", "folder", "version"),
    [
        (OF_DKMS, "updates/dkms", "25.07-0.9.7"),
        (OF_KERNEL, "kernel", "none"),
        ("filename:       (builtin)\n", "kernel", "none"),
    ],
)
def test_the_driver_on_disk_is_read_with_its_source(
    node: Node, modinfo: str, folder: str, version: str
) -> None:
    assert value(node, "rdma.driver_on_disk") == NO_DRIVER
    kernel = os.uname().release
    node.file(f"/lib/modules/{kernel}/modules.dep", "")
    node.tool("modinfo", f"printf %s '{modinfo.format(kernel=kernel)}'")
    node.tool("ofed_info", "echo OFED-internal-25.07-0.9.7:")
    assert value(node, "rdma.driver_on_disk") == {
        "folder": folder,
        "version": version,
        "ofed": "OFED-internal-25.07-0.9.7",
    }


def test_a_kernel_without_the_driver_is_read_and_a_failure_is_not_its_absence(node: Node) -> None:
    node.file(f"/lib/modules/{os.uname().release}/modules.dep", "")
    node.tool("modinfo", "echo 'modinfo: ERROR: Module mlx5_core not found.' >&2; exit 1")
    assert value(node, "rdma.driver_on_disk") == NO_DRIVER
    node.tool("modinfo", "echo 'modinfo: ERROR: broken' >&2; exit 1")
    found = node.read()["rdma.driver_on_disk"]
    assert found == {"unread": "modinfo: exit 1: modinfo: ERROR: broken"}
