"""Rules about the machine, its operating system and its clock."""

from __future__ import annotations

from lockstep.checks.compare import number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import joined, together
from lockstep.checks.rule import (
    WARNING,
    Cause,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    at_most,
    by_hand,
    by_role,
    same,
)


def _host_keys_items(view: View) -> Items:
    """Return one host key, which is enough because a copied node has all keys of the original."""
    keys = view.items("os.host_keys")
    return {"": keys[min(keys, key=lambda kind: (kind != "ed25519", kind))]} if keys else {}


def _release(view: View) -> Value:
    """Return the name and the version of the operating system."""
    of = view.plan.release.version_of
    read = view.read("os.id"), view.read("os.version_id")
    return together(*read, lambda name, version: f"{name} {of(str(version))}")


def follows(view: View) -> bool:
    """Return whether a node has time servers. Only the cluster's own reference has none."""
    return not view.plan.time.reference


NODE_REACHABLE = Rule(
    id="node.reachable",
    claim="Lockstep can take readings on every node over ssh.",
    why="Without ssh access, a node can be neither checked nor repaired.",
    blind="All other faults of a node, which the other rules check.",
    source="every other rule needs the node's record",
    reading="ssh",
    # Without the address, the repair is the same for all nodes, and is shown only once.
    repair=by_hand(
        "check the power, network, sshd and sudo on {node}; lockstep plan {inventory} NODE shows "
        "its address"
    ),
)

