"""Turns of the heads: one head after the other stops a part of its control plane.

A run that has failed on one head leaves the other heads alone: three heads that get the same wrong
argument would end all API servers, and etcd needs a majority of its members (etcd.io, FAQ). pyinfra
goes on with the next host after a failure, also with ``_serial``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from gevent.lock import RLock
from pyinfra.api import Host, State

from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.fast.failures import failures_of
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ADMIN_CONF, DONE, control_planes
from lockstep.spec import Service

OTHER_S = 30
"""Seconds for the API server of another head to be ready: it may have joined just now."""
ASK_S = OTHER_S + 30.0
ETCD_LISTENS = {"ipv6": "[::1]:2381", "ipv4": "127.0.0.1:2381"}
"""Family -> where etcd answers without certificates (kubeadm, phases/etcd: listen-metrics-urls)."""
FAILING = re.compile(r"\[-\](\S+)")
"""A failed check in an answer of /readyz (k8s.io/apiserver, pkg/server/healthz)."""
LOOK = "on {head}: crictl ps --all, and journalctl -u kubelet; repair it"
AFTER_FAILURE = f"{LOOK}, then run this again"
NEXT = f"{LOOK}, or deploy it if it has not joined yet; then run this again"


class Turns:
    """The turns of one run: one at a time, and the heads that did not finish their turn."""

    def __init__(self) -> None:
        """Start without a failure."""
        self.lock = RLock()
        self.unfinished: dict[str, str] = {}
        """Head -> the error that it had then. It failed only if pyinfra says so: an operation that
        decides before its turn is decided again (``lockstep.fast.record``)."""


_TURNS: WeakKeyDictionary[State, Turns] = WeakKeyDictionary()


def ready_here(plan: NodePlan) -> str:
    """Return a command that asks the API server of this very head whether it is ready.

    An API server is ready only if etcd answers it (Kubernetes API health endpoints: the check etcd
    of readyz), which is the member on its own head (kubeadm, phases/controlplane: etcd-servers).
    """
    return _ready(f"https://{plan.endpoint(plan.kubernetes.settings.api_port)}")


def etcd_ready_here(plan: NodePlan) -> str:
    """Return a command that asks etcd of this very head, which runs it, whether it is ready.

    A member of etcd that is ready reads with the others' consent (etcd, server/etcdserver/api/
    etcdhttp/health.go: linearizable_read). Its API server need not run for that.
    """
    return _ready(f"http://{ETCD_LISTENS[plan.address_family]}")


def _ready(server: str) -> str:
    return (
        f"kubectl --kubeconfig {ADMIN_CONF} --server={server} --request-timeout=5s "
        "get --raw /readyz"
    )


@contextmanager
def turn(
    plan: NodePlan,
    this: Host,
    arguments: Mapping[str, Any],
    *,
    etcd: bool,
    lost: bool = False,
) -> Iterator[str]:
    """Hold the turn of a head; yield "", or the reason why this head must be left alone.

    What is yielded to pyinfra meanwhile counts: if a command fails, pyinfra closes the generator,
    and the heads after this one are left alone.

    Args:
        plan: the plan of the head.
        this: pyinfra's host of the head.
        arguments: pyinfra's arguments for commands.
        etcd: whether etcd of this head stops, too. If it does not, and the API server of this head
            is not ready anyway, then nothing is lost, and the other heads need not be ready.
        lost: whether etcd and the API server of this head no longer work with those of the others,
            so that it is repaired whatever the others do.
    """
    turns = _TURNS.setdefault(this.state, Turns())
    with turns.lock:
        why = ""
        if not lost:
            why = _stopped(turns, plan, this.state) or _not_ready(
                plan, Conversation(this, arguments), etcd
            )
        if why:
            yield why
            return
        try:
            yield ""
        except BaseException:
            turns.unfinished[plan.name] = failures_of(this.state).said(this)
            raise


def _stopped(turns: Turns, plan: NodePlan, state: State) -> str:
    failed = {host.name for host in state.failed_hosts} - {plan.name}
    for head, why in turns.unfinished.items():
        if head in failed:
            return (
                f"{plan.name} was left alone, because {head} failed: {why}. "
                f"Next: {AFTER_FAILURE.format(head=head)}"
            )
    return ""


def hindrance(plan: NodePlan, talk: Conversation) -> tuple[str, str]:
    """Return another head that is not ready, and why, if etcd needs this one; "" if it may stop.

    etcd needs a majority of its members (etcd.io, FAQ). A head whose etcd is not ready takes none
    away, and without a majority there is none to lose. A head whose API server alone is not ready
    has a member that counts. Only a head that has joined has a member. Lockstep notes that a node
    has joined; what the site manages itself has no such note, and is not asked.

    Raises:
        Unanswered: the head itself did not answer.
    """
    controls = plan.runs(Service.KUBERNETES_CONTROL_PLANE)
    if not controls or len(control_planes(plan)) == 1:
        return "", ""
    unjoined, _ = talk.say(f"test ! -e {DONE}", within_s=ASK_S)
    if unjoined:
        return "", ""
    others = [head for head in control_planes(plan) if head.name != plan.name]
    behind = [(head.name, why) for head in others if (why := _waited(talk, ready_here(head)))]
    majority = (len(others) + 1) // 2 + 1
    ready = len(others) - len(behind)
    if ready >= majority or ready + 1 < majority or _waited(talk, etcd_ready_here(plan)):
        return "", ""
    return behind[0]


def _not_ready(plan: NodePlan, talk: Conversation, etcd: bool) -> str:
    """Return why this head must be left alone: another head is not ready."""
    for other in control_planes(plan):
        if other.name == plan.name:
            continue
        why = _waited(talk, ready_here(other))
        if not why or (not etcd and _answer(talk, f"{ready_here(plan)} >/dev/null")):
            continue
        return (
            f"{plan.name} was left alone, because the API server of {other.name} is not ready: "
            f"{why}. Next: {NEXT.format(head=other.name)}"
        )
    return ""


def _waited(talk: Conversation, ready: str) -> str:
    """Return why a command still fails after OTHER_S seconds; "" if it succeeds by then."""
    return _answer(
        talk,
        f"end=$(( $(date +%s) + {OTHER_S} )); until {ready} >/dev/null; do "
        "[ $(date +%s) -lt $end ] || exit 1; sleep 1; done",
    )


def _answer(talk: Conversation, command: str) -> str:
    """Return "" if the command succeeds, and otherwise its last words."""
    try:
        worked, output = talk.say(command, within_s=ASK_S)
    except Unanswered as error:
        return str(error)
    if worked:
        return ""
    said = next(reversed(list(output.stderr_lines)), "")
    if failing := FAILING.findall(said):
        return f"{', '.join(failing)} failed"
    return said[:200].rstrip(".") or "it does not answer"
