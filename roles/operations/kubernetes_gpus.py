"""Operations of the role kubernetes_gpus."""

from __future__ import annotations

import shlex

from pyinfra import host

from lockstep.facts.files import file_states
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import KUBECTL
from lockstep.plan.kubernetes_gpus import LAYOUTS, NAMESPACE, gpu_workers, layouts
from lockstep.plan.kubernetes_releases import rolled_out
from lockstep.roles.operations.operation import Commands, ask, operation, refusal

RESTART = (
    f"{KUBECTL} --namespace {NAMESPACE} rollout restart daemonset >/dev/null && "
    f"{{ {rolled_out(NAMESPACE)}; }}"
)

OFFERED_S = {"operands": 90, "operator": 600}
"""The operator pulls several large images first, and validates them one after the other."""
OFFERED = (
    "end=$(($(date +%s) + {limit})); for node in {nodes}; do "
    f"until {KUBECTL} get node $node "
    "-o jsonpath='{{.status.allocatable}}' | grep -q '\"nvidia.com/[^\"]*\":\"[1-9]'; do "
    '[ $(date +%s) -lt $end ] || {{ echo "$node offers no GPUs after {limit} s. '
    f'Next: kubectl -n {NAMESPACE} get pods -o wide" >&2; exit 1; }}}}; '
    "sleep 1; done; done"
)

NODES = (
    f"{KUBECTL} get nodes --output go-template="
    "'{{range .items}}{{.metadata.name}}{{if .spec.unschedulable}} cordoned{{end}}"
    '{{range .status.conditions}}{{if eq .type "Ready"}} Ready={{.status}}{{end}}{{end}}'
    '{{range $name, $number := .status.allocatable}} {{$name}}={{$number}}{{end}}{{"\\n"}}{{end}}\''
)
"""Prints a line for each node: its name, "cordoned", its condition, and what it offers."""
NODES_S = 60.0


def layouts_seen(plan: NodePlan) -> None:
    """Start the device plugin anew after the workers have got other MIG devices."""
    looked_again(name="MIG devices", plan=plan)
    offered(name="GPUs are offered", plan=plan)


@operation("the device plugin has seen the layouts of the GPUs", limit_s=120.0)
def looked_again(plan: NodePlan) -> Commands:
    """Restart the pods that look for MIG devices only when they start, and note the layouts.

    Args:
        plan: the plan of the node.
    """
    text = f"{layouts(plan)}\n"
    noted = ask(file_states((LAYOUTS,)))[LAYOUTS]
    if noted is None or not noted.holds(text):
        # Before the first note, the plugin has not started yet, or has found what there is.
        if noted is not None:
            yield RESTART
        yield f"printf %s {shlex.quote(text)} >{LAYOUTS}"


@operation("every worker offers GPUs", limit_s=max(OFFERED_S.values()) + 30)
def offered(plan: NodePlan) -> Commands:
    """Wait until the device plugin has told the kubelet of each worker about its GPUs.

    It asks at its turn, because a kubelet that this run has restarted knows no GPUs for some
    seconds. It waits only for workers that take pods and offer none: one with too few has a fault,
    which the check names, and one that failed, or that was taken out of service, must not hold up
    the others.

    Args:
        plan: the plan of the node.
    """
    if not host.state.is_executing:
        return
    this = Conversation(host.state.inventory.get_host(host.name), connector_arguments(host))
    try:
        answered, output = this.say(NODES, within_s=NODES_S)
    except Unanswered as error:
        yield refusal(f"{plan.name} failed: {error}. Next: run this again")
        return
    if not answered:
        said = " ".join(output.stderr_lines).strip()[:200]
        yield refusal(f"{plan.name} failed: {said}. Next: on {plan.name}: {KUBECTL} get nodes")
        return
    without = {line.split()[0] for line in output.stdout_lines if _lacks(line.split()[1:])}
    lacking = [one.name for one in gpu_workers(plan) if one.name in without]
    if lacking:
        limit = OFFERED_S[plan.kubernetes.settings.gpus.deploy]
        yield OFFERED.format(nodes=shlex.join(lacking), limit=limit)


def _lacks(words: list[str]) -> bool:
    """Return whether a node takes pods and offers no GPUs.

    Args:
        words: of ``NODES``, after the name of the node.
    """
    # "False" is a node that has just joined; "Unknown", one that is lost (Kubernetes, Node Status).
    takes_pods = "cordoned" not in words and {"Ready=True", "Ready=False"}.intersection(words)
    return bool(takes_pods) and not any(
        word.startswith("nvidia.com/") and not word.endswith("=0") for word in words
    )
