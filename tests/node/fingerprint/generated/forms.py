"""Files that have an identity of their node, each with the source of its form."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import NamedTuple

from tests.node.fingerprint.generated.machines import Machine


class Form(NamedTuple):
    """A file as one node has it."""

    name: str
    path: Callable[[Machine], str]
    """Where it is; the path can have an identity, too. Empty: such a node has no such file."""
    text: Callable[[Machine], str]
    source: str
    mode: int = 0o644
    copied: bool = True
    """Whether another node's file in its place is a difference that must show."""


def at(path: str, *families: str) -> Callable[[Machine], str]:
    """Return a function for a file that the nodes of some distributions have; without one, all."""
    return lambda m: path if not families or m.kind.family in families else ""


def fstab(m: Machine) -> str:
    """The system's and the scratch disk, with the notes of Debian's installer."""
    device = m.disks[0]
    boot = device.parts[0]
    scratch = next(disk for disk in m.disks if disk.parts and disk.parts[0].mount == "/scratch")
    lines = [f"{m.root_source} / ext4 errors=remount-ro 0 1"]
    if m.kind.family != "rhel":
        tool = "curtin installation" if m.kind.family == "ubuntu" else "installation"
        lines.insert(0, f"# / was on /dev/{device.name}p2 during {tool}")
    lines.append(f"UUID={boot.uuid} /boot/efi vfat umask=0077 0 1")
    lines.append(f"/dev/disk/by-id/{scratch.identifier} /scratch xfs noatime,nofail 0 2")
    lines.append("filer:/home /home nfs4 noauto 0 0")
    return "\n".join(lines) + "\n"


def grub(m: Machine) -> str:
    """Menu entries, which name the disk by UUID."""
    return (
        f"search --no-floppy --fs-uuid --set=root {m.root_uuid}\n"
        f"linux /boot/vmlinuz-6.12.1 root={m.root_source} ro quiet\n"
    )


def hosts(m: Machine) -> str:
    """All nodes, and Debian's line for the own name."""
    lines = [
        "127.0.0.1 localhost",
        f"127.0.1.1 {m.name}.cluster.example {m.name}",
        "10.20.0.1 head",
    ]
    lines += [f"{a} {n}.cluster.example {n}" for a, n in zip(m.addresses, m.names, strict=True)]
    return "\n".join(lines) + "\n"


def keepalived(m: Machine) -> str:
    """A virtual router: the own address, and those of the others."""
    peers = "".join(f"        {m.addresses[n - 1]}\n" for n in m.others)
    return (
        f"vrrp_instance vip {{\n    unicast_src_ip {m.address}\n"
        f"    unicast_peer {{\n{peers}    }}\n"
        "    virtual_ipaddress {\n        10.20.0.100/24\n    }\n}\n"
    )


def etcd(m: Machine) -> str:
    """A member of a cluster."""
    members = ",".join(f"{n}=https://{a}:2380" for a, n in zip(m.addresses, m.names, strict=True))
    return (
        f'ETCD_NAME="{m.name}"\nETCD_LISTEN_PEER_URLS="https://{m.address}:2380"\n'
        f'ETCD_INITIAL_CLUSTER="{members}"\n'
    )


def cloud_network(m: Machine) -> str:
    """Ports by MAC address."""
    text = "network:\n  version: 2\n  ethernets:\n"
    for port in m.ports:
        text += (
            f"    {port.name}:\n      dhcp4: true\n      match:\n"
            f'        macaddress: "{port.mac}"\n      set-name: {port.name}\n'
        )
    return text


def persistent_net(m: Machine) -> str:
    """Names of ports by MAC address."""
    return "".join(
        'SUBSYSTEM=="net", ACTION=="add", DRIVERS=="?*", '
        f'ATTR{{address}}=="{port.mac}", NAME="{port.name}"\n'
        for port in m.ports
    )


