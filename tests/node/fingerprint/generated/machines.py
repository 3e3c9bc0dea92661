"""The identities of one machine, drawn at random in the forms in which real ones have them."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field
from random import Random

OUI = ("3c:fd:fe", "e8:eb:d3", "b8:3f:d2", "00:25:90")
"""Intel, NVIDIA (Mellanox) twice, and Supermicro in the IEEE's registry of OUIs."""
MODELS = {
    "SAMSUNG MZQL27T6HBLA-00A07": "S6CKNT0W{:06d}",
    "SAMSUNG MZ1LB960HAJQ-00007": "S435NA0M{:06d}",
    "KIOXIA KCD81RUG7T68": "Y3S0A0{:02d}TNK8",
    "Micron_7450_MTFDKCC7T6TFR": "23513D{:06X}",
}
"""Model as in /sys/block/*/device/model, and the form of its serial number, as recorded in public
lists of /dev/disk/by-id."""
NO_OUI_36 = "36434b3052"


@dataclass
class Part:
    """A partition, or a whole disk without one (number 0)."""

    number: int
    mount: str
    kind: str
    uuid: str
    partuuid: str


@dataclass
class Disk:
    """An NVMe disk: nvme(4); the links are those of 60-persistent-storage.rules of systemd."""

    name: str
    model: str
    serial: str
    eui: str
    slot: str
    parts: list[Part] = field(default_factory=list)

    @property
    def identifier(self) -> str:
        """Name of the link below /dev/disk/by-id."""
        return f"nvme-{self.model.replace(' ', '_')}_{self.serial}"


@dataclass
class Port:
    """A port of a network card."""

    name: str
    mac: str
    address: str = ""
    leased: str = ""


@dataclass(frozen=True)
class Kind:
    """What the nodes of a cluster have in common."""

    prefix: str
    layout: str
    """How the system's disk is used: plain, raid, lvm, luks."""
    network: str
    """plain or bond."""
    pods: str
    """none, flannel or calico."""
    model: str
    root_by: str
    """UUID, PARTUUID or by-id."""
    memory_gib: int
    family: str
    """debian, ubuntu or rhel."""
    spare: int
    """Number of disks without mount."""


def kind(draw: Random) -> Kind:
    """Draw a kind of nodes."""
    return Kind(
        prefix=draw.choice(("gpu", "worker", "dgx-", "n")),
        layout=draw.choice(("plain", "raid", "lvm", "luks")),
        network=draw.choice(("plain", "bond")),
        pods=draw.choice(("none", "flannel", "calico")),
        model=draw.choice(tuple(MODELS)),
        root_by=draw.choice(("UUID", "PARTUUID", "by-id")),
        memory_gib=draw.choice((64, 256, 512, 1024, 2048)),
        family=draw.choice(("debian", "ubuntu", "rhel")),
        spare=draw.choice((0, 2, 8)),
    )


