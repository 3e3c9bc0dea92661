"""Operations of the role kubernetes_releases."""

from __future__ import annotations

import shlex

from lockstep.facts.kubernetes import release_states
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import KUBECTL
from lockstep.plan.kubernetes_releases import Release, release_sources, releases, rolled_out
from lockstep.roles.operations.operation import Commands, ask, operation

HELM_MAJOR = 4
"""The release whose options are used: Helm 3 has no --force-conflicts (helm upgrade --help)."""
LIMIT_S = 360.0
"""Seconds for all releases: the charts are downloaded, Helm waits for their hooks, and new pods
start."""


def applied(plan: NodePlan) -> None:
    """Install the releases, and repair those that differ."""
    as_planned(name="Releases", plan=plan)


@operation("every release is as planned", limit_s=LIMIT_S)
def as_planned(plan: NodePlan) -> Commands:
    """Install, upgrade or repair each release that is missing or differs.

    Args:
        plan: the plan of the node.
    """
    found = ask(release_states(release_sources(plan)))
    for one in releases(plan):
        state = found[one.source]
        if state == one.planned:
            continue
        if state["status"].startswith("pending-"):
            yield _forgotten(one, state["status"])
        yield (
            f"{_right_helm(plan)}; "
            f'said=$({one.command} 2>&1) || {{ echo "$said" | tail -n 12 >&2; exit 1; }}; '
            # Until its new pods run, the device plugin still offers what the old ones have found.
            f"{rolled_out(one.namespace)}"
        )


def _right_helm(plan: NodePlan) -> str:
    """Return a command that fails unless Helm is of the planned major release."""
    wrong = (
        f" is installed on {plan.name}, and Lockstep needs Helm {HELM_MAJOR}. Next: lock it, as in "
        f'software.versions: {{"helm": "{HELM_MAJOR}.*"}}, with a repository that has it, then run '
        "this again"
    )
    return (
        "version=$(helm version --template '{{.Version}}') || exit 1; "
        f'case "$version" in v{HELM_MAJOR}.*) ;; '
        f'*) echo "Helm $version"{shlex.quote(wrong)} >&2; exit 1;; esac'
    )


def _forgotten(release: Release, status: str) -> str:
    """Return a command that removes Helm's record of a revision that was interrupted.

    Helm refuses to work on such a release (pkg/action/upgrade.go: IsPending). Its objects have
    Helm's labels, so the next revision takes them over.
    """
    return (
        f"{KUBECTL} --namespace {release.namespace} delete secrets "
        f"--selector owner=helm,name={release.name},status={status}"
    )
