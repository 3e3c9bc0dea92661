"""Operations of the role kubernetes_virtual_address."""

from __future__ import annotations

from pyinfra.api import StringCommand

from lockstep.facts.files import file_states
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import DONE, first_control_plane
from lockstep.roles.operations.operation import Commands, ask, operation

WAIT_S = 20
"""A head takes the address after less than four seconds (keepalived.conf(5), advert_int)."""


def afterwards(plan: NodePlan) -> None:
    """Wait for the virtual address before kubeadm uses it."""
    if first_control_plane(plan).name == plan.name:
        answers(name="The address is there", plan=plan)


@operation("the head has joined already", limit_s=WAIT_S + 10.0)
def answers(plan: NodePlan) -> Commands:
    """Wait until the first head has the address, or the API server of another one answers there.

    Args:
        plan: the plan of the first head of the control plane.
    """
    if ask(file_states((DONE,)))[DONE] is not None:
        return
    settings = plan.spec.kubernetes
    assert settings is not None  # the role is only on nodes of Kubernetes
    address = settings.virtual_address
    host = f"[{address}]" if ":" in str(address) else str(address)
    yield StringCommand(
        f"for second in $(seq {WAIT_S}); do "
        f"ip -oneline address show to {address} | grep -q . && exit 0; "
        # Only whether something answers matters here: kubeadm checks its certificate.
        f"curl --insecure --fail --silent --output /dev/null --max-time 1 "
        f"https://{host}:{settings.api_port}/readyz && exit 0; "
        "sleep 1; done; cat >&2; exit 1",
        _stdin=(
            f"{plan.name} did not get the virtual address {address} within {WAIT_S} s. Next: on "
            f"{plan.name}: journalctl --unit keepalived; the heads must reach each other with IP "
            "protocol 112 (VRRP), and no other machine may have the address; then run this again"
        ),
    )