class Machine:
    """One node: all that identifies it."""

    def __init__(self, draw: Random, kind: Kind, number: int, of: int) -> None:
        """Draw the identities of one of several nodes."""
        self.kind, self.number = kind, number
        self.names = [f"{kind.prefix}{n}" for n in range(1, of + 1)]
        self.addresses = [f"10.20.0.{10 + n}" for n in range(1, of + 1)]
        self.name, self.address = self.names[number - 1], self.addresses[number - 1]
        self.others = [n for n in range(1, of + 1) if n != number]
        self.machine_id = draw.randbytes(16).hex()
        self.boot_id = self._uuid(draw)
        self.instance = self._uuid(draw)
        self.serial = f"S{draw.randrange(10**13, 10**14)}"
        self.product_uuid = self._uuid(draw)
        self.host_nqn_id = self._uuid(draw)
        self.host_id = draw.randrange(1 << 28, 1 << 32)
        self.connection = self._uuid(draw)
        self.slave_connection = self._uuid(draw)
        self.array, self.crypt = self._uuid(draw), self._uuid(draw)
        self.volume = "-".join(
            "".join(draw.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQR0123456789", k=size))
            for size in (6, 4, 4, 4, 4, 4, 6)
        )
        self.guid = draw.choice(OUI[1:3]).replace(":", "") + "0300" + draw.randbytes(3).hex()
        self.lid = draw.randrange(1, 0xBFFF)
        self.gpus = [f"GPU-{self._uuid(draw)}" for _ in range(2)]
        self.key = draw.randbytes(48).hex()
        self.iqn = draw.randbytes(6).hex()
        # Equal machines have sizes that differ by what the firmware keeps for itself.
        self.memory_kb = int(kind.memory_gib * (1 << 20) * 0.985) - 4 * draw.randrange(0, 2000)
        self.first_bus = draw.choice((0x16, 0x17, 0x41))
        self.ports = [self._port(draw, n) for n in range(2)]
        self.ports[0].address = self.address
        self.ports[1].leased = f"10.30.{draw.randrange(256)}.{draw.randrange(1, 255)}"
        self.disks = self._disks(draw)
        self.temporary = f"2001:db8:20::{draw.randrange(1 << 16):x}:{draw.randrange(1, 1 << 16):x}"
        self.boot_number = draw.randrange(16)
        self.pod_network = f"10.244.{number - 1 if draw.random() < 0.5 else 100 + number}"
        self.order = draw.sample(("cubic", "reno", "bbr", "dctcp"), 4)
        self.pod = f"cali{draw.randbytes(6).hex()[:11]}"
        self.tunnel = f"ca:{draw.randbytes(5).hex(':')}"
        self.tasks = 0
        """systemd's limit of tasks of a service; set with what the kernel computes."""
        self.uids = draw.sample(range(100, 130), 4)

    @staticmethod
    def _uuid(draw: Random) -> str:
        return str(uuid.UUID(bytes=draw.randbytes(16), version=4))

    def _port(self, draw: Random, number: int) -> Port:
        mac = f"{draw.choice(OUI)}:{draw.randbytes(3).hex(':')}"
        return Port(f"enp65s0f{number}np{number}", mac)

    def _disks(self, draw: Random) -> list[Disk]:
        system = 2 if self.kind.layout == "raid" else 1
        number = system + 1 + self.kind.spare
        # The kernel numbers disks as it finds them.
        names = draw.sample([f"nvme{n}n1" for n in range(number)], number)
        disks = []
        for at, name in enumerate(names):
            eui = NO_OUI_36 + draw.randbytes(11).hex()
            serial = MODELS[self.kind.model].format(draw.randrange(100))
            serial = f"{serial}{draw.randrange(1000):03d}"
            disk = Disk(name, self.kind.model, serial, eui, f"{self.first_bus + 16 + at:02x}")
            if at < system:
                disk.parts = [
                    self._part(draw, 1, "/boot/efi" if at == 0 else "", "vfat"),
                    self._part(draw, 2, "/" if self.kind.layout == "plain" else "", "ext4"),
                ]
            elif at == system:
                disk.parts = [self._part(draw, 0, "/scratch", "xfs")]
            disks.append(disk)
        return disks

    def _part(self, draw: Random, number: int, mount: str, kind: str) -> Part:
        volume = f"{draw.randrange(1 << 16):04X}-{draw.randrange(1 << 16):04X}"
        name = volume if kind == "vfat" else self._uuid(draw)
        return Part(number, mount, kind, name, self._uuid(draw))

    @property
    def root_uuid(self) -> str:
        """UUID of the root file system, on a partition, array or volume."""
        return self.disks[0].parts[1].uuid

    @property
    def root_device(self) -> str:
        """The device of the root file system, as in mountinfo."""
        layout = self.kind.layout
        group = f"rhel_{self.name.replace('-', '--')}" if self.kind.family == "rhel" else "vg0"
        return {
            "plain": f"/dev/{self.disks[0].name}p2",
            "raid": "/dev/md127",
            "lvm": f"/dev/mapper/{group}-root",
            "luks": f"/dev/mapper/luks-{self.crypt}",
        }[layout]

    @property
    def root_source(self) -> str:
        """The root file system as fstab(5) and the kernel's command line name it."""
        if self.kind.root_by == "UUID" or self.kind.layout != "plain":
            return f"UUID={self.root_uuid}"
        if self.kind.root_by == "PARTUUID":
            return f"PARTUUID={self.disks[0].parts[1].partuuid}"
        return f"/dev/disk/by-id/{self.disks[0].identifier}-part2"

    @property
    def array_uuid(self) -> str:
        """UUID of an array as mdadm.conf(5) has it: four groups of eight digits."""
        plain = self.array.replace("-", "")
        return ":".join(plain[at : at + 8] for at in range(0, 32, 8))

    @property
    def bond_mac(self) -> str:
        """The address of a bond: that of the port that came first (bonding, fail_over_mac)."""
        return self.ports[self.number % 2].mac

    def slaac(self, port: Port, network: str = "fe80::") -> str:
        """Return the address that the kernel makes of a MAC address (RFC 4291, appendix A)."""
        parts = [int(part, 16) for part in port.mac.split(":")]
        data = [parts[0] ^ 2, *parts[1:3], 0xFF, 0xFE, *parts[3:]]
        words = [f"{data[at] << 8 | data[at + 1]:x}" for at in range(0, 8, 2)]
        return f"{network}{':'.join(words)}"

    def digest(self, text: str) -> str:
        """Return hexadecimal digits that belong to this machine."""
        return hashlib.sha256(f"{self.key}{text}".encode()).hexdigest()
