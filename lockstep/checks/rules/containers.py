"""Rules about GPUs, RDMA devices and limits in containers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import whole
from lockstep.checks.rule import (
    SAME_DEVICE,
    UNREAD,
    Cause,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    as_text,
    by_role,
    same,
)
from lockstep.checks.rules.boot import own_kernel
from lockstep.checks.rules.rdma import has_rdma
from lockstep.plan.nvidia import check_engines
from lockstep.probe.record import Unread, item

OLD_SPECIFICATION = (Cause("cdi.devices"), Cause("cdi.driver"), Cause("gpu.count"))
"""A container gets only the devices and libraries that the CDI specification lists."""
UNREAD_WITH_DEVICES = Cause("container.devices", at=SAME_DEVICE, of=UNREAD)
"""If a container does not start, only one finding is reported."""
COMPARE_DROP_IN = (
    "compare the output of `systemctl show {device}` on {node} with the unit's drop-in, and "
    "restart {device}"
)
BY_HAND = (
    "on {node}: start a container by hand with {device}, and read the log of {device} "
    "(journalctl -u {device})"
)
NUMBERED = "{0} {1}"
"""The format of a device file with its device number."""


def has_cdi(view: View) -> bool:
    """Return whether the plan of the node gives containers access to GPUs."""
    return view.plan.nvidia is not None and view.plan.nvidia.has("container_toolkit")


def asked(view: View) -> bool:
    """Return whether the check starts containers on the node (`lockstep check --containers`)."""
    return bool(check_engines(view.plan)) and view.record.get("containers") != {}


def entry(name: str) -> Callable[[JsonValue], Value]:
    """Return a function that selects the reading ``name`` of a container."""
    missing = Unread(unread=f"the container did not report {name}")
    return lambda seen: seen.get(name, missing) if isinstance(seen, dict) else missing


def matching(files: Value, pattern: str, form: str = "{0}") -> Value:
    """Return the device files that match a pattern; NUMBERED adds the device numbers."""
    if not isinstance(files, dict):
        return files
    return [form.format(path, files[path]) for path in sorted(files) if re.fullmatch(pattern, path)]


DEVICES = entry("devices")


def unlike_the_node(seen: Value, own: Value) -> Value:
    """Return the differences between a container's list and its node's list."""
    if not isinstance(seen, list) or not isinstance(own, list):
        return own if isinstance(seen, list) else seen
    return [
        *(f"lacks {one}" for one in own if one not in seen),
        *(f"has {one}" for one in seen if one not in own),
    ]


def unlike(
    own: Callable[[View], Value], shown: Callable[[View, Value], Value]
) -> Callable[[View], Items]:
    """Return a function that compares the device files in each container with the node's."""
    return lambda view: {
        engine: seen
        if isinstance(seen, Unread)
        else unlike_the_node(shown(view, DEVICES(seen)), own(view))
        for engine, seen in view.items("containers").items()
    }


def files_unlike_the_node(pattern: str) -> Callable[[View], Items]:
    """Return a function that compares each container's device paths and numbers with the node's."""
    return unlike(
        lambda view: matching(view.read("device.files"), pattern, NUMBERED),
        lambda view, files: matching(files, pattern, NUMBERED),
    )


def gpu_files(view: View) -> JsonValue:
    """Return the planned device files of the GPUs."""
    return list[JsonValue](sorted(view.plan.hardware.gpu_devices))


def driver(view: View) -> JsonValue:
    """Return the planned driver version as a list."""
    return [view.plan.nvidia.spec.driver] if view.plan.nvidia is not None else []


def _cdi_devices(view: View, seen: JsonValue) -> Value:
    if not isinstance(seen, dict):
        return seen
    if view.plan.gpu and view.plan.gpu.mig:
        return [name for name in sorted(seen) if re.fullmatch(r"\d+:\d+", name)]
    listed = item(seen.get("all", []))
    if not isinstance(listed, list):
        return listed
    # The toolkit also lists the GPUs' files in /dev/dri.
    return [file for file in listed if re.fullmatch(r"/dev/nvidia\d+", str(file))]


