"""Makes a node a member of Kubernetes with kubeadm, for workers and for the control plane.

kubeadm cannot be repeated after it was interrupted: it finds its own files. So a file is there
while it runs, and a run that finds this file resets the node first. The file is made only on a node
that has nothing of Kubernetes or etcd. A node without that file is never reset: its Kubernetes may
be another one.
"""

from __future__ import annotations

import json
import secrets
import shlex
import string
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from gevent.lock import RLock
from pyinfra import host
from pyinfra.api import State, StringCommand

from lockstep.certificates import public_key_hash
from lockstep.facts.files import existing
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    ADMIN_CONF,
    BEGUN,
    DONE,
    ETCD_DATA,
    JOIN_CONFIG,
    KUBEADM_CONFIG,
    KUBECTL,
    KUBELET_CONF,
    MEMBERSHIP,
    OF_A_MEMBER,
    RESTORING,
    SOCKET,
    STATE,
    TIMEOUTS,
    control_planes,
    routed,
)
from lockstep.roles.operations import kubernetes_heads as heads
from lockstep.roles.operations.operation import Commands, ask, operation, refusal
from lockstep.secrets import Secrets

LIMIT_S = 420.0
"""Seconds for kubeadm, which has limits of its own for each step (``timeouts`` of its file)."""
TOKEN_MINUTES = 15
TOKEN_USED_S = 300.0
"""A token that this run made is used for so long; then it makes another one."""
RESET_CONFIGURATION = json.dumps(
    {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ResetConfiguration",
        "force": True,
        "criSocket": SOCKET,
        "timeouts": dict(TIMEOUTS),
    }
)
RESET = "kubeadm reset --config /dev/stdin >/dev/null"
ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Token:
    """A bootstrap token (Kubernetes, Authenticating with Bootstrap Tokens)."""

    id: str
    secret: str
    made_at: float

    @property
    def text(self) -> str:
        """The token as kubeadm reads it."""
        return f"{self.id}.{self.secret}"


_tokens: WeakKeyDictionary[State, Token] = WeakKeyDictionary()
OWN_KUBECTL = f"kubectl --kubeconfig {KUBELET_CONF} --request-timeout=10s"
"""A kubelet may read its own Node object (Kubernetes, Using Node Authorization)."""
ANSWER_S = 20
"""Seconds for kubectl, which repeats its discovery five times, each with the whole
--request-timeout (seen with 1.34)."""
REGISTERED_S = 30.0
READY_S = 90
"""Seconds for the kubelet of a head that has joined."""
_making = RLock()
_joining = RLock()
"""etcd takes one new member at a time."""


@operation("no earlier run was interrupted while kubeadm ran")
def cleared(plan: NodePlan) -> Commands:
    """Undo what an interrupted kubeadm left behind on the node.

    Fails if the node has files of a cluster that no interrupted run of Lockstep made.

    Args:
        plan: the plan of the node.
    """
    there = ask(existing(MEMBERSHIP))
    if RESTORING in there:
        yield refusal(
            f"{plan.name}: a restore of etcd was interrupted here. Next: run "
            "deploys/restore_etcd.py again"
        )
        return
    interrupted = BEGUN in there and DONE not in there
    left = [path for path in OF_A_MEMBER if path in there]
    if left and not interrupted and not {DONE, KUBELET_CONF} <= there:
        yield refusal(_lost(plan, left) if DONE in there else _foreign(plan, left))
        return
    # A run that was killed left them.
    over = [path for path in (JOIN_CONFIG, BEGUN) if path in there]
    if interrupted:
        over.remove(BEGUN)
        yield StringCommand(RESET, _stdin=RESET_CONFIGURATION)
    if over:
        yield f"rm -f {' '.join(over)}"


def _foreign(plan: NodePlan, left: list[str]) -> str:
    return (
        f"{plan.name} has Kubernetes or etcd that Lockstep did not make: {', '.join(left)}. "
        "Nothing was changed. Next: list the roles kubernetes_* in unmanaged, or, if nobody needs "
        "that cluster, remove it from the node (kubeadm reset, which also deletes all below "
        f"{ETCD_DATA}), then run this again"
    )


