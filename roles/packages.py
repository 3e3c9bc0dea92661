"""Every package of the node, at its locked version, in one transaction; before any other role.

Owns     apt's pins, holds and further repositories, and the policy that keeps services from
         starting while packages arrive.
Restart  nothing: services are started by the roles that own them.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, debian
from lockstep.plan.validation import SHELL


def _sets(plan: NodePlan) -> tuple[str, ...]:
    """Return the packages of locked sets; those of other roles are named by these as well."""
    return tuple(plan.set_versions)


ROLE = Declaration(
    name="packages",
    title="Packages",
    more_packages=_sets,
    files=(
        File(
            path="/etc/apt/apt.conf.d/90lockstep",
            template="packages/apt.conf.j2",
            validate="apt-config -c {new} dump >/dev/null",
            wanted=debian,
        ),
        File(
            path="/etc/apt/sources.list.d/lockstep.sources",
            template="packages/repositories.sources.j2",
            validate=(
                'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp {new} "$d/lockstep.sources"; '
                'apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$d" '
                "indextargets >/dev/null"
            ),
            wanted=lambda plan: debian(plan) and bool(plan.spec.software.repositories),
        ),
        File(
            path="/etc/apt/preferences.d/90-lockstep",
            template="packages/preferences.j2",
            validate="apt-cache -o Dir::Etc::preferences={new} policy >/dev/null",
            wanted=debian,
        ),
        File(
            path="/usr/sbin/policy-rc.d",
            template="packages/policy-rc.d.j2",
            mode="755",
            validate=SHELL,
            wanted=debian,
        ),
    ),
    operations="lockstep.roles.operations.packages",
)
