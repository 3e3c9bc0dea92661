"""The GPUs a worker seems to have: a stand-in for nvidia-smi, its state file, the device nodes."""

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
# A regular file: update-alternatives leaves it alone when Debian's package brings the real one.
PROGRAM = "usr/bin/nvidia-smi"
MODULE = "usr/lib/lockstep-standin/nvidia_smi.py"
# Python keeps what it compiled of a module: of a program it would compile 98 KB for every call,
# a third of each.
LAUNCHER = f"""#!/usr/bin/python3 -IS
import sys

sys.path.insert(0, "/{MODULE.rpartition("/")[0]}")
import nvidia_smi

sys.exit(nvidia_smi.main(sys.argv[1:]))
"""
ON_NODE = STANDIN.parent / "node"
LOAD_DRIVER = "usr/lib/lockstep-standin/load-driver"
PERSISTENCED = "usr/bin/nvidia-persistenced"
# dpkg-divert(1) wrote it: the package's daemon goes aside, the stand-in keeps the path.
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
Description=Kernel module and device nodes of the lab's stand-in GPUs
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
    """Run the stand-in on the host; exit status 3 is its way to say "wrong field or GPU"."""
    return _judge([sys.executable, str(STANDIN), *arguments])


def _judge(command: Sequence[str], timeout: float = 60) -> str:
    result = attempt(command, timeout=timeout)
    said = (result.stderr or result.stdout).strip()
    if result.returncode == 3:
        raise WrongUseError(said)
    if result.returncode != 0:
        raise LabError(f"`{shlex.join(command)}`: status {result.returncode}: {said}")
    return result.stdout


def install(root: Path, node: str, driver: str) -> None:
    """Put the stand-in, its first state and its unit on a worker's disk; repeatable.

    A state that is there already is kept: it is the node's hardware.

    Args:
        root: the node's file system.
        node: its name.
        driver: version of the kernel module while no package of the driver is installed.
    """
    if not STANDIN.exists():
        print(f"note: {node} gets no GPUs: {STANDIN} does not exist", flush=True)
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
    """Write a file whole, only when its content differs."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    unfinished.chmod(mode)
    unfinished.replace(path)


def _on_state(state: LabState, node: Node, provider: Provider, verb: str, *words: str) -> str:
    """Let the stand-in work on a worker's state file, on whichever side its disk can be seen."""
    if node.role != "worker":
        raise WrongUseError(
            f"node {node.name!r} is the {node.role} and has no GPUs; expected a worker: "
            + ", ".join(other.name for other in state.nodes if other.role == "worker")
        )
    if not provider.sees_disk(node):
        # In the machine, the stand-in's own lock keeps two changes apart.
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
        # Nobody else writes to it; and the stand-in resolves links, of which the path to a disk
        # that only this program sees has one.
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_text(path.read_text())
            said = _standin(verb, str(copy), *words)
            _write(path, copy.read_text(), 0o644)
        return said


def show(state: LabState, node: Node, provider: Provider) -> str:
    """The node's GPUs and what differs from how they were made, for people."""
    return _on_state(state, node, provider, "--standin-show")


def as_json(state: LabState, node: Node, provider: Provider) -> str:
    """The whole state file."""
    _on_state(state, node, provider, "--standin-show")  # the same refusals
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
    """Let one GPU fall off the bus: from the state, and its device node if the machine runs."""
    _on_state(state, node, provider, "--standin-remove", gpu)
    _match_devices(state, node, provider)


def restore(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Bring one GPU back."""
    _on_state(state, node, provider, "--standin-restore", gpu)
    _match_devices(state, node, provider)


def reset(state: LabState, node: Node, provider: Provider) -> None:
    """Bring all GPUs back to how they were when the node was made."""
    _on_state(state, node, provider, "--standin-reset")
    _match_devices(state, node, provider)


def _match_devices(state: LabState, node: Node, provider: Provider) -> None:
    if provider.running(node):
        run(
            provider.console(state.name, node, [f"/{MATCH_DEVICES}"]),
            what=f"matching the GPU device nodes in {node.name}",
            timeout=IN_MACHINE_WITHIN_S,
        )
