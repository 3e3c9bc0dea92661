"""The Helm releases that Lockstep installs in Kubernetes, from the first head of the control plane.

Helm keeps a release in Secrets of its namespace. A release has one version of its chart, and the
values of one file, which only Lockstep writes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.plan import kubernetes_gpus
from lockstep.plan.kubernetes import ADMIN_CONF, KUBECTL
from lockstep.plan.kubernetes import FOLDER as ETC
from lockstep.plan.kubernetes_objects import HEADER, applies_objects

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

FOLDER = f"{ETC}/lockstep-releases"
"""Where the values of each release are. The reader has the same words."""
HOME = "/run/lockstep/helm"
"""Helm's own folders: without them, it would write below the home of root."""
HELM = (
    f"HELM_CACHE_HOME={HOME} HELM_CONFIG_HOME={HOME} HELM_DATA_HOME={HOME} "
    f"helm --kubeconfig {ADMIN_CONF}"
)
TIMEOUT_S = 60
"""How long Helm waits for one operation, such as a hook's Job (--timeout); its default is 300."""
KEPT = 5
"""Revisions that Helm keeps (--history-max)."""
ROLLED_OUT_S = 60
"""The longest wait for new pods of DaemonSets; those of NVIDIA's device plugin start in seconds."""


GPUS = "gpus"
NAMES = (GPUS,)
"""Every release that a description can ask for."""


def path_of(name: str) -> str:
    """Return the file with the values of a release."""
    return f"{FOLDER}/{name}.yaml"


@dataclass(frozen=True)
class Release:
    """A Helm release."""

    name: str
    namespace: str
    """A manifest makes it (``lockstep.plan.kubernetes_objects``)."""
    chart: str
    version: str
    repository: str
    """Address of the chart's repository: https:// or oci://."""
    values: Mapping[str, Any]
    plain_http: bool = False

    @property
    def path(self) -> str:
        """The file with the values."""
        return path_of(self.name)

    @property
    def text(self) -> str:
        """The content of the file: JSON, which is YAML, too."""
        return f"{HEADER}{json.dumps(self.values, indent=2, sort_keys=True)}\n"

    @property
    def source(self) -> str:
        """The release in a request for ``kubernetes.releases``."""
        return f"{self.namespace}/{self.name}"

    @property
    def planned(self) -> dict[str, Any]:
        """The value of the reading ``kubernetes.releases`` for a release that is as planned."""
        return {
            "chart": f"{self.chart}-{self.version}",
            "status": "deployed",
            "values": "as planned",
            "objects": {},
        }

    @property
    def command(self) -> str:
        """Install or repair the release (helm upgrade --help, Helm 4).

        With server-side apply, which Helm 4 uses for new releases, ``--force-conflicts`` takes back
        fields that somebody else has set.
        """
        oci = self.repository.startswith("oci://")
        chart = f"{self.repository}/{self.chart}" if oci else self.chart
        options = [
            *("--namespace", self.namespace, "--version", self.version, "--values", self.path),
            *("--force-conflicts", "--timeout", f"{TIMEOUT_S}s", "--history-max", str(KEPT)),
            *(() if oci else ("--repo", self.repository)),
            *(("--plain-http",) if self.plain_http else ()),
        ]
        words = shlex.join(["upgrade", "--install", self.name, chart, *options])
        return f"{HELM} {words}"


def rolled_out(namespace: str) -> str:
    """Return a command that waits until the DaemonSets of a namespace run their new pods.

    It waits for ``ROLLED_OUT_S`` at most, and always succeeds: a node that is lost, whose pods
    never end, must not hold up the others.
    """
    kubectl = f"{KUBECTL} --namespace {shlex.quote(namespace)}"
    # All at once: kubectl waits for one after the other, each with the whole timeout.
    return (
        f"for one in $({kubectl} get daemonsets --output name 2>/dev/null); do "
        f'{kubectl} --request-timeout={ROLLED_OUT_S + 10}s rollout status "$one" '
        f"--timeout={ROLLED_OUT_S}s >/dev/null 2>&1 & done; wait"
    )


def releases(plan: NodePlan) -> tuple[Release, ...]:
    """Return the releases that a node installs; empty for all but one head."""
    if not applies_objects(plan):
        return ()
    gpus = kubernetes_gpus.settings(plan)
    if gpus is None:
        return ()
    return (
        Release(
            name=GPUS,
            namespace=kubernetes_gpus.NAMESPACE,
            chart=gpus.chart,
            version=gpus.version,
            repository=gpus.repository,
            plain_http=gpus.plain_http,
            values=kubernetes_gpus.values(plan),
        ),
    )


def release_sources(plan: NodePlan) -> tuple[str, ...]:
    """Return what the reading ``kubernetes.releases`` needs; empty for nodes without the role."""
    if "kubernetes_releases" not in plan.roles:
        return ()
    return tuple(one.source for one in releases(plan))
