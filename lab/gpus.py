"""Simulated GPUs of the workers: a simulated nvidia-smi, its state file and device nodes."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.commands import attempt, run
from lab.errors import LabError, WrongUseError
from lab.provider import Provider
from lab.state import LabState, Node

STANDIN = Path(__file__).parent / "standins" / "nvidia_smi.py"
# A regular file: update-alternatives does not replace it when Debian's package is installed.
PROGRAM = "usr/bin/nvidia-smi"
MODULE = "usr/lib/lockstep-standin/nvidia_smi.py"
# Python caches the bytecode of a module, but not of a program: without the module, compiling 98 KB
# would take a third of every call.
LAUNCHER = f"""#!/usr/bin/python3 -IS
import sys

sys.path.insert(0, "/{MODULE.rpartition("/")[0]}")
import nvidia_smi

sys.exit(nvidia_smi.main(sys.argv[1:]))
"""
ON_NODE = STANDIN.parent / "node"
LOAD_DRIVER = "usr/lib/lockstep-standin/load-driver"
PERSISTENCED = "usr/bin/nvidia-persistenced"
# dpkg-divert(1) moves the package's daemon; the simulated daemon keeps the path.
DIVERSION = f"/{PERSISTENCED}\n/usr/lib/lockstep-standin/nvidia-persistenced.package\n:\n"
DIVERSIONS = "var/lib/dpkg/diversions"
STATE = "var/lib/lockstep-standin/gpus.json"
UNIT = "lockstep-standin-gpus.service"
COUNT = 8
IN_MACHINE_WITHIN_S = 180.0
NVIDIA_MAJOR = 195
CONTROL_MINOR = 255
MATCH_DEVICES = "usr/lib/lockstep-standin/match-gpu-devices"
MATCH_DEVICES_SCRIPT = f'''#!/usr/bin/python3
"""Create and remove /dev/nvidia* to match the simulated GPUs (lab only)."""
import json
import os
import stat

with open("/{STATE}") as file:
    gpus = json.load(file)["gpus"]
devices = {{f"/dev/nvidia{{slot}}": (slot, gpu["present"]) for slot, gpu in enumerate(gpus)}}
devices["/dev/nvidiactl"] = ({CONTROL_MINOR}, True)
for path, (minor, present) in devices.items():
    if os.path.exists(path) and not present:
        os.unlink(path)
    elif present and not os.path.exists(path):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev({NVIDIA_MAJOR}, minor))
        os.chmod(path, 0o666)
'''
UNIT_TEXT = f"""[Unit]
Description=Kernel module and device nodes of the lab's simulated GPUs
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/{LOAD_DRIVER}
ExecStart=/{MATCH_DEVICES}

