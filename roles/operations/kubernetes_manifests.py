"""Gives the static pods of the control plane the manifests that kubeadm's configuration has now."""

from __future__ import annotations

from lockstep.facts.kubernetes import static_pods
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ADMIN_CONF, KUBEADM_CONFIG, first_control_plane
from lockstep.roles.operations.operation import Commands, ask, operation

KUBECTL = f"kubectl --kubeconfig {ADMIN_CONF} --request-timeout=5s"
WAIT_S = 150
"""Seconds for the kubelet to replace a pod, and for the new one to answer."""
SEEN_S = 30
"""Seconds after which the kubelet has seen a new manifest (KubeletConfiguration,
fileCheckFrequency: 20 s)."""


@operation("the static pods have the planned manifests", limit_s=WAIT_S + 60.0)
def as_configured(plan: NodePlan) -> Commands:
    """Write the manifests again if one differs, and wait until the API server is ready.

    Args:
        plan: the plan of the node.
    """
    found = ask(static_pods())
    if not found:
        return
    if first_control_plane(plan).name == plan.name:
        # Heads that join, and upgrades, take the configuration from there.
        yield f"kubeadm init phase upload-config kubeadm --config {KUBEADM_CONFIG} >/dev/null"
    yield _replaced(plan, tuple(found))


def _replaced(plan: NodePlan, pods: tuple[str, ...]) -> str:
    """Return a command that writes the manifests, and waits for the pods that changed.

    The kubelet puts a hash of a static pod into this annotation (kubelet, config/common.go). An old
    API server may answer until the kubelet ends it, so the annotation has to change first. It does
    not change if a manifest had only another comment.
    """
    names = " ".join(f"{pod}-{plan.name}" for pod in pods)
    path = r"{.metadata.annotations.kubernetes\.io/config\.hash}"
    return (
        f"hash() {{ {KUBECTL} -n kube-system get pod \"$1\" -o jsonpath='{path}' 2>/dev/null; }}; "
        f'all() {{ for pod in {names}; do echo "$pod $(hash $pod)"; done; }}; '
        "began=$(date +%s); was=$(all); "
        f"kubeadm init phase control-plane all --config {KUBEADM_CONFIG} >/dev/null || exit 1; "
        f"while took=$(( $(date +%s) - began )); [ $took -lt {WAIT_S} ]; do sleep 1; "
        # Each line must be another one, with a hash.
        """same=$(all | grep -cxF -e "$was"); none=$(all | grep -c ' $'); """
        f'[ "$none" = 0 ] && {{ [ "$same" = 0 ] || [ $took -gt {SEEN_S} ]; }} && '
        f"{KUBECTL} get --raw /readyz >/dev/null 2>&1 && exit 0; done; "
        f'echo "{names}: the API server was not ready after {WAIT_S} s. Next: crictl ps --all, and '
        'journalctl -u kubelet" >&2; exit 1'
    )
