"""Undoes a membership of Kubernetes that Lockstep made, once the plan of the node has none.

kubeadm ends with 0 although it left containers or a member of etcd behind, so both are looked at.
"""

from __future__ import annotations

import shlex

from pyinfra import host
from pyinfra.api import Host, StringCommand

from lockstep.facts.files import existing
from lockstep.facts.reading import connector_arguments
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    ADMIN_CONF,
    BEGUN,
    CNI_PROGRAMS,
    CRICTL,
    DONE,
    ETCD_DATA,
    JOIN_CONFIG,
    KUBECTL,
    MEMBERSHIP,
    OF_A_MEMBER,
    STATE,
    STOPPED,
)
from lockstep.roles.operations.kubernetes_member import RESET, RESET_CONFIGURATION
from lockstep.roles.operations.kubernetes_turns import turn
from lockstep.roles.operations.operation import Commands, ask, refusal

OTHER_CNI_PROGRAMS = "/usr/lib/cni"
"""Where containerd looks for CNI plugins on a node without Kubernetes (containerd_cri.toml.j2)."""
USERS_PODS = """\
import json, sys
names = [
    "{namespace}/{name}".format(**pod["metadata"])
    for pod in json.load(sys.stdin)["items"]
    if pod["annotations"].get("kubernetes.io/config.source") != "file"
    and "pod-template-generation" not in pod["labels"]
]
more = [f"{len(names) - 5} more"] if len(names) > 5 else []
print(", ".join(sorted(names)[:5] + more))
"""
"""Prints the pods that kubectl drain would have evicted: not those of DaemonSets
(extensions/v1beta1, DaemonSetTemplateGenerationKey) and no static ones (kubelet, types/
pod_update.go). The kubelet gives the labels and annotations of a pod to its sandbox."""
NETWORK = (
    "if command -v nft >/dev/null; then for f in ip ip6; do "
    "if nft list table $f kube-proxy >/dev/null 2>&1; then nft delete table $f kube-proxy; fi; "
    "done; fi"
)
"""As ``kube-proxy --cleanup`` does (pkg/proxy/nftables, CleanupLeftovers)."""
FORGET = f"rm -rf {BEGUN} {DONE} {JOIN_CONFIG} {STOPPED}"
LEFT = f"{STATE}/left-by-reset"
"""What a reset left: kubeadm has deleted all else that tells of the membership."""
ROLES = ("kubernetes_node", "kubernetes_worker", "kubernetes_control_plane")


def membership(plan: NodePlan) -> frozenset[str]:
    """Return what the node has of a membership that Lockstep made; empty if it is to stay.

    Args:
        plan: the plan of the node.
    """
    if plan.runs_kubelet or not all(map(plan.manages, ROLES)):
        return frozenset()
    there = ask(existing((*MEMBERSHIP, ADMIN_CONF, LEFT)))
    return there if there & {BEGUN, DONE} else frozenset()


def described(plan: NodePlan, there: frozenset[str], busy: str) -> str:
    """Return a line that says what becomes of the membership.

    Args:
        plan: the plan of the node.
        there: ``membership``, which is not empty.
        busy: why the node is busy; "" if it is not.
    """
    if LEFT in there:
        return f"left: what an earlier kubeadm reset left of the membership of {plan.name}"
    if not there.intersection(OF_A_MEMBER):
        return f"removed: the note that {plan.name} belongs to Kubernetes; it was reset already"
    etcd = f", its member of etcd and all below {ETCD_DATA}" if ADMIN_CONF in there else ""
    what = f"the membership of {plan.name} in Kubernetes (kubeadm reset: its pods{etcd})"
    return f"left: {what} waits: {busy}" if busy else f"removed: {what}"


