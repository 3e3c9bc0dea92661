"""Readings of healthy machines except GPUs: firmware, CPUs, networks, services."""

from __future__ import annotations

from typing import Any

from lockstep.files import managed
from lockstep.node.readers import kernel, rdma, reading
from lockstep.node.readers.collectors import COLLECTORS
from lockstep.plan import NodePlan
from lockstep.plan.network import path_of
from lockstep.plan.signing import signing
from lockstep.spec import NodeRole

KERNEL = "6.12.48+deb13-amd64"
MODULE = "32 GiB: 4800 MT/s"
HCA = "MaxReadReq 4096, MaxPayload 512, RlxdOrd+"
NODE_EXPORTER = "/usr/bin/prometheus-node-exporter --web.listen-address=[{}]:9100"
DCGM_EXPORTER = "/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv -c 30000"


def machine(node: NodePlan, number: int) -> dict[str, Any]:
    """Return the readings of one machine; what may differ among equal ones does."""
    return {
        **_platform(number),
        **_kernel(node),
        **_signing(node),
        **_system(node, number),
        **_network(node, number),
        **_fabric(node, number),
    }


def _platform(number: int) -> dict[str, Any]:
    states = ("POLL", "C1", "C1E")
    return {
        "platform": {
            "sys_vendor": "Supermicro",
            "product_name": "SYS-821GE-TNHR",
            "board_name": "X13DEG-OAD",
            "bios_vendor": "American Megatrends International, LLC.",
            "bios_version": "2.1",
            "bios_date": "12/06/2023",
        },
        "platform.bmc_firmware": "1.3",
        "cpu.model": "INTEL(R) XEON(R) PLATINUM 8568Y+",
        "cpu.microcode": "0x21000230",
        "cpu.smt": "on",
        "cpu.mitigations": {"l1tf": "Not affected", "retbleed": "Mitigation: Enhanced IBRS"},
        "cpu.frequency": {
            "driver": "intel_pstate",
            "governor": "performance",
            "energy_preference": "performance",
            "lowest": "of the CPU",
            "highest": "of the CPU",
            "no_turbo": "0",
            "boost": "absent",
        },
        "cpu.idle_states": dict.fromkeys(states, "enabled"),
        "cpu.power_limits": {"package-0 long_term": 350.0, "package-1 long_term": 350.0},
        "numa.distance": {"node0": "10 21", "node1": "21 10"},
        "memory.modules": {f"P{socket}-DIMM{slot}": MODULE for socket in (1, 2) for slot in "AB"},
        "memory.uncorrected": {"mc0": 0, "mc1": 0},
        "memory.corrected": {"mc0": number, "mc1": 0},
        "memory.swap": [],
        "storage.nvme": {"nvme0": "SAMSUNG MZQL23T8, GDC5A02Q", "nvme1": "SOLIDIGM, 9CV10330"},
    }


def _signing(node: NodePlan) -> dict[str, Any]:
    """Secure Boot is on where the description has a key for modules."""
    key = signing(node)
    if key is None:
        return {
            "secure_boot": {"firmware": "off", "unsigned_modules": "loaded"},
            "secure_boot.certificates": {},
            "dkms.signatures": {},
        }
    certificate = key.certificate
    by = {"signer": certificate.signer, "key": certificate.serial, "hash": "sha256"}
    return {
        "secure_boot": {"firmware": "on", "unsigned_modules": "refused"},
        "secure_boot.certificates": {certificate.sha256: "enrolled", "0" * 64: "enrolled"},
        "dkms.signatures": {KERNEL: {"nvidia/1.0": {"nvidia": by, "nvidia-uvm": by}}},
    }


