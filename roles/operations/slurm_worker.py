"""Operations of the role slurm_worker."""

from __future__ import annotations

import re

from pyinfra import host

from lockstep.facts.files import file_states
from lockstep.facts.services import service_state
from lockstep.facts.slurm import NOT_COMPARED, OURS, is_healthy, slurm_node
from lockstep.fast.connector import read_anew_after
from lockstep.files import slurm_conf_sha256
from lockstep.plan import NodePlan
from lockstep.plan.slurm_files import FETCHED, HEALTH_CHECK
from lockstep.roles.operations.comparison import compares, drain, wait_for_comparison
from lockstep.roles.operations.declared import put_files, services_of
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.service import RUNNING, service
from lockstep.roles.operations.workers_alone import lacks_controller

WAIT_S = 60
RESTART_AFTER_S = 10
"""Seconds after which slurmd is restarted if slurmctld still reports the node as NOT_RESPONDING.

slurmctld clears this flag when the node answers its next ping, up to a third of SlurmdTimeout later
(slurm.conf(5)), or when slurmd registers, which it does as soon as it starts."""

RETURNS = ("Node unexpectedly rebooted", "Not responding")
"""Reasons that slurmctld sets for nodes that did not answer; a deploy resumes these nodes."""

OUTDATED = "CoreSpec differ"
"""The reason that slurmctld sets if a slurmd registers with the CPUs from the previous slurm.conf.

On a slow machine this can happen between the deploys of the controller and of the worker (seen
with Slurm 24.11)."""

REJECTED = "INVALID_REG"
"""The flag of a node whose slurmd registered with less than slurm.conf says.

With it, a node that is new to slurmctld stays UNKNOWN (seen with Slurm 24.11)."""

LACKED_GPUS = re.compile(
    r"gres/gpu\S* count (reported lower than configured|too low) \(\d+ < \d+\)"
)
"""The reason that slurmctld sets if a slurmd registers with fewer GPUs or MIG devices than planned.

Once slurmd registers with all of them, slurmctld removes REJECTED, but not the drain (gres.c and
node_mgr.c of Slurm 24.11)."""


@operation()
def started(plan: NodePlan) -> Commands:
    """Keep slurmd running, as ``service`` does.

    While no controller answers, slurmd waits for its configuration and is not started completely
    (seen with Slurm 24.11: it tries again every 10 s). It is enabled and started, and not waited
    for.

    Args:
        plan: the plan of the node.
    """
    for unit, files, reload_files, essential in services_of(plan, "slurm_worker"):
        state = ask(service_state(unit, files, reload_files))
        runs = state.active in RUNNING and not state.stale
        waits = not runs and plan.cluster.configless and lacks_controller(plan)
        yield from service._inner(
            unit=unit,
            files=files,
            reload_files=reload_files,
            essential=essential,
            wait=not waits,
        )