def undone(plan: NodePlan, there: frozenset[str]) -> Commands:
    """Reset the node, unless pods of users run there, and remove Lockstep's notes.

    One head after the other, while the API servers of the heads that stay are ready.

    Args:
        plan: the plan of the node.
        there: ``membership``, which is not empty.
    """
    data = f"{ETCD_DATA}/member"
    if LEFT in there:
        yield f"cat {LEFT} >&2; exit 1"
    elif not there.intersection(OF_A_MEMBER):
        yield f"set -e; {NETWORK}; {FORGET}"
    elif data in there and ADMIN_CONF not in there:
        yield refusal(
            f"{plan.name} was not reset: {data} has data of an etcd, and {ADMIN_CONF} is missing, "
            "so it may be another etcd. kubeadm reset would delete it. Next: move it away, then "
            "run this again"
        )
    elif not host.state.is_executing:
        yield "kubeadm reset"
    elif ADMIN_CONF not in there:
        yield _reset(plan)
    else:
        this: Host = host.state.inventory.get_host(host.name)
        with turn(plan, this, connector_arguments(host), etcd=True) as why:
            yield refusal(why) if why else _reset(plan)


def _reset(plan: NodePlan) -> StringCommand:
    def says(before: str, after: str) -> str:
        return f"""echo {shlex.quote(before)}"$(echo "$said" | tail -n 5)"{shlex.quote(after)}"""

    def fails(before: str, after: str) -> str:
        return f"{{ {says(before, after)} >&2; exit 1; }}"

    def remembered(before: str, after: str) -> str:
        return f"{says(before, after)} | tee -a {LEFT} >&2"

    name, again = plan.name, "then run this again"
    once_done = f"then rm {LEFT} on {name}, and run this again"
    drain = f"{KUBECTL} drain {name} --ignore-daemonsets --delete-emptydir-data"
    not_reset = f"{name} was not reset"
    missing = (
        f"{not_reset}: it lacks kubeadm or crictl",
        f". Next: install them, {again}; or remove what kubeadm made, and {DONE}",
    )
    silent = (
        f"{not_reset}: containerd does not say which pods it has",
        f". Next: on {name}: systemctl start containerd; {again}",
    )
    in_use = f"{not_reset}, because it has pods: ", f". Next: on a head: {drain}; {again}"
    failed = f"kubeadm reset failed on {name}: ", f". Next: repair this on {name}, {again}"
    kept = (
        f"kubeadm reset left pods on {name}: ",
        f". Next: on {name}: {CRICTL} rmp --all --force; {once_done}",
    )
    member = (
        f"{name} may still be a member of etcd: ",
        ". Next: on another head: etcdctl member list, and etcdctl member remove "
        f"(docs/kubernetes.md, Remove a node); {once_done}",
    )
    ours, others = CNI_PROGRAMS, OTHER_CNI_PROGRAMS
    unlink = f"find {others} -lname '{ours}/*' -delete; rmdir --ignore-fail-on-non-empty {others}"
    steps = (
        "set -eu; said= bad=",
        f"command -v kubeadm >/dev/null && command -v crictl >/dev/null || {fails(*missing)}",
        f"said=$({CRICTL} pods --state ready --output json | "
        f"python3 -c {shlex.quote(USERS_PODS)} 2>/dev/null) || {fails(*silent)}",
        f'test -z "$said" || {fails(*in_use)}',
        # After a deploy without Kubernetes, containerd looks for plugins elsewhere, and does not
        # remove a pod whose network it cannot remove.
        f"mkdir -p {others}; trap {shlex.quote(unlink)} EXIT",
        f"for one in {ours}/*; do test -e {others}/${{one##*/}} || ln -sfn $one {others}/; done",
        f"said=$({{ {RESET}; }} 2>&1) || {fails(*failed)}",
        NETWORK,
        # Warnings of kubeadm (phases/reset/removeetcdmember.go, cmd/reset.go).
        'case "$said" in *"Failed to remove etcd member"*|*"Unable to fetch the kubeadm-config"*) '
        f"{remembered(*member)}; bad=1;; esac",
        f'test -z "$({CRICTL} pods --quiet || echo unknown)" || {{ {remembered(*kept)}; bad=1; }}',
        'test -z "$bad" || exit 1',
        FORGET,
    )
    return StringCommand("; ".join(steps), _stdin=RESET_CONFIGURATION)
