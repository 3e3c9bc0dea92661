"""Questions about Kubernetes: its objects, and swap, with which no kubelet starts."""

from __future__ import annotations

from collections.abc import Iterable

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
