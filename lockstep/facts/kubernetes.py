"""Questions about Kubernetes: objects, Helm releases, nodes, routes to pods, and swap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lockstep.node.readers.kubernetes_objects import COREDNS as COREDNS
from lockstep.node.readers.kubernetes_objects import DIFFERS as DIFFERS
from lockstep.node.readers.kubernetes_objects import FIXED as FIXED
from lockstep.node.readers.kubernetes_objects import LEFT_OVER as LEFT_OVER
from lockstep.node.readers.kubernetes_objects import MISSING as MISSING
from lockstep.node.readers.kubernetes_objects import REPLICAS as REPLICAS
from lockstep.plan.kubernetes import KUBEADM_CONFIG
from lockstep.question import Question, Taken, question


@question("swap areas", "memory.swap")
def swap_areas(taken: Taken) -> tuple[str, ...]:
    """Ask for the swap areas in use, each with its type and size."""
    return tuple(taken["memory.swap"])


def object_states(manifests: Iterable[str]) -> Question[dict[str, str]]:
    """Ask for the managed objects that are not as planned: "Kind namespace/name" -> what is wrong.

    The values are "missing", "differs: " with paths of fields, and "left over"; see the reading.

    Args:
        manifests: what to compare (``lockstep.plan.kubernetes_objects.object_sources``).
    """
    return Question(
        "objects of Kubernetes",
        ("kubernetes.objects",),
        lambda taken: dict(taken["kubernetes.objects"]),
        {"manifests": tuple(manifests)},
    )


def release_states(releases: Iterable[str]) -> Question[dict[str, dict[str, Any]]]:
    """Ask for the state of Helm releases: "namespace/name" -> chart, status, values, objects.

    Args:
        releases: the releases (``lockstep.plan.kubernetes_releases.release_sources``).
    """
    return Question(
        "Helm releases",
        ("kubernetes.releases",),
        lambda taken: dict(taken["kubernetes.releases"]),
        {"releases": tuple(releases)},
    )


def pod_routes() -> Question[dict[str, str]]:
    """Ask for the routes to the pods of other nodes: network -> router."""
    return Question(
        "routes to pods", ("kubernetes.routes",), lambda taken: dict(taken["kubernetes.routes"])
    )


def nodes_seen() -> Question[dict[str, dict[str, Any]]]:
    """Ask a head for the API server's view of each node."""
    return Question(
        "nodes of Kubernetes", ("kubernetes.nodes",), lambda taken: dict(taken["kubernetes.nodes"])
    )


def static_pods() -> Question[dict[str, str]]:
    """Ask for the static pods whose manifests differ from kubeadm's configuration: name -> how."""
    return Question(
        "static pods",
        ("kubernetes.manifests",),
        lambda taken: dict(taken["kubernetes.manifests"]),
        {"kubeadm": (KUBEADM_CONFIG,)},
    )
