"""Identities that an installation draws, those of fabrics, and where PCI devices sit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress

from lockstep.node.fingerprint.sysfs import names_in, value_of
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import bytes_of, found_by, line_of, text_of

INSTANCE = "/var/lib/cloud/data/instance-id"
"""The instance ID of cloud-init ("Instance metadata"): installers write it into
/etc/cloud/cloud.cfg.d."""
CONNECTIONS = "/etc/NetworkManager/system-connections/*"
POD_NETWORK = "/run/flannel/subnet.env"
HOST_ID = "/etc/hostid"
SHORTEST_HOST_ID = 6
UNNAMED = ("0604", "0600", "0601", "0880", "1101")
"""Classes of bridges and parts of the processor, which have no settings."""
INFINIBAND = "/sys/class/infiniband"
NO_GUID = re.compile(r"[0:]+")


def installation(machine: Iterable[str]) -> dict[str, list[str]]:
    """Return the identities that were drawn when the system, or a part of it, was installed.

    Args:
        machine: the machine ID.
    """
    found: dict[str, list[str]] = {}
    with suppress(Unread):
        found["instance ID"] = [line_of(INSTANCE)]
    # An instance may have the machine ID as its own: the first name of a value stays.
    found = {kind: [v for v in values if v not in machine] for kind, values in found.items()}
    with suppress(Unread):
        # gethostid(3) reads four bytes, and ZFS shows them (spl_hostid).
        number = int.from_bytes(bytes_of(HOST_ID, 4), "little")
        if len(f"{number:x}") >= SHORTEST_HOST_ID:
            found["host ID"] = [f"{number:x}", f"0x{number:x}"]
    for path in found_by(CONNECTIONS):
        with suppress(Unread):
            settings = dict(
                line.partition("=")[::2] for line in reversed(text_of(path).splitlines())
            )
            # Ports name their controller by UUID (nm-settings-keyfile(5)). NetworkManager takes the
            # file's name for an ID, and makes a UUID, if the file has none.
            name = settings.get("id") or os.path.basename(path).partition(".nmconnection")[0]
            if settings.get("uuid"):
                found[f"UUID of the connection {name}"] = [settings["uuid"]]
    with suppress(Unread):
        for line in text_of(POD_NETWORK).splitlines():
            name, _, value = line.partition("=")
            if name in ("FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"):
                # The first address is that of the bridge.
                first = re.sub(r"1(?=/)", "0" if "." in value else "", value)
                kind = "IPv6 pod network" if "IPV6" in name else "pod network"
                found[kind] = [value, first]
    return found


def fabric() -> dict[str, list[str]]:
    """Return the GUIDs of RDMA devices as sysfs and as opensm(8) and RDMA tools write them."""
    found: dict[str, list[str]] = {}
    for device in names_in(INFINIBAND):
        folder = f"{INFINIBAND}/{device}"
        guids = {
            f"{kind} of {device}": value_of(f"{folder}/{file}")
            for kind, file in (("node GUID", "node_guid"), ("system GUID", "sys_image_guid"))
        }
        for port in names_in(f"{folder}/ports"):
            gid = value_of(f"{folder}/ports/{port}/gids/0") or ""
            guids[f"port GUID of {device}/{port}"] = ":".join(gid.split(":")[4:])
        for kind, guid in guids.items():
            if guid and not NO_GUID.fullmatch(guid):
                plain = guid.replace(":", "")
                pairs = ":".join(plain[at : at + 2] for at in range(0, 16, 2))
                found[kind] = [guid, f"0x{plain}", plain, pairs]
    # All ports of one card have its GUID: one kind must name it on each node.
    seen: set[str] = set()
    for kind, values in found.items():
        found[kind] = [value for value in values if value not in seen]
        seen.update(values)
    return found


def pci_addresses() -> dict[str, list[str]]:
    """Return the addresses of PCI devices, numbered within their kind like their objects.

    Besides the form of sysfs, there are those of nvidia-smi(1), of lspci(8), and of xorg.conf(5).
    """
    found: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for address in names_in("/sys/bus/pci/devices"):
        match = re.fullmatch(r"(\w{4}):(\w\w):(\w\w)\.(\w)", address)
        about = value_of(
            f"/sys/bus/pci/devices/{address}/uevent"
        )  # one file has all that is needed
        words = dict(word.partition("=")[::2] for word in (about or "").split())
        device = words.get("PCI_ID", "").lower()
        if match is None or not device or words.get("PCI_CLASS", "").zfill(6).startswith(UNNAMED):
            continue
        counts[device] = counts.get(device, 0) + 1
        domain, bus, slot, function = match.groups()
        decimal = ":".join(str(int(part, 16)) for part in (bus, slot, function))
        found[f"PCI address of {device} #{counts[device]}"] = [
            address,
            f"0000{address}",
            f"0000{address}".upper(),
            address.upper(),
            f"PCI:{decimal}",
            *([address[5:]] if domain == "0000" else ()),
        ]
    return found


def volumes(name: str) -> dict[str, list[str]]:
    """Return the volume groups that are named after the host, and the devices in them.

    Anaconda calls the group ``rhel_HOST`` if it knows the host's name (blivet,
    suggest_container_name()). A hyphen is doubled in the name of the device (lvm(8), VALID NAMES).

    Args:
        name: the host's name in the plan.
    """
    found: dict[str, list[str]] = {}
    for block in names_in("/sys/block"):
        device = value_of(f"/sys/block/{block}/dm/name") if block.startswith("dm-") else None
        match = re.fullmatch(r"((?:[^-]|--)+)-((?:[^-]|--)+)", device or "")
        if device is None or match is None:
            continue
        group, volume = (part.replace("--", "-") for part in match.groups())
        before, _, after = group.rpartition(name)
        if after or before[-1:] not in ("_", "-", "") or name not in group:
            continue
        found[f"volume group {before}HOST"] = [group]
        escaped = device.replace("-", r"\x2d")
        found[f"volume {volume} in {before}HOST"] = [device, f"{group}/{volume}", escaped]
    return found
