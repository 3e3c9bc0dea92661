"""Every package of the node, at its locked version, in one transaction before any other role.

Owns     apt's pins, holds and additional repositories, the policy-rc.d that keeps services from
         starting during the installation, and on Ubuntu the setting that keeps needrestart(1) from
         restarting them afterwards.
Restart  nothing: the roles that own the services start them.
"""

from __future__ import annotations

from lockstep.facts.driver import boot_kernels, loaded_driver
from lockstep.facts.packages import package_state
from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File, debian
from lockstep.question import Questions


def _asks(plan: NodePlan) -> Questions:
    yield package_state(plan.software.packages)
    driver = plan.software.driver
    if driver is not None:
        yield loaded_driver()
        if driver.flavour:
            yield boot_kernels()


ROLE = Declaration(
    name="packages",
    title="Packages",
    # The packages of the version set; other roles declare their own packages as well.
    more_packages=lambda plan: tuple(plan.software.version_set),
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
            wanted=lambda plan: debian(plan) and bool(plan.software.repositories),
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
        File(
            path="/etc/needrestart/conf.d/50-lockstep.conf",
            template="packages/needrestart.conf.j2",
            validate='said="$(perl -c {new} 2>&1)" || {{ echo "$said" >&2; exit 1; }}',
            wanted=lambda plan: plan.release.id == "ubuntu",
        ),
    ),
    operations="lockstep.roles.operations.packages",
    asks=_asks,
)
