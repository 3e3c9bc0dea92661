"""What the kernel of a machine shows below /proc, /sys and /dev, and what ip(8) prints of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.node.fingerprint.generated.machines import Disk, Machine, Part, Port

NET = "/sys/class/net"
Row = dict[str, Any]
FOREVER = 4294967295
PIDS = 4194304
"""PID_MAX_LIMIT, to which systemd sets kernel.pid_max."""


def files(m: Machine, draw: Random) -> Iterator[tuple[str, str]]:
    """Yield the path and content of each file."""
    yield from _boot(m)
    yield from _computed(m, draw)
    yield from _disks(m)
    yield from _ports(m)
    yield from _devices(m)


def _boot(m: Machine) -> Iterator[tuple[str, str]]:
    yield "/proc/sys/kernel/random/boot_id", f"{m.boot_id}\n"
    for name, value in (
        ("product_serial", m.serial), ("product_uuid", m.product_uuid),
        ("chassis_serial", f"C{m.serial}"), ("board_serial", f"B{m.serial}"),
        ("product_name", "SYS-821GE-TNHR"), ("bios_version", "2.1"),
    ):  # fmt: skip
        yield f"/sys/class/dmi/id/{name}", f"{value}\n"
    # GRUB's name of the disk follows from the firmware's order.
    image = f"BOOT_IMAGE=(hd{m.number % 2},gpt2)/vmlinuz" if m.kind.family == "rhel" else (
        "BOOT_IMAGE=/boot/vmlinuz")  # fmt: skip
    root = m.root_device if m.kind.layout == "lvm" else m.root_source
    yield "/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\n\n"
    yield "/proc/cmdline", f"{image}-6.12.1 root={root} ro quiet\n"
    yield "/proc/sys/kernel/hostname", f"{m.name}\n"
    yield "/proc/meminfo", f"MemTotal:       {m.memory_kb} kB\n"
    yield "/proc/self/mounts", f"{m.root_device} / ext4 rw 0 0\n"
    yield "/var/lib/cloud/data/instance-id", f"{m.instance}\n"
    for n, gpu in enumerate(m.gpus):
        folder = f"/proc/driver/nvidia/gpus/0000:{m.first_bus + n:02x}:00.0"
        yield f"{folder}/information", f"Model: NVIDIA H200\nGPU UUID: {gpu}\nBus Type: PCIe\n"


def _computed(m: Machine, draw: Random) -> Iterator[tuple[str, str]]:
    """What the kernel computes from the memory: fork_init(), files_maxfiles_init(),
    inotify_user_setup(), fanotify_user_setup(), eventpoll_init(), tcp_init_mem(), udp_init(),
    init_per_zone_wmark_min(). It counts the pages that are free at that time."""
    free = m.memory_kb - 4 * draw.randrange(2000)
    threads = free // 128
    # systemd takes 15 percent of the lower limit (system_tasks_max()).
    m.tasks = min(threads, PIDS) * 15 // 100
    limit = int(free / 4 / 16)
    udp = limit * 2
    values = {
        "kernel/threads-max": threads,
        "kernel/pid_max": PIDS,
        "user/max_user_namespaces": threads // 2,
        "user/max_net_namespaces": threads // 2,
        "fs/file-max": free // 10,
        "fs/inotify/max_user_watches": min(free // 128, 1048576) if free < 1 << 27 else 1048576,
        "vm/min_free_kbytes": int((16 * free) ** 0.5),
        "net/ipv4/tcp_mem": f"{limit // 4 * 3} {limit} {limit // 4 * 6}",
        "net/ipv4/udp_mem": f"{udp // 4 * 3} {udp} {udp // 4 * 6}",
        "net/ipv4/tcp_available_congestion_control": " ".join(m.order),
        "kernel/ns_last_pid": draw.randrange(1 << 22),
        "fs/file-nr": f"{draw.randrange(99999)} 0 {free // 10}",
        "kernel/spl/hostid": f"{m.host_id:x}",
        "net/ipv4/ip_local_port_range": "32768 60999",
        "vm/swappiness": 60,
        "kernel/random/entropy_avail": 256,
    }
    yield from ((f"/proc/sys/{path}", f"{value}\n") for path, value in values.items())
    yield "/etc/hostid", ""  # written in bytes by the cluster
    for port in m.ports:
        yield f"/proc/sys/net/ipv6/conf/{port.name}/stable_secret", f"2001:db8::{m.lid:x}\n"
        yield f"/proc/sys/net/ipv6/conf/{port.name}/accept_ra", "1\n"
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        f"Max processes             {threads // 2:<21}{threads // 2:<21}processes\n"
        "Max open files            1024                 524288               files\n"
        f"Max pending signals       {threads // 2:<21}{threads // 2:<21}signals\n"
    )
    status = "State:\tS\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\nUmask:\t0022\n" + (
        "CapBnd:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n")  # fmt: skip
    yield "/sys/fs/cgroup/init.scope/cgroup.procs", "1\n"
    yield "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs", "300\n"
    yield "/sys/fs/cgroup/system.slice/slurmd.service/pids.max", f"{m.tasks}\n"
    for number, parent, line in ((1, 0, "/sbin/init"), (300, 1, f"slurmd\0-N\0{m.name}")):
        rest = ["0"] * 50
        rest[0], rest[1], rest[19] = "S", str(parent), str(10**12)
        yield f"/proc/{number}/stat", f"{number} (x) {' '.join(rest)}\n"
        yield f"/proc/{number}/limits", limits
        yield f"/proc/{number}/status", status
        yield f"/proc/{number}/cmdline", f"{line}\0"
        yield f"/proc/{number}/environ", f"LANG=C\0INVOCATION_ID={m.boot_id}\0HOST={m.name}\0"
        yield f"/proc/{number}/oom_score_adj", "0\n"
        yield f"/proc/{number}/coredump_filter", "00000033\n"


def _disks(m: Machine) -> Iterator[tuple[str, str]]:
    rows = []
    for disk in m.disks:
        folder = f"/sys/block/{disk.name}"
        yield f"{folder}/device/model", f"{disk.model}\n"
        yield f"{folder}/device/firmware_rev", "GDC5602Q\n"
        yield f"{folder}/size", "15002931888\n"
        yield f"{folder}/queue/scheduler", "[none] mq-deadline\n"
        rows += [
            (part.mount, part.kind, f"/dev/{_device(disk, part)}")
            for part in disk.parts
            if part.mount and not (part.mount == "/" and m.kind.layout != "plain")
        ]
    if m.kind.layout != "plain":
        rows.append(("/", "ext4", m.root_device))
    system = [f"{disk.name}p2" for disk in m.disks if len(disk.parts) == 2]
    holder = {"raid": "md127", "lvm": "dm-0", "luks": "dm-0"}.get(m.kind.layout)
    if holder:
        yield f"/sys/block/{holder}/size", "15002000000\n"
        for name in system:
            yield f"/sys/block/{holder}/slaves/{name}", ""
        if holder == "dm-0":
            yield f"/sys/block/{holder}/dm/name", f"{m.root_device.rpartition('/')[2]}\n"
        else:
            yield f"/sys/block/{holder}/md/level", "raid1\n"
    yield (
        "/proc/self/mountinfo",
        "".join(
            f"{20 + n} 1 259:{n} / {place} rw,{'noatime' if place == '/scratch' else 'relatime'} "
            f"shared:{n} - {kind} {device} rw\n"
            for n, (place, kind, device) in enumerate(sorted(rows))
        ),
    )
    yield "/proc/swaps", "Filename Type Size Used Priority\n"


def _device(disk: Disk, part: Part) -> str:
    return f"{disk.name}p{part.number}" if part.number else disk.name


def links(m: Machine) -> Iterator[tuple[str, str]]:
    """Yield the links of udev(7) and the kernel: path, and what it leads to."""
    holder = {"raid": "md127", "lvm": "dm-0", "luks": "dm-0"}.get(m.kind.layout, "")
    for disk in m.disks:
        by_path = f"pci-0000:{disk.slot}:00.0-nvme-1"
        names = {
            "id": (disk.identifier, f"{disk.identifier}_1", f"nvme-eui.{disk.eui}"),
            "path": (by_path,),
        }
        for kind, every in names.items():
            for name in every:
                yield f"/dev/disk/by-{kind}/{name}", f"../../{disk.name}"
                for part in disk.parts:
                    if part.number:
                        target = f"../../{_device(disk, part)}"
                        yield f"/dev/disk/by-{kind}/{name}-part{part.number}", target
        for part in disk.parts:
            device = _device(disk, part)
            is_root = part.number == 2
            if not is_root or not holder:
                yield f"/dev/disk/by-uuid/{part.uuid}", f"../../{device}"
            if part.number:
                yield f"/dev/disk/by-partuuid/{part.partuuid}", f"../../{device}"
    if holder:
        yield f"/dev/disk/by-uuid/{m.root_uuid}", f"../../{holder}"
        yield m.root_device, f"{'' if holder == 'md127' else '../'}{holder}"
    first = f"../../{m.disks[0].name}p2"
    if m.kind.layout == "raid":
        yield f"/dev/disk/by-id/md-uuid-{m.array_uuid}", "../../md127"
        yield f"/dev/disk/by-id/md-name-{m.name}:0", "../../md127"
    if m.kind.layout == "lvm":
        yield f"/dev/disk/by-id/lvm-pv-uuid-{m.volume}", first
        plain = m.volume.replace("-", "")
        yield f"/dev/disk/by-id/dm-uuid-LVM-{plain}", "../../dm-0"
    if m.kind.layout == "luks":
        yield f"/dev/disk/by-uuid/{m.crypt}", first
        plain = m.crypt.replace("-", "")
        yield f"/dev/disk/by-id/dm-uuid-CRYPT-LUKS2-{plain}-luks-{m.crypt}", "../../dm-0"


def _ports(m: Machine) -> Iterator[tuple[str, str]]:
    bonded = m.kind.network == "bond"
    for number, port in enumerate(m.ports):
        mac = m.bond_mac if bonded else port.mac
        yield f"{NET}/{port.name}/ifindex", f"{2 + number}\n"
        yield f"{NET}/{port.name}/iflink", f"{2 + number}\n"
        yield f"{NET}/{port.name}/address", f"{mac}\n"
        yield f"{NET}/{port.name}/addr_assign_type", "0\n"
    if bonded:
        yield f"{NET}/bond0/address", f"{m.bond_mac}\n"
        yield (
            "/proc/net/bonding/bond0",
            "Ethernet Channel Bonding Driver: v6.12\n"
            + "".join(
                f"\nSlave Interface: {port.name}\nMII Status: up\nPermanent HW addr: {port.mac}\n"
                for port in m.ports
            ),
        )
    if m.kind.pods == "flannel":
        yield f"{NET}/flannel.1/address", f"{m.tunnel}\n"
    if m.kind.pods == "calico":
        yield "/var/lib/calico/nodename", f"{m.name}\n"
        # The index of the peer in the pod's namespace is also one of an interface of the node.
        yield f"{NET}/{m.pod}/iflink", "3\n"
        yield f"{NET}/{m.pod}/ifindex", f"{70 + m.number}\n"
    yield f"{NET}/ibp65s0/address", f"00:00:10:49:fe:80:00:00:00:00:00:00:{_pairs(m.guid)}\n"
    device = "/sys/class/infiniband/mlx5_0"
    words = ":".join(m.guid[n : n + 4] for n in range(0, 16, 4))
    yield f"{device}/node_guid", f"{words}\n"
    yield f"{device}/sys_image_guid", f"{words}\n"
    yield f"{device}/ports/1/gids/0", f"fe80:0000:0000:0000:{words}\n"
    yield f"{device}/ports/1/lid", f"0x{m.lid:x}\n"
    yield (
        "/proc/net/if_inet6",
        "".join(
            f"{_packed(m.slaac(port, network))} 02 40 {scope} {flags} {port.name}\n"
            for port in m.ports
            for network, scope, flags in (("fe80::", "20", "80"), (RA, "00", "00"))
        ),
    )


RA = "2001:db8:20:30:"
"""A network that a router announces (RFC 4862), in the documentation's prefix."""


