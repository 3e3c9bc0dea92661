"""Changes the driver of a node in a rollout, before the reboot."""

from __future__ import annotations

from lockstep.facts.driver import boot_kernels
from lockstep.facts.gpus import gpu_states
from lockstep.facts.packages import package_state
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.signing import built_modules, module_trust
from lockstep.plan import NodePlan
from lockstep.plan.driver import Driver, header_packages
from lockstep.plan.signing import signing
from lockstep.roles.operations.packages import REFUSED, SAY_UNBUILT, change
from lockstep.roles.steps.reboot.failures import Alone, Failed

USERS_OF_GPUS = (
    # Every CUDA process opens nvidia-uvm; NVML and NVIDIA's daemons do not.
    """test "$(id -u)" = 0 || { echo "only root sees every process" >&2; exit 1; }; """
    # A process may exit meanwhile: find then reports a missing folder and exits with 1.
    "found=$(find /proc -maxdepth 3 -path '/proc/[0-9]*/fd/*' -lname '*/nvidia-uvm*' 2>/dev/null); "
    """status=$?; test $status -le 1 || { echo "find: exit $status" >&2; exit 1; }; """
    """echo "$found" | sed -n 's|^/proc/\\([0-9]*\\)/.*|\\1|p' | sort -nu"""
)
"""Command that prints the PIDs of all processes that use a GPU, without nvidia-smi."""
CHANGE_S = 3600.0
"""Time limit of one call of the package manager, in seconds; DKMS builds the modules in it."""
CHECKS_PACKAGES = {"debian": "apt-get check and dpkg --audit", "rhel": "dnf check"}
"""Family -> the commands that report packages that are not complete."""
MOST_CHARACTERS = 400
"""Maximum number of characters quoted in a message: enough for an error and the path of a log."""


def change_packages(talk: Conversation, plan: NodePlan, names: tuple[str, ...]) -> None:
    """Change packages, and install the headers of the kernel that boots next. Raises Unanswered."""
    driver = plan.software.driver
    kernels = talk.read(boot_kernels).next if driver and driver.flavour else ()
    lacking = driver.lacking(kernels) if driver else ()
    headers = header_packages(plan.software.headers, lacking)
    replaced = driver.replaced if driver else ()
    state = talk.read(package_state, names=names)
    for command in change(
        state,
        names,
        plan.software.versions,
        plan.software.held,
        replaced,
        headers,
        family=plan.release.family,
    ):
        ok, output = talk.say(command, within_s=CHANGE_S)
        if not ok:
            raise Unanswered(_why(output.stderr_lines)[:MOST_CHARACTERS])


def _why(said: list[str]) -> str:
    """Return the line that says why a change failed: Lockstep's refusal, or else the last line."""
    refused = [line for line in said if line.startswith(REFUSED)]
    return (refused or said or ["no message"])[-1].strip()


def trusted(talk: Conversation, plan: NodePlan, again: str, change: tuple[str, ...]) -> None:
    """Fail if the kernel would refuse the modules of a driver that is about to be installed.

    Args:
        talk: the conversation with the node.
        plan: the plan of the node.
        again: the command that repeats the rollout.
        change: the packages that are about to be changed; if there are none, nothing is asked.

    Raises:
        Alone: the kernel refuses them; others may have enrolled the certificate already.
        Failed: the node did not answer.
    """
    key = signing(plan) if change else None
    try:
        refused = key is not None and talk.read(module_trust).refuses(key.certificate)
    except Unanswered as unanswered:
        raise Failed(
            f"{plan.name} did not get the new driver: {unanswered}", f"run: {again}"
        ) from unanswered
    if key is not None and refused:
        raise Alone(
            f"{plan.name} keeps its driver: Secure Boot is on, and the kernel does not trust the "
            "key of software.module_signing, so it would load no module of the new driver",
            f"on the console of {plan.name}, {key.enrolment}; then run: {again}",
        )


def loadable(talk: Conversation, plan: NodePlan, again: str) -> None:
    """Fail if the kernel that boots next would refuse modules that DKMS has built for it.

    A module for a new kernel is signed with the key of the site, also before its certificate is
    enrolled; the driver of the running kernel can still have the signature of an older key.

    Args:
        talk: the conversation with the node.
        plan: the plan of the node.
        again: the command that repeats the rollout.

    Raises:
        Alone: it would refuse them; others may have enrolled the certificate already.
        Failed: the node did not answer.
    """
    key = signing(plan)
    if key is None:
        return
    try:
        if not talk.read(module_trust).refuses(key.certificate):
            return
        later = {one.release for one in talk.read(boot_kernels).next}
        modules = talk.read(built_modules)
    except Unanswered as unanswered:
        raise Failed(f"{plan.name} was not rebooted: {unanswered}", f"run: {again}") from unanswered
    lost = [
        f"{one.name} for kernel {one.kernel}"
        for one in modules
        if one.kernel in later
        and any(not by.signer or by.by(key.certificate) for _, by in one.files)
    ]
    if lost:
        raise Alone(
            f"{plan.name} was not rebooted: Secure Boot is on, and the kernel that boots next "
            f"would not load {', '.join(lost)}, because it does not trust the key of "
            "software.module_signing",
            f"on the console of {plan.name}, {key.enrolment}; then run: {again}",
        )


def unbuilt(talk: Conversation, driver: Driver) -> str:
    """Return a message if the next boot would lack the driver, else "". Raises Unanswered."""
    kernels = talk.read(boot_kernels)
    lacking = driver.lacking(kernels.next)
    if not lacking:
        return ""
    _, output = talk.say(SAY_UNBUILT)
    said = " ".join(output.stderr_lines)[:MOST_CHARACTERS]
    boots = "may boot" if kernels.unknown else "boots"
    return (
        f"it has no module {driver.version} ({driver.flavour}) for kernel {lacking[0].release}, "
        f"which {boots} next{': ' if said else ''}{said}"
    )


def free(talk: Conversation, name: str, again: str) -> None:
    """Fail if a process uses, or may be using, a GPU: not all work runs under Slurm."""
    try:
        gpus = talk.read(gpu_states)
        # Not answered: no driver is loaded, its library has another version, or a GPU is lost.
        users = () if gpus.answered else _users_of_gpus(talk)
    except Unanswered as unanswered:
        raise Failed(
            f"{name} did not get the new driver: {unanswered}",
            f"fix nvidia-smi on {name}, then run: {again}",
        ) from unanswered
    busy = [gpu.uuid for gpu in gpus.every if gpu.busy]
    if busy:
        raise Failed(
            f"{name} did not get the new driver: GPUs in use outside Slurm: {', '.join(busy)}",
            f"run nvidia-smi on {name} to list the processes; when they have exited, run: {again}",
        )
    if users:
        raise Failed(
            f"{name} did not get the new driver: nvidia-smi fails, but GPUs are in use "
            f"(processes: {len(users)}, first PID: {users[0]})",
            f"run `fuser -v /dev/nvidia-uvm` on {name} to list the processes; when they have "
            f"exited, run: {again}",
        )


def _users_of_gpus(talk: Conversation) -> tuple[str, ...]:
    """Return the PIDs of all processes that use a GPU, without nvidia-smi."""
    listed, output = talk.say(USERS_OF_GPUS)
    if not listed:
        said = " ".join(output.stderr_lines).strip() or "no message"
        raise Unanswered(f"nvidia-smi fails, and processes on the GPUs cannot be listed: {said}")
    return tuple(output.stdout_lines)
