"""Gives the static pods of the control plane the manifests that kubeadm's configuration has now."""

from __future__ import annotations

from pyinfra import host

from lockstep.facts.kubernetes import static_pods
from lockstep.facts.reading import connector_arguments
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import CRICTL, KUBEADM_CONFIG, first_control_plane
from lockstep.roles.operations.kubernetes_turns import ready_here, turn
from lockstep.roles.operations.operation import Commands, ask, operation, refusal

WAIT_S = 150
"""Seconds for the kubelet to replace a pod, and for the new one to answer."""
SEEN_S = 60
"""Seconds after which the kubelet has ended a pod with another manifest: it looks at the files
every 20 s (KubeletConfiguration, fileCheckFrequency), and the pod may take 30 s to end (Pod v1,
terminationGracePeriodSeconds)."""


@operation("the static pods have the planned manifests", limit_s=WAIT_S + 60.0)
def as_configured(plan: NodePlan) -> Commands:
    """Write the manifests again if one differs, and wait until the API server is ready.

    No head is touched after another one failed, or while another one is not ready.

    Args:
        plan: the plan of the node.
    """
    found = ask(static_pods())
    if not found:
        return
    if not host.state.is_executing:
        yield from _changed(plan, tuple(found))
        return
    this = host.state.inventory.get_host(host.name)
    with turn(plan, this, connector_arguments(host), etcd=False) as why:
        if why:
            yield refusal(why)
            return
        yield from _changed(plan, tuple(found))


def _changed(plan: NodePlan, pods: tuple[str, ...]) -> Commands:
    if first_control_plane(plan).name == plan.name:
        # Heads that join, and upgrades, take the configuration from there.
        yield f"kubeadm init phase upload-config kubeadm --config {KUBEADM_CONFIG} >/dev/null"
    yield _replaced(plan, pods)


def _replaced(plan: NodePlan, pods: tuple[str, ...]) -> str:
    """Return a command that writes the manifests, and waits for the pods that changed.

    Only containers and the API server of this very head count. An old API server may answer until
    the kubelet ends it, so each pod needs a container that did not run before, and that still runs
    a second later. It stays the same container if a manifest had only another comment.
    """
    names = " ".join(pods)
    return (
        f'running() {{ {CRICTL} ps --state Running --name "^$1\\$" --quiet; }}; '
        f"all() {{ for pod in {names}; do "
        "ids=$(running $pod) || return 1; echo $pod $ids; done; }; "
        "began=$(date +%s); last=; was=$(all) || exit 1; "
        f"kubeadm init phase control-plane all --config {KUBEADM_CONFIG} >/dev/null || exit 1; "
        f"while took=$(( $(date +%s) - began )); [ $took -lt {WAIT_S} ]; do sleep 1; "
        'before="$last"; last=$(all) || continue; [ "$last" = "$before" ] || continue; '
        # Each line must be another one, with exactly one container.
        """same=$(echo "$last" | grep -cxF -e "$was"); """
        """other=$(echo "$last" | grep -cvE '^[^ ]+ [^ ]+$'); """
        f'[ "$other" = 0 ] && {{ [ "$same" = 0 ] || [ $took -gt {SEEN_S} ]; }} && '
        f"{ready_here(plan)} >/dev/null 2>&1 && exit 0; done; "
        f'echo "{names}: the API server of {plan.name} was not ready after {WAIT_S} s. Next: '
        'crictl ps --all, and journalctl -u kubelet" >&2; exit 1'
    )
