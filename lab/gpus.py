"""Simulated GPUs of the workers: NVML's state file and library, nvidia-smi, and device nodes."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.commands import attempt, run
from lab.errors import LabError, WrongUseError
from lab.nvml import build, create, fields, recorded, smi
from lab.nvml.fields import OWN, StateError
from lab.nvml.state import __file__ as STATE_MODULE
from lab.nvml.state import check_values, parse, slots, to_text
from lab.provider import Provider
from lab.state import Gpus, Hardware, LabState, Node

FOLDER = "usr/lib/lockstep-standin"
# The driver's packages replace these two links by their own (update-alternatives(1)).
PROGRAM_LINK, PROGRAM = "usr/bin/nvidia-smi", f"{FOLDER}/nvidia-smi"
LIBRARY_LINK, LIBRARY = f"usr/lib/x86_64-linux-gnu/{build.SONAME}", f"{FOLDER}/{build.SONAME}"
PACKAGED_LIBRARY = "usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so"
LINKED = ("libcuda", "libnvidia-ml")
# nvidia-ctk mounts every file of the driver's version beside libcuda into containers, and follows
# links: so containers see the state.
STATE_LINK = "usr/lib/x86_64-linux-gnu/nvidia/current/nvidia-lockstep-state.so"
MODULE, FIELDS = f"{FOLDER}/state.py", f"{FOLDER}/fields.py"
ON_NODE = Path(__file__).parent / "standins" / "node"
LOAD_DRIVER = "usr/lib/lockstep-standin/load-driver"
PERSISTENCED = "usr/bin/nvidia-persistenced"
DIVERSIONS = "var/lib/dpkg/diversions"
STATE = "var/lib/lockstep-standin/gpus.ini"
INSTALLED = "installed"
BRANCHES = (*smi.BRANCHES, INSTALLED)
UNIT = "lockstep-standin-gpus.service"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
IN_MACHINE_WITHIN_S = 180.0
NVIDIA_MAJOR = 195
CONTROL_MINOR = 255
MATCH_DEVICES = "usr/lib/lockstep-standin/match-gpu-devices"
MATCH_DEVICES_SCRIPT = f'''#!/usr/bin/python3 -I
"""Create and remove /dev/nvidia* to match the simulated GPUs (lab only)."""
import glob
import os
import stat
import sys

sys.path.insert(0, "/{FOLDER}")
import state

devices = {{"/dev/nvidiactl": ({CONTROL_MINOR}, True)}}
for gpu in state.slots(state.read("/{STATE}")):
    minor = int(gpu["minor_number"])
    devices[f"/dev/nvidia{{minor}}"] = (minor, gpu["present"] == "yes")
for path in glob.glob("/dev/nvidia[0-9]*"):
    devices.setdefault(path, (0, False))
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


def _on_host(*arguments: str) -> str:
    """Run the state's commands on the host; exit status 3 means a wrong field or GPU."""
    return _judge([sys.executable, STATE_MODULE, *arguments])


def _judge(command: Sequence[str], timeout: float = 60) -> str:
    result = attempt(command, timeout=timeout)
    output = (result.stderr or result.stdout).strip()
    if result.returncode == 3:
        raise WrongUseError(output)
    if result.returncode != 0:
        raise LabError(f"`{shlex.join(command)}`: exit status {result.returncode}: {output}")
    return result.stdout