def _packed(address: str) -> str:
    head, gap, tail = address.partition("::")
    before = [part for part in head.split(":") if part]
    after = [part for part in tail.split(":") if part] if gap else []
    middle = ["0"] * (8 - len(before) - len(after))
    return "".join(f"{int(part, 16):04x}" for part in (*before, *middle, *after))


def _pairs(guid: str) -> str:
    return ":".join(guid[n : n + 2] for n in range(0, 16, 2))


def _devices(m: Machine) -> Iterator[tuple[str, str]]:
    def device(bus: int, vendor: str, number: str, kind: str) -> Iterator[tuple[str, str]]:
        folder = f"/sys/bus/pci/devices/0000:{bus:02x}:00.0"
        text = f"PCI_CLASS={kind}\nPCI_ID={vendor}:{number}\nPCI_SLOT_NAME=0000:{bus:02x}:00.0\n"
        yield f"{folder}/uevent", text
        yield f"{folder}/class", f"0x{kind.lower().zfill(6)}\n"
        yield f"{folder}/vendor", f"0x{vendor.lower()}\n"
        yield f"{folder}/device", f"0x{number.lower()}\n"

    for n, _ in enumerate(m.gpus):
        yield from device(m.first_bus + n, "10DE", "2335", "30200")
    for disk in m.disks:
        yield from device(int(disk.slot, 16), "144D", "A80A", "10802")


