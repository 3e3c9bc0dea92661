"""Texts that name a node and its peers: lists of all nodes, and of the other ones."""

from __future__ import annotations

import pytest

from lockstep.fleet.request import alike, own
from lockstep.inventory import planned
from lockstep.node.fingerprint.own import Own
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import load

ALIKE = (("name", "gpu[1-3]"), ("management address", "10.0.0.11-10.0.0.13"))


def forms(text: str, node: int, alike: tuple[tuple[str, str], ...] = ALIKE) -> set[str]:
    """Return the forms of a text in which it is compared: as it is, and replaced."""
    identities = {"name": [f"gpu{node}"], "management address": [f"10.0.0.{10 + node}"]}
    return {text, Own(identities, alike).replaced(text)}


def agree(*texts: str) -> bool:
    """Return whether the texts of nodes 1, 2 and 3 agree in one form."""
    shared = (forms(text, node) for node, text in enumerate(texts, 1))
    return bool(set.intersection(*shared))


def of_each(make: str) -> list[str]:
    """Return the text of each node: ``{own}`` is its number, ``{a}`` and ``{b}`` of the others."""
    numbers = ((1, 2, 3), (2, 1, 3), (3, 1, 2))
    return [make.format(own=own, a=a, b=b) for own, a, b in numbers]


HOSTS = """127.0.0.1 localhost
127.0.1.1 gpu{own}.example.org gpu{own}
10.0.0.1 head1
10.0.0.11 gpu1.example.org gpu1
10.0.0.12 gpu2.example.org gpu2
10.0.0.13 gpu3.example.org gpu3
"""
KEEPALIVED = """unicast_src_ip 10.0.0.1{own}
unicast_peer {{
    10.0.0.1{a}
    10.0.0.1{b}
}}
virtual_ipaddress {{
    10.0.0.100/24
}}
"""
COROSYNC = """totem {{
    interface {{ bindnetaddr: 10.0.0.1{own} }}
}}
nodelist {{
    node {{ ring0_addr: 10.0.0.11  name: gpu1  nodeid: 1 }}
    node {{ ring0_addr: 10.0.0.12  name: gpu2  nodeid: 2 }}
    node {{ ring0_addr: 10.0.0.13  name: gpu3  nodeid: 3 }}
}}
"""
ETCD = """ETCD_NAME="gpu{own}"
ETCD_LISTEN_PEER_URLS="https://10.0.0.1{own}:2380"
ETCD_INITIAL_CLUSTER="gpu1=https://10.0.0.11:2380,gpu2=https://10.0.0.12:2380,gpu3=https://10.0.0.13:2380"
"""
ZOOKEEPER = "clientPortAddress=10.0.0.1{own}\n" + "".join(
    f"server.{n}=10.0.0.1{n}:2888:3888\n" for n in (1, 2, 3)
)
PEERS = 'peers: ["10.0.0.1{a}", "10.0.0.1{b}"]\n'
TWO = "bind 10.0.0.1{own}\nserver head1\nupstream 10.0.0.1\n"
FORMS = {
    "hosts": HOSTS, "keepalived": KEEPALIVED, "corosync": COROSYNC, "etcd": ETCD,
    "zookeeper": ZOOKEEPER, "peers alone": PEERS, "a server among them": TWO,
}  # fmt: skip
"""hosts(5) with Debian's line for the own name (Debian Reference 5.1.1), keepalived.conf(5),
corosync.conf(5), etcd's environment (etcd.io, "Clustering Guide"), zoo.cfg (ZooKeeper
Administrator's Guide), and a list of the others in YAML."""


