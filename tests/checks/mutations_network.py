"""Changed values of the networks, and the rule that finds each."""

from __future__ import annotations

from lockstep.report import Status
from tests.checks.mutation import each, one

NETWORK = (
    one("rdma.driver", "kernel.modules", "mlx5_core", "23.10-1.1.9", "mlx5_core 23.10-1.1.9"),
    one("net.address", "net.addresses", "eno1", [], "on no interface", "management"),
    each("net.state", "net.state", "fabric1", "DOWN", "DOWN"),
    one("net.mtu", "net.mtu", "eno1", 1500, "1500", "management"),
    each("net.mtu", "net.mtu", "fabric1", 1500, "1500"),
    each("net.speed", "net.speed", "fabric1", "100000 Mb/s full", "100000 Mb/s"),
    each("net.driver", "net.driver", "fabric1", "mlx5_core 28.37.1014", "28.37.1014"),
    each("net.rings", "net.rings", "fabric1", "rx 8192, tx 8192", "rx 8192"),
    each("net.channels", "net.channels", "fabric1", "rx 0, tx 0, combined 8", "combined 8"),
    each("net.pause", "net.pause", "fabric1", "rx 1, tx 1", "rx 1"),
    each("net.offloads", "net.offloads", "fabric1", "rx+ tx+ sg+ tso- gso+ gro+", "tso-"),
    each("net.queue", "net.queue", "fabric1", "pfifo_fast, 1000 packets", "pfifo_fast"),
    each("net.default_route", "net.default_route", "ipv6", [], "none"),
    each("net.errors", "net.errors", "fabric1", 900, "900 errors"),
    each("net.carrier", "net.carrier_changes", "fabric1", 90, "90 changes"),
    one("net.address", "net.addresses", "fabric1", [], "on no interface", "rail1"),
    one(
        *("net.address_unique", "net.addresses", "eno1", ["fd00:1::103", "fd00:1::105"]),
        "fd00:1::105 on worker3 management fd00:1::105, worker5 management",
    ),
    one(
        *("net.unplanned_address", "net.addresses", "fabric1", ["fd00:2:0:1::103", "fd00:9::1"]),
        *("fd00:9::1", "fabric1"),
    ),
    one(
        *("net.persisted", "net.persisted", ("networkd fabric1", "addresses")),
        *(["fd00:2:0:1::103/64", "fd00:9::1/64"], "fd00:9::1/64", "fabric1"),
    ),
    one(
        *("net.persisted", "net.persisted", ("ifupdown eno1", "addresses")),
        *(["DHCP", "fd00:1::103/64"], "DHCP", "eno1"),
    ),
    one(
        *("net.persisted", "net.persisted", ("ifupdown eno1", "routers"), ["fd00:1::fffe"]),
        *("fd00:1::103/64, router fd00:1::fffe", "eno1"),
    ),
    one("net.gateway", "net.gateway", ("ipv6", "eno1"), ["fd00:1::fffe"], "fd00:1::fffe", "eno1"),
    one("net.gateway", "net.gateway", ("ipv6",), {}, "no default route", "eno1"),
    one(
        *("net.gateway", "net.gateway", ("ipv6",), {"eno2": ["fe80::1"]}),
        *("fe80::1 on eno2", "eno1"),
    ),
    one("net.mac_unique", "net.mac", "fabric1", "a0:88:c2:00:05:01", "worker3 fabric1"),
    each("rdma.interface", "rdma.netdev", "mlx5_1", "fabric0", "fabric0"),
    each("rdma.link_downed", "rdma.link_downed", "mlx5_1", 4, "4 link failures"),
    each("rdma.errors", "rdma.errors", "mlx5_1", 400, "400 errors"),
    each("rdma.discards", "rdma.discards", "mlx5_1", 4000, "4000 discards"),
    each("rdma.ack_timeouts", "rdma.ack_timeouts", "mlx5_1", 4000, "4000 timeouts"),
    each("rdma.sequence_errors", "rdma.sequence_errors", "mlx5_1", 40000, "40000 gaps"),
    each("rdma.pcie_link", "rdma.pcie", "mlx5_1", "32 GT/s x8", "32 GT/s x8"),
    one("rdma.pci_control", "rdma.pci_control", "mlx5_1", "MaxReadReq 512", "1 x MaxReadReq 512"),
    each("rdma.numa", "rdma.numa", "mlx5_1", 0, "NUMA node 0"),
    each("rdma.numa", "rdma.numa", "mlx5_1", -1, "NUMA node -1"),
    each("rdma.gpu_affinity", "rdma.nearest_gpus", "mlx5_1", "gpu4", "gpu4"),
    each("rdma.pkeys", "rdma.pkeys", "mlx5_1", "0x7fff", "0x7fff"),
    each("rdma.subnet_manager", "rdma.sm_lid", "mlx5_1", "0x9", "LID 0x9"),
    each("rdma.pfc", "rdma.pfc", "mlx5_1", "prio-pfc 3:off", "3:off"),
    each("rdma.priorities", "rdma.priorities", "mlx5_1", "", "nothing"),
    each("rdma.ecn", "rdma.ecn", "mlx5_1", "np 11111111 rp 00000000", "rp 00000000"),
    each("rdma.traffic_class", "rdma.traffic_class", "mlx5_1", "absent, 0", "absent, 0"),
    one(
        *("rdma.adaptive_routing", "rdma.acceleration", ("mlx5_1", "adaptive_routing_forced_en")),
        *(0, "off", "mlx5_1"),
    ),
    one("rdma.adaptive_routing", "rdma.acceleration", "mlx5_1", {}, "unknown: no mlxreg", "mlx5_1"),
    one(
        *("rdma.acceleration", "rdma.acceleration", ("mlx5_1", "roce_tx_window_en")),
        *(0, "roce_tx_window_en 0", "mlx5_1"),
    ),
    one(
        *("rdma.stack", "rdma.driver_on_disk", "version", "25.07-0.9.7"),
        *("but mlx5_core A1B2 is loaded", "", Status.PENDING_REBOOT),
    ),
    *(
        one(rule, "rdma.driver_on_disk", name, value, found)
        for rule, name, value, found in (
            ("rdma.stack", "folder", "updates/dkms", "DOCA-OFED's modules"),
            ("rdma.stack", "folder", "absent", "no mlx5_core"),
            ("rdma.driver_on_disk", "ofed", "OFED-internal-25.07-0.9.7", "OFED OFED-internal-25"),
        )
    ),
    one(
        *("rdma.settings", "rdma.settings", ("mlx5_1", "flow_steering_mode (runtime)"), "dmfs"),
        *("additional: flow_steering_mode (runtime)=dmfs; missing: flow_steering_mode", "mlx5_1"),
    ),
)