def _devices_expected(view: View) -> JsonValue:
    gpu = view.plan.gpu
    if gpu is None or not gpu.mig:
        return gpu_files(view)
    return [
        *sorted(f"{gpu_index}:{n}" for gpu_index in range(gpu.count) for n in range(len(gpu.mig)))
    ]


def _uuids(view: View, files: Value) -> Value:
    gpus = view.items("driver.boards")
    entries = matching(files, r"/dev/nvidia\d+", NUMBERED)
    if not isinstance(entries, list):
        return entries
    uuids = [
        gpus.get(str(file).split()[1], f"{file}, which belongs to no GPU of the node")
        for file in entries
    ]
    unread = [uuid for uuid in uuids if isinstance(uuid, Unread)]
    return unread[0] if unread else [uuid for uuid in uuids if not isinstance(uuid, Unread)]


def _uuids_items(view: View) -> Items:
    gpus = view.items("driver.boards")
    own = [uuid for uuid in gpus.values() if isinstance(uuid, str)]
    return gpus if "" in gpus else unlike(lambda view: [*own], _uuids)(view)


_container = partial(Rule, reading="containers", applies=asked)
"""Rules about the containers that the check starts, one with each engine."""

_unlike = partial(
    Rule,
    reading="containers",
    expected=same([]),
    text=Text(lambda value: as_text(value) if value else "the same as on the node"),
)
"""Rules about differences between a container and its node."""

