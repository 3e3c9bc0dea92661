"""Clusters with identities in the forms of real hardware: no false finding, and no hidden one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lockstep.report import Finding
from tests.node.fingerprint.generated.clusters import Cluster, Node, cluster
from tests.node.fingerprint.generated.forms import FORMS, Form
from tests.node.fingerprint.generated.machines import Kind

CLUSTERS = 8
KINDS = {
    "plain": Kind("gpu", "plain", "plain", "none", "KIOXIA KCD81RUG7T68", "by-id", 256, "ubuntu",
                  2),
    "raid": Kind("n", "raid", "bond", "flannel", "SAMSUNG MZQL27T6HBLA-00A07", "UUID", 512,
                 "debian", 0),
    "lvm": Kind("dgx-", "lvm", "bond", "calico", "Micron_7450_MTFDKCC7T6TFR", "UUID", 2048, "rhel",
                8),
    "luks": Kind("w", "luks", "plain", "none", "KIOXIA KCD81RUG7T68", "UUID", 64, "rhel", 2),
    "partition": Kind("w", "plain", "bond", "none", "KIOXIA KCD81RUG7T68", "PARTUUID", 64,
                      "debian", 0),
}  # fmt: skip


def shown(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return sorted((one.rule.removeprefix("fingerprint."), one.node, one.device)
                  for one in findings)  # fmt: skip


@pytest.mark.parametrize("seed", [f"unit.{number}" for number in range(CLUSTERS)])
def test_equal_nodes_with_identities_of_real_hardware_have_no_finding(seed: str) -> None:
    with cluster(seed) as made:
        assert shown(made.findings()) == []


@pytest.mark.parametrize("name", KINDS)
def test_the_nodes_of_each_kind_have_no_finding(name: str) -> None:
    with cluster(f"kind {name}", KINDS[name]) as made:
        assert shown(made.findings()) == []


def test_each_form_has_a_source_and_is_on_a_node_of_some_kind() -> None:
    assert all(form.source for form in FORMS)
    used = set()
    for name, kind in KINDS.items():
        with cluster(name, kind) as made:
            machine = next(iter(made.nodes.values())).machine
            used |= {form.name for form in FORMS if form.path(machine)}
    assert used == {form.name for form in FORMS}


COPIED = [form for form in FORMS if form.copied]


@contextmanager
def with_form(form: Form) -> Iterator[Cluster]:
    """Yield a cluster whose nodes have a form."""
    for name, kind in KINDS.items():
        with cluster(f"wrong {name}", kind) as made:
            if form.path(next(iter(made.nodes.values())).machine):
                yield made
                return


@pytest.mark.parametrize("form", COPIED, ids=lambda form: str(form.name))
def test_the_file_of_another_node_shows(form: Form) -> None:
    with with_form(form) as made:
        last = [*made.nodes][-1]
        path = made.copied(form)
        found = [one for one in made.findings() if one.rule == "fingerprint.file"]
        assert found, f"{path} of another node is hidden"
        assert {one.node for one in found} == {last}
        if form.path(made.nodes[last].machine) == path:
            assert path in [one.device for one in found]


def edited(path: str, old: str, new: str) -> Callable[[Node], None]:
    """Return a function that replaces a text in a file; names of attributes are in braces."""

    def change(node: Node) -> None:
        before, after = (text.format(m=node.machine) for text in (old, new))
        file = node.at(path.format(m=node.machine))
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after, 1))

    return change


def written(path: str, text: str) -> Callable[[Node], None]:
    return lambda node: node.write(path.format(m=node.machine), text)


def printed(command: str, change: Callable[[Any, Node], None]) -> Callable[[Node], None]:
    """Return a function that changes the rows that ip(8) prints."""

    def edit(node: Node) -> None:
        parts = [json.loads(line) for line in node.answers[command].splitlines()]
        change(parts, node)
        node.answers[command] = "\n".join(map(json.dumps, parts))

    return edit


def another_address(parts: Any, node: Node) -> None:
    parts[0][0]["addr_info"][0]["local"] = "10.20.0.99"


def another_route(parts: Any, node: Node) -> None:
    parts[1].append({"type": "unicast", "dst": "10.99.0.0/16", "gateway": "10.20.0.7",
                     "dev": node.machine.ports[0].name, "table": "main", "protocol": "static",
                     "flags": []})  # fmt: skip


def learned_route(parts: Any, node: Node) -> None:
    parts[1].append({"type": "unicast", "dst": "10.99.0.0/16", "gateway": "10.20.0.7",
                     "dev": node.machine.ports[0].name, "table": "main", "protocol": "bird",
                     "flags": []})  # fmt: skip


def another_mtu(parts: Any, node: Node) -> None:
    next(row for row in parts[0] if row["ifname"] == "tunl0")["mtu"] = 1300


UUID = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
WRONG: dict[str, tuple[str, Callable[[Node], None], str, str]] = {
    # Kind, change, domain, and a part of the object's name.
    "a UUID of no disk in fstab": (
        "raid", edited("/etc/fstab", "UUID={m.root_uuid}", f"UUID={UUID}"), "file", "/etc/fstab"),
    "the UUID of another of its disks": (
        "raid", edited("/etc/fstab", "{m.root_uuid}", "{m.disks[2].parts[0].uuid}"), "file",
        "/etc/fstab"),
    "root= names no disk of the node": (
        "partition", edited("/proc/cmdline", "{m.disks[0].parts[1].partuuid}", UUID), "kernel",
        "command line"),
    "a serial number of no disk": (
        "plain", edited("/etc/smartd.conf", "{m.disks[0].serial}", "X0123456789"), "file",
        "/etc/smartd.conf"),
    "an array that is not the node's": (
        "raid", edited("/etc/mdadm/mdadm.conf", "{m.array_uuid}",
                       "11111111:22222222:33333333:44444444"), "file", "/etc/mdadm/mdadm.conf"),
    "a MAC address of no port": (
        "plain", edited("/etc/udev/rules.d/70-persistent-net.rules", "{m.ports[1].mac}",
                        "02:00:00:00:00:01"), "file", "/etc/udev/rules.d/70-persistent-net.rules"),
    "the port's connection has another controller": (
        "lvm", edited("/etc/NetworkManager/system-connections/port1.nmconnection",
                      "{m.connection}", UUID), "file", "port1.nmconnection"),
    "a GUID of no device": (
        "plain", edited("/etc/opensm/opensm.conf", "{m.guid}", "e8ebd3030000ffff"), "file",
        "/etc/opensm/opensm.conf"),
    "another address": ("plain", printed("ip -force", another_address), "address", ""),
    "another route": ("plain", printed("ip -force", another_route), "route", "10.99.0.0/16"),
    "another route beside Flannel's": (
        "raid", printed("ip -force", another_route), "route", "10.99.0.0/16"),
    "a route that BIRD learned beside Calico's": (
        "lvm", printed("ip -force", learned_route), "route", "10.99.0.0/16 by Calico's bird"),
    "another MTU of Calico's tunnel": ("lvm", printed("ip -force", another_mtu), "interface",
                                       "tunl0"),
    "another congestion control": (
        "plain", written("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno\n"),
        "sysctl", "net.ipv4.tcp_available_congestion_control"),
    **{f"{key} far from what the kernel computes": (
        kind, written(f"/proc/sys/{key.replace('.', '/')}", value), "sysctl", key)
       for kind in ("plain",)
       for key, value in (
           ("kernel.threads-max", "1000000\n"), ("fs.file-max", "9223372036854775807\n"),
           ("vm.min_free_kbytes", "1048576\n"), ("net.ipv4.tcp_mem", "1048576 2097152 4194304\n"),
           ("net.ipv4.udp_mem", "1048576 2097152 4194304\n"),
           ("fs.inotify.max_user_watches", "524288\n"), ("user.max_user_namespaces", "0\n"))},
    "another option of the kernel": (
        "lvm", edited("/proc/cmdline", "ro quiet", "ro mitigations=off"), "kernel",
        "command line"),
    "another rule for a service": (
        "raid", lambda node: node.answers.update({"iptables-nft-save": node.answers[
            "iptables-nft-save"].replace("10.96.0.23/32", "10.96.0.24/32")}), "firewall",
        "KUBE-SERVICES"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_shows_on_its_node(name: str) -> None:
    kind, change, domain, device = WRONG[name]
    with cluster(f"wrong {kind}", KINDS[kind]) as made:
        change([*made.nodes.values()][-1])
        found = made.findings()
        last = [*made.nodes][-1]
        assert [one for one in found if one.rule == f"fingerprint.{domain}" and one.node == last
                and device in one.device], shown(found)  # fmt: skip
        assert {one.node for one in found} == {last}
