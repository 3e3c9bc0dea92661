"""QEMU machines: each has its own kernel and disk; the guest agent is the console."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import guest_agent, hardware, network, places, proxy
from lab.accelerator import ARGUMENTS
from lab.disk_image import DiskImage, copy_sparse
from lab.disk_mount import mounted
from lab.errors import LabError
from lab.processes import ProcessRecord, alive, kill, start_recorded
from lab.provider import CONSOLE_ENVIRONMENT, machine_name
from lab.removal import remove_tree
from lab.state import Accelerator, LabState, Node

AGENT_PORT = "org.qemu.guest_agent.0"
# The kernel's limit for a socket path (unix(7)), without the terminating null byte.
SOCKET_PATH_MOST = 107
LINK = """[Match]
MACAddress={mac}

[Link]
Name={interface}
"""
# A static address without router advertisements and duplicate address detection.
ADDRESSES = """[Match]
MACAddress={mac}

[Network]
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
IPv6DuplicateAddressDetection=0

[Address]
Address={address}/64
DuplicateAddressDetection=none
"""
ROUTE = """
[Route]
Destination={proxy}/128
Gateway={gateway}
"""


def _disk_path(lab: str, node: str) -> Path:
    return places.node_folder(lab, node) / "disk.raw"


def _socket_path(lab: str, node: str) -> Path:
    return places.node_folder(lab, node) / "agent"


def _logs(lab: str, node: str) -> tuple[Path, Path]:
    """Return the logs of the machine's serial console and of QEMU."""
    folder = places.lab_folder(lab) / "logs"
    return folder / f"{node}.log", folder / f"{node}-qemu.log"


def _interfaces(node: Node) -> list[tuple[str, str, str]]:
    """Return (name in the machine, bridge, address) of each interface."""
    fabric = [(name, "fabric", address) for name, address in network.fabric_links(node)]
    return [(node.interface, "mgmt", node.address), *fabric]