def install(root: Path, node: str, gpus: Gpus, archive: str, hardware: Hardware) -> None:
    """Install the simulated NVML, the real nvidia-smi, the state and its unit on a worker's disk.

    An existing state is kept: it represents the node's hardware.

    Args:
        root: the node's file system.
        node: its name.
        gpus: its GPUs.
        archive: version of the driver in the archive.
        hardware: its processors.
    """
    state, driver = root / STATE, gpus.driver or archive
    if not state.exists():
        made = create.initial(gpus.model, gpus.count, node, driver, _cpus(hardware))
        for values in slots(made) if gpus.vbios else ():
            values["vbios_version"] = str(gpus.vbios)
        text, initial = create.texts(made)
        _write(root / f"{STATE}.initial", initial, 0o644)
        _write(state, text, 0o644)
    _copy(build.library(), root / LIBRARY, 0o644)
    _copy(smi.program(smi.branch_for(archive)), root / PROGRAM, 0o755)
    _link(root / PROGRAM_LINK, f"/{PROGRAM}")
    _link(root / LIBRARY_LINK, f"/{LIBRARY}")
    if driver == archive:
        # The archive's package has this file; the packages of other drivers are the lab's.
        library = root / f"{PACKAGED_LIBRARY}.{driver}"
        _copy(build.library(), library, 0o644)
        _divert(root, f"/{library.relative_to(root)}")
        _link(root / f"{STATE_LINK}.{driver}", f"/{STATE}")
    _write(root / MODULE, Path(STATE_MODULE).read_text(), 0o755)
    _write(root / FIELDS, Path(fields.__file__).read_text(), 0o644)
    _write(root / MATCH_DEVICES, MATCH_DEVICES_SCRIPT, 0o755)
    load_driver = (ON_NODE / "load_driver.py").read_text().replace("@VERSION@", driver)
    _write(root / LOAD_DRIVER, load_driver, 0o755)
    _write(root / PERSISTENCED, (ON_NODE / "nvidia_persistenced.py").read_text(), 0o755)
    _divert(root, f"/{PERSISTENCED}")
    _write(root / "etc/systemd/system" / UNIT, UNIT_TEXT, 0o644)
    _link(root / "etc/systemd/system/sysinit.target.wants" / UNIT, f"/etc/systemd/system/{UNIT}")


def _cpus(hardware: Hardware) -> list[str]:
    """Return the CPUs of each NUMA node, which have consecutive numbers in a lab."""
    each = (
        hardware.sockets
        * hardware.cores_per_socket
        * hardware.threads_per_core
        // hardware.numa_nodes
    )
    return [f"{n * each}-{(n + 1) * each - 1}" for n in range(hardware.numa_nodes)]


def _divert(root: Path, path: str) -> None:
    """Let packages unpack this file beside its path; the simulated file keeps it."""
    entry = f"{path}\n/{FOLDER}/{path.rpartition('/')[2]}.package\n:\n"
    diversions = root / DIVERSIONS
    before = diversions.read_text() if diversions.exists() else ""
    if entry not in before:
        _write(diversions, before + entry, 0o644)


def _link(path: Path, target: str) -> None:
    """Make a symbolic link, unless something is there (the packages' link)."""
    if not path.is_symlink() and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def _copy(source: Path, path: Path, mode: int) -> None:
    """Copy a file atomically, only if it differs."""
    _write(path, source.read_bytes(), mode)


def _write(path: Path, content: str | bytes, mode: int) -> None:
    """Write a file atomically, only if its content differs."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(data)
    unfinished.chmod(mode)
    unfinished.replace(path)


def _on_state(state: LabState, node: Node, provider: Provider, verb: str, *words: str) -> str:
    """Run one of the state's commands on a worker's state, on the host or in the machine."""
    if node.role != "worker" or node.gpus is None:
        with_gpus = [one.name for one in state.nodes if one.role == "worker" and one.gpus]
        raise WrongUseError(
            f"node {node.name!r} is a {node.role} and has no GPUs; expected a worker with GPUs: "
            + (", ".join(with_gpus) or "this lab has none")
        )
    if not provider.sees_disk(node):
        command = ["/usr/bin/python3", "-IS", f"/{MODULE}", verb, f"/{STATE}", *words]
        return _judge(provider.console(state.name, node, command), IN_MACHINE_WITHIN_S)
    with provider.disk(state.name, node) as root:
        path = root / STATE
        if not path.exists():
            raise LabError(
                f"{path}: node {node.name!r} has no GPU state",
                f"lockstep lab --name {state.name} up",
            )
        if provider.running(node):
            return _on_host(verb, str(path), *words)
        # No other program writes to it. The path to a disk that only this program sees contains a
        # symbolic link into this process.
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_text(path.read_text())
            Path(f"{copy}.initial").write_text(Path(f"{path}.initial").read_text())
            output = _on_host(verb, str(copy), *words)
            _write(path, copy.read_text(), 0o644)
        return output


def show(state: LabState, node: Node, provider: Provider) -> str:
    """Return the node's GPUs and their changes since the lab was created, as text."""
    return _on_state(state, node, provider, "show")


