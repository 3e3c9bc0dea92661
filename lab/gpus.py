"""The GPUs a worker seems to have: a stand-in for nvidia-smi, its state file, the device nodes."""

import sys
from collections.abc import Sequence
from pathlib import Path

from lab import places
from lab.commands import attempt, run
from lab.errors import LabError, WrongUseError
from lab.provider import Provider
from lab.state import LabState, Node

STANDIN = Path(__file__).parent / "standins" / "nvidia_smi.py"
STATE = "var/lib/lockstep-standin/gpus.json"
UNIT = "lockstep-standin-gpus.service"
COUNT = 8
NVIDIA_MAJOR = 195
CONTROL_MINOR = 255
MATCH_DEVICES = "usr/lib/lockstep-standin/match-gpu-devices"
MATCH_DEVICES_SCRIPT = f'''#!/usr/bin/python3
"""Make /dev/nvidia* match the GPUs that the stand-in's state says are there (lab only)."""
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
Description=Device nodes of the lab's stand-in GPUs
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/{MATCH_DEVICES}

[Install]
WantedBy=sysinit.target
"""


def _standin(*arguments: str) -> str:
    """Run the stand-in on the host; exit status 3 is its way to say "wrong field or GPU"."""
    result = attempt([sys.executable, str(STANDIN), *arguments])
    said = (result.stderr or result.stdout).strip()
    if result.returncode == 3:
        raise WrongUseError(said)
    if result.returncode != 0:
        raise LabError(f"{STANDIN} {' '.join(arguments)}: status {result.returncode}: {said}")
    return result.stdout


def install(root: Path, node: str) -> None:
    """Put the stand-in, its first state and its unit on a worker's disk; repeatable.

    A state that is there already is kept: it is the node's hardware.
    """
    if not STANDIN.exists():
        print(f"note: {node} gets no GPUs: {STANDIN} does not exist", flush=True)
        return
    _write(root / "usr/bin/nvidia-smi", STANDIN.read_text(), 0o755)
    state = root / STATE
    if not state.exists():
        new = _standin("--standin-new-state", "--count", str(COUNT), "--seed", node)
        _write(state, new, 0o644)
    _write(root / MATCH_DEVICES, MATCH_DEVICES_SCRIPT, 0o755)
    _write(root / "etc/systemd/system" / UNIT, UNIT_TEXT, 0o644)
    wants = root / "etc/systemd/system/sysinit.target.wants" / UNIT
    wants.parent.mkdir(parents=True, exist_ok=True)
    if not wants.is_symlink():
        wants.symlink_to(f"/etc/systemd/system/{UNIT}")


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file whole, only when its content differs."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    unfinished.chmod(mode)
    unfinished.replace(path)


def _state_file(state: LabState, node: Node) -> Path:
    if node.role != "worker":
        raise WrongUseError(
            f"node {node.name!r} is the {node.role} and has no GPUs; expected a worker: "
            + ", ".join(other.name for other in state.nodes if other.role == "worker")
        )
    path = places.node_root(state.name, node.name) / STATE
    if not path.exists():
        raise LabError(
            f"{path}: node {node.name!r} has no GPU state", f"python -m lab --name {state.name} up"
        )
    return path


def show(state: LabState, node: Node) -> str:
    """The node's GPUs and what differs from how they were made, for people."""
    return _standin("--standin-show", str(_state_file(state, node)))


def as_json(state: LabState, node: Node) -> str:
    """The whole state file."""
    return _state_file(state, node).read_text()


def change(state: LabState, node: Node, gpu: str, assignments: Sequence[str]) -> None:
    """Set fields of one GPU ("FIELD=VALUE").

    Raises:
        WrongUseError: unknown field, value or GPU.
    """
    _standin("--standin-set", str(_state_file(state, node)), gpu, *assignments)


def remove(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Let one GPU fall off the bus: from the state, and its device node if the machine runs."""
    _standin("--standin-remove", str(_state_file(state, node)), gpu)
    _match_devices(state, node, provider)


def restore(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Bring one GPU back."""
    _standin("--standin-restore", str(_state_file(state, node)), gpu)
    _match_devices(state, node, provider)


def reset(state: LabState, node: Node, provider: Provider) -> None:
    """Bring all GPUs back to how they were when the node was made."""
    _standin("--standin-reset", str(_state_file(state, node)))
    _match_devices(state, node, provider)


def _match_devices(state: LabState, node: Node, provider: Provider) -> None:
    if provider.running(node):
        run(
            provider.console(state.name, node, [f"/{MATCH_DEVICES}"]),
            what=f"matching the GPU device nodes in {node.name}",
        )
