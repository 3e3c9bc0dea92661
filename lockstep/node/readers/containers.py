"""Containers: device files, CDI, images, and the resources that a container sees."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

from lockstep.node.readers.commands import Commands, failure, installed
from lockstep.node.readers.gpu import only_if_loaded
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.scheduling import run_like_a_job
from lockstep.node.readers.tree import below, exists, found_by, in_memory, rooted, text_of

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
CDI_KIND = "nvidia.com/gpu"
CDI_SPEC = "/var/run/cdi/nvidia.yaml"
"""The file that nvidia-cdi-refresh.service writes (NVIDIA/nvidia-container-toolkit)."""


def read_cdi(request: Request, commands: Commands) -> Readings:
    """The device nodes of each CDI device, and the versions of the driver library in the CDI files.

    nvidia-ctk writes JSON or YAML. YAML is read line by line, because the standard library has no
    parser for it.
    """
    paths = [f"{folder}/{name}" for folder in CDI_FOLDERS for name in below(folder)]
    every = {path: text_of(path) for path in paths}
    texts = {path: text for path, text in every.items() if CDI_KIND in text}
    if not texts:
        raise Unread(f"no CDI specification for {CDI_KIND} in {' or '.join(CDI_FOLDERS)}")
    devices: dict[str, list[str]] = {}
    for path, text in texts.items():
        for device, nodes in cdi_devices(text, path).items():
            devices[device] = sorted(devices.get(device, []) + nodes)
    libraries = re.findall(r"libnvidia-ml\.so\.(\d+\.[0-9.]+\d)", "\n".join(texts.values()))
    return {"cdi.devices": devices, "cdi.libraries": sorted(set(libraries))}


def cdi_devices(text: str, name: str) -> dict[str, list[str]]:
    """Return the device nodes of each device in the text of a CDI file."""
    if name.endswith(".json"):
        return {
            str(device["name"]): [
                node["path"] for node in device.get("containerEdits", {}).get("deviceNodes", [])
            ]
            for device in json.loads(text).get("devices", [])
        }
    devices: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if re.match(r"[a-zA-Z]", line):  # a top-level key: the next lines apply to every device
            current = ""
        device = re.match(r"\s*-?\s*name:\s*[\"']?([^\"'\s]+)", line)
        node = re.match(r"\s*-?\s*path:\s*[\"']?(/dev/[^\"'\s]+)", line)
        if device:
            current = device.group(1)
            devices[current] = []
        elif node and current:
            devices[current].append(node.group(1))
    return devices


def read_cdi_current(request: Request, commands: Commands) -> Readings:
    """Whether nvidia-ctk would now generate the same CDI specification as the one on disk.

    ``cdi.refused`` is what nvidia-ctk prints if it cannot generate one; "" if it can, or if it is
    not installed.
    """
    only_if_loaded(request, "nvidia-ctk")
    if not installed("nvidia-ctk"):
        return {"cdi.current": False, "cdi.refused": ""}
    status, now, error = commands.outcome("nvidia-ctk", "cdi", "generate")
    if status:  # nvidia-ctk prints warnings before the error that ends it
        said = (error.strip() or f"exit status {status}").splitlines()[-1]
        return {"cdi.current": False, "cdi.refused": said}
    there = text_of(CDI_SPEC) if exists(CDI_SPEC) else ""
    return {"cdi.current": there != "" and now == there, "cdi.refused": ""}


DEVICE_FILES = (
    "/dev/nvidia*",
    "/dev/nvidia-caps/*",
    "/dev/nvidia-caps-imex-channels/*",
    "/dev/infiniband/*",
)
IN_CONTAINER = (
    f"for d in {' '.join(DEVICE_FILES)}; do "
    'if [ -c "$d" ]; then echo "device $d $(busybox stat -c %t:%T "$d")"; fi; done; '
    "busybox find /usr /lib -name 'libnvidia-ml.so.*' 2>/dev/null | while read -r l; do "
    'echo "library ${l##*.so.}"; done; '
    'echo "memlock $(ulimit -l)"; '
    'busybox df -kP /dev/shm | { read -r _; read -r _ k _; echo "shm_kib $k"; }; '
    'while read -r k v; do if [ "$k" = Cpus_allowed_list: ]; then echo "cpus $v"; fi; '
    "done </proc/self/status"
)


def read_device_files(request: Request, commands: Commands) -> Readings:
    """The device files that containers may be given, each with its major and minor number."""
    paths = [path for pattern in DEVICE_FILES for path in found_by(pattern)]
    every = {path: os.stat(rooted(path)) for path in paths}
    return {
        "device.files": {
            path: f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
            for path, about in every.items()
            if stat.S_ISCHR(about.st_mode)
        }
    }


def read_containers(request: Request, commands: Commands) -> Readings:
    """For each container engine, the resources that a container with all GPUs sees.

    This is the only reader that starts containers, and it removes them afterwards. It runs
    only on request.
    """
    image, folders = request["check_image"], request["container_devices"]
    run_like_a_job()

    def started(engine: str) -> Any:
        if engine == "containerd":
            return seen(in_pod(commands, image, folders))
        devices = [f"--device={name}" for name in (f"{CDI_KIND}=all", *folders)]
        looked = ("/bin/busybox", "sh", "-c", IN_CONTAINER)
        command = (engine, "run", "--rm", "--network", "none", *devices, image, *looked)
        return seen(commands.run(*command))

    return {"containers": each(request["containers"], started)}


def seen(out: str) -> dict[str, Any]:
    """Return the values printed by IN_CONTAINER, converting stat's numbers from hexadecimal."""
    words = [line.split(" ", 1) for line in out.splitlines() if " " in line]
    last = dict(words)
    devices = [v.split(" ") for k, v in words if k == "device"]
    return {
        "devices": {
            path: ":".join(str(int(part, 16)) for part in number.split(":"))
            for path, number in devices
        },
        "libraries": sorted({v for k, v in words if k == "library" and "." in v}),
        **{name: last.get(name, "") for name in ("memlock", "shm_kib", "cpus")},
    }