[Install]
WantedBy=sysinit.target
"""


def _standin(*arguments: str) -> str:
    """Run the simulated nvidia-smi on the host; exit status 3 means a wrong field or GPU."""
    return _judge([sys.executable, str(STANDIN), *arguments])


def _judge(command: Sequence[str], timeout: float = 60) -> str:
    result = attempt(command, timeout=timeout)
    output = (result.stderr or result.stdout).strip()
    if result.returncode == 3:
        raise WrongUseError(output)
    if result.returncode != 0:
        raise LabError(f"`{shlex.join(command)}`: exit status {result.returncode}: {output}")
    return result.stdout


def install(root: Path, node: str, driver: str) -> None:
    """Install the simulated nvidia-smi, its initial state and its unit on a worker's disk.

    An existing state is kept: it represents the node's hardware.

    Args:
        root: the node's file system.
        node: its name.
        driver: version of the kernel module until a driver package is installed.
    """
    if not STANDIN.exists():
        print(f"note: {node} has no GPUs, because {STANDIN} does not exist", flush=True)
        return
    _write(root / MODULE, STANDIN.read_text(), 0o644)
    _write(root / PROGRAM, LAUNCHER, 0o755)
    state = root / STATE
    if not state.exists():
        new = _standin("--standin-new-state", "--count", str(COUNT), "--seed", node)
        _write(state, new, 0o644)
    _write(root / MATCH_DEVICES, MATCH_DEVICES_SCRIPT, 0o755)
    load_driver = (ON_NODE / "load_driver.py").read_text().replace("@VERSION@", driver)
    _write(root / LOAD_DRIVER, load_driver, 0o755)
    _write(root / PERSISTENCED, (ON_NODE / "nvidia_persistenced.py").read_text(), 0o755)
    diversions = root / DIVERSIONS
    before = diversions.read_text() if diversions.exists() else ""
    if DIVERSION not in before:
        _write(diversions, before + DIVERSION, 0o644)
    _write(root / "etc/systemd/system" / UNIT, UNIT_TEXT, 0o644)
    wants = root / "etc/systemd/system/sysinit.target.wants" / UNIT
    wants.parent.mkdir(parents=True, exist_ok=True)
    if not wants.is_symlink():
        wants.symlink_to(f"/etc/systemd/system/{UNIT}")


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file atomically, only if its content differs."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    unfinished.chmod(mode)
    unfinished.replace(path)


def _on_state(state: LabState, node: Node, provider: Provider, verb: str, *words: str) -> str:
    """Run the simulated nvidia-smi on a worker's state, on the host or in the machine."""
    if node.role != "worker":
        raise WrongUseError(
            f"node {node.name!r} is a {node.role} and has no GPUs; expected a worker: "
            + ", ".join(other.name for other in state.nodes if other.role == "worker")
        )
    if not provider.sees_disk(node):
        # In the machine, the lock of the simulated nvidia-smi serialises changes.
        command = ["/usr/bin/python3", "-IS", f"/{PROGRAM}", verb, f"/{STATE}", *words]
        return _judge(provider.console(state.name, node, command), IN_MACHINE_WITHIN_S)
    with provider.disk(state.name, node) as root:
        path = root / STATE
        if not path.exists():
            raise LabError(
                f"{path}: node {node.name!r} has no GPU state",
                f"python -m lab --name {state.name} up",
            )
        if provider.running(node):
            return _standin(verb, str(path), *words)
        # No other program writes to it. The simulated nvidia-smi resolves symbolic links, and the
        # path to a disk that only this program sees contains one.
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_text(path.read_text())
            output = _standin(verb, str(copy), *words)
            _write(path, copy.read_text(), 0o644)
        return output


def show(state: LabState, node: Node, provider: Provider) -> str:
    """Return the node's GPUs and their changes since the lab was created, as text."""
    return _on_state(state, node, provider, "--standin-show")


def as_json(state: LabState, node: Node, provider: Provider) -> str:
    """Return the whole state file."""
    _on_state(state, node, provider, "--standin-show")  # reports the same errors
    if not provider.sees_disk(node):
        command = provider.console(state.name, node, ["cat", f"/{STATE}"])
        return run(command, what=f"reading the GPUs of {node.name}", timeout=IN_MACHINE_WITHIN_S)
    with provider.disk(state.name, node) as root:
        return (root / STATE).read_text()


def change(
    state: LabState, node: Node, gpu: str, assignments: Sequence[str], provider: Provider
) -> None:
    """Set fields of one GPU ("FIELD=VALUE").

    Raises:
        WrongUseError: unknown field, value or GPU.
    """
    _on_state(state, node, provider, "--standin-set", gpu, *assignments)


def remove(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Remove one GPU from the state, and its device node if the machine runs."""
    _on_state(state, node, provider, "--standin-remove", gpu)
    _match_devices(state, node, provider)


def restore(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Restore one GPU."""
    _on_state(state, node, provider, "--standin-restore", gpu)
    _match_devices(state, node, provider)


def reset(state: LabState, node: Node, provider: Provider) -> None:
    """Restore all GPUs to the state in which the node was created."""
    _on_state(state, node, provider, "--standin-reset")
    _match_devices(state, node, provider)


def _match_devices(state: LabState, node: Node, provider: Provider) -> None:
    if provider.running(node):
        run(
            provider.console(state.name, node, [f"/{MATCH_DEVICES}"]),
            what=f"matching the GPU device nodes in {node.name}",
            timeout=IN_MACHINE_WITHIN_S,
        )
