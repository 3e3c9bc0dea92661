"""Container engines, and the GPUs in their containers by CDI.

Owns     one file per engine, never another tool's; the CDI specification's freshness.
Restart  an engine for its own file or program; containers go on (live-restore, shims).
"""

from __future__ import annotations

from functools import partial

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.validation import drop_in

PROGRAMS = {"containerd.service": "/usr/bin/containerd", "docker.service": "/usr/sbin/dockerd"}
"""In the order of their start: Docker uses containerd."""
CONTAINERD_JUDGES = "containerd --config {new} config dump >/dev/null"


def _has_engine(plan: NodePlan, engine: str) -> bool:
    return engine in plan.spec.software.containers.engines


def _runs(plan: NodePlan, unit: str) -> bool:
    # Debian's Docker starts its containers by containerd; Podman has no daemon.
    engines = {"containerd.service": ("containerd", "docker"), "docker.service": ("docker",)}
    return any(_has_engine(plan, engine) for engine in engines[unit])


def _read_by(plan: NodePlan, unit: str) -> tuple[str, ...]:
    engine = unit.partition(".")[0]
    return tuple(file.path for file in ROLE.files if engine in file.path and file.wanted(plan))


def _packages(plan: NodePlan) -> tuple[str, ...]:
    release, engines = plan.cluster.release, plan.spec.software.containers.engines
    named = tuple(name for engine in engines for name in release.engines[engine])
    return (*named, *plan.stack_packages("container_toolkit"))


ROLE = Declaration(
    name="container_runtime",
    title="Container runtime",
    jobs_use=True,
    when=lambda plan: plan.is_worker and bool(plan.spec.software.containers.engines),
    after=("gpu_settings",),
    more_packages=_packages,
    files=(
        File(
            path="/etc/containers/containers.conf.d/50-lockstep.conf",
            template="container_runtime/containers.conf.j2",
            validate="CONTAINERS_CONF_OVERRIDE={new} podman info >/dev/null",
            wanted=partial(_has_engine, engine="podman"),
        ),
        File(
            path="/etc/containerd/lockstep-cri.toml",
            template="container_runtime/containerd_cri.toml.j2",
            validate=CONTAINERD_JUDGES,
            wanted=partial(_has_engine, engine="containerd"),
        ),
        # After the file that it imports: a missing one is an error.
        File(
            path="/etc/containerd/lockstep.toml",
            template="container_runtime/containerd.toml.j2",
            validate=CONTAINERD_JUDGES,
            wanted=partial(_has_engine, engine="containerd"),
        ),
        File(
            path="/etc/systemd/system/containerd.service.d/50-lockstep.conf",
            template="container_runtime/containerd_unit.conf.j2",
            validate=drop_in("containerd.service"),
            wanted=partial(_has_engine, engine="containerd"),
        ),
        *(
            File(
                path=f"/etc/systemd/system/{unit}.d/50-lockstep-jobs.conf",
                template="container_runtime/jobs.conf.j2",
                validate=drop_in(unit, "50-lockstep-jobs.conf"),
                wanted=partial(_runs, unit=unit),
            )
            for unit in PROGRAMS
        ),
        File(
            path="/etc/docker/daemon.json",
            template="container_runtime/daemon.json.j2",
            validate="dockerd --validate --config-file {new} >/dev/null",
            wanted=partial(_has_engine, engine="docker"),
        ),
    ),
    units=tuple(
        Unit(
            name=unit,
            program=program,
            reads=partial(_read_by, unit=unit),
            reads_own_files=False,
            runs_jobs=True,
            wanted=partial(_runs, unit=unit),
        )
        for unit, program in PROGRAMS.items()
    ),
    operations="lockstep.roles.operations.container_runtime",
)