def connection(m: Machine) -> str:
    """A connection of NetworkManager; MAC addresses are in capitals."""
    return (
        f"[connection]\nid=bond0\nuuid={m.connection}\ntype=bond\ninterface-name=bond0\n"
        f"timestamp={m.lid}\n[ethernet]\nmac-address={m.ports[0].mac.upper()}\n"
        f"[ipv4]\naddress1={m.address}/24,10.20.0.1\nmethod=manual\n"
    )


def port_connection(m: Machine) -> str:
    """A port of a bond, which names its controller by UUID."""
    return (
        f"[connection]\nid=port1\nuuid={m.slave_connection}\ntype=ethernet\n"
        f"master={m.connection}\nslave-type=bond\n"
        f"[ethernet]\nmac-address={m.ports[1].mac.upper()}\n"
    )


def ifcfg(m: Machine) -> str:
    """A port in the older form of RHEL, as Anaconda writes it."""
    return (
        f'TYPE=Ethernet\nDEVICE={m.ports[0].name}\nUUID="{m.connection}"\n'
        f"HWADDR={m.ports[0].mac.upper()}\nIPADDR={m.address}\nONBOOT=yes\n"
    )


def link(m: Machine) -> str:
    """A name for a port."""
    return f"[Match]\nPermanentMACAddress={m.ports[0].mac}\n[Link]\nName={m.ports[0].name}\n"


def mdadm(m: Machine) -> str:
    """The arrays, and the disks in them."""
    return f"MAILADDR root\nARRAY /dev/md/0 metadata=1.2 UUID={m.array_uuid} name={m.name}:0\n"


def smartd(m: Machine) -> str:
    """Each disk by identifier, in the order of their serial numbers."""
    names = sorted(disk.identifier for disk in m.disks)
    return "".join(f"/dev/disk/by-id/{name} -a -d nvme\n" for name in names)


def crypttab(m: Machine) -> str:
    """An encrypted volume, named after its UUID."""
    return f"luks-{m.crypt} UUID={m.crypt} none luks,discard\n"


def dracut(m: Machine) -> str:
    """The kernel's command line on RHEL with LVM."""
    source = f"root={m.root_device}" if m.kind.layout == "lvm" else f"root=UUID={m.root_uuid}"
    group = f"rhel_{m.name}"
    lvm = f" rd.lvm.lv={group}/root" if m.kind.layout == "lvm" else ""
    crypt = f" rd.luks.uuid=luks-{m.crypt}" if m.kind.layout == "luks" else ""
    array = f" rd.md.uuid={m.array_uuid}" if m.kind.layout == "raid" else ""
    return f"title Rocky Linux\nversion 5.14.0\noptions {source} ro{lvm}{crypt}{array}\n"


def instance(m: Machine) -> str:
    """What an installer leaves for cloud-init."""
    return (
        "datasource:\n  None:\n    metadata:\n"
        f"      instance-id: {m.instance}\n      local-hostname: {m.name}\n"
    )


def opensm(m: Machine) -> str:
    """The port of the subnet manager."""
    return f"guid 0x{m.guid}\nmax_op_vls 5\n"


def xorg(m: Machine) -> str:
    """A GPU by its PCI address in decimal numbers."""
    return f'Section "Device"\n    Driver "nvidia"\n    BusID "PCI:{m.first_bus}:0:0"\nEndSection\n'


def monitoring(m: Machine) -> str:
    """GPUs by UUID and by PCI address, as nvidia-smi prints them, and the board's serial number."""
    return "".join(
        f"gpu {gpu} bus 00000000:{m.first_bus + n:02X}:00.0 chassis {m.serial}\n"
        for n, gpu in enumerate(m.gpus)
    )


def scratch_unit(m: Machine) -> str:
    """A unit that waits for a disk by its link."""
    scratch = next(disk for disk in m.disks if disk.parts and disk.parts[0].mount == "/scratch")
    device = rf"dev-disk-by\x2did-{scratch.identifier.replace('-', chr(92) + 'x2d')}.device"
    return f"[Unit]\nRequires={device}\nAfter={device}\n[Service]\nExecStart=/bin/true\n"