RULES = (
    NODE_REACHABLE,
    Rule(
        id="os.host_keys",
        claim="Every node has its own ssh host key.",
        why="If nodes share a key, an attacker who has it can pose as any of them.",
        blind="Host keys of other types, on a node that has an ed25519 key.",
        source="ssh-keygen(1), -A",
        reading="os.host_keys",
        look=Look(_host_keys_items),
        kind=Kind.UNIQUE,
        text=Text(lambda value: f"host key {str(value)[:12]}"),
        repair=by_hand(
            "on all but one of the nodes {node}: run rm /etc/ssh/ssh_host_* and ssh-keygen -A, "
            "then restart ssh"
        ),
        explained_by=(Cause("os.machine_id"),),
    ),
    Rule(
        id="os.hostname",
        claim="The current host name matches the node's name.",
        why="slurmd looks up the host name in slurm.conf, and exits if the name is not listed.",
        blind="The host name after the next boot (/etc/hostname), which file.content checks.",
        source="hostname(7), slurmd(8)",
        reading="os.hostname",
        expected=same(lambda view: view.plan.name),
        repair=by_role("os_settings"),
        explained_by=(Cause("file.content", device="/etc/hostname"),),
    ),
    Rule(
        id="os.locale",
        claim="All nodes have the declared locale.",
        why="In a different locale, programs sort text and format numbers differently.",
        blind="A locale that an ssh client passes on (SendEnv, AcceptEnv).",
        source="locale(7)",
        reading="os.locale",
        expected=same(lambda view: view.plan.spec.os.locale),
        severity=WARNING,
        repair=by_role("os_settings"),
        explained_by=(
            Cause("file.content", device="/etc/default/locale"),
            Cause("file.content", device="/etc/locale.conf"),
        ),
    ),
    Rule(
        id="os.machine_id",
        claim="Every node has its own machine id.",
        why=(
            "Nodes with the same machine id can get the same DHCP address, and logging systems mix "
            "up their journals."
        ),
        blind="Nodes outside this cluster.",
        source="machine-id(5)",
        reading="os.machine_id",
        kind=Kind.UNIQUE,
        repair=by_hand(
            "on all but one of the nodes {node}: run rm /etc/machine-id and "
            "systemd-machine-id-setup, then reboot the node"
        ),
    ),
    Rule(
        id="os.release",
        claim="All nodes run the declared operating system release.",
        why="The plan's package names, versions and defaults are specific to one release.",
        blind="Point releases, whose packages package.version checks.",
        source="os-release(5)",
        reading="os.version_id",
        look=Look(lambda view: {"": _release(view)}),
        expected=same(lambda view: f"{view.plan.release.id} {view.plan.release.version_id}"),
        repair=by_hand("reinstall {node} with {expected}; no role upgrades the operating system"),
    ),
    Rule(
        id="os.resolver",
        claim="All nodes of a hardware class have the same name resolution settings.",
        why="If a name server does not answer, each lookup takes five seconds longer.",
        blind="Whether the servers answer. Settings of individual services.",
        source="resolv.conf(5), nsswitch.conf(5)",
        reading="os.resolver",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: set {device} in /etc/resolv.conf or /etc/nsswitch.conf to match its peers"
        ),
    ),
    Rule(
        id="os.time_zone",
        claim="All nodes are in the declared time zone.",
        why=(
            "Operators compare a job's logs from many nodes, and timestamps in different zones do "
            "not line up."
        ),
        blind="A time zone that a service sets in its environment (TZ).",
        source="localtime(5)",
        reading="os.time_zone",
        expected=same(lambda view: view.plan.spec.os.time_zone),
        severity=WARNING,
        repair=by_role("os_settings"),
    ),
    Rule(
        id="platform.bios",
        claim="All machines of a hardware class have the same BIOS version.",
        why="The BIOS sets up power, memory, PCIe and idle states. An old BIOS can slow a node.",
        blind="Firmware settings whose effect the kernel does not show.",
        source="SMBIOS 7.1, BIOS information; /sys/class/dmi/id",
        reading="platform",
        look=Look(joined("platform", "bios_vendor", "bios_version", "bios_date")),
        peers=Peers.CLASS,
        repair=by_hand(
            "drain {node}, install the BIOS version that its peers run, compare the BIOS settings "
            "with theirs, and reboot the node"
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="platform.bmc_firmware",
        claim="All machines of a hardware class have the same firmware of the BMC.",
        why=(
            "The BMC controls fans and power limits, and reports faults. Old firmware can do this "
            "differently, or has known security holes."
        ),
        blind=(
            "The vendor's additional version numbers (aux_firmware_revision). A class whose nodes "
            "have all no IPMI driver."
        ),
        source="kernel documentation, ABI/testing/sysfs-devices-platform-ipmi",
        reading="platform.bmc_firmware",
        expected=same(lambda view: view.plan.hardware.hardware.firmware.bmc),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "compare the firmware of the BMC of {node} ({expected} is expected): if it is absent, "
            "on {node}: modprobe ipmi_si; otherwise install it with the vendor's tool",
            peers=(
                "if the BMC's firmware is absent, on {node}: modprobe ipmi_si; otherwise install "
                "{expected} with the vendor's tool"
            ),
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="platform.product",
        claim="All machines of a hardware class are the same model.",
        why=(
            "A different mainboard has different slots, links and firmware, and needs its own "
            "hardware class."
        ),
        blind="The revision of a mainboard, which most firmware does not report.",
        source="kernel documentation, ABI/testing/sysfs-firmware-dmi-tables; SMBIOS 7.2, 7.3",
        reading="platform",
        look=Look(joined("platform", "sys_vendor", "product_name", "board_name")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "give {node} its own hardware class in the description, or replace the machine"
        ),
    ),
    Rule(
        id="time.offset",
        claim="Each node's clock is within the allowed offset from its time servers.",
        why="Operators compare timestamps from many nodes in logs, traces and accounting.",
        blind="Inaccurate time servers. The cluster's own reference (see time.synchronised).",
        source="chronyc(1), tracking: system time",
        reading="time.offset_s",
        look=Look(pick=lambda value: abs(number(value))),
        kind=Kind.ABSOLUTE,
        expected=at_most(lambda view: view.plan.spec.time.max_offset_s),
        text=Text(lambda value: f"{number(value) * 1000:.3g} ms"),
        repair=by_role(
            "time_sync",
            "on {node}: check chronyc sources; when the node is idle, run chronyc makestep",
        ),
        applies=follows,
        explained_by=(
            Cause("time.synchronised"),
            Cause("unit.active", device="chrony.service"),
            Cause("file.content", device="/etc/chrony/chrony.conf"),
        ),
    ),
    Rule(
        id="time.synchronised",
        claim="Each node's clock is synchronized with its time servers.",
        why=(
            "munge credentials are valid for 300 s. Slurm loses contact with a node whose clock is "
            "off by more than that."
        ),
        blind=(
            "Inaccurate time servers. Servers that stopped answering less than two hours (or "
            "ten update intervals) ago. The clock of the first head node if the description names "
            "no time servers, because the cluster then follows that node."
        ),
        source="chronyc(1), tracking: leap status, reference time, update interval",
        reading="time.synchronised",
        expected=same(True),
        text=Text(lambda value: "synchronized" if value else "not synchronized"),
        repair=by_role("time_sync"),
        applies=follows,
        explained_by=(
            Cause("unit.active", device="chrony.service"),
            Cause("file.content", device="/etc/chrony/chrony.conf"),
        ),
    ),
)
