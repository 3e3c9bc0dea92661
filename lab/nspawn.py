"""systemd-nspawn machines: an overlay on the shared image, booted by its own systemd.

It relies on this behaviour (systemd 252 on the host): with ``--register=no --keep-unit``, nspawn
needs no systemd on the host and runs the machine in the control group in which it was started. So
each must be started in its own group, or the machines' systemds manage each other's services. On a
reboot, nspawn exits with status 133, and the keeper starts it again.
"""

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import network, places
from lab.commands import attempt, run
from lab.errors import LabError
from lab.image import HOST_NAME, Image
from lab.kubernetes import machine as kubernetes_machine
from lab.processes import ProcessRecord, alive, children, kill, remember, start_recorded
from lab.provider import CONSOLE_ENVIRONMENT, machine_name
from lab.removal import remove_tree, unmount_below
from lab.setup import systemd_is_pid_1
from lab.state import LabState, Node

# $1: folders of the machine's control group, or "delegated" in a unit with Delegate=yes.
# "echo 0" moves the shell itself. The keeper stays outside the machine's group.
KEEPER = """
folders=$1
shift
if [ "$folders" = delegated ]; then
    own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
    mkdir "$own/keeper" "$own/machine"
    echo 0 > "$own/keeper/cgroup.procs"
    folders=$own/machine
fi
while :; do
    (
        for folder in $folders; do echo 0 > "$folder/cgroup.procs"; done
        exec "$@"
    ) && status=0 || status=$?
    [ "$status" -eq 133 ] || exit "$status"
done
"""
LEADER_WITHIN_S = 60.0


def _log_path(lab: str, node: str) -> Path:
    """Return the log of the machine's console."""
    return places.lab_folder(lab) / "logs" / f"{node}.log"


def _control_group_mounts() -> list[Path]:
    """Return the host's mount points of the control groups that a machine's systemd uses.

    Raises:
        LabError: there is no cgroup2 file system.
    """
    unified: list[Path] = []
    named: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2":
            unified.append(Path(before.split()[4]))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            named.append(Path(before.split()[4]))
    if not unified:
        raise LabError(
            "no cgroup2 file system is mounted on this host, but the nodes' systemd needs one",
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified",
        )
    return unified[:1] + named[:1]


def _control_groups(lab: str, node: str) -> list[Path]:
    return [mount / "lockstep-lab" / lab / node for mount in _control_group_mounts()]