def ip(m: Machine) -> tuple[list[list[Row]], list[list[Row]]]:
    """Return what ip(8) prints with -json, of all families and of IPv6."""
    bonded = m.kind.network == "bond"
    rows = [_link(m, n, port, bonded) for n, port in enumerate(m.ports)]
    if bonded:
        rows.append({"ifindex": 9, "ifname": "bond0", "flags": ["UP", "LOWER_UP"], "mtu": 1500,
                     "address": m.bond_mac, "addr_info": []})  # fmt: skip
    routes: list[Row] = [
        {"type": "unicast", "dst": "default", "gateway": "10.20.0.1", "dev": m.ports[0].name,
         "table": "main", "protocol": "static", "flags": []},
        {"type": "unicast", "dst": "10.30.0.0/16", "dev": m.ports[1].name, "table": "main",
         "protocol": "kernel", "scope": "link", "prefsrc": m.ports[1].leased, "flags": []},
        {"type": "unicast", "dst": f"{RA}:/64", "dev": m.ports[0].name, "table": "main",
         "protocol": "ra", "metric": 100, "flags": [], "expires": 2591000 + m.lid,
         "pref": "medium"},
    ]  # fmt: skip
    neighbours: list[Row] = []
    rows += _pods(m, routes, neighbours)
    rules = [{"priority": 32766, "src": "all", "table": "main"}]
    return [rows, routes, neighbours, rules], [rules]


