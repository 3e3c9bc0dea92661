"""Rules about GPUs, RDMA devices and limits in containers."""

from __future__ import annotations

import re
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause
from lockstep.checks.context import Items, Value, View
from lockstep.checks.repair import (
    by_role,
)
from lockstep.checks.rule import (
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    as_text,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._rdma import has_rdma
from lockstep.probe.record import Unread

OLD_SPECIFICATION = (Cause("cdi.devices"), Cause("cdi.driver"), Cause("gpu.count"))
"""Containers get what the specification contains."""
UNREAD_WITH_DEVICES = Cause("container.devices", at=SAME_DEVICE, of=UNREAD)
"""A container that does not start is one finding."""
COMPARE_DROP_IN = (
    "compare `systemctl show {device}` on {node} with its drop-in, and restart {device}"
)
BY_HAND = (
    "on {node}: start a container by hand with {device}, and read its log (journalctl -u {device})"
)


def has_cdi(view: View) -> bool:
    """Apply to nodes whose containers get GPUs."""
    stack = view.plan.nvidia
    return stack is not None and stack.has("container_toolkit")


def asked(view: View) -> bool:
    """Apply where engines started a container (`lockstep check --containers`)."""
    return bool(view.plan.check_engines) and view.record.get("containers") != {}


def part(view: View, name: str) -> Items:
    """Return one reading from the container of each engine."""
    seen = view.items("containers")
    return {
        engine: value
        if isinstance(value, Unread)
        else value[name]
        if isinstance(value, dict) and name in value
        else Unread(unread=f"no {name} in the answer")
        for engine, value in seen.items()
    }


def named(files: Value, pattern: str) -> Value:
    """Return the device files that a pattern names."""
    if not isinstance(files, dict):
        return files
    return [path for path in sorted(files) if re.fullmatch(pattern, path)]


def numbered(files: Value, pattern: str) -> Value:
    """Return the device files that a pattern names, each with its number."""
    if not isinstance(files, dict):
        return files
    return [f"{path} {files[path]}" for path in sorted(files) if re.fullmatch(pattern, path)]


def unlike_the_node(seen: Value, own: Value) -> Value:
    """Return the differences between a container's list and its node's; none if equal."""
    if not isinstance(seen, list) or not isinstance(own, list):
        return own if isinstance(seen, list) else seen
    return [
        *(f"lacks {one}" for one in own if one not in seen),
        *(f"has {one}" for one in seen if one not in own),
    ]


def difference(value: JsonValue) -> str:
    """Return a list of differences as text."""
    return as_text(value) if value else "as on the node"


def files_unlike_the_node(view: View, pattern: str) -> Items:
    """Return the device files that differ between the container of each engine and the node."""
    own = numbered(view.read("device.files"), pattern)
    seen = part(view, "devices")
    return {
        engine: unlike_the_node(numbered(files, pattern), own) for engine, files in seen.items()
    }


def gpu_files(view: View) -> JsonValue:
    """Return the planned device files of the GPUs."""
    return list[JsonValue](sorted(view.plan.hardware.gpu_devices))


def driver(view: View) -> JsonValue:
    """Return the planned driver."""
    return [view.plan.nvidia.spec.driver] if view.plan.nvidia is not None else []


def _devices_items(view: View) -> Items:
    seen = view.record.items("cdi.devices")
    if isinstance(seen, Unread):
        return {"": seen}
    if view.plan.gpu and view.plan.gpu.mig:
        return {"": [name for name in sorted(seen) if re.fullmatch(r"\d+:\d+", name)]}
    listed = seen.get("all", [])
    if isinstance(listed, Unread) or not isinstance(listed, list):
        return {"": listed}
    # The toolkit adds the GPUs' files below /dev/dri.
    return {"": [path for path in listed if re.fullmatch(r"/dev/nvidia\d+", str(path))]}


def _devices_expected(view: View) -> JsonValue:
    gpu = view.plan.gpu
    if gpu is None or not gpu.mig:
        return gpu_files(view)
    names = (f"{device}:{n}" for device in range(gpu.count) for n in range(len(gpu.mig)))
    return list[JsonValue](sorted(names))


def _capabilities_items(view: View) -> Items:
    own = view.read("driver.instance_files")
    seen = part(view, "devices")
    return {
        engine: unlike_the_node(named(files, "/dev/nvidia-caps/.*"), own)
        for engine, files in seen.items()
    }


def _cpus_items(view: View) -> Items:
    return {
        engine: cpus
        for engine, cpus in part(view, "cpus").items()
        if f"{engine}.service" in view.plan.job_parents or isinstance(cpus, Unread)
    }


def _container_devices_items(view: View) -> Items:
    seen = part(view, "devices")
    return {engine: named(files, r"/dev/nvidia\d+") for engine, files in seen.items()}


def _devices_words(seen: JsonValue, wanted: JsonValue) -> tuple[str, str]:
    """Return the differences of two lists, in place of the lists."""
    return as_text(unlike_the_node(seen, wanted)), as_text(wanted)


def _memlock_expected(view: View) -> JsonValue:
    return str(view.plan.spec.os.memlock) if own_kernel(view) else None


def _applies(view: View) -> bool:
    return asked(view) and has_rdma(view)


def _uuids(files: Value, gpus: Items) -> Value:
    entries = numbered(files, r"/dev/nvidia\d+")
    if not isinstance(entries, list):
        return entries
    uuids: list[JsonValue] = []
    for entry in map(str, entries):
        uuid = gpus.get(entry.split()[1], f"no GPU at {entry}")
        if isinstance(uuid, Unread):
            return uuid
        uuids.append(uuid)
    return uuids


def _uuids_items(view: View) -> Items:
    gpus = view.items("driver.boards")
    if isinstance(unread := gpus.get(""), Unread):
        return {"": unread}
    own: Value = [uuid for uuid in gpus.values() if isinstance(uuid, str)]
    seen = part(view, "devices")
    return {engine: unlike_the_node(_uuids(files, gpus), own) for engine, files in seen.items()}


_container = partial(Rule, reading="containers", applies=asked)
"""Rules about the container of each engine."""

_unlike = partial(Rule, reading="containers", expected=same([]), text=Text(difference))
"""Rules about differences between a container and its node."""

RULES = (
    Rule(
        id="cdi.devices",
        claim="The CDI specification gives every GPU to a container that asks for all.",
        why="A container with seven of eight GPUs trains with seven, without any error.",
        blind="What an engine makes of the specification: container.devices (`lockstep check "
        '--containers`) judges that. Containers get divided GPUs (MIG) device by device: "0:1" '
        "is the second of the first GPU.",
        source=(
            "CNCF container-device-interface, SPEC.md; nvidia-ctk cdi generate, "
            "device-name-strategy index"
        ),
        reading="cdi.devices",
        look=Look(_devices_items),
        expected=same(_devices_expected),
        repair=by_role("container_runtime"),
        applies=has_cdi,
        explained_by=(Cause("gpu.count"), Cause("gpu.mig"), Cause("gpu.mig_layout")),
    ),
    Rule(
        id="cdi.driver",
        claim="The CDI specification mounts the libraries of the planned driver.",
        why=(
            "After a driver change an old specification names libraries that no longer exist. "
            "Containers then do not start, or see no GPU."
        ),
        blind="Libraries inside an image.",
        source="NVIDIA/nvidia-container-toolkit, issues 450, 856",
        reading="cdi.libraries",
        expected=same(driver),
        repair=by_role("container_runtime"),
        applies=has_cdi,
        explained_by=(
            Cause("package.version"),
            Cause("driver.library_version"),
            Cause("driver.module_version"),
            Cause("cdi.devices", of=UNREAD),
        ),
    ),
    _unlike(
        id="container.capabilities",
        claim="A container gets the capability files of its MIG instances and no others.",
        why=(
            "Without its file an instance cannot be used. With the files of mig/config a job "
            "could divide the GPUs again."
        ),
        blind="Files that the node itself lacks. IMEX channels, which have another name.",
        source="NVIDIA Multi-Instance GPU user guide, device nodes and capabilities",
        look=Look(_capabilities_items),
        repair=by_role("container_runtime", BY_HAND),
        applies=asked,
        explained_by=(Cause("gpu.mig"), UNREAD_WITH_DEVICES),
    ),
    _unlike(
        id="container.control_files",
        claim="A container gets the driver's control files with the node's device numbers.",
        why=(
            "CUDA opens nvidiactl and nvidia-uvm. Reloading the module changes the number of "
            "nvidia-uvm: an old specification then gives a file without a driver behind it."
        ),
        blind="Control files that the node itself lacks.",
        source=(
            "NVIDIA/nvidia-container-toolkit, device nodes common to all devices of a specification"
        ),
        look=Look(
            lambda view: files_unlike_the_node(
                view, "/dev/(nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-modeset)"
            )
        ),
        repair=by_role(
            "container_runtime", "on {node}: systemctl restart nvidia-cdi-refresh.service"
        ),
        applies=asked,
        explained_by=(*OLD_SPECIFICATION, UNREAD_WITH_DEVICES),
    ),
    _container(
        id="container.cpus",
        claim="Containers may run on every CPU of the node.",
        why=(
            "Engines start containers from a service. If that service may only use the "
            "housekeeping CPUs, so may its containers, and the whole job waits for them."
        ),
        blind=(
            "Limits that a job sets itself. Podman, whose containers get the CPUs of the user "
            "who starts them."
        ),
        source="proc_pid_status(5), Cpus_allowed_list; measured: a report on explicit cpusets",
        look=Look(_cpus_items),
        expected=same(lambda view: view.plan.hardware.cpu.all),
        text=Text(lambda value: f"CPUs {value}"),
        repair=by_role(
            "container_runtime",
            COMPARE_DROP_IN,
        ),
        explained_by=(Cause("cpu.count"), Cause("cpuset.services"), UNREAD_WITH_DEVICES),
    ),
    _container(
        id="container.devices",
        claim="A container with all GPUs sees all GPUs, on each engine.",
        why="An incomplete set of GPUs cost a production cluster a tenth of its speed.",
        blind=(
            "Containers that jobs start with other options. Which GPU has which name: "
            "container.uuids judges that."
        ),
        source="measured: a report on 1,600 GPUs, device sets of containers",
        look=Look(_container_devices_items),
        expected=same(gpu_files),
        text=Text(words=_devices_words),
        repair=by_role("container_runtime", BY_HAND),
        explained_by=OLD_SPECIFICATION,
    ),
    _container(
        id="container.libraries",
        claim="A container gets the driver's own library, on each engine.",
        why="A library and a kernel module of different versions do not work together.",
        blind="Libraries inside an image.",
        source="NVIDIA/nvidia-container-toolkit, issues 450, 856",
        look=Look(lambda view: part(view, "libraries")),
        expected=same(driver),
        repair=by_role("container_runtime"),
        explained_by=(
            *OLD_SPECIFICATION,
            UNREAD_WITH_DEVICES,
            Cause("package.version"),
            Cause("driver.library_version"),
        ),
    ),
    _container(
        id="container.memlock",
        claim="Containers may lock the declared amount of memory.",
        why="RDMA registers memory. With a smaller memlock limit NCCL falls back to TCP or fails.",
        blind=(
            "Limits that a job sets itself. Nodes that are containers themselves have the "
            "limit of their host and are compared with their peers."
        ),
        source="getrlimit(2); NCCL user guide, troubleshooting: memory lock limits",
        look=Look(lambda view: part(view, "memlock")),
        kind=Kind.SLOTS,
        expected=same(_memlock_expected),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} KiB" if str(value).isdigit() else str(value)),
        repair=by_role(
            "container_runtime",
            COMPARE_DROP_IN,
        ),
        explained_by=(UNREAD_WITH_DEVICES,),
    ),
    _unlike(
        id="container.rdma_devices",
        claim="A container with RDMA devices gets all of the node's, with the same numbers.",
        why="Without them NCCL falls back to TCP and only its log shows it.",
        blind=(
            "Devices that the node itself lacks: rdma.count and rdma.access judge those. Jobs "
            "that do not ask for them."
        ),
        source="NCCL user guide, troubleshooting; docker-run(1), --device of a folder",
        look=Look(lambda view: files_unlike_the_node(view, "/dev/infiniband/.*")),
        repair=by_role("container_runtime", BY_HAND),
        applies=_applies,
        explained_by=(Cause("rdma.count"), Cause("rdma.access"), UNREAD_WITH_DEVICES),
    ),
    _container(
        id="container.shm",
        claim="/dev/shm has the same size in an engine's containers on every node.",
        why="NCCL and data loaders use it. A job ends where it is too small.",
        blind=(
            "A size that is too small on all nodes. The size that a job asks for itself "
            "(--shm-size)."
        ),
        source="NCCL user guide, troubleshooting: shared memory; shm_overview(7)",
        look=Look(lambda view: part(view, "shm_kib")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} KiB"),
        repair=by_role(
            "container_runtime",
            "compare default-shm-size or shm_size of {device} on {node} with a peer",
        ),
        explained_by=(UNREAD_WITH_DEVICES,),
    ),
    _unlike(
        id="container.uuids",
        claim="The GPUs in a container are the node's GPUs, by UUID.",
        why=(
            "A device file with the right name and another GPU's number shows one GPU twice "
            "and hides another."
        ),
        blind="GPUs that the kernel module does not know: gpu.count judges those.",
        source=(
            "Linux, Documentation/admin-guide/devices.txt; /proc/driver/nvidia/gpus/*/information"
        ),
        look=Look(_uuids_items),
        repair=by_role("container_runtime", BY_HAND),
        applies=asked,
        explained_by=(
            *OLD_SPECIFICATION,
            Cause("container.devices", at=SAME_DEVICE),
            Cause("driver.*", of=UNREAD),
            Cause("gpu.count_driver"),
        ),
    ),
)
