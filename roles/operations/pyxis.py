"""Operations of the role pyxis."""

from __future__ import annotations

from lockstep.facts.containers import loads, slurm_loads
from lockstep.facts.packages import package_state
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGSTACK
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.packages import REFRESH, Family, change
from lockstep.roles.operations.workers_first import files_after_workers


@operation("Slurm loads the plugin")
def plugin_of_this_slurm(
    version: str, slurm: str, otherwise: str, plugin: str, family: Family
) -> Commands:
    """Install the newest build of the plugin if Slurm does not load the installed one.

    Args:
        version: the package version, as a pattern (apt_preferences(5)).
        slurm: the release series of Slurm, for the error message.
        otherwise: a shell command that protects jobs if Slurm can load no build of the plugin.
        plugin: the path of the plugin.
        family: the family of the node's release.
    """
    if ask(slurm_loads(plugin)):
        return
    state = ask(package_state((PYXIS_PACKAGE,)))
    # The package lists may lack a newer build: the installed one matches the pattern as well.
    yield REFRESH[family]
    yield from change(
        state, (PYXIS_PACKAGE,), {PYXIS_PACKAGE: version}, (PYXIS_PACKAGE,), family=family
    )
    yield (
        f'( {loads(plugin)} ) || {{ {otherwise}; echo "no build of {PYXIS_PACKAGE} {version} '
        f"in the repositories fits Slurm {slurm}. Next: build it against this Slurm's libslurm-dev "
        'and add it to a repository, with a higher revision" >&2; exit 1; }'
    )


TAKES_NO_JOBS = f"if [ -x {HEALTH_CHECK} ]; then {HEALTH_CHECK}; fi"
"""Command that runs the health check, which drains the node until Slurm loads the plugin."""
KNOWS_NO_CONTAINERS = f"rm -f {PYXIS_PLUGSTACK}"


def apply(plan: NodePlan) -> None:
    """Make sure that Slurm can load the plugin, then write the line that tells Slurm to load it."""
    plugin_of_this_slurm(
        name="Plugin for this Slurm",
        version=plan.software.versions[PYXIS_PACKAGE],
        slurm=plan.job_containers.slurm_series,
        otherwise=TAKES_NO_JOBS if plan.is_worker else KNOWS_NO_CONTAINERS,
        plugin=plan.job_containers.plugin,
        family=plan.release.family,
    )
    if plan.is_worker:
        put_files(plan, "pyxis")
    else:
        files_after_workers(
            name="Files",
            plan=plan,
            files=managed(plan, None, "pyxis"),
            path=PYXIS_PLUGSTACK,
            plugin=plan.job_containers.plugin,
        )
