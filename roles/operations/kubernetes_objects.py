"""Operations of the role kubernetes_objects."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from lockstep.facts.kubernetes import (
    COREDNS,
    DIFFERS,
    FIXED,
    LEFT_OVER,
    MISSING,
    REPLICAS,
    nodes_seen,
    object_states,
)
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import KUBEADM_CONFIG, KUBECTL
from lockstep.plan.kubernetes_objects import OWNER, manifests, object_sources
from lockstep.roles.operations.operation import Commands, ask, operation

APPLY = f"{KUBECTL} apply --server-side --force-conflicts --field-manager={OWNER}"
ADDONS = " && ".join(
    f"kubeadm init phase addon {name} --config {KUBEADM_CONFIG} --print-manifest"
    for name in ("kube-proxy", "coredns")
)
"""kubeadm begins each object with a line of three dashes."""
PODS = 2
"""CoreDNS' pods when kubeadm installs it; it keeps another number that it finds
(phases/addons/dns/dns.go, coreDNSReplicas)."""
MADE_ANEW = ("ClusterRoleBinding", "PriorityClass", "RoleBinding", "StorageClass")
"""Kinds with fields that cannot change."""
NEVER_DELETED = ("Namespace",)
"""Kinds that are only deleted by a person, because all that is in them is deleted as well."""


def applied(plan: NodePlan) -> None:
    """Give the managed objects their planned fields, and delete those that are left over."""
    as_planned(name="Objects", plan=plan)
    labelled(name="Labels of nodes", plan=plan)


@operation("every node has its planned labels")
def labelled(plan: NodePlan) -> Commands:
    """Set planned labels that are missing or differ. A kubelet sets them only when it joins.

    Args:
        plan: the plan of the node.
    """
    for name, seen in ask(nodes_seen()).items():
        node = plan.cluster.nodes.get(name)
        if node is None or not node.runs_kubelet:
            continue
        changed = [
            shlex.quote(f"{key}={value}")
            for key, value in node.kubernetes.labels.items()
            if seen["labels"].get(key) != value
        ]
        if changed:
            yield f"{KUBECTL} label --overwrite node {shlex.quote(name)} {' '.join(changed)}"


@operation("every object is as planned", limit_s=180.0)
def as_planned(plan: NodePlan) -> Commands:
    """Apply the manifests if an object is missing or differs, and delete left-over objects.

    Objects without Lockstep's label, and fields that no manifest has, are left alone.

    Args:
        plan: the plan of the node.
    """
    found = ask(object_states(object_sources(plan)))
    changed = {one for one, how in found.items() if how.startswith((MISSING, DIFFERS))}
    # Of these kinds nothing that runs depends on the object itself.
    fixed = (one for one, how in found.items() if how == FIXED and _kind(one) in MADE_ANEW)
    yield from _deleted(fixed)
    if changed:
        files = manifests(plan)
        if files:
            yield _again(f"{APPLY} {' '.join(f'-f {shlex.quote(path)}' for path in files)}")
        # Without the number of replicas, which a site may change. kubeadm's own phase fails if
        # it finds a configuration of CoreDNS that it does not know.
        kept = f"sed '/^  replicas: {PODS}$/d'"
        yield f"made=$({ADDONS}) && printf '%s\\n' \"$made\" | {kept} | {APPLY} -f - >/dev/null"
        if found.get(COREDNS, "").startswith((MISSING, DIFFERS + REPLICAS)):
            yield f"{KUBECTL} -n kube-system scale deployment coredns --replicas={PODS}"
    yield from _deleted(one for one, how in found.items() if how == LEFT_OVER)


def _kind(one: str) -> str:
    return one.partition(" ")[0]


def _again(command: str) -> str:
    """Return a command that tries thrice: a type that a manifest defines is known a bit later."""
    return (
        f"for wait in 2 4 0; do said=$({command} 2>&1) && exit 0; sleep $wait; done; "
        'echo "$said" >&2; exit 1'
    )


def _deleted(objects: Iterable[str]) -> Iterator[str]:
    """Return a command for each object, "Kind namespace/name", that may be deleted."""
    for one in sorted(objects):
        kind, _, place = one.partition(" ")
        namespace, _, name = place.rpartition("/")
        if kind in NEVER_DELETED:
            continue
        of = f"-n {shlex.quote(namespace)} " if namespace else ""
        yield (
            f"{KUBECTL} {of}delete {shlex.quote(kind)} {shlex.quote(name)} "
            "--ignore-not-found --wait=false"
        )