def _link(m: Machine, number: int, port: Port, bonded: bool) -> Row:
    ipv4 = {"family": "inet", "local": port.address, "prefixlen": 24, "scope": "global",
            "valid_life_time": FOREVER, "preferred_life_time": FOREVER}  # fmt: skip
    if port.leased:
        ipv4 = {**ipv4, "local": port.leased, "prefixlen": 16, "dynamic": True,
                "valid_life_time": 3000 + m.lid, "preferred_life_time": 3000}  # fmt: skip
    made = {"family": "inet6", "prefixlen": 64, "scope": "global", "dynamic": True,
            "mngtmpaddr": True, "valid_life_time": 2591000 + m.lid}  # fmt: skip
    return {
        "ifindex": 2 + number,
        "ifname": port.name,
        "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": 9000,
        "address": m.bond_mac if bonded else port.mac,
        **({"permaddr": port.mac} if bonded and port.mac != m.bond_mac else {}),
        "addr_info": [
            ipv4,
            {"family": "inet6", "local": m.slaac(port), "prefixlen": 64, "scope": "link",
             "protocol": "kernel_ll"},
            {**made, "local": m.slaac(port, RA)},
            {**made, "local": m.temporary, "temporary": True},
        ],
    }  # fmt: skip


def _pods(m: Machine, routes: list[Row], neighbours: list[Row]) -> list[Row]:
    """Add what Flannel ("Backends", VXLAN) or Calico ("IP in IP") make, as shown in public."""

    def device(number: int, name: str, **more: Any) -> Row:
        return {"ifindex": number, "ifname": name, "flags": ["UP"], "addr_info": [], **more}

    def address(local: str) -> list[Row]:
        return [{"family": "inet", "local": local, "prefixlen": 32, "scope": "global"}]

    def route(dst: str, protocol: str, kind: str = "unicast", **more: Any) -> Row:
        return {
            "type": kind, "dst": dst, "table": "main", "protocol": protocol, "flags": [], **more
        }  # fmt: skip

    if m.kind.pods == "flannel":
        data = {"id": 1, "local": m.address, "port": 8472}
        for n in m.others:
            dst = f"10.244.{n}.0"
            routes.append(route(f"{dst}/24", "boot", dev="flannel.1", gateway=dst))
            mac = f"ca:00:00:00:00:{n:02x}"
            neighbours.append(
                {"dst": dst, "dev": "flannel.1", "lladdr": mac, "state": ["PERMANENT"]}
            )
        linked = {"info_kind": "vxlan", "info_data": data}
        local = address(f"{m.pod_network}.0")
        return [device(60, "flannel.1", address=m.tunnel, linkinfo=linked, addr_info=local)]
    if m.kind.pods == "calico":
        routes.append(route(f"{m.pod_network}.64/26", "bird", "blackhole"))
        routes.append(route(f"{m.pod_network}.71", "boot", dev=m.pod, scope="link"))
        routes.extend(
            route(f"10.244.{n}.128/26", "bird", dev="tunl0", gateway=m.addresses[n - 1])
            for n in m.others
        )
        pod = device(70 + m.number, m.pod, address="ee:ee:ee:ee:ee:ee", link_index=3)
        return [pod, device(61, "tunl0", addr_info=address(f"{m.pod_network}.64"))]
    return []