@pytest.mark.parametrize("form", FORMS)
def test_a_list_of_nodes_is_no_difference(form: str) -> None:
    assert agree(*of_each(FORMS[form]))


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("hosts", "127.0.1.1 gpu3.example.org gpu3", "127.0.1.1 gpu2.example.org gpu2"),
        ("hosts", "10.0.0.13 gpu3", "10.0.0.14 gpu3"),
        ("hosts", "10.0.0.12 gpu2.example.org gpu2\n", ""),
        ("hosts", "10.0.0.13 gpu3.example.org gpu3\n", ""),
        ("hosts", "10.0.0.11 gpu1.example.org gpu1", "10.0.0.12 gpu1.example.org gpu1"),
        ("keepalived", "src_ip 10.0.0.13", "src_ip 10.0.0.12"),
        ("keepalived", "    10.0.0.12\n", "    10.0.0.13\n"),
        ("keepalived", "    10.0.0.12\n", "    10.0.0.99\n"),
        ("keepalived", "    10.0.0.12\n", ""),
        ("keepalived", "10.0.0.100", "10.0.0.101"),
        ("corosync", "bindnetaddr: 10.0.0.13", "bindnetaddr: 10.0.0.12"),
        ("corosync", "name: gpu2", "name: gpu3"),
        ("etcd", 'NAME="gpu3"', 'NAME="gpu2"'),
        ("etcd", "gpu2=https://10.0.0.12", "gpu2=https://10.0.0.13"),
        ("zookeeper", "Address=10.0.0.13", "Address=10.0.0.12"),
        ("zookeeper", "server.2=10.0.0.12", "server.2=10.0.0.13"),
        ("peers alone", "10.0.0.12", "10.0.0.13"),
        ("a server among them", "bind 10.0.0.13", "bind 10.0.0.12"),
        ("a server among them", "server head1", "server gpu2"),
        ("a server among them", "upstream 10.0.0.1\n", "upstream 10.0.0.11\n"),
    ],
)
def test_a_wrong_node_in_a_list_still_shows(form: str, right: str, wrong: str) -> None:
    first, second, third = of_each(FORMS[form])
    assert right in third
    assert not agree(first, second, third.replace(right, wrong))


PORTS = """allow from gpu{a} port 22
allow from gpu{b} port 22
allow from gpu{a} port 80
allow from gpu{b} port 80
"""
IN_A_LINE = "peers = gpu{a}:8080, 10.0.0.1{a}:9090, gpu{b}:8080, 10.0.0.1{b}:9090\n"
NUMBERED = "peer.1 = gpu{a}.example.org gpu{a}\npeer.2 = gpu{b}.example.org gpu{b}\n"
WITH_OWN_ID = "peer gpu{a} from 0123456789abcde{own}\npeer gpu{b} from 0123456789abcde{own}\n"
OF_OTHERS = {"ports": PORTS, "in a line": IN_A_LINE, "numbered": NUMBERED}


@pytest.mark.parametrize("form", OF_OTHERS)
def test_a_list_of_the_others_with_more_than_names_is_no_difference(form: str) -> None:
    assert agree(*of_each(OF_OTHERS[form]))


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("ports", "gpu1 port 22", "gpu1 port 99"),
        ("ports", "allow from gpu2 port 80", "deny from gpu2 port 80"),
        ("ports", "allow from gpu2 port 80", "allow from gpu1 port 80"),
        ("ports", "allow from gpu2 port 80\n", ""),
        ("ports", "gpu1 port 80\nallow from gpu2 port 80", "gpu2 port 80\nallow from gpu2 port 80"),
        ("ports", "gpu2 port 22\nallow from gpu1 port 80", "gpu1 port 22\nallow from gpu2 port 80"),
        ("in a line", "gpu2:8080", "gpu2:1"),
        ("in a line", "10.0.0.12:9090", "10.0.0.12:1"),
        ("in a line", "10.0.0.12:9090", "10.0.0.11:9090"),
        ("in a line", "peers", "no_peers"),
        ("numbered", "peer.2", "peer.3"),
        ("numbered", "gpu2.example.org gpu2", "gpu2.example.net gpu2"),
        ("numbered", "gpu2.example.org gpu2", "gpu2.example.org gpu1"),
    ],
)
def test_the_rest_of_a_list_of_the_others_is_compared(form: str, right: str, wrong: str) -> None:
    first, second, third = of_each(OF_OTHERS[form])
    assert right in third
    assert not agree(first, second, third.replace(right, wrong))