def nodes(m: Machine) -> str:
    """All nodes in one line: the same everywhere."""
    return f"NodeName={m.names[0]},{m.names[1]},{m.names[2]} CPUs=8\n"


def certificate(m: Machine) -> str:
    """A certificate of the node: its subject's name, and a key."""
    name = f"{m.name}.cluster.example".encode()
    binary = bytes.fromhex(m.digest("a")) + b"\x06\x03\x55\x04\x03\x0c" + bytes([len(name)]) + name
    text = base64.b64encode(binary + bytes.fromhex(m.digest("b"))).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


def private_key(m: Machine) -> str:
    """The key of the certificate."""
    text = base64.b64encode(bytes.fromhex(m.digest("key"))).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"


NETWORK = "/etc/sysconfig/network-scripts"
NM = "/etc/NetworkManager/system-connections"
FORMS = (
    Form("fstab", at("/etc/fstab"), fstab, "fstab(5); partman-target and curtin write the notes"),
    Form("grub", at("/boot/grub/grub.cfg", "debian", "ubuntu"), grub, "grub-mkconfig(8)"),
    Form("loader entry", lambda m: f"/boot/loader/entries/{m.machine_id}-5.14.0.conf"
         if m.kind.family == "rhel" else "", dracut,
         "Boot Loader Specification; dracut.cmdline(7)"),
    Form("hosts", at("/etc/hosts"), hosts, "hosts(5); Debian Reference 5.1.1"),
    Form("hostname", at("/etc/hostname"), lambda m: f"{m.name}\n", "hostname(5)"),
    Form("mailname", at("/etc/mailname", "debian", "ubuntu"),
         lambda m: f"{m.name}.cluster.example\n", "mailname(5)"),
    Form("postfix", at("/etc/postfix/main.cf"),
         lambda m: f"myhostname = {m.name}.cluster.example\nmydestination = {m.name}, localhost\n",
         "postconf(5)"),
    Form("keepalived", at("/etc/keepalived/keepalived.conf"), keepalived, "keepalived.conf(5)"),
    Form("etcd", at("/etc/default/etcd"), etcd, "etcd.io, Clustering Guide"),
    Form("machine ID", at("/etc/machine-id"), lambda m: f"{m.machine_id}\n", "machine-id(5)",
         copied=False),
    Form("host key", at("/etc/ssh/ssh_host_ed25519_key"),
         lambda m: f"-----BEGIN OPENSSH PRIVATE KEY-----\n{m.key}\n", "sshd(8)", 0o600, False),
    Form("public host key", at("/etc/ssh/ssh_host_ed25519_key.pub"),
         lambda m: f"ssh-ed25519 AAAAC3Nza{m.key[:59]} root@{m.name}\n", "sshd(8)", copied=False),
    Form("NVMe qualified name", at("/etc/nvme/hostnqn"),
         lambda m: f"nqn.2014-08.org.nvmexpress:uuid:{m.host_nqn_id}\n", "nvme-gen-hostnqn(1)",
         copied=False),
    Form("NVMe host", at("/etc/nvme/hostid"), lambda m: f"{m.host_nqn_id}\n",
         "nvme-connect(1), --hostid", copied=False),
    Form("iSCSI initiator", at("/etc/iscsi/initiatorname.iscsi"),
         lambda m: f"InitiatorName=iqn.1993-08.org.debian:01:{m.iqn}\n", "iscsi-iname(8)", 0o600,
         False),
    Form("DHCP identity", at("/etc/dhcpcd.duid"),
         lambda m: f"00:01:00:01:{m.digest('duid')[:8]}:{m.ports[0].mac}\n", "dhcpcd(8), RFC 8415",
         copied=False),
    Form("netplan", at("/etc/netplan/50-cloud-init.yaml", "ubuntu"), cloud_network, "netplan(5)",
         0o600),
    Form("udev rules", at("/etc/udev/rules.d/70-persistent-net.rules"), persistent_net,
         "udev(7); write_net_rules of udev before 220"),
    Form("connection", at(f"{NM}/bond0.nmconnection", "rhel"), connection,
         "nm-settings-keyfile(5)", 0o600),
    Form("connection of a port", at(f"{NM}/port1.nmconnection", "rhel"), port_connection,
         "nm-settings-keyfile(5)", 0o600),
    Form("ifcfg", at(f"{NETWORK}/ifcfg-main", "rhel"), ifcfg, "nm-settings-ifcfg-rh(5)"),
    Form("link file", at("/etc/systemd/network/10-main.link"), link, "systemd.link(5)"),
    Form("mdadm", lambda m: "/etc/mdadm/mdadm.conf" if m.kind.layout == "raid" else "", mdadm,
         "mdadm.conf(5)"),
    Form("smartd", at("/etc/smartd.conf"), smartd, "smartd.conf(5); persistent-storage.rules"),
    Form("crypttab", lambda m: "/etc/crypttab" if m.kind.layout == "luks" else "", crypttab,
         "crypttab(5)"),
    Form("LVM backup", lambda m: "/etc/lvm/backup/vg0" if m.kind.layout == "lvm" else "",
         lambda m: f'id = "{m.volume}"\n', "vgcfgbackup(8)", 0o600, False),
    Form("LVM devices", lambda m: "/etc/lvm/devices/system.devices"
         if m.kind.layout == "lvm" else "",
         lambda m: f"IDTYPE=sys_wwid IDNAME=eui.{m.disks[0].eui} PVID={m.volume}\n",
         "lvmdevices(8)", 0o600, False),
    Form("instance", at("/etc/cloud/cloud.cfg.d/99-installer.cfg", "ubuntu"), instance,
         "cloud-init, Instance metadata; subiquity", 0o600),
    Form("certificate", at("/etc/ssl/certs/node.pem"), certificate, "RFC 7468; RFC 5280 4.1.2.6"),
    Form("key of the certificate", at("/etc/ssl/private/node.key"), private_key, "RFC 7468",
         0o600, False),
    Form("subnet manager", at("/etc/opensm/opensm.conf"), opensm, "opensm(8)"),
    Form("Xorg", at("/etc/X11/xorg.conf.d/10-gpu.conf"), xorg, "xorg.conf(5), BusID"),
    Form("driver override", lambda m: f"/etc/driverctl.d/0000:{m.first_bus:02x}:00.0",
         lambda m: "vfio-pci\n", "driverctl(8)"),
    Form("monitoring", at("/etc/monitoring/gpus"), monitoring, "nvidia-smi(1), dmidecode(8)"),
    Form("unit", at("/etc/systemd/system/wait-scratch.service"), scratch_unit,
         "systemd.unit(5), escaped paths"),
    Form("slurmd", at("/etc/default/slurmd"), lambda m: f'SLURMD_OPTIONS="-N {m.name}"\n',
         "slurmd(8)"),
    Form("nodes of Slurm", at("/etc/slurm/nodes.conf"), nodes, "slurm.conf(5)", copied=False),
    Form("passwd", at("/etc/passwd"), lambda m: "root:x:0:0::/root:/bin/sh\n" + "".join(
         f"{name}:x:{uid}:{uid}::/:/usr/sbin/nologin\n"
         for name, uid in zip(("munge", "slurm", "chrony", "dhcp"), m.uids, strict=True)),
         "passwd(5): adduser(8) gives system users the first free number", copied=False),
    Form("group", at("/etc/group"), lambda m: "root:x:0:\n" + "".join(
         f"{name}:x:{uid}:\n"
         for name, uid in zip(("munge", "slurm", "chrony", "dhcp"), m.uids, strict=True)),
         "group(5)", copied=False),
    Form("boot state", at("/boot/grub/grubenv"), lambda m: f"# {m.digest('env')}\n",
         "grub-editenv(1)", copied=False),
    Form("clock", at("/etc/adjtime"), lambda m: f"0.0 {m.lid} 0.0\n", "hwclock(8)", copied=False),
    Form("host ID", at("/etc/hostid"), lambda m: "", "gethostid(3), zgenhostid(8)", copied=False),
)  # fmt: skip