def fdb(m: Machine) -> str:
    """Return what ``bridge fdb show`` prints: Flannel's entries lead to the other nodes."""
    if m.kind.pods != "flannel":
        return "[]"
    return json.dumps([
        {"mac": f"ca:00:00:00:00:{n:02x}", "ifname": "flannel.1", "dst": m.addresses[n - 1],
         "flags": ["self"], "state": "permanent"}
        for n in m.others
    ])  # fmt: skip


def firewall(m: Machine, draw: Random) -> str:
    """Return what iptables-save(8) prints: kube-proxy's chains, in no order, and a site's."""
    services = [
        f"-A KUBE-SERVICES -d 10.96.0.{n}/32 -p tcp -j KUBE-SVC-{n:016d}" for n in (1, 10, 23)
    ]
    own = f"-A KUBE-SEP-{m.digest('sep')[:16].upper()} -s {m.pod_network}.5/32 -j KUBE-MARK-MASQ"
    lines = [
        *(":PREROUTING ACCEPT [1:2]", ":KUBE-SERVICES - [0:0]"),
        f":{own.split()[1]} - [0:0]",
        "-A PREROUTING -j KUBE-SERVICES",
        *draw.sample(services, 3),
        "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        own,
    ]
    allow = f"*filter\n:INPUT DROP [0:0]\n-A INPUT -d {m.address}/32 -p tcp --dport 22 -j ACCEPT\n"
    nat = "*nat\n" + "\n".join(lines) + "\n" if m.kind.pods != "none" else ""
    return f"{nat}{allow}"
