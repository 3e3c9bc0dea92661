"""Operations of the role container_runtime."""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator

from pyinfra import host

from lockstep.facts.gpus import (
    CRI_NAMESPACE,
    CdiSpecification,
    CheckImage,
    DockerEndsContainers,
    Gpus,
)
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import CDI_REFRESH, CHECK_IMAGE
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.service import service

LOADERS = {
    "containerd": f"ctr -n {CRI_NAMESPACE} images import --no-unpack -",
    "docker": "docker load",
    "podman": "podman load",
}
"""Each reads an archive as `docker save` writes it."""

MANIFEST = [{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": [CHECK_IMAGE]}]

CONFIG = (
    '{"architecture": "%s", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "60"]}, '
    '"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}'
)

ARCHIVE = (
    'cd "$(mktemp -d)" && trap \'rm -r "$PWD"\' EXIT && tar -C /usr -cf layer.tar bin/busybox && '
    f"echo {shlex.quote(json.dumps(MANIFEST))} >manifest.json && "
    f"printf {shlex.quote(CONFIG)} "
    '"$(dpkg --print-architecture)" "$(sha256sum layer.tar | cut -c-64)" >config.json && '
    "tar -c manifest.json config.json layer.tar"
)


@operation()
def cdi_specification(boards: int) -> Generator[str, None, None]:
    """Have the CDI specification made anew when it is not what the toolkit would write now.

    Args:
        boards: as planned. A node that lacks one is not set up as a healthy smaller one.
    """
    present = len(host.get_fact(Gpus).every)
    if present != boards:
        host.noop(f"{present} of {boards} boards: the CDI specification is left as it is")
    elif host.get_fact(CdiSpecification):
        host.noop("the CDI specification is of these boards and this driver")
    else:
        yield f"systemctl restart {CDI_REFRESH}.service"


@operation()
def live_restore() -> Generator[str, None, None]:
    """Have a running Docker take live-restore from its file, before anything restarts it.

    dockerd(8): live-restore is among what a reload takes over; without it a restart ends every
    container.
    """
    if host.get_fact(DockerEndsContainers):
        yield "systemctl reload docker.service"
    else:
        host.noop("a restart of Docker ends no container")


@operation()
def check_image(engine: str) -> Generator[str, None, None]:
    """Make the image that the check starts containers from: the node's own busybox, nothing else.

    Args:
        engine: one of LOADERS.
    """
    if host.get_fact(CheckImage, engine=engine, image=CHECK_IMAGE):
        host.noop(f"{engine} has the image of the check")
    else:
        yield f"({ARCHIVE}) | {LOADERS[engine]} >/dev/null"


def apply(plan: NodePlan) -> None:
    """Configure and run each engine of the plan."""
    put_files(plan, "container_runtime")
    if "docker" in plan.spec.software.containers.engines:
        live_restore(name="Docker keeps containers over a restart")
    keep_units(plan, "container_runtime")
    if plan.nvidia is not None and plan.nvidia.has("container_toolkit"):
        service(name="CDI refresh", unit=f"{CDI_REFRESH}.path", files=())
        cdi_specification(name="CDI specification", boards=plan.gpu.count if plan.gpu else 0)
    for engine in plan.check_engines:
        check_image(name=f"Image of the check ({engine})", engine=engine)