@operation("the node is registered with the controller")
def registered(plan: NodePlan) -> Commands:
    """Wait until the node is registered.

    If it is down only because it did not respond, it is drained until it has been compared with its
    class. In a run that does not compare (``compares``), it is resumed.

    slurmd is restarted if the node stays NOT_RESPONDING, for example after munge was down.

    A node that an administrator drained stays drained. A node that the health check drained is
    compared or resumed if the check no longer finds a fault. So is a node that Slurm drained for
    missing GPUs: slurmd, which looks for them only when it starts, is restarted and registers with
    all of them.

    While no controller answers, a run that deploys workers only says so, and succeeds.

    Args:
        plan: the plan of the node.
    """
    node, controller = plan.name, plan.cluster.controller_host
    # Readings from the start of the connection are older than slurmctld's latest changes.
    read_anew_after(host, controller)
    state = ask(slurm_node(node))
    # slurmd registers seconds after it starts: it runs its health check first. Until then the
    # controller shows the earlier state.
    late = state.restarted_at is not None
    silent = {"NOT_RESPONDING"} if REJECTED in state.states else {"NOT_RESPONDING", "UNKNOWN"}
    away = late or not state.states or bool(state.states & silent)
    comparing = compares()
    # In a run that compares, that step asks whether a node is healthy again (``compared``).
    taken_out = not comparing and state.reason.startswith(OURS) and ask(is_healthy())
    returns = "DOWN" in state.states and state.reason in RETURNS
    returns |= "DRAIN" in state.states and state.reason == OUTDATED
    has_gpus = (
        "DRAIN" in state.states
        and LACKED_GPUS.fullmatch(state.reason) is not None
        and ask(is_healthy())
    )
    returns |= has_gpus
    # If slurmd has just started, the controller's answer is still the old one.
    restarts = has_gpus and not late and REJECTED in state.states
    away |= restarts
    if not state.states and lacks_controller(plan):
        heads, workers = map(plan.cluster.deploy_command, ("head", "worker"))
        host.log_styled(
            f"the controller ({controller}) does not answer; slurmd registers when it does. Next: "
            f"deploy the heads ({heads}) or, if they are deployed, start slurmctld on "
            f"{controller}; then run: {workers}",
            fg="yellow",
        )
        return
    if comparing and (not state.states or returns or state.reason.startswith(NOT_COMPARED)):
        wait_for_comparison()
    if not away and not taken_out and not returns:
        return
    if away:
        # scontrol waits a long time for a controller that is down, so each try has a time limit.
        since = f"since={int(state.restarted_at or 0)}; "
        if restarts:
            since = "since=$(date +%s); systemctl restart slurmd.service || exit; "
        yield (
            f"{since}"
            'registered() { t=${s#*SlurmdStartTime=}; t=$(date -d "${t%% *}" +%s) || t=0; '
            "[ $t -ge $since ]; }; "
            # The first retry comes early; later ones must not overload the controller.
            f"pause=0.3; now=$(date +%s); again=$((now + {RESTART_AFTER_S})); "
            f"end=$((now + {WAIT_S})); while [ $(date +%s) -lt $end ]; do "
            f"s=$(timeout 10 scontrol -o show node {node} 2>&1); "
            f'case "$s" in *State=UNKNOWN*{REJECTED}*) registered && exit 0;; '
            '*State=UNKNOWN*) ;; *State=*NOT_RESPONDING*|*State=*"* Thr"*) '
            "[ $(date +%s) -lt $again ] || "
            "{ echo 'restarting slurmd: slurmctld does not reach it'; again=$end; "
            "systemctl restart slurmd.service; };; "
            "NodeName=*) registered && exit 0;; esac; sleep $pause; pause=1; done; "
            f'echo "this node did not register with the controller within {WAIT_S} s: '
            '${s:-no answer from the controller}" >&2; exit 1'
        )
    if taken_out:
        yield HEALTH_CHECK
    else:
        # The state may have changed during the wait, so the command reads it again.
        reasons = "|".join(
            (
                *(f"*State=DOWN*Reason='{reason}'*" for reason in RETURNS),
                f"*State=*DRAIN*Reason='{OUTDATED}'*",
                *(("*State=*DRAIN*Reason='gres/gpu'*' count '*",) if has_gpus else ()),
            )
        )
        after = drain(node) if comparing else f"scontrol update NodeName={node} State=RESUME"
        yield (
            # slurmctld refuses to resume a node that still lacks GPUs.
            f'case "$(timeout 30 scontrol -o show node {node})" in '
            f"*{REJECTED}*Reason='gres/gpu'*) ;; {reasons}) {after};; esac"
        )


@operation("slurmd uses the planned slurm.conf")
def configuration_fetched(plan: NodePlan, sha256: str) -> Commands:
    """Restart slurmd if its slurm.conf is not the planned one.

    slurmd fetches the file when it starts and at each reconfigure that reaches it. If the node
    was unreachable then, its file is out of date.

    Args:
        plan: the plan of the node.
        sha256: the SHA-256 hash of the planned slurm.conf.
    """
    state = ask(file_states((FETCHED,)))[FETCHED]
    if (state is not None and state.sha256 == sha256) or lacks_controller(plan):
        return
    fetched = f"$(sha256sum < {FETCHED} | cut -d' ' -f1)"
    yield (
        f"systemctl restart slurmd.service && "
        f'if [ "{fetched}" != {sha256} ]; then echo "slurm.conf from the controller differs from '
        'the plan. Next: deploy the head (deploys/head.py), then this node again" >&2; exit 1; fi'
    )


def apply(plan: NodePlan) -> None:
    """Run slurmd with the planned slurm.conf, and wait until the node is registered."""
    if not put_files(plan, "slurm_worker"):
        return
    started(name="Services", plan=plan)
    controller = plan.cluster.nodes[plan.cluster.controller_host]
    # If the site manages slurm.conf itself, Lockstep does not know its content.
    if plan.cluster.configless and "slurm_controller" in controller.roles:
        configuration_fetched(
            name="Configuration from the controller", plan=plan, sha256=slurm_conf_sha256(plan)
        )
    registered(name="Registered with the controller", plan=plan)
