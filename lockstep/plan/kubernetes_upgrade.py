"""Whether and how Kubernetes is upgraded: one minor release at a time, and never down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockstep.plan.kubernetes import TIMEOUTS

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

MANIFESTS_S = 180
"""Seconds that the kubelet may take to start one upgraded static pod (upgradeManifests)."""
COREDNS_PHASE = "addon/coredns"
"""The role kubernetes_objects keeps CoreDNS (kubeadm, cmd/phases/upgrade/addons.go)."""
OF_COREDNS = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""kubeadm's tests of that phase, which knows no release of CoreDNS that is younger than itself
(kubeadm, phases/upgrade/preflight.go)."""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as v1.34.4."""
    return tuple(int(one) for one in version.removeprefix("v").partition("-")[0].split("."))


def objection(running: str, wanted: str) -> str:
    """Return why kubeadm cannot upgrade; "" if it can (Kubernetes, Upgrading kubeadm clusters).

    Args:
        running: version of the API server, such as v1.33.13.
        wanted: version of the description, such as 1.34.4.
    """
    now, then = _numbers(running), _numbers(wanted)
    text = f"the API server runs {running.removeprefix('v')}, and scheduler.version is {wanted}"
    if then < now:
        return f"{text}: Kubernetes cannot be downgraded. Next: set scheduler.version back"
    if then[0] != now[0] or then[1] - now[1] > 1:
        step = f"{now[0]}.{now[1] + 1}"
        return (
            f"{text}: that skips a minor release. Next: set scheduler.version to a version of "
            f"{step}, run deploys/upgrade.py, and then repeat it with {wanted}"
        )
    return ""


def configuration(node: NodePlan) -> str:
    """Return kubeadm's UpgradeConfiguration (v1beta4) in JSON, which is YAML, too."""
    own = node.kubernetes
    ignored = [*own.ignored_preflight, *OF_COREDNS]
    document: dict[str, Any] = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "UpgradeConfiguration",
        "apply": {
            "kubernetesVersion": f"v{own.settings.version}",
            "ignorePreflightErrors": ignored,
            "skipPhases": [COREDNS_PHASE],
        },
        "node": {"ignorePreflightErrors": ignored, "skipPhases": [COREDNS_PHASE]},
        "timeouts": {**TIMEOUTS, "upgradeManifests": f"{MANIFESTS_S}s"},
    }
    return json.dumps(document)