def _kernel(node: NodePlan) -> dict[str, Any]:
    lines = {
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/kernel/mm/ksm/run": "0",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    }
    loaded = {"mlx5_core": "A1B2", "mlx5_ib": "C3D4", "ib_core": "E5F6", "i10nm_edac": "loaded"}
    return {
        "kernel.release": KERNEL,
        "kernel.page_size": node.hardware.hardware.kernel.page_size or "4k",
        "kernel.newest": KERNEL,
        "kernel.state": {path: lines.get(path, reading.ABSENT) for path in kernel.STATE},
        "kernel.modules": {name: loaded.get(name, reading.ABSENT) for name in kernel.KNOWN_MODULES},
        "kernel.tainted": 1 << 12 | 1 << 0,
        "kernel.log": {},
        "sysctl.common": {**dict.fromkeys(kernel.COMMON_SYSCTLS, "1"), **node.system.sysctl},
    }


def _system(node: NodePlan, number: int) -> dict[str, Any]:
    collectors: dict[str, list[str]] = {name: [] for name in (*COLLECTORS, "nvidia-smi")}
    collectors["prometheus-node-exporter"] = [NODE_EXPORTER.format(node.address)]
    sums = {file.path: file.sha256 for file in managed(node, None, "selinux")}
    if node.role is NodeRole.WORKER:
        collectors |= {"nv-hostengine": ["nv-hostengine -n"], "dcgm-exporter": [DCGM_EXPORTER]}
    return {
        "os.machine_id": f"1d{number:030x}",
        "os.host_keys": {"ed25519": f"1d{number:062x}", "rsa": f"2d{number:062x}"},
        "os.resolver": {
            "nameserver": "fd00:1::53",
            "search": "cluster.example",
            "options": "",
            "hosts": "files dns",
        },
        "kubernetes.objects": {},
        "kubernetes.unavailable": {},
        "kubernetes.releases": {},
        "kubernetes.manifests": {},
        "firewall.rules": {kind: list(node.firewall.rules)} if (kind := node.firewall.kind) else {},
        "selinux.mode": {
            "running": node.selinux.mode or "disabled",
            "persisted": node.selinux.mode or reading.ABSENT,
            "policy": "targeted" if node.selinux.mode else reading.ABSENT,
        },
        "selinux.modules": {
            name: sums.get(node.selinux.loaded.get(name, ""), reading.ABSENT)
            for name in node.selinux.modules
        },
        "selinux.booleans": {
            name: {"running": "on", "persisted": "on"} for name in node.selinux.booleans
        },
        "selinux.labels": dict(node.selinux.labels),
        "units.failed": [],
        "units.enabled": sorted({*node.system.units, "fstrim.timer", "getty@tty1.service"}),
        "cron.jobs": {"/etc/cron.daily/dpkg": "9f2f"},
        "limits.open_files": {
            unit: {"soft": "131072", "hard": "131072"} for unit in sorted(node.system.job_parents)
        },
        "collectors": collectors,
        "services.cpu_share": {"munge.service": 0.1 * (number % 10), "slurmd.service": 90.0},
        "mounts.shared": {"/home": "nfs4 [fd00:1::5]:/home hard,nconnect=8,rw,vers=4.2"},
        "mounts.local": {"/": "rw", "/boot": "rw"},
        "mounts.fstab": {"/home": "mounted", "/boot": "mounted"},
        "storage.space": {"/": 30.0 + number % 10, "/boot": 20.0},
        "storage.inodes": {"/": 5.0, "/boot": 1.0},
    }


def _network(node: NodePlan, number: int) -> dict[str, Any]:
    names = ["eno1", *(f"fabric{i}" for i in range(node.hardware.hardware.nics.count))]
    each: dict[str, Any] = {
        "net.state": "UP",
        "net.mtu": 9000,
        "net.queue": "mq, 1000 packets",
        "net.speed": "400000 Mb/s full",
        "net.driver": "mlx5_core 28.39.1002 (MT_0000000838)",
        "net.rings": "rx 1024, tx 1024",
        "net.channels": "rx 0, tx 0, combined 63",
        "net.pause": "rx 0, tx 0",
        "net.offloads": "rx+ tx+ sg+ tso+ gso+ gro+",
        "net.errors": number,
        "net.carrier_changes": 2 + number,
    }
    planned = {one.name: one for one in node.interfaces}
    names += [name for name in planned if name not in names]
    mtus = {name: one.mtu for name, one in planned.items() if one.mtu}
    addresses = {name: [node.address] if name == "eno1" else [] for name in names}
    addresses |= {name: [*one.addresses] for name, one in planned.items()}
    board = f"a0:88:c2:{number >> 8:02x}:{number & 0xFF:02x}"
    return {
        **{reading: dict.fromkeys(names, value) for reading, value in each.items()},
        "net.mtu": {**dict.fromkeys(names, 9000), **mtus},
        "net.addresses": addresses,
        "net.persisted": {
            f"{one.manager} {name}": {
                "addresses": sorted(own.with_length for own in one.assigned),
                "mtu": one.mtu,
                "routers": sorted(one.routers),
                "files": [path_of(one)],
                "elsewhere": [],
            }
            for name, one in planned.items()
        },
        "net.default_route": {"ipv4": [], "ipv6": ["eno1"]},
        "net.gateway": {
            own.family: {name: [own.gateway]}
            for name, one in planned.items()
            for own in one.assigned
            if own.gateway and not one.is_rail
        },
        "net.mac": {name: f"{board}:{i:02x}" for i, name in enumerate(names)},
    }


def _fabric(node: NodePlan, number: int) -> dict[str, Any]:
    names = [f"mlx5_{index}" for index in range(node.hardware.hardware.nics.count)]
    registers = dict.fromkeys(rdma.ACCELERATIONS, 1)
    each: dict[str, Any] = {
        "rdma.errors": number,
        "rdma.link_downed": number % 2,
        "rdma.discards": 17,
        "rdma.ack_timeouts": 3 * number,
        "rdma.sequence_errors": 5,
        "rdma.pkeys": "0xffff",
        "rdma.sm_lid": "0x0",
        "rdma.pcie": "32 GT/s x16",
        "rdma.pcie_most": "32 GT/s x16",
        "rdma.pci_control": HCA,
        "rdma.pfc": "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off",
        "rdma.priorities": "dscp-prio AF31:3",
        "rdma.ecn": "np 11111111 rp 11111111",
        "rdma.traffic_class": "Global tclass=106, 106",
    }
    return {
        **{reading: dict.fromkeys(names, value) for reading, value in each.items()},
        "rdma.numa": {name: index % 2 for index, name in enumerate(names)},
        "rdma.nearest_gpus": {name: f"gpu{index}" for index, name in enumerate(names)},
        "rdma.driver_on_disk": {"folder": "kernel", "version": "A1B2", "ofed": "absent"},
        "rdma.settings": {name: {"flow_steering_mode (runtime)": "smfs"} for name in names},
        "rdma.acceleration": {name: dict(registers) for name in names},
    }
