"""Questions about Kubernetes: its objects."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.question import Question


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
