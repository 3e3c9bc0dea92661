"""Renews the certificates of a control plane before they end, and has its pods use them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gevent.lock import RLock
from pyinfra import host

from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ADMIN_CONF, DONE, KUBEADM_CONFIG, SOCKET
from lockstep.roles.operations.operation import Commands, operation, refusal

CHECK = f"kubeadm certs check-expiration --config {KUBEADM_CONFIG} --output json"
CHECK_S = 60.0
LIMIT_S = 420.0
START_S = 90
"""Seconds for one pod to start again."""
PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The static pods that read certificates when they start (kubeadm certs renew: what to restart)."""
DAY_S = 86400
_renewing = RLock()
"""One head after the other, so that etcd keeps its majority."""


def ending(answer: str, days: int) -> list[str]:
    """Return the certificates that end in fewer days, with the time that they have.

    Args:
        answer: of ``CHECK``: CertificateExpirationInfo (kubeadm, apis/output/v1alpha3).
        days: the least that is enough.

    Raises:
        ValueError: the answer is something else.
    """
    document: dict[str, Any] = json.loads(answer)
    if document.get("kind") != "CertificateExpirationInfo" or not document.get("certificates"):
        raise ValueError("kubeadm did not list the certificates")
    return [
        f"{row['name']} (missing)"
        if row.get("missing")
        else f"{row['name']} ({row['residualTime'] // DAY_S} days)"
        for row in document["certificates"]
        if not row.get("externallyManaged")
        and (row.get("missing") or row["residualTime"] < days * DAY_S)
    ]


@operation("no certificate ends soon", limit_s=LIMIT_S)
def renewed(plan: NodePlan) -> Commands:
    """Renew all certificates if one ends soon, and restart the pods that read them, one by one.

    It asks at its turn: the certificates of a new head are made in the same run.

    Args:
        plan: the plan of a head.
    """
    if not host.state.is_executing:
        return
    days = plan.kubernetes.settings.certificates.renew_days
    this = Conversation(host.state.inventory.get_host(host.name), connector_arguments(host))
    try:
        answered, output = this.say(f"test -e {DONE} && {CHECK}", within_s=CHECK_S)
        said = " ".join(output.stderr_lines).strip()[:200]
        if not answered:
            raise Unanswered(f"kubeadm certs check-expiration: {said or 'no control plane'}")
        soon = ending("\n".join(output.stdout_lines), days)
    except (Unanswered, ValueError) as error:
        yield refusal(
            f"{plan.name} failed: its certificates' ends are unknown: {error}. Next: run "
            f"`{CHECK}` there"
        )
        return
    if soon:
        host.log(f"renewed, because less than {days} days are left: {', '.join(soon)}")
        with _renewing:
            yield f"kubeadm certs renew all --config {KUBEADM_CONFIG} >/dev/null"
            yield restart(plan, PODS)


def ready_here(plan: NodePlan) -> str:
    """Return a command that asks the API server of this very head whether it is ready."""
    server = f"https://{plan.endpoint(plan.kubernetes.settings.api_port)}"
    return (
        f"kubectl --kubeconfig {ADMIN_CONF} --server={server} --request-timeout=5s "
        "get --raw /readyz"
    )


def restart(plan: NodePlan, pods: Iterable[str]) -> str:
    """Return a command that restarts static pods, each when the one before runs again.

    The kubelet starts a container that has stopped. The API server must be ready at the end.

    Args:
        plan: the plan of the head.
        pods: names of the static pods, which are those of their containers, too.
    """
    crictl = f"crictl --runtime-endpoint {SOCKET}"
    ready = ready_here(plan)
    return (
        f'running() {{ {crictl} ps --state Running --name "^$1\\$" --quiet; }}; '
        f"for pod in {' '.join(pods)}; do old=$(running $pod); "
        f'test -z "$old" || {crictl} stop $old >/dev/null || exit 1; '
        f"for i in $(seq {START_S}); do now=$(running $pod); "
        'if test -n "$now" && test "$now" != "$old"; then continue 2; fi; sleep 1; done; '
        f'echo "$pod was not running again after {START_S} s. Next: journalctl -u kubelet" >&2; '
        "exit 1; done; "
        f"for i in $(seq {START_S}); do {ready} >/dev/null 2>&1 && exit 0; sleep 1; done; "
        f"{ready} >&2; exit 1"
    )