CONTAINERD = "unix:///run/containerd/containerd.sock"


def in_pod(commands: Commands, image: str, folders: list[str]) -> str:
    """Run IN_CONTAINER in a pod created through the CRI, as Kubernetes does; return its output.

    Before containerd 2.0, ctr did not accept CDI names. The pod uses the node's network, so it
    needs no network plugin.
    """
    sandbox = {
        "metadata": {"name": f"lockstep-{os.getpid()}", "uid": "check", "namespace": "lockstep"},
        "linux": {"security_context": {"namespace_options": {"network": 2}}},
    }
    container = {
        "metadata": {"name": "check"},
        "image": {"image": image},
        "command": ["/bin/busybox", "sleep", "60"],
        "devices": [{"host_path": f, "container_path": f, "permissions": "rw"} for f in folders],
        "CDI_devices": [{"name": f"{CDI_KIND}=all"}],
    }

    def crictl(*words: str) -> str:
        return commands.run("crictl", "--runtime-endpoint", CONTAINERD, *words).strip()

    # crictl reads its configurations only from files.
    with in_memory(json.dumps(sandbox)) as wanted, in_memory(json.dumps(container)) as one:
        pod = crictl("runp", wanted)
        try:
            made = crictl("create", pod, one, wanted)
            crictl("start", made)
            return crictl("exec", "-s", made, "/bin/busybox", "sh", "-c", IN_CONTAINER)
        finally:
            crictl("rmp", "-f", pod)


CRI_NAMESPACE = "k8s.io"
"""containerd's namespace for the images and containers of the CRI."""


def read_images(request: Request, commands: Commands) -> Readings:
    """Whether each requested image is present; a request looks like ``docker lockstep/check:1``."""
    runs = docker_runs(commands)

    def has(asked: str) -> bool:
        engine, image = asked.split(" ", 1)
        program = "ctr" if engine == "containerd" else engine
        if not installed(program) or (engine == "docker" and not runs):
            return False
        if engine == "containerd":
            listed = commands.outcome(
                "ctr", "-n", CRI_NAMESPACE, "images", "ls", "-q", f"name=={image}"
            )
            return listed[1].strip() != ""
        return commands.outcome(engine, "image", "inspect", image)[0] == 0

    return {"containers.images": each(request["images"], has)}


def read_live_restore(request: Request, commands: Commands) -> Readings:
    """Docker's live-restore setting: "true" or "false"; "stopped" if Docker is not running."""
    if not docker_runs(commands):
        return {"docker.live_restore": "stopped"}
    said = commands.run("docker", "info", "--format", "{{.LiveRestoreEnabled}}")
    return {"docker.live_restore": said.strip()}


NOT_ACTIVE = (3, 4)
"""Exit statuses of systemctl(1) for a unit that is not active, and for one that does not exist."""


def docker_runs(commands: Commands) -> bool:
    """Ask systemd whether Docker is running, because connecting to Docker would start it."""
    status, out, err = commands.outcome("systemctl", "is-active", "--quiet", "docker.service")
    if status not in (0, *NOT_ACTIVE):
        raise failure("systemctl", status, out, err)
    return status == 0
