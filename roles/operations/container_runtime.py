"""Operations of the role container_runtime."""

from __future__ import annotations

import json
import shlex

from lockstep.facts.containers import (
    CRI_NAMESPACE,
    cdi_is_current,
    cdi_refused,
    docker_ends_containers,
    has_image,
)
from lockstep.facts.files import links
from lockstep.facts.gpus import gpu_states
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes_gpus import SMI_LINK, SMI_TARGET, links_program
from lockstep.plan.nvidia import CDI_REFRESH, CHECK_IMAGE, check_engines
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation
from lockstep.roles.operations.service import service, sockets_listen

LOADERS = {
    "containerd": f"ctr -n {CRI_NAMESPACE} images import --no-unpack -",
    "docker": "docker load",
    "podman": "podman load",
}
"""Engine -> command that loads an archive in the format of `docker save`."""

MANIFEST = [{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": [CHECK_IMAGE]}]

CONFIG = (
    '{"architecture": "%s", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "60"]}, '
    '"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}'
)

ARCHIVE = (
    'cd "$(mktemp -d)" && trap \'rm -r "$PWD"\' EXIT && mkdir bin && '
    # The same bytes on every node and at every time, so that the image has the same id.
    'cp "$(command -v busybox)" bin/busybox && tar --format=ustar --mtime=@0 --mode=0755 '
    "--owner=0 --group=0 --numeric-owner -cf layer.tar bin/busybox && "
    f"echo {shlex.quote(json.dumps(MANIFEST))} >manifest.json && "
    f"printf {shlex.quote(CONFIG)} "
    '"$(uname -m | sed "s/x86_64/amd64/; s/aarch64/arm64/")" '
    '"$(sha256sum layer.tar | cut -c-64)" >config.json && '
    "tar -c manifest.json config.json layer.tar"
)


@operation()
def cdi_specification(gpus: int) -> CommandsOrReason:
    """Regenerate the CDI specification if the toolkit would now write a different one.

    Args:
        gpus: the planned number of GPUs. If a GPU is missing, the file is not changed;
            otherwise the node would look like a healthy node with fewer GPUs. nvidia-ctk writes
            none while a GPU that must be reset does not answer it.
    """
    states = ask(gpu_states())
    if len(states.every) != gpus:
        present = f"{len(states.every)} of {gpus} GPUs are present"
        return f"{present}, so the CDI specification is not changed"
    if states.to_reset and (refused := ask(cdi_refused())):
        waiting = ", ".join(states.to_reset)
        return f"nvidia-ctk cannot write the CDI specification ({refused}); to reset: {waiting}"
    if not ask(cdi_is_current()):
        yield f"systemctl restart {CDI_REFRESH}.service"
    return "the CDI specification matches the GPUs and the driver"


@operation("the link exists")
def program_linked() -> Commands:
    """Link nvidia-smi, so that Kubernetes' device plugin finds it below the host's root."""
    if not ask(links((SMI_LINK,)))[SMI_LINK]:
        yield f"ln -s -f -n {SMI_TARGET} {SMI_LINK}"


@operation("containers survive a restart of Docker")
def live_restore() -> Commands:
    """Make a running Docker load live-restore from its configuration before it is restarted.

    dockerd(8): a reload applies live-restore, without which a restart stops every container.
    """
    if ask(docker_ends_containers()):
        yield "systemctl reload docker.service"


@operation("the engine has the check's image")
def check_image(engine: str) -> Commands:
    """Build the image for the check's containers; it contains only the node's own busybox.

    Args:
        engine: a key of ``LOADERS``.
    """
    if not ask(has_image(engine, CHECK_IMAGE)):
        yield f"({ARCHIVE}) | {LOADERS[engine]} >/dev/null"


def apply(plan: NodePlan) -> None:
    """Configure and start each container engine of the plan."""
    put_files(plan, "container_runtime")
    if "docker" in plan.engines:
        live_restore(name="Docker keeps containers running during a restart")
    keep_units(plan, "container_runtime")
    sockets_listen(name="Sockets")
    if plan.nvidia is not None and plan.nvidia.has("container_toolkit"):
        # The CDI specification has the path of the program.
        if links_program(plan):
            program_linked(name="Link to nvidia-smi")
        service(name="CDI refresh", unit=f"{CDI_REFRESH}.path", files=())
        cdi_specification(name="CDI specification", gpus=plan.gpu.count if plan.gpu else 0)
    for engine in check_engines(plan):
        check_image(name=f"Check image ({engine})", engine=engine)
