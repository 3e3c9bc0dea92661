"""Device files, and what a container with all boards sees."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from lockstep.node.readers.aside import step_forward
from lockstep.node.readers.cdi import CDI_KIND
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, each
from lockstep.node.readers.tree import found_by, rooted

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
    """The device files that a container may be given, each with its number."""
    found = {}
    for path in (path for pattern in DEVICE_FILES for path in found_by(pattern)):
        about = os.stat(rooted(path))
        if stat.S_ISCHR(about.st_mode):
            number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
            found[path] = number
    return {"device.files": found}


def read_containers(request: Request, commands: Commands) -> Readings:
    """What a container with all boards sees, engine by engine.

    The one reader that starts something: it is asked for by name, and leaves nothing behind.
    """
    image, folders = request["check_image"], request["container_devices"]
    step_forward()

    def started(engine: str) -> Any:
        if engine == "containerd":
            return seen(in_pod(commands, image, folders))
        devices = [f"--device={name}" for name in (f"{CDI_KIND}=all", *folders)]
        looked = ("/bin/busybox", "sh", "-c", IN_CONTAINER)
        command = (engine, "run", "--rm", "--network", "none", *devices, image, *looked)
        return seen(commands.run(*command))

    return {"containers": each(request["containers"], started)}


def seen(out: str) -> dict[str, Any]:
    """Return what IN_CONTAINER printed; stat's numbers are hexadecimal."""
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
    """Return what IN_CONTAINER prints in a pod: the way from Kubernetes to containerd is the CRI.

    Not by ctr: until containerd 2.0 it takes no CDI names. The pod has the node's network, so that
    no network plugin is asked for.
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

    files = [in_memory(sandbox), in_memory(container)]
    paths = [f"/proc/{os.getpid()}/fd/{file}" for file in files]
    try:
        pod = crictl("runp", paths[0])
        try:
            made = crictl("create", pod, paths[1], paths[0])
            crictl("start", made)
            return crictl("exec", "-s", made, "/bin/busybox", "sh", "-c", IN_CONTAINER)
        finally:
            crictl("rmp", "-f", pod)
    finally:
        for file in files:
            os.close(file)


def in_memory(content: Any) -> int:
    """Return an open file of JSON that is on no disk: crictl takes nothing but files."""
    file = os.memfd_create("lockstep")
    os.write(file, json.dumps(content).encode())
    return file