def test_each_line_about_the_only_other_node_is_compared() -> None:
    two = (("name", "gpu[1-2]"), ("management address", "10.0.0.11-10.0.0.12"))
    first = forms("/bin/x --peer 10.0.0.12 --safe", 1, two)
    assert first & forms("/bin/x --peer 10.0.0.11 --safe", 2, two)
    for other in ("/bin/evil --peer 10.0.0.11 --safe", "/bin/x --peer 10.0.0.11 --unsafe"):
        assert not first & forms(other, 2, two)


def test_an_identity_beside_a_name_of_another_node_is_replaced() -> None:
    texts = set()
    for node, text in enumerate(of_each(WITH_OWN_ID), 1):
        own = Own({"name": [f"gpu{node}"], "boot ID": [f"0123456789abcde{node}"]}, ALIKE)
        texts.add(own.replaced(text))
    assert texts == {"peer <name of another node of its kind> from <boot ID of this node>\n" * 2}


def test_some_of_the_others_are_no_list_of_the_others() -> None:
    text = "bind 10.0.0.1{own}\nserver {server}\n"
    second, third = (
        text.format(own=own, server=server) for own, server in ((2, "gpu1"), (3, "gpu2"))
    )
    assert not forms(second, 2) & forms(third, 3)
    assert forms(second, 2) & forms(third.replace("gpu2", "gpu1"), 3)


def test_a_list_of_some_nodes_stays_as_it_is() -> None:
    four = (("name", "gpu[1-4]"), ("management address", "10.0.0.11-10.0.0.14"))
    listed = [forms(text, node, four) for node, text in enumerate(of_each(HOSTS), 1)]
    assert set.intersection(*listed)
    shorter = of_each(HOSTS)[2].replace("10.0.0.12 gpu2.example.org gpu2\n", "")
    assert not set.intersection(*listed[:2], forms(shorter, 3, four))


def test_without_the_plan_only_the_own_values_are_replaced() -> None:
    assert forms(PEERS.format(a=2, b=3), 1, ()) == {PEERS.format(a=2, b=3)}
    assert "<name of this node>" in "".join(forms("a gpu1\nb gpu2\n", 1, ()))


def plan(addresses: str, nodes: str = "gpu[1-3]") -> ClusterPlan:
    nodes_ = [{"name": nodes, "role": "worker", "hardware": "small", "management": addresses}]
    head = {"name": "head1", "role": "head", "hardware": "small", "management": "10.0.0.1"}
    cluster, problems = load(
        {
            "name": "lists",
            "networks": {"management": {"prefix": "10.0.0.0/16"}},
            "hardware": {"small": {"sockets": 1, "cores_per_socket": 2, "memory_mib": 8000}},
            "nodes": [{**head, "runs": ["slurm_controller", "slurm_accounting"]}, *nodes_],
            "os": {"release": "debian_13"},
            "scheduler": {"kind": "slurm"},
        },
        declared(),
    )
    assert cluster is not None, problems
    return planned(cluster, inventory="inventories/lists.py")


def test_a_request_has_the_nodes_of_the_kind_in_short() -> None:
    of = plan("10.0.0.11").nodes
    assert alike(of["gpu2"]) == ALIKE
    assert alike(of["head1"]) == ()
    assert dict(own(of["gpu2"]))["management address"] == "10.0.0.12"
    lettered = ",".join(f"n{n:04}-{'ab'[n % 2]}" for n in range(1, 101))
    assert alike(plan("10.0.1.1", lettered).nodes["n0007-b"]) == (
        ("management address", "10.0.1.1-10.0.1.100"),
    )
    spread = ",".join(f"gpu{2 * n}" for n in range(1, 65))
    assert "name" in dict(alike(plan("10.0.1.1", spread).nodes["gpu4"]))
    assert "name" not in dict(alike(plan("10.0.1.1", f"{spread},gpu130").nodes["gpu4"]))
    many = alike(plan("10.0.1.1", "gpu[0001-2000]").nodes["gpu0007"])
    assert many == (("name", "gpu[0001-2000]"), ("management address", "10.0.1.1-10.0.8.208"))
