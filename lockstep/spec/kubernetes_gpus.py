"""How pods of Kubernetes get NVIDIA's GPUs: NVIDIA's GPU operator, or its parts without it."""

from __future__ import annotations

from typing import Literal

from lockstep.spec.fields import ChartRepository, ChartVersion, Model

OPERATOR_CHART = "gpu-operator"
"""The chart of https://helm.ngc.nvidia.com/nvidia."""
PLUGIN_CHART = "nvidia-device-plugin"
"""The chart of https://nvidia.github.io/k8s-device-plugin (deployments/helm of the project)."""
DEFAULTS = {
    "operator": ("https://helm.ngc.nvidia.com/nvidia", "v26.7.0"),
    "operands": ("https://nvidia.github.io/k8s-device-plugin", "0.19.3"),
}
"""Way of ``deploy`` -> the repository of its chart, and the version whose values are known."""


class KubernetesGpus(Model):
    """How the GPUs of the workers become resources of Kubernetes (``nvidia.com/gpu``)."""

    deploy: Literal["operator", "operands", "none"] = "operator"
    """"operator": NVIDIA's GPU operator installs the device plugin and the other parts, but neither
    the driver nor the container toolkit. "operands": the device plugin's own chart, with
    gpu-feature-discovery and node-feature-discovery, where the operator's images cannot be had.
    "none": the site does it."""
    chart_repository: ChartRepository | None = None
    """Repository of the chart; None: NVIDIA's own. The nodes of the control plane must reach it."""
    chart_version: ChartVersion | None = None
    """Version of the chart; None: the one whose values Lockstep knows."""
    plain_http: bool = False
    """Whether an OCI repository has no TLS."""

    @property
    def chart(self) -> str:
        """Name of the chart."""
        return OPERATOR_CHART if self.deploy == "operator" else PLUGIN_CHART

    @property
    def repository(self) -> str:
        """Repository of the chart; empty without a chart."""
        return self.chart_repository or DEFAULTS.get(self.deploy, ("", ""))[0]

    @property
    def version(self) -> str:
        """Version of the chart; empty without a chart."""
        return self.chart_version or DEFAULTS.get(self.deploy, ("", ""))[1]