def as_json(state: LabState, node: Node, provider: Provider) -> str:
    """Return the whole state: {"node": {NAME: VALUE}, "gpus": [{NAME: VALUE}, ...]}."""
    found = parse(_text(state, node, provider), STATE)
    return json.dumps({"node": found["node"], "gpus": slots(found)}, indent=1) + "\n"


def _text(state: LabState, node: Node, provider: Provider) -> str:
    _on_state(state, node, provider, "check")  # reports the same errors
    if not provider.sees_disk(node):
        command = provider.console(state.name, node, ["cat", f"/{STATE}"])
        return run(command, what=f"reading the GPUs of {node.name}", timeout=IN_MACHINE_WITHIN_S)
    with provider.disk(state.name, node) as root:
        return (root / STATE).read_text()


def choose_branch(state: LabState, node: Node, branch: str, provider: Provider) -> None:
    """Run the nvidia-smi and the version of a driver branch on a worker, as after a reload.

    Args:
        state: the lab.
        node: a worker.
        branch: a key of ``smi.BRANCHES``, or INSTALLED for the driver that is installed.
        provider: of the lab's machines.
    """
    if branch not in BRANCHES:
        raise WrongUseError(
            f"--branch {branch!r} is unknown; expected one of: {', '.join(BRANCHES)}"
        )
    if not provider.sees_disk(node):
        raise WrongUseError(
            f"node {node.name!r} has a kernel of its own, and its disk cannot be changed from "
            "here; --branch works on --kernel shared",
            f"lockstep lab --name {state.name} up --kernel shared",
        )
    if state.description is not None:
        raise WrongUseError(
            f"node {node.name!r} has the driver of {state.description}; --branch needs a lab that "
            "was made without --description"
        )
    with provider.disk(state.name, node) as root:
        chosen = smi.BRANCHES.get(branch)
        first = parse((root / f"{STATE}.initial").read_text(), STATE)["node"]["driver_version"]
        used = branch if chosen else smi.branch_for(first)
        _copy(smi.program(used), root / PROGRAM, 0o755)
        _unlink_versions(root, first)
        link = root / PROGRAM_LINK
        packaged = root / "etc/alternatives/nvidia--nvidia-smi"
        link.unlink(missing_ok=True)
        if chosen:
            _link_versions(root, chosen.version)
        use_package = not chosen and packaged.is_symlink()
        link.symlink_to(f"/{packaged.relative_to(root)}" if use_package else f"/{PROGRAM}")
    values = {
        "branch": branch if chosen else "",
        "library_version": chosen.version if chosen else "",
        **({"driver_version": chosen.version, "cuda_version": chosen.cuda} if chosen else {}),
    }
    _on_state(state, node, provider, "set", "node", *(f"{k}={v}" for k, v in values.items()))
    if provider.running(node):
        # A driver cannot be unloaded while the fabric manager runs. The GPUs of a driver that was
        # just loaded wait for it, and it refuses the driver of another branch.
        # Chosen more than five times in ten seconds, it would not start (systemd.unit(5),
        # StartLimitIntervalSec=), unless systemctl(1) resets that count.
        again = f"systemctl reset-failed {FABRIC_MANAGER}; systemctl start {FABRIC_MANAGER}"
        enabled = f"if systemctl is-enabled -q {FABRIC_MANAGER}; then"
        steps = [f"{enabled} systemctl stop {FABRIC_MANAGER}; fi", f"/{LOAD_DRIVER}"]
        steps += [] if chosen else [f"{enabled} {again}; fi"]
        run(
            provider.console(state.name, node, ["sh", "-ec", "\n".join(steps)]),
            what=f"loading the driver in {node.name}",
            timeout=IN_MACHINE_WITHIN_S,
        )