def _lost(plan: NodePlan, left: list[str]) -> str:
    """Return what to do if only the kubeconfig of a member's kubelet is missing.

    Source: Kubernetes, Troubleshooting kubeadm (Kubelet client certificate rotation fails).
    """
    if plan in control_planes(plan):
        how = f"make it anew (kubeadm init phase kubeconfig kubelet --config {KUBEADM_CONFIG})"
    else:
        how = (
            "make it anew on a head (kubeadm kubeconfig user --org system:nodes --client-name "
            f"system:node:{plan.name} --config {KUBEADM_CONFIG}) and copy it there with mode 600, "
            "or drain the node and run kubeadm reset on it"
        )
    return (
        f"{plan.name} has joined, and {KUBELET_CONF} is missing, but other files of its Kubernetes "
        f"are there: {', '.join(left)}. Nothing was changed. Next: {how}, then run this again"
    )


@operation("the control plane exists", limit_s=LIMIT_S)
def initialised(plan: NodePlan, secrets: Secrets) -> Commands:
    """Make the cluster on this node, or join it if another head has it already.

    Args:
        plan: the plan of the node, the first of the control plane.
        secrets: the secrets of the cluster.
    """
    there = ask(existing((DONE, ADMIN_CONF, KUBELET_CONF)))
    if {DONE, KUBELET_CONF} <= there:
        if ADMIN_CONF not in there:
            yield f"kubeadm init phase kubeconfig admin --config {KUBEADM_CONFIG} >/dev/null"
        return
    if host.state.is_executing:
        try:
            has_it = heads.member(plan, connector_arguments(host))
        except Unanswered as error:
            yield refusal(f"{plan.name} failed: {error}")
            return
        if has_it:
            host.log(f"{has_it} has the control plane: {plan.name} joins it")
            yield from _join(plan, secrets)
            return
    yield _noted(
        plan,
        f"kubeadm init --config {KUBEADM_CONFIG} --skip-token-print "
        "--skip-phases=show-join-command"
        # The token that kubeadm makes lives for a day, and no node needs it.
        f" && {KUBECTL} -n kube-system delete secrets "
        "--field-selector type=bootstrap.kubernetes.io/token",
    )


@operation("the node has joined", limit_s=LIMIT_S)
def joined(plan: NodePlan, secrets: Secrets) -> Commands:
    """Join the cluster, with a token that lives for minutes.

    Args:
        plan: the plan of the node.
        secrets: the secrets of the cluster, whose certificate authority kubeadm must find.
    """
    if {DONE, KUBELET_CONF} <= ask(existing((DONE, KUBELET_CONF))):
        return
    if not host.state.is_executing:
        yield "kubeadm join"
        return
    if plan in control_planes(plan):
        with _joining:
            yield from _join(plan, secrets)
            yield _spread(plan)
    else:
        yield from _join(plan, secrets)


def _spread(plan: NodePlan) -> str:
    """Return a command that starts CoreDNS anew once a new head can have one of its pods.

    The first head was the only node when they were made, so it has both, and names would not be
    found without it. The scheduler spreads pods only when they start (kubeadm, addons/dns/
    manifests.go: podAntiAffinity). Nodes are not Ready, and these pods do not start, before a site
    has installed its own CNI plugin.

    Args:
        plan: the plan of a head that has joined.
    """
    coredns = f"{KUBECTL} -n kube-system"
    ready = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
    some = f"said=$({KUBECTL} get nodes --output jsonpath={shlex.quote(ready)}) || exit 1; "
    none_yet = 'case "$said" in *True*) ;; *) exit 0;; esac; '
    return (
        f"{'' if routed(plan) else some + none_yet}"
        f"{KUBECTL} wait node {shlex.quote(plan.name)} --for=condition=Ready "
        f"--timeout={READY_S}s --request-timeout={READY_S + 10}s >/dev/null && "
        f"{coredns} get deployment coredns --ignore-not-found --output name | "
        f"xargs -r {coredns} rollout restart >/dev/null"
    )


@operation("the API server knows the node")
def registered(plan: NodePlan) -> Commands:
    """Restart the kubelet if its Node object was deleted: it registers only when it starts.

    It asks at its turn, because the control plane may be younger than this node. While the API
    server does not answer, nothing is done: a worker that has joined needs no deploy of the heads.

    Args:
        plan: the plan of the node.
    """
    if not host.state.is_executing:
        return
    get = f"{OWN_KUBECTL} get node {shlex.quote(plan.name)} -o name --ignore-not-found"
    try:
        answered, output = Conversation(
            host.state.inventory.get_host(host.name), connector_arguments(host)
        ).say(f"test -e {DONE} && timeout {ANSWER_S} {get}", within_s=REGISTERED_S)
    except Unanswered as error:
        yield refusal(f"{plan.name} failed: {error}")
        return
    if not answered:
        said = " ".join(output.stderr_lines).strip()[:200]
        said = said or "it has not joined, or its API server hangs"
        host.log(f"unknown whether {plan.name} is registered: {said}")
    elif not output.stdout_lines:
        yield (
            "systemctl restart kubelet.service && for i in $(seq 30); do "
            f'test -n "$({get})" && exit 0; sleep 1; done; '
            f"echo '{plan.name} did not register within 30 s. Next: journalctl -u kubelet' >&2; "
            "exit 1"
        )


