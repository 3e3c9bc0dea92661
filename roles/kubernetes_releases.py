"""Helm releases in Kubernetes, from the first head of the control plane.

Owns     the releases, and their values in /etc/kubernetes/lockstep-releases.
Restart  nothing; Kubernetes replaces the pods of objects that change.
"""

from __future__ import annotations

from functools import partial

from lockstep.facts.kubernetes import release_states
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Stage
from lockstep.plan.kubernetes_releases import NAMES, Release, path_of, release_sources, releases


def _chosen(plan: NodePlan, name: str) -> Release | None:
    return next((one for one in releases(plan) if one.name == name), None)


def _text(plan: NodePlan, name: str) -> str:
    found = _chosen(plan, name)
    return "" if found is None else found.text


def _file(name: str) -> File:
    """Return the file with the values of a release; text, because it is JSON after comments."""
    return File(
        path=path_of(name),
        text=partial(_text, name=name),
        own=True,
        wanted=lambda plan: _chosen(plan, name) is not None,
    )


ROLE = Declaration(
    name="kubernetes_releases",
    title="Helm releases",
    when=lambda plan: bool(releases(plan)),
    after=("kubernetes_objects",),
    packages={"": ("helm",)},
    files=tuple(map(_file, NAMES)),
    operations="lockstep.roles.operations.kubernetes_releases",
    stages=(
        # The namespaces are objects of manifests.
        Stage(
            function="applied",
            title="Helm releases",
            after=("kubernetes_releases", "kubernetes_objects.applied"),
            late=True,
            asks=lambda plan: [release_states(release_sources(plan))],
        ),
    ),
)