def _link_versions(root: Path, version: str) -> None:
    """Let nvidia-ctk find the installed libraries under a branch's version.

    Hard links, because nvidia-ctk resolves symbolic ones before it compares versions.
    """
    for name in LINKED:
        folder = (root / PACKAGED_LIBRARY).parent
        installed = sorted(folder.glob(f"{name}.so.*.*"))
        if installed and not (folder / f"{name}.so.{version}").exists():
            os.link(installed[0], folder / f"{name}.so.{version}")
    _link(root / f"{STATE_LINK}.{version}", f"/{STATE}")


def _unlink_versions(root: Path, first: str) -> None:
    """Remove the links that ``--branch`` has made, so that the node equals the others again."""
    kept = {first, *_packaged_versions(root)}
    folder = (root / PACKAGED_LIBRARY).parent
    for version in {branch.version for branch in smi.BRANCHES.values()} - kept:
        for name in (*LINKED, Path(STATE_LINK).name.removesuffix(".so")):
            (folder / f"{name}.so.{version}").unlink(missing_ok=True)


def _packaged_versions(root: Path) -> set[str]:
    """Return the versions of the libraries that packages have installed, to which links lead."""
    folder = (root / PACKAGED_LIBRARY).parent
    links = (folder / f"{name}.so.1" for name in LINKED)
    return {os.readlink(link).partition(".so.")[2] for link in links if link.is_symlink()}


def load(state: LabState, node: Node, path: Path, provider: Provider) -> list[str]:
    """Replace the GPUs by those of a state file, or of a recorded ``nvidia-smi -q -x`` (.xml).

    Returns:
        what the recording does not tell, or what the state cannot hold, one line each.

    Raises:
        WrongUseError: the file is malformed; the text names the place.
    """
    if not provider.sees_disk(node):
        raise WrongUseError(f"node {node.name!r} has a kernel of its own: --load needs a light one")
    notes: list[str] = []
    with provider.disk(state.name, node) as root:
        before = parse((root / STATE).read_text(), STATE)["node"]
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUseError(f"--load {path}: cannot be read: {error}") from error
        if path.suffix == ".xml":
            recording = recorded.from_xml(text, str(path))
            notes = [*recording.notes]
            notes += [f"not in the state: {value}" for value in recording.unknown]
            notes += [f"not in the state: {value}" for value in recording.not_kept]
            text = to_text({**recording.to_state(), "node": before})
        names = parse((root / f"{STATE}.initial").read_text(), STATE)["names"]
        try:
            loaded = parse(text, str(path))
            check_values(loaded, {**names, **OWN}, str(path))
        except StateError as error:
            raise WrongUseError(f"--load {error}") from error
        (root / STATE).write_text(text)
        initial = to_text({**loaded, "names": names})
        _write(root / f"{STATE}.initial", initial, 0o644)
    _match_devices(state, node, provider)
    return notes


def change(
    state: LabState, node: Node, gpu: str, assignments: Sequence[str], provider: Provider
) -> None:
    """Set fields of one GPU ("FIELD=VALUE").

    Raises:
        WrongUseError: unknown field, value or GPU.
    """
    _on_state(state, node, provider, "set", gpu, *assignments)


def remove(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Remove one GPU from the state, and its device node if the machine runs."""
    _on_state(state, node, provider, "remove", gpu)
    _match_devices(state, node, provider)


def restore(state: LabState, node: Node, gpu: str, provider: Provider) -> None:
    """Restore one GPU."""
    _on_state(state, node, provider, "restore", gpu)
    _match_devices(state, node, provider)


def reset(state: LabState, node: Node, provider: Provider) -> None:
    """Restore all GPUs to the state in which the node was created."""
    _on_state(state, node, provider, "reset")
    _match_devices(state, node, provider)


def _match_devices(state: LabState, node: Node, provider: Provider) -> None:
    if provider.running(node):
        run(
            provider.console(state.name, node, [f"/{MATCH_DEVICES}"]),
            what=f"matching the GPU device nodes in {node.name}",
            timeout=IN_MACHINE_WITHIN_S,
        )