def _join(plan: NodePlan, secrets: Secrets) -> Commands:
    """Remove what the cluster knows of an earlier machine with this name, and join it."""
    arguments = connector_arguments(host)
    try:
        heads.forget(plan, arguments)
        token = _token(plan, arguments)
    except Unanswered as error:
        yield refusal(f"{plan.name} failed: {error}")
        return
    ca_hash = public_key_hash(secrets.kubernetes["ca.crt"].decode())
    command = (
        f"umask 077; f={JOIN_CONFIG}; mkdir -p -m 755 /run/lockstep; "
        # dash runs no trap when a signal ends it: cleared() removes the file then.
        "trap 'rm -f $f' EXIT; cat >$f; kubeadm join --config $f"
    )
    yield StringCommand(_noted(plan, f"({command})"), _stdin=_configuration(plan, token, ca_hash))


def _noted(plan: NodePlan, command: str) -> str:
    """Return a command that leaves a note while it runs, and another one when it has succeeded.

    The first note lets the next run reset the node, and a reset deletes all below etcd's folder,
    also what another etcd has there. So kubeadm does not start while that folder has something.
    The second note is the address of the API server, which kubeadm cannot change later.
    """
    foreign = (
        f"{ETCD_DATA} is not empty, and Lockstep did not make what is there. Next: move it away, "
        "then run this again"
    )
    shown = 'echo "$said" | grep -v "^W" | tail -n 12 >&2'
    return (
        f"if test ! -e {BEGUN} && test -e {ETCD_DATA}; then "
        f"found=$(find {ETCD_DATA} -mindepth 1 -print -quit) || exit 1; "
        f'test -z "$found" || {{ echo {shlex.quote(foreign)} >&2; exit 1; }}; fi; '
        f"mkdir -p {STATE} && rm -f {DONE} && touch {BEGUN} && sync {STATE} && "
        f"if said=$( {command} 2>&1 ); then echo {shlex.quote(plan.kubernetes.endpoint)} "
        f">{DONE}.new && sync {DONE}.new && mv {DONE}.new {DONE} && rm {BEGUN}; "
        f"else status=$?; {shown}; exit $status; fi"
    )


def _token(plan: NodePlan, arguments: dict[str, Any]) -> Token:
    """Return this run's token, made on a head of the control plane.

    Raises:
        Unanswered: no head of the control plane could make one.
    """
    with _making:
        known = _tokens.get(host.state)
        if known is not None and time.monotonic() - known.made_at < TOKEN_USED_S:
            return known
        token = Token(_random(6), _random(16), time.monotonic())
        heads.said(plan, arguments, f"{KUBECTL} create -f - >/dev/null", _manifest(token))
        _tokens[host.state] = token
        return token


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _configuration(plan: NodePlan, token: Token, ca_hash: str) -> str:
    """Return kubeadm's JoinConfiguration (v1beta4) in JSON, which is YAML, too."""
    own = plan.kubernetes
    document: dict[str, Any] = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": own.endpoint,
                "token": token.text,
                "caCertHashes": [ca_hash],
            }
        },
        "nodeRegistration": {
            "name": plan.name,
            "criSocket": SOCKET,
            "ignorePreflightErrors": list(own.ignored_preflight),
        },
        "timeouts": dict(TIMEOUTS),
    }
    if not plan.takes_pods:
        endpoint = {"advertiseAddress": plan.address, "bindPort": own.settings.api_port}
        document["controlPlane"] = {"localAPIEndpoint": endpoint}
    return json.dumps(document)


def _manifest(token: Token) -> str:
    """Return the Secret of a bootstrap token (Authenticating with Bootstrap Tokens)."""
    ends = datetime.now(UTC) + timedelta(minutes=TOKEN_MINUTES)
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": f"bootstrap-token-{token.id}", "namespace": "kube-system"},
            "stringData": {
                "token-id": token.id,
                "token-secret": token.secret,
                "expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            },
        }
    )
