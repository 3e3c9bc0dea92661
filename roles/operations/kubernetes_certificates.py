"""Renews the certificates of a control plane before they end, and has its pods use them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyinfra import host
from pyinfra.api import Host

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    CRICTL,
    DONE,
    KUBEADM_CONFIG,
    PKI,
    STATE,
)
from lockstep.roles.operations.kubernetes_turns import ready_here, turn
from lockstep.roles.operations.operation import Commands, operation, refusal

CHECK = f"kubeadm certs check-expiration --config {KUBEADM_CONFIG} --output json"
CHECK_S = 60.0
LIMIT_S = 420.0
START_S = 90
"""Seconds for one pod to start again, and for the API server to be ready."""
CLIENTS = ("kube-controller-manager", "kube-scheduler")
"""Static pods that nothing waits for while they start."""
PODS = (("etcd",), ("kube-apiserver",), CLIENTS)
"""The static pods that read certificates when they start (kubeadm certs renew: what to restart), in
the order in which they need each other."""
RENEWING = f"{STATE}/renewing"
"""Exists from before the certificates are renewed until the pods have read them."""
DAY_S = 86400
MISSING = "missing"
MADE_ONCE = ("super-admin.conf",)
"""kubeadm init makes it, kubeadm join does not, and administrators are to take it away
(Kubernetes, Certificate Management with kubeadm)."""
PATIENCE_S = 15
"""Seconds after which the kubelet is restarted, because it waits before it starts a container."""


def ending(answer: str, days: int) -> dict[str, str]:
    """Return the certificates that end in fewer days -> the time that they have, or "missing".

    Args:
        answer: of ``CHECK``: CertificateExpirationInfo (kubeadm, apis/output/v1alpha3).
        days: the least that is enough.

    Raises:
        ValueError: the answer is something else.
    """
    document: dict[str, Any] = json.loads(answer)
    if document.get("kind") != "CertificateExpirationInfo" or not document.get("certificates"):
        raise ValueError("kubeadm did not list the certificates")
    return {
        row["name"]: MISSING if row.get("missing") else f"{row['residualTime'] // DAY_S} days"
        for row in document["certificates"]
        if not row.get("externallyManaged")
        and not (row.get("missing") and row["name"] in MADE_ONCE)
        and (row.get("missing") or row["residualTime"] < days * DAY_S)
    }


def made(name: str) -> str:
    """Return a command that makes a missing certificate: ``kubeadm certs renew`` leaves it out.

    kubeadm does not make a certificate whose key is there (phases/certs), so the key is removed.

    Args:
        name: the name that kubeadm lists (phases/certs/renewal/manager.go).
    """
    phase = "kubeadm init phase"
    if name.endswith(".conf"):
        kubeconfig = name.removesuffix(".conf")
        return f"{phase} kubeconfig {kubeconfig} --config {KUBEADM_CONFIG} >/dev/null"
    path = f"etcd/{name.removeprefix('etcd-')}" if name.startswith("etcd-") else name
    return f"rm -f {PKI}/{path}.key && {phase} certs {name} --config {KUBEADM_CONFIG} >/dev/null"


@operation("no certificate ends soon", limit_s=LIMIT_S)
def renewed(plan: NodePlan) -> Commands:
    """Renew all certificates if one ends soon or is missing, and restart the pods one by one.

    It asks at its turn: the certificates of a new head are made in the same run. One head after the
    other, so that etcd keeps its majority (``kubernetes_turns``).

    Args:
        plan: the plan of a head.
    """
    if not host.state.is_executing:
        return
    days = plan.kubernetes.settings.certificates.renew_days
    this_host: Host = host.state.inventory.get_host(host.name)
    this = Conversation(this_host, connector_arguments(host))
    try:
        answered, output = this.say(
            f"test -e {DONE} && {{ ls {RENEWING} 2>/dev/null; {CHECK}; }}", within_s=CHECK_S
        )
        said = " ".join(output.stderr_lines).strip()[:200]
        if not answered:
            raise Unanswered(f"kubeadm certs check-expiration: {said or 'no control plane'}")
        interrupted = output.stdout_lines[:1] == [RENEWING]
        soon = ending("\n".join(output.stdout_lines[interrupted:]), days)
    except (Unanswered, ValueError) as error:
        yield refusal(
            f"{plan.name} failed: its certificates' ends are unknown: {error}. Next: run "
            f"`{CHECK}` there"
        )
        return
    if not soon and not interrupted:
        return
    named = ", ".join(f"{name} ({left})" for name, left in soon.items())
    host.log(
        f"renewed, because less than {days} days are left: {named}"
        if soon
        else "an earlier run was interrupted before the static pods had the new certificates"
    )
    # etcd works again once two heads have new certificates, so one that cannot wait for the others
    # must not: etcd and API servers refuse a certificate that has ended.
    lost = any(left.startswith("-") for name, left in soon.items() if name not in MADE_ONCE)
    with turn(plan, this_host, connector_arguments(host), etcd=True, lost=lost) as why:
        if why:
            yield refusal(why)
            return
        yield f"touch {RENEWING} && sync {STATE}"
        for name in (name for name, left in soon.items() if left == MISSING):
            yield made(name)
        if soon:
            yield f"kubeadm certs renew all --config {KUBEADM_CONFIG} >/dev/null"
        yield restart(plan, PODS)
        yield f"rm {RENEWING}"


def restart(plan: NodePlan, groups: Iterable[Iterable[str]]) -> str:
    """Return a command that restarts static pods, each group when the one before runs again.

    The kubelet starts a container that has stopped, but after several stops it waits for up to five
    minutes (Kubernetes, Pod Lifecycle: container restarts). It forgets that when it is restarted.
    A kubelet that starts asks the API server of its own head (ControlPlaneKubeletLocalMode of
    kubeadm). An API server without etcd lets these requests wait, so that no pod starts for two
    minutes. The kubelet goes on at once if nothing answers there, so that API server is stopped.
    The API server must be ready at the end.

    Args:
        plan: the plan of the head.
        groups: names of the static pods, which are those of their containers, too.
    """
    ready = ready_here(plan)
    return (
        f'running() {{ {CRICTL} ps --state Running --name "^($1)\\$" --quiet; }}; '
        "anew() { old=$(running $1); "
        f'test -z "$old" || {CRICTL} stop $old >/dev/null || exit 1; '
        f"for i in $(seq {START_S}); do now=$(running $1); "
        'if test "$(echo "$now" | grep -c .)" = $2 && '
        '{ test -z "$old" || ! echo "$now" | grep -qxF -e "$old"; }; then return; fi; '
        f"if test $i = {PATIENCE_S}; then "
        "if test $1 = etcd; then without_etcd=$(running kube-apiserver); "
        f'test -z "$without_etcd" || {CRICTL} stop $without_etcd >/dev/null || exit 1; fi; '
        "systemctl restart kubelet.service; fi; sleep 1; "
        f'done; echo "$1: not running again after {START_S} s. Next: journalctl -u kubelet" >&2; '
        "exit 1; }; "
        + "".join(f"anew '{'|'.join(names)}' {len(names)}; " for names in map(tuple, groups))
        + f"for i in $(seq {START_S}); do {ready} >/dev/null 2>&1 && exit 0; sleep 1; done; "
        f"{ready} >&2; exit 1"
    )
