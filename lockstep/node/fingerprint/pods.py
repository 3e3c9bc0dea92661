"""What network plugins of Kubernetes make on each node: for its pods, and for those of its peers.

A node has a route, a neighbour and an entry of a bridge for each other node, so that all differ.
What the plugins are told is the same on all nodes: their files, chains and interfaces remain.
"""

from __future__ import annotations

import re

from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.readers.tree import exists

DEVICES = (
    r"(?:flannel(?:-v6)?\.\d+|flannel-wg(?:-v6)?|cni\d+|vxlan(?:-v6)?\.calico|Calico's tunl0"
    r"|wg-v6\.cali|wireguard\.cali|cilium_\w+|lxc[0-9a-f]+|lxc_health|cali[0-9a-f]+|kube-ipvs0"
    r"|kube-bridge|weave|antrea-gw0|ovn-k8s-mp0)"
)
"""Interfaces of Flannel ("Backends", flannel.1; cni0 of the bridge plugin), Calico ("Felix
configuration", VXLAN and WireGuard interfaces; tunl0 of IP in IP), Cilium ("Routing"), kube-proxy
in IPVS mode, kube-router, Weave, Antrea and OVN-Kubernetes."""
OF_PODS = re.compile(DEVICES)
BLOCK = r"\S+/(?:26|122)(?: table \S+)?(?: dev \S+)? by Calico's (?:bird|80)"
"""A block of addresses of Calico ("IP pool", blockSize: 26 and 122 unless set), as BIRD and Felix
(protocol 80) route them."""
ROUTED = ("bird", "80")
OF_LOCKSTEP = "76"
"""Protocol of the routes of the role kubernetes_node, one for each other node. The rule
kubernetes.routes compares them with the description."""
ROUTES_OF_LOCKSTEP = "/etc/lockstep/pod-routes"
OF_CALICO = "/var/lib/calico"
"""calico/node writes the node's name into this folder ("Configuring calico/node", NODENAME)."""
MADE = "A network plugin of Kubernetes makes it for the pods of one node."

EXCEPTIONS_OF_PODS = (
    # Cilium has a table with a default route of its own; one in the main table is for the node.
    Exempt("route", rf"(?!IPv[46] default dev )(?:.* )?dev {DEVICES}(?: by (?:Calico's )?\w+)?"
           r"(?: metric \d+)?(?: #\d+)?", WHOLE, MADE),
    Exempt("route", r"\S+ by Lockstep(?: metric \d+)?(?: #\d+)?", WHOLE, "It leads to the pods of "
           "another node, so each node lacks another one. kubernetes.routes compares all of them."),
    Exempt("route", rf"{BLOCK}(?: metric \d+)?(?: #\d+)?", WHOLE, MADE),
    Exempt("neighbour", rf"(?:proxy )?\S+(?: \S+)? dev {DEVICES}(?: #\d+)?", WHOLE, MADE),
    Exempt("address", rf"{DEVICES} .*", WHOLE, MADE),
    Exempt("firewall", r"ipset cali[46]0(?:this-host|all-vxlan-net|all-hosts-net)", "elements",
           "Calico puts the addresses of this node, or those of the others, into it."),
)  # fmt: skip
"""The interfaces themselves are compared; those of single pods are left out everywhere."""
SORTED = re.compile(r"KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL)")
"""Chains with one rule for each service, which kube-proxy writes in no order; no packet matches two
of them. The last rule of KUBE-SERVICES leads to KUBE-NODEPORTS."""


def called(device: str) -> str:
    """Return the name of an interface; whether tunl0 is Calico's or an operator's is told apart."""
    return "Calico's tunl0" if device == "tunl0" and exists(OF_CALICO) else device


def routed_by(protocol: str) -> str:
    """Return who made a route; "" if its name has no such part.

    A router of the site may use the same protocols: BIRD runs on its own, too.
    """
    if protocol == OF_LOCKSTEP and exists(ROUTES_OF_LOCKSTEP):
        return "Lockstep"
    if protocol not in ROUTED:
        return ""
    return f"Calico's {protocol}" if exists(OF_CALICO) else protocol


def ordered(chain: str, rules: list[str]) -> list[str]:
    """Return the rules of a chain, sorted if their order says nothing."""
    if not SORTED.fullmatch(chain):
        return rules
    return sorted(rules, key=lambda rule: (rule.endswith("-j KUBE-NODEPORTS"), rule))
