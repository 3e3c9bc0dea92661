"""Operations of the role pyxis."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.job_containers import PyxisLoads, loads
from lockstep.facts.packages import package_state
from lockstep.facts.reading import ask
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGIN, PYXIS_PLUGSTACK
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.packages import APT_GET, change
from lockstep.roles.operations.workers_first import files_after_workers


@operation()
def plugin_of_this_slurm(version: str, slurm: str, otherwise: str) -> Generator[str, None, None]:
    """Install the newest build of the plugin again when Slurm does not load the one that is there.

    Args:
        version: of the package, as a pattern (apt_preferences(5)).
        slurm: series of Slurm, for the message.
        otherwise: shell command that keeps jobs from harm where no build fits.
    """
    if host.get_fact(PyxisLoads, plugin=PYXIS_PLUGIN):
        host.noop("Slurm loads the plugin")
        return
    state = ask(host, package_state((PYXIS_PACKAGE,)))
    # A build that was added since is not known yet, and the one that is there fits the pattern.
    yield f"{APT_GET} update"
    yield from change(state, (PYXIS_PACKAGE,), {PYXIS_PACKAGE: version}, (PYXIS_PACKAGE,))
    yield (
        f'( {loads(PYXIS_PLUGIN)} ) || {{ {otherwise}; echo "no build of {PYXIS_PACKAGE} {version} '
        f"in the repositories is for Slurm {slurm}: build it against this Slurm's libslurm-dev and "
        'put it into a repository, with a higher revision" >&2; exit 1; }'
    )


TAKES_NO_JOBS = f"if [ -x {HEALTH_CHECK} ]; then {HEALTH_CHECK}; fi"
"""The health check takes the node out, and back when Slurm loads the plugin."""
KNOWS_NO_CONTAINERS = f"rm -f {PYXIS_PLUGSTACK}"


def apply(plan: NodePlan) -> None:
    """See that Slurm loads the plugin, then let it."""
    plugin_of_this_slurm(
        name="Plugin of this Slurm",
        version=plan.versions[PYXIS_PACKAGE],
        slurm=plan.job_containers.slurm_series,
        otherwise=TAKES_NO_JOBS if plan.is_worker else KNOWS_NO_CONTAINERS,
    )
    if plan.is_worker:
        put_files(plan, "pyxis")
    else:
        files_after_workers(
            name="Files",
            plan=plan,
            files=managed(plan, None, "pyxis"),
            path=PYXIS_PLUGSTACK,
            plugin=PYXIS_PLUGIN,
        )
