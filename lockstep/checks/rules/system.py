"""Rules about the machine and its operating system."""

from __future__ import annotations

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    same,
)
from lockstep.checks.rules._peers import joined
from lockstep.probe.record import Unread


def _host_keys_items(view: View) -> Items:
    """Return one key: a copied node has all of them."""
    keys = view.items("os.host_keys")
    return {"": keys[min(keys, key=lambda kind: (kind != "ed25519", kind))]} if keys else {}


def _release_items(view: View) -> Items:
    name, version = view.read("os.id"), view.read("os.version_id")
    for part in (name, version):
        if isinstance(part, Unread):
            return {"": part}
    return {"": f"{name} {view.plan.cluster.release.version_of(str(version))}"}


NODE_REACHABLE = Rule(
    id="node.reachable",
    claim="Every node can be read over ssh.",
    why="A node that cannot be read cannot be repaired either.",
    blind="A node that answers over ssh only: the other rules judge that.",
    source="every finding of a node rests on it",
    reading="ssh",
    # Without the address the repair is equal for all nodes, and shown once.
    repair=by_hand(
        "check power, network, sshd and sudo of {node}; address: lockstep plan {inventory} NODE"
    ),
)

RULES = (
    NODE_REACHABLE,
    Rule(
        id="os.host_keys",
        claim="Every node has its own ssh host key.",
        why="With one node's key an attacker can pose as all nodes.",
        blind="Other keys than ed25519, where a node has that one.",
        source="ssh-keygen(1), -A",
        reading="os.host_keys",
        look=Look(_host_keys_items),
        kind=Kind.UNIQUE,
        text=Text(lambda value: f"host key {str(value)[:12]}"),
        repair=by_hand(
            "on all but one of {node}: rm /etc/ssh/ssh_host_*, ssh-keygen -A, restart ssh"
        ),
        explained_by=(Cause("os.machine_id"),),
    ),
    Rule(
        id="os.hostname",
        claim="The running host name is the node's name.",
        why="slurmd finds its line of slurm.conf by the host name and stops without it.",
        blind="/etc/hostname, which the next boot reads: file.content judges that.",
        source="hostname(7), slurmd(8)",
        reading="os.hostname",
        expected=same(lambda view: view.plan.name),
        repair=by_role("os_settings"),
        explained_by=(Cause("file.content", device="/etc/hostname"),),
    ),
    Rule(
        id="os.locale",
        claim="All nodes have the declared locale.",
        why="The sort order and number formats of a job must not depend on the node.",
        blind="A locale that ssh passes on (SendEnv, AcceptEnv).",
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
            "Copied nodes share DHCP addresses, names in the journal and other ids that derive "
            "from it."
        ),
        blind="Nodes outside of this cluster.",
        source="machine-id(5)",
        reading="os.machine_id",
        kind=Kind.UNIQUE,
        repair=by_hand(
            "on all but one of {node}: rm /etc/machine-id, systemd-machine-id-setup, reboot"
        ),
    ),
    Rule(
        id="os.release",
        claim="All nodes run the declared release of the operating system.",
        why="The plan's package names, versions and defaults belong to one release.",
        blind="Point updates of a release: package.version judges those.",
        source="os-release(5)",
        reading="os.version_id",
        look=Look(_release_items),
        expected=same(
            lambda view: f"{view.plan.cluster.release.id} {view.plan.cluster.release.version_id}"
        ),
        repair=by_hand("reinstall {node} with {expected}; no role upgrades a release"),
    ),
    Rule(
        id="os.resolver",
        claim="Name resolution is configured equally in a hardware class.",
        why="A dead name server costs a node five seconds at each lookup.",
        blind="Whether the servers answer. Settings of single services.",
        source="resolv.conf(5), nsswitch.conf(5)",
        reading="os.resolver",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: correct {device} in /etc/resolv.conf or nsswitch.conf as on its peers"
        ),
    ),
    Rule(
        id="os.time_zone",
        claim="All nodes are in the declared time zone.",
        why="Operators read the logs of one job on many nodes side by side.",
        blind="A zone that TZ sets in the environment of a service.",
        source="localtime(5)",
        reading="os.time_zone",
        expected=same(lambda view: view.plan.spec.os.time_zone),
        severity=WARNING,
        repair=by_role("os_settings"),
    ),
    Rule(
        id="platform.bios",
        claim="All machines of a hardware class have the same BIOS.",
        why="Firmware decides power, memory, PCIe and idle states; an older BIOS can slow a node.",
        blind="Firmware settings without an effect that the kernel shows.",
        source="SMBIOS 7.1, BIOS information; /sys/class/dmi/id",
        reading="platform",
        look=Look(joined("platform", "bios_vendor", "bios_version", "bios_date")),
        peers=Peers.CLASS,
        repair=by_hand(
            "drain {node}, flash the BIOS of its peers, compare its settings, reboot it"
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="platform.product",
        claim="All machines of a hardware class are the same product.",
        why=(
            "Another mainboard has other slots, links and firmware, and needs a hardware class "
            "of its own."
        ),
        blind="Revisions of a mainboard, which most firmware does not report.",
        source="kernel documentation, ABI/testing/sysfs-firmware-dmi-tables; SMBIOS 7.2, 7.3",
        reading="platform",
        look=Look(joined("platform", "sys_vendor", "product_name", "board_name")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand("give {node} a hardware class of its own in the description, or replace it"),
    ),
)