class Nspawn:
    """The nspawn machines; see ``lab.provider.Provider``."""

    ready_within_s = 300.0
    poll_s = 0.1
    # Booting is CPU-bound; more machines at once only make each of them slower.
    boots_at_once = max(4, 2 * (os.cpu_count() or 1))

    def create(self, state: LabState, node: Node) -> None:
        """Mount the node's overlay and create its network namespace."""
        self._mount(state, node)
        if state.kubernetes is not None:
            # Rules of a packet filter live in the namespace, and no machine keeps them while it is
            # off: kube-proxy took those of its former life for its own.
            network.remove_node(state.name, node.name)
        network.make_node(state, node)

    def _mount(self, state: LabState, node: Node) -> None:
        folder = places.node_folder(state.name, node.name)
        root = places.node_root(state.name, node.name)
        if os.path.ismount(root):
            return
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        # The overlay's root has the mode of the upper folder.
        (folder / "upper").chmod(0o755)
        layers = (
            f"lowerdir={Image(Path(state.image)).root},"
            f"upperdir={folder / 'upper'},workdir={folder / 'work'}"
        )
        run(
            [
                "mount",
                "-t",
                "overlay",
                "-o",
                layers,
                machine_name(state.name, node.name),
                str(root),
            ],
            what=f"mounting the disk of node {node.name!r}",
        )

    def destroy(self, lab: str, node: str) -> None:
        """Unmount and delete the node's disk, control groups and nspawn's remains."""
        folder = places.node_folder(lab, node)
        self._clear_after(lab, node)
        for group in [] if systemd_is_pid_1() else _control_groups(lab, node):
            # Not at power-off or power-on: other machines may be creating their groups just then.
            for parent in (group.parent, group.parent.parent):
                if parent.is_dir() and not any(path.is_dir() for path in parent.iterdir()):
                    parent.rmdir()
        unmount_below(folder)
        remove_tree(folder)

    def sees_disk(self, node: Node) -> bool:
        """Return True: the host always has the disk mounted."""
        return True

    @contextmanager
    def disk(self, lab: str, node: Node) -> Iterator[Path]:
        """Return the mounted overlay."""
        yield places.node_root(lab, node.name)

    def power_on(self, state: LabState, node: Node, save: Callable[[], None]) -> None:
        """Start the machine's keeper process, which starts systemd-nspawn."""
        root = places.node_root(state.name, node.name)
        machine = machine_name(state.name, node.name)
        argv = [
            *("systemd-nspawn", "--boot", "--quiet", "--settings=no", "--register=no"),
            *("--keep-unit", f"--machine={machine}", f"--hostname={HOST_NAME}"),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
            # nspawn grants it only with --private-network, but this namespace is private as well.
            "--capability=CAP_NET_ADMIN",
            # Container engines: runc and crun create a session keyring and limit devices with BPF.
            "--system-call-filter=bpf @keyring",
            f"--network-namespace-path=/run/netns/{network.node_namespace(state.name, node.name)}",
            f"--directory={root}",
            *_bound(state, node),
        ]
        log_path = _log_path(state.name, node.name)
        log_path.parent.mkdir(exist_ok=True)
        unified = {
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
            # The node has its own network namespace and thus its own net.* sysctls (systemd's
            # ENVIRONMENT.md); the rest of /proc/sys stays read-only.
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
        }
        if systemd_is_pid_1():
            node.process = remember(self._start_unit(machine, argv, log_path, unified))
            save()
            return
        self._clear_after(state.name, node.name)
        groups = _control_groups(state.name, node.name)
        for group in groups:
            group.mkdir(parents=True)

        def remember_keeper(record: ProcessRecord) -> None:
            node.process = record
            save()

        start_recorded(
            ["sh", "-eu", "-c", KEEPER, machine, " ".join(map(str, groups)), *argv],
            remember_keeper,
            log=log_path,
            environment=unified,
        )

    def _start_unit(
        self, machine: str, argv: list[str], log_path: Path, environment: dict[str, str]
    ) -> int:
        """Start the keeper as a transient unit if the host's systemd owns the control groups."""
        self._end_unit(machine)
        run(
            [
                *("systemd-run", "--quiet", "--collect", f"--unit={machine}"),
                f"--description=Test machine {machine} of Lockstep",
                *("--property=Delegate=yes", "--property=KillMode=control-group"),
                *(f"--property=StandardOutput=append:{log_path}",),
                *(f"--property=StandardError=append:{log_path}",),
                *(f"--setenv={key}={value}" for key, value in environment.items()),
                *("sh", "-eu", "-c", KEEPER, machine, "delegated", *argv),
            ],
            what=f"starting the unit {machine}",
        )
        shown = run(
            ["systemctl", "show", "--property=MainPID", "--value", machine],
            what=f"reading the unit {machine}",
        )
        return int(shown)

    def _end_unit(self, machine: str) -> None:
        """Kill all processes of the unit and wait until systemd has removed it."""
        deadline = time.monotonic() + 20
        while True:
            shown = attempt(["systemctl", "show", "--property=LoadState", "--value", machine])
            if shown.stdout.strip() == "not-found":
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f"unit {machine} still exists 20 s after it was killed",
                    f"systemctl status {machine}",
                )
            # The unit may already be gone; the loop checks again.
            attempt(["systemctl", "kill", "--signal=SIGKILL", machine])
            attempt(["systemctl", "reset-failed", machine])
            time.sleep(0.05)

    def power_off(self, lab: str, node: Node) -> None:
        """Kill the keeper, then the machine's PID 1 with all of its processes, then nspawn."""
        keeper = node.process
        if keeper is not None and alive(keeper):
            spawned = [remember(pid) for pid in children(keeper.pid)]
            inside = [remember(pid) for parent in spawned for pid in children(parent.pid)]
            for record in (keeper, *inside, *spawned):
                kill(record)
        if systemd_is_pid_1():
            self._end_unit(machine_name(lab, node.name))
        node.process = None
        self._clear_after(lab, node.name)

    def running(self, node: Node) -> bool:
        """Return whether the keeper runs."""
        return alive(node.process)

    def leader(self, lab: str, node: Node, within_s: float = LEADER_WITHIN_S) -> int:
        """Return the host's process id of the machine's PID 1.

        Raises:
            LabError: the machine is off or does not start in time.
        """
        deadline = time.monotonic() + within_s
        while True:
            if node.process is None or not alive(node.process):
                raise LabError(
                    f"node {node.name!r} is off (console log: {_log_path(lab, node.name)})",
                    f"lockstep lab --name {lab} power-on {node.name}",
                )
            for spawned in children(node.process.pid):
                for pid in children(spawned):
                    if _is_settled_pid_1(pid):
                        return pid
            if time.monotonic() > deadline:
                raise LabError(
                    f"node {node.name!r}: its systemd did not start within {within_s:.0f} s"
                )
            time.sleep(0.05)

    def console(self, lab: str, node: Node, command: Sequence[str]) -> list[str]:
        """Return a command that enters the namespaces and control group of the machine's PID 1."""
        leader = self.leader(lab, node)
        try:
            group_files = _group_files(leader)
        except (FileNotFoundError, ProcessLookupError) as gone:
            raise LabError(f"node {node.name!r} has just gone down") from gone
        environment = {**CONSOLE_ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")}
        # Join the group as well: from outside, /proc/self/cgroup has no valid path in the machine.
        joins = "".join(f"echo 0 > {shlex.quote(str(path))}; " for path in group_files)
        return [
            *("env", "-i", *(f"{key}={value}" for key, value in environment.items())),
            *("sh", "-euc", f'{joins}exec nsenter --target "$0" --all -- "$@"', str(leader)),
            *command,
        ]

    def _clear_after(self, lab: str, node: str) -> None:
        """Remove the control groups and nspawn's lock of a killed machine from the host."""
        groups = [] if systemd_is_pid_1() else _control_groups(lab, node)
        for group in groups:
            _remove_control_group(group)
        runtime = Path("/run/systemd/nspawn")
        propagate = runtime / "propagate" / machine_name(lab, node)
        if propagate.is_dir():
            propagate.rmdir()
        root = places.node_root(lab, node)
        if os.path.ismount(root):
            identity = root.stat()
            lock = runtime / "locks" / f"inode-{identity.st_dev}:{identity.st_ino}"
            lock.unlink(missing_ok=True)


def _bound(state: LabState, node: Node) -> list[str]:
    """Return nspawn's options for folders that lie on the host's own file system."""
    if state.kubernetes is None:
        return []
    folder = places.node_folder(state.name, node.name) / "containerd"
    folder.mkdir(exist_ok=True)
    return [f"--bind={folder}:{kubernetes_machine.BOUND}"]


def _is_settled_pid_1(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        started = Path(f"/proc/{pid}/comm").read_text().strip()
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next(line for line in text.splitlines() if line.startswith("NSpid:")).split()[1:]
    # At first it is still nspawn, which prepares mounts. Until systemd has moved itself to
    # init.scope, a second process in its group would prevent it from using controllers.
    settled = started == "systemd" and "/init.scope\n" in groups
    return len(numbers) > 1 and numbers[-1] == "1" and settled


def _group_files(leader: int) -> list[Path]:
    """Return the host's paths of ``cgroup.procs`` of the leader's groups."""
    mounts = _control_group_mounts()
    files = []
    for line in Path(f"/proc/{leader}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            files.append(mounts[0] / path.lstrip("/") / "cgroup.procs")
        elif controllers == "name=systemd" and len(mounts) > 1:
            files.append(mounts[1] / path.lstrip("/") / "cgroup.procs")
    return files


def _remove_control_group(group: Path) -> None:
    """Kill the processes in a machine's group and below it, and remove the groups.

    Normally there are none, but a machine whose keeper was killed may still run. The lab created
    the group only for this machine.
    """
    if not group.is_dir():
        return
    deadline = time.monotonic() + 10
    while True:
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                for pid in (Path(folder) / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                os.rmdir(folder)
        except ProcessLookupError:
            continue  # it has already ended
        except OSError as busy:
            if time.monotonic() > deadline:
                raise LabError(f"{group}: processes are still in it: {busy}") from busy
            time.sleep(0.05)
        else:
            return
