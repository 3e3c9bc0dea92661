"""Validates what a description has inside of Kubernetes: namespaces, users, priority classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lockstep.spec.kubernetes import Kubernetes
from lockstep.spec.problem import Problem

MADE_BY_LOCKSTEP = ("local-path-storage",)


def object_problems(settings: Kubernetes, here: tuple[str | int, ...]) -> Iterator[Problem]:
    """Find objects that Kubernetes would refuse, or that contradict each other.

    Args:
        settings: the settings of Kubernetes.
        here: where the description has them.
    """
    known = {one.name for one in settings.namespaces}
    for field, names in (
        ("namespaces", [one.name for one in settings.namespaces]),
        ("users", [one.name for one in settings.users]),
    ):
        counted = Counter(names)
        for index, name in enumerate(names):
            if counted[name] > 1 and name in names[:index]:
                yield Problem((*here, field, index, "name"), name, "a name that is there once")
    for index, one in enumerate(settings.namespaces):
        if one.name.startswith("kube-") or one.name in MADE_BY_LOCKSTEP:
            yield Problem(
                (*here, "namespaces", index, "name"),
                one.name,
                "a name that does not begin with kube-, which is for Kubernetes itself, and is not "
                f"{MADE_BY_LOCKSTEP[0]}, which Lockstep makes for storage_path",
            )
    for index, user in enumerate(settings.users):
        for namespace in user.access:
            if namespace not in known:
                yield Problem(
                    (*here, "users", index, "access"),
                    namespace,
                    f"a namespace of the description: {', '.join(sorted(known)) or 'none'}",
                )
    for name in settings.priority_classes:
        if name.startswith("system-"):
            yield Problem(
                (*here, "priority_classes"),
                name,
                "a name that does not begin with system-, which is for Kubernetes itself",
            )
    path = settings.storage_path
    if path is not None and path.rstrip("/").count("/") < 2:
        yield Problem(
            (*here, "storage_path"), path, "a folder on the scratch disk, such as /scratch/volumes"
        )
