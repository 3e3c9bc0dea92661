"""Container engines, whose containers get GPUs through CDI.

Owns     for each engine, configuration files that no other tool writes, and drop-ins for its unit;
         the role also keeps the CDI specification up to date.
Restart  an engine when one of its files or its program changes; containers keep running
         (live-restore, shims).
"""

from __future__ import annotations

from functools import partial

from lockstep.facts.containers import (
    cdi_is_current,
    cdi_refused,
    docker_ends_containers,
    has_image,
)
from lockstep.facts.files import links
from lockstep.facts.gpus import gpu_states
from lockstep.facts.services import not_applied, service_state
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Unit, drop_in
from lockstep.plan.kubernetes import CERTS_D, CNI_PROGRAMS, SANDBOX_IMAGE
from lockstep.plan.kubernetes_gpus import SMI_LINK, links_program, runtimes
from lockstep.plan.nvidia import CDI_REFRESH, CHECK_IMAGE, check_engines, stack_packages
from lockstep.question import Questions

PROGRAMS = {"containerd.service": "/usr/bin/containerd", "docker.service": "/usr/sbin/dockerd"}
"""Unit -> its program. Docker uses containerd, so containerd starts first."""
CONTAINERD_JUDGES = "containerd --config {new} config dump >/dev/null"


def _has_engine(plan: NodePlan, engine: str) -> bool:
    return engine in plan.engines


def _runs(plan: NodePlan, unit: str) -> bool:
    # Debian's Docker starts its containers through containerd; Podman has no daemon.
    engines = {"containerd.service": ("containerd", "docker"), "docker.service": ("docker",)}
    return any(_has_engine(plan, engine) for engine in engines[unit])


def _read_by(plan: NodePlan, unit: str) -> tuple[str, ...]:
    engine = unit.partition(".")[0]
    return tuple(file.path for file in ROLE.files if engine in file.path and file.wanted(plan))


def _packages(plan: NodePlan) -> tuple[str, ...]:
    release, engines = plan.release, plan.engines
    named = tuple(name for engine in engines for name in release.engines[engine])
    toolkit = stack_packages(plan, "container_toolkit") if plan.is_worker else ()
    return (*named, *toolkit)


def _asks(plan: NodePlan) -> Questions:
    yield not_applied()
    if _has_engine(plan, "docker"):
        yield docker_ends_containers()
    if plan.nvidia is not None and plan.nvidia.has("container_toolkit"):
        yield from (service_state(f"{CDI_REFRESH}.path"), gpu_states())
        yield from (cdi_is_current(), cdi_refused())
    if links_program(plan):
        yield links((SMI_LINK,))
    yield from (has_image(engine, CHECK_IMAGE) for engine in check_engines(plan))


ROLE = Declaration(
    name="container_runtime",
    title="Container runtime",
    jobs_use=True,
    when=lambda plan: bool(plan.engines),
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
            values={
                "sandbox_image": SANDBOX_IMAGE,
                "cni_programs": CNI_PROGRAMS,
                "certs_d": CERTS_D,
                "runtimes": runtimes,
            },
            validate=CONTAINERD_JUDGES,
            wanted=partial(_has_engine, engine="containerd"),
        ),
        # This file is written after the one that it imports, because a missing import is an error.
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
    asks=_asks,
    unchecked={
        "program_linked": (
            "cdi.current, which the check compares, has the path of the program; a pod without the "
            "link lacks only nvidia-smi, and the next deploy makes it"
        ),
        "live_restore": (
            "file.content checks the file; the value in a running Docker matters only at a "
            "restart, and a deploy reloads Docker before that"
        ),
        "check_image": (
            "lockstep check --containers starts a container from the image; without the image the "
            "check reports that it could not read the engine's containers"
        ),
    },
)
