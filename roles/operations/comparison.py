"""Workers that are compared with the nodes of their class before Slurm resumes them."""

from __future__ import annotations

import shlex
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import State
from pyinfra.api.exceptions import PyinfraError

from lockstep.facts.slurm import NOT_COMPARED, OURS, TO_COMPARE

_waiting: WeakKeyDictionary[State, set[str]] = WeakKeyDictionary()
_repaired: WeakKeyDictionary[State, set[str]] = WeakKeyDictionary()


def compares() -> bool:
    """Return whether this run compares workers before Slurm resumes them.

    ``--data compare=no`` turns it off.

    Raises:
        PyinfraError: the value is neither yes nor no.
    """
    value = str(host.data.get("compare") or "yes")
    if value not in ("yes", "no"):
        raise PyinfraError(f"--data compare={value}: expected yes or no")
    return value == "yes"


def waiting(state: State) -> set[str]:
    """Return the names of the workers that wait, in a run."""
    return _waiting.setdefault(state, set())


def repaired(state: State) -> set[str]:
    """Return the names of the workers that the health check had drained when the run began."""
    return _repaired.setdefault(state, set())


def wait_for_comparison(*, after_repair: bool = False) -> None:
    """Note that the current host may be drained until it has been compared.

    Args:
        after_repair: whether the health check has drained it. The health check may resume it at
            any time, so it is compared even if it takes jobs by then.
    """
    waiting(host.state).add(host.name)
    if after_repair:
        repaired(host.state).add(host.name)


def drain(nodes: str, reason: str = TO_COMPARE) -> str:
    """Return a command that drains nodes; running jobs go on."""
    named = f"NodeName={shlex.quote(nodes)} State=DRAIN Reason={shlex.quote(reason)}"
    return f"timeout 30 scontrol update {named}"


def resume(node: str) -> str:
    """Return a command that resumes a node, and waits up to 5 s until slurmctld has reached it.

    Until then, the node has the flag NOT_RESPONDING (seen with Slurm 24.11: for one second), and a
    check that follows would name it.
    """
    named = shlex.quote(node)
    return (
        f"timeout 30 scontrol update NodeName={named} State=RESUME && for i in $(seq 10); do "
        f'case "$(timeout 30 scontrol -o show node {named})" in *NOT_RESPONDING*) sleep 0.5;; '
        "*) break;; esac; done"
    )


def unless_taken_out(node: str, update: str) -> str:
    """Return a command that changes a node, unless somebody else has changed it meanwhile.

    It reads the state again just before. It changes a node that the health check or a comparison
    has drained. It drains also a node that takes jobs. Otherwise it prints a line and succeeds.

    Args:
        node: the name of the node.
        update: what ``drain`` or ``resume`` returned.
    """
    takes_jobs = ":" if update == resume(node) else update
    return (
        f"s=$(timeout 30 scontrol -o show node {shlex.quote(node)}) || exit; "
        f'case "$s" in *" Reason={NOT_COMPARED}"*|*" Reason={OURS}"*) {update};; '
        '*" State="*) t=${s#* State=}; case "${t%% *}" in '
        '*DRAIN*|*DOWN*|*FAIL*) echo "stays out of service: ${s#* Reason=}";; '
        f'*) {takes_jobs};; esac;; *) echo "no state: $s" >&2; exit 1;; esac'
    )