class Qemu:
    """The QEMU machines; see ``lab.provider.Provider``."""

    def __init__(self, accelerator: Accelerator | None) -> None:
        """Use the accelerator from the lab's state."""
        self._accelerator = accelerator

    @property
    def ready_within_s(self) -> float:
        """Emulated machines boot in a minute, several at once on few processors in more."""
        return 600.0

    @property
    def poll_s(self) -> float:
        """Each request takes an emulated machine a tenth of a second."""
        return 0.2 if self._accelerator == "kvm" else 2.0

    @property
    def boots_at_once(self) -> int:
        """One per processor of the host: more would spin on each other's locks."""
        return max(2, os.cpu_count() or 1)

    def create(self, state: LabState, node: Node) -> None:
        """Copy the role's disk, write its addresses to it, and create the switch ports."""
        disk = _disk_path(state.name, node.name)
        if len(str(_socket_path(state.name, node.name))) > SOCKET_PATH_MOST:
            raise LabError(
                f"{disk.parent}: the path is too long for a socket",
                f"use a shorter {places.BASE_VARIABLE} or --name",
            )
        if not disk.exists():
            if state.disks is None:
                raise LabError(f"lab {state.name!r}: no disk image in its state")
            disk.parent.mkdir(parents=True, exist_ok=True)
            copy_sparse(DiskImage(Path(state.disks)).disk(node.role), disk)
        network.make_ports(state, node)
        with self.disk(state.name, node) as root:
            _write_network(state, node, root)

    def destroy(self, lab: str, node: str) -> None:
        """Delete the node's disk."""
        remove_tree(places.node_folder(lab, node))

    def sees_disk(self, node: Node) -> bool:
        """Return False while the machine runs: two kernels would destroy the file system."""
        return not self.running(node)

    @contextmanager
    def disk(self, lab: str, node: Node) -> Iterator[Path]:
        """Mount the disk of a machine that is off."""
        if self.running(node):
            raise LabError(f"node {node.name!r} is running, so its disk cannot be mounted")
        with mounted(_disk_path(lab, node.name), places.node_root(lab, node.name)) as root:
            yield root

    def power_on(self, state: LabState, node: Node, save: Callable[[], None]) -> None:
        """Start QEMU in the switch's network namespace."""
        _, log = _logs(state.name, node.name)
        log.parent.mkdir(exist_ok=True)
        _socket_path(state.name, node.name).unlink(missing_ok=True)

        def remember(record: ProcessRecord) -> None:
            node.process = record
            save()

        start_recorded(
            [
                # `ip netns exec` would copy the host's mounts and keep them in use.
                "nsenter",
                f"--net=/run/netns/{network.switch_namespace(state.name)}",
                *self._command(state.name, node),
            ],
            remember,
            log=log,
        )

    def _command(self, lab: str, node: Node) -> list[str]:
        serial, _ = _logs(lab, node.name)
        disk, agent = _disk_path(lab, node.name), _socket_path(lab, node.name)
        if self._accelerator is None:
            raise LabError(f"lab {lab!r}: no accelerator in its state")
        argv = [
            *("qemu-system-x86_64", "-name", machine_name(lab, node.name)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
            # SATA and SMBus are unused; without them, their drivers are not loaded.
            *("-machine", "q35,sata=off,smbus=off", "-rtc", "base=utc"),
            *ARGUMENTS[self._accelerator],
            *_processors_and_memory(hardware.GIVEN_MIB[node.role]),
            *("-chardev", f"file,id=console,append=on,path={serial}", "-serial", "chardev:console"),
            # Written data is safe in the host's page cache, so do not wait for the disk.
            *("-drive", f"if=none,id=disk,format=raw,cache=unsafe,discard=unmap,file={disk}"),
            *("-device", "virtio-blk-pci,drive=disk,num-queues=1"),
            *("-device", "virtio-serial-pci"),
            *("-chardev", f"socket,id=agent,server=on,wait=off,path={agent}"),
            *("-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"),
            *("-object", "rng-random,id=random,filename=/dev/urandom"),
            *("-device", "virtio-rng-pci,rng=random"),
        ]
        for interface, bridge, _ in _interfaces(node):
            port = network.switch_port(node.name, bridge)
            mac = network.mac_address(lab, node.name, interface)
            argv += ["-netdev", f"tap,id={bridge},ifname={port},script=no,downscript=no"]
            # Do not boot from the network.
            argv += ["-device", f"virtio-net-pci,netdev={bridge},mac={mac},romfile="]
        return argv

    def power_off(self, lab: str, node: Node) -> None:
        """Kill QEMU."""
        if node.process is not None:
            kill(node.process)
        node.process = None
        for path in places.node_folder(lab, node.name).glob("agent*"):
            path.unlink()

    def running(self, node: Node) -> bool:
        """Return whether QEMU runs."""
        return alive(node.process)

    def console(self, lab: str, node: Node, command: Sequence[str]) -> list[str]:
        """Return a command that uses the machine's guest agent."""
        if not self.running(node):
            raise LabError(
                f"node {node.name!r} is off (console log: {_logs(lab, node.name)[0]})",
                f"lockstep lab --name {lab} power-on {node.name}",
            )
        environment = {**CONSOLE_ENVIRONMENT, "TERM": "dumb"}
        return [
            # Isolated mode without site packages: it uses only the standard library.
            *(sys.executable, "-IS", guest_agent.__file__),
            *(str(_socket_path(lab, node.name)), "--"),
            # In its own process group, so that an interrupt ends all of its processes.
            *(
                "/usr/bin/setsid",
                "/usr/bin/env",
                "-i",
                *(f"{key}={value}" for key, value in environment.items()),
            ),
            *command,
        ]


def _processors_and_memory(mib: int) -> list[str]:
    per_node = hardware.SOCKETS * hardware.CORES_PER_SOCKET // hardware.NUMA_NODES
    shape = (
        f"sockets={hardware.SOCKETS},cores={hardware.CORES_PER_SOCKET},"
        f"threads={hardware.THREADS_PER_CORE}"
    )
    argv = ["-smp", f"{per_node * hardware.NUMA_NODES},{shape}", "-m", f"{mib}M"]
    for number in range(hardware.NUMA_NODES):
        size = mib // hardware.NUMA_NODES
        first = number * per_node
        argv += ["-object", f"memory-backend-ram,id=memory{number},size={size}M"]
        cpus = f"cpus={first}-{first + per_node - 1}"
        argv += ["-numa", f"node,nodeid={number},{cpus},memdev=memory{number}"]
    argv += ["-numa", "dist,src=0,dst=1,val=20"]
    return argv


def _write_network(state: LabState, node: Node, root: Path) -> None:
    """Write the interfaces' names and addresses for systemd-networkd and udev."""
    folder = root / "etc/systemd/network"
    folder.mkdir(parents=True, exist_ok=True)
    for interface, bridge, address in _interfaces(node):
        mac = network.mac_address(state.name, node.name, interface)
        addresses = ADDRESSES.format(mac=mac, address=address)
        if bridge == "mgmt":
            gateway = network.address_in(state.prefix, 1)
            addresses += ROUTE.format(proxy=proxy.ADDRESS, gateway=gateway)
        (folder / f"10-{interface}.link").write_text(LINK.format(mac=mac, interface=interface))
        (folder / f"10-{interface}.network").write_text(addresses)