RULES = (
    Rule(
        id="cdi.devices",
        claim="The CDI specification gives every GPU to a container that asks for all GPUs.",
        why=(
            "A job in a container with seven of eight GPUs runs on only seven, without any error. "
            'With MIG, containers get individual devices: "0:1" is the second MIG device of GPU 0.'
        ),
        blind=(
            "Engines that ignore the specification. container.devices finds them (`lockstep check "
            "--containers`)."
        ),
        source=(
            "CNCF container-device-interface, SPEC.md; nvidia-ctk cdi generate, "
            "device-name-strategy index"
        ),
        reading="cdi.devices",
        look=Look(whole("cdi.devices", _cdi_devices)),
        expected=same(_devices_expected),
        repair=by_role("container_runtime"),
        applies=has_cdi,
        explained_by=(Cause("gpu.count"), Cause("gpu.mig"), Cause("gpu.mig_layout")),
    ),
    Rule(
        id="cdi.driver",
        claim="The CDI specification lists the libraries of the planned driver.",
        why=(
            "After a driver change, an old specification lists libraries that no longer exist. "
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
            "A MIG instance cannot be used without its capability file. With the capability file "
            "for mig/config, a job could repartition the GPUs."
        ),
        blind="Files that the node itself lacks. IMEX channels, whose files have other names.",
        source="NVIDIA Multi-Instance GPU user guide, device nodes and capabilities",
        look=Look(
            unlike(
                lambda view: view.read("driver.instance_files"),
                lambda view, files: matching(files, "/dev/nvidia-caps/.*"),
            )
        ),
        repair=by_role("container_runtime", BY_HAND),
        applies=asked,
        explained_by=(Cause("gpu.mig"), UNREAD_WITH_DEVICES),
    ),
    _unlike(
        id="container.control_files",
        claim=(
            "In a container, the driver's control devices (nvidiactl, nvidia-uvm) have the same "
            "device numbers as on the node."
        ),
        why=(
            "CUDA opens nvidiactl and nvidia-uvm. When the module is reloaded, the device number "
            "of nvidia-uvm changes, and an outdated specification gives containers a device file "
            "that no longer works."
        ),
        blind="Control devices that the node itself lacks.",
        source=(
            "NVIDIA/nvidia-container-toolkit, device nodes common to all devices of a specification"
        ),
        look=Look(
            files_unlike_the_node("/dev/(nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-modeset)")
        ),
        repair=by_role(
            "container_runtime", "on {node}: systemctl restart nvidia-cdi-refresh.service"
        ),
        applies=asked,
        explained_by=(*OLD_SPECIFICATION, UNREAD_WITH_DEVICES),
    ),
    _container(
        id="container.cpus",
        claim="Containers are allowed to run on every CPU of the node.",
        why=(
            "Containers inherit the CPUs of their engine's service. If the service is restricted "
            "to the housekeeping CPUs, its containers are slow, and the whole job waits for them."
        ),
        blind=(
            "CPU limits that a job sets. Podman containers, which get the CPUs available to the "
            "user who starts them."
        ),
        source="proc_pid_status(5), Cpus_allowed_list; measured: a report on explicit cpusets",
        look=Look(
            lambda view: {
                engine: seen
                for engine, seen in view.items("containers").items()
                if f"{engine}.service" in view.plan.system.job_parents or isinstance(seen, Unread)
            },
            pick=entry("cpus"),
        ),
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
        claim="With each container engine, a container that asks for all GPUs sees all GPUs.",
        why="Containers with missing GPUs cost one production cluster a tenth of its speed.",
        blind=(
            "Containers that jobs start with other options. Device files that belong to the wrong "
            "GPU, which container.uuids finds."
        ),
        source="measured: a report on 1,600 GPUs, device sets of containers",
        look=Look(pick=lambda seen: matching(DEVICES(seen), r"/dev/nvidia\d+")),
        expected=same(gpu_files),
        text=Text(
            words=lambda seen, wanted: (
                as_text(unlike_the_node(seen, wanted)),
                as_text(wanted),
            )
        ),
        repair=by_role("container_runtime", BY_HAND),
        explained_by=OLD_SPECIFICATION,
    ),
    _container(
        id="container.libraries",
        claim="With each container engine, a container gets the library of the planned driver.",
        why="A library and a kernel module of different versions do not work together.",
        blind="Libraries inside an image.",
        source="NVIDIA/nvidia-container-toolkit, issues 450, 856",
        look=Look(pick=entry("libraries")),
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
        claim="Containers are allowed to lock the declared amount of memory.",
        why="RDMA locks memory. If the memlock limit is too low, NCCL falls back to TCP or fails.",
        blind=(
            "Limits that a job sets. Nodes that are containers are compared only with their peers, "
            "so a limit that is wrong on all of them is not found."
        ),
        source="getrlimit(2); NCCL user guide, troubleshooting: memory lock limits",
        look=Look(pick=entry("memlock")),
        kind=Kind.SLOTS,
        expected=same(lambda view: str(view.plan.spec.os.memlock) if own_kernel(view) else None),
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
        claim=(
            "A container with RDMA devices gets all RDMA devices of the node, with the same "
            "device numbers."
        ),
        why="Without RDMA devices, NCCL falls back to TCP, and only NCCL's log shows this.",
        blind=(
            "Devices that the node itself lacks, which rdma.count and rdma.access check. Jobs that "
            "do not request RDMA devices."
        ),
        source="NCCL user guide, troubleshooting; docker-run(1), --device of a folder",
        look=Look(files_unlike_the_node("/dev/infiniband/.*")),
        repair=by_role("container_runtime", BY_HAND),
        applies=lambda view: asked(view) and has_rdma(view),
        explained_by=(Cause("rdma.count"), Cause("rdma.access"), UNREAD_WITH_DEVICES),
    ),
    _container(
        id="container.shm",
        claim=(
            "Containers of the same engine have a /dev/shm of the same size on all nodes of a "
            "hardware class."
        ),
        why=(
            "NCCL and data loaders use /dev/shm. If it is too small on a node, jobs on that node "
            "fail."
        ),
        blind="A size that is too small on all nodes. The size that a job chooses (--shm-size).",
        source="NCCL user guide, troubleshooting: shared memory; shm_overview(7)",
        look=Look(pick=entry("shm_kib")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} KiB"),
        repair=by_role(
            "container_runtime",
            "compare default-shm-size or shm_size of {device} on {node} with the value on a peer",
        ),
        explained_by=(UNREAD_WITH_DEVICES,),
    ),
    _unlike(
        id="container.uuids",
        claim="The GPUs in a container have the UUIDs of the node's GPUs.",
        why=(
            "If a device file has the right name but the device number of another GPU, the "
            "container sees one GPU twice and another GPU not at all."
        ),
        blind="GPUs that the kernel module does not drive, which gpu.count_driver finds.",
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
