"""Commands on the heads that run the control plane of Kubernetes, for a node that may be another.

A head counts as one once kubeadm has made it a member (``DONE``).
"""

from __future__ import annotations

import shlex
from typing import Any

from pyinfra import host

from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    DONE,
    ETCD_PEER_PORT,
    KUBECTL,
    control_planes,
    etcdctl,
)

HEAD_S = 60.0
"""Seconds for one head."""
IS_MEMBER = f"test -e {shlex.quote(DONE)}"


def said(plan: NodePlan, arguments: dict[str, Any], command: str, stdin: str = "") -> list[str]:
    """Run a command on the first other head that can; return the lines that it printed.

    Args:
        plan: the plan of the node that needs it.
        arguments: pyinfra's arguments for commands (``_sudo``).
        command: a shell command that may be repeated on another head; {address} is its
            address.
        stdin: what it reads.

    Raises:
        Unanswered: no head could run it; the message has the next step.
    """
    why = "no other head runs the control plane"
    for head in control_planes(plan):
        other = host.state.inventory.get_host(head.name, None)
        if other is None or head.name == plan.name:
            continue
        own = command.replace("{address}", head.endpoint(0).rpartition(":")[0])
        further = {"_stdin": [stdin]} if stdin else {}
        try:
            worked, output = Conversation(other, arguments).say(
                f"{IS_MEMBER} && {{ {own}; }}", within_s=HEAD_S, **further
            )
        except Unanswered as error:
            why = f"{head.name}: {error}"
            continue
        if worked:
            return list(output.stdout_lines)
        words = " ".join(output.stderr_lines).strip()[:200]
        why = f"{head.name}: {words or 'it has no control plane yet'}"
    raise Unanswered(
        f"no head of the control plane could help ({why}). Next: deploy the heads "
        f"({plan.cluster.deploy_command('head')}), then run this again"
    )


def member(plan: NodePlan, arguments: dict[str, Any]) -> str:
    """Return the name of another head that runs the control plane; "" if there is none.

    Args:
        plan: the plan of a head.
        arguments: pyinfra's arguments for commands.

    Raises:
        Unanswered: none is known to run it, and at least one did not answer.
    """
    lost = ""
    for head in control_planes(plan):
        if head.name == plan.name:
            continue
        other = host.state.inventory.get_host(head.name, None)
        try:
            if other is None:
                raise Unanswered("it is not in the inventory")
            found, output = Conversation(other, arguments).say(
                f"{IS_MEMBER} && echo yes || echo no", within_s=HEAD_S
            )
        except Unanswered as error:
            lost = f"{head.name}: {error}"
            continue
        if output.stdout_lines == ["yes"]:
            return head.name
        if not found or output.stdout_lines != ["no"]:
            lost = f"{head.name}: {' '.join(output.stderr_lines)[:200] or 'it failed'}"
    if lost:
        raise Unanswered(
            f"whether the cluster exists is unknown, so none was made ({lost}). Next: start that "
            "head, or remove it from the description, then run this again"
        )
    return ""


def forget(plan: NodePlan, arguments: dict[str, Any]) -> None:
    """Delete the Node object and the member of etcd that an earlier machine of this name had.

    A node that was reset or replaced cannot join before (kubeadm refuses a name that is Ready).

    Args:
        plan: the plan of a node that does not belong to the cluster now.
        arguments: pyinfra's arguments for commands.

    Raises:
        Unanswered: as in ``said``.
    """
    name = shlex.quote(plan.name)
    command = f"{KUBECTL} delete node {name} --ignore-not-found --timeout=20s >/dev/null"
    if plan in control_planes(plan):
        url = f"https://{plan.endpoint(ETCD_PEER_PORT)}"
        command = (
            f"{etcdctl()} member list >/run/lockstep-members && "
            f"for id in $(awk -F', ' -v url={shlex.quote(url)} '$4 == url {{print $1}}' "
            f"/run/lockstep-members); do {etcdctl()} member remove $id >/dev/null || exit 1; "
            f"done && {command}"
        )
    said(plan, arguments, command)
