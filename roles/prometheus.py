"""Prometheus on a head node scrapes every node in the plan; promtool checks its configuration.

Restart  only for new arguments or a new program; targets and rules are reloaded.
"""

from __future__ import annotations

from lockstep.plan.declaration import SHELL, Declaration, File, Unit, drop_in
from lockstep.plan.kubernetes import KUBELET_PORT, PROMETHEUS_FILES, endpoint, prometheus_files
from lockstep.spec import Service

STATE_METRICS = (
    "/api/v1/namespaces/kube-system/services/kube-state-metrics:http-metrics/proxy/metrics"
)
"""Path of the API server that leads to a Service: Prometheus may be on a node without pods' network
(Kubernetes, Access Services Running on Clusters)."""

ROLE = Declaration(
    name="prometheus",
    title="Prometheus",
    when=lambda plan: plan.runs(Service.PROMETHEUS),
    after=("node_exporter", "slurm_controller"),
    # RHEL: lest/prometheus-rpm, prometheus2/prometheus2.spec.
    packages={"": ("prometheus",), "rhel": ("prometheus2",)},
    files=(
        File(path="/etc/default/prometheus", template="prometheus/default.j2", validate=SHELL),
        File(
            path="/etc/systemd/system/prometheus.service.d/50-lockstep.conf",
            template="prometheus/unit.conf.j2",
            validate=drop_in("prometheus.service"),
        ),
        # Before the configuration, because promtool looks for them.
        *prometheus_files(wanted=lambda plan: plan.spec.kubernetes is not None),
        File(
            path="/etc/prometheus/lockstep.rules.yml",
            template="prometheus/rules.yml.j2",
            validate="promtool check rules {new} >/dev/null",
        ),
        File(
            path="/etc/prometheus/prometheus.yml",
            template="prometheus/prometheus.yml.j2",
            validate="promtool check config {new} >/dev/null",
            values={
                "kubelet_port": KUBELET_PORT,
                "files": PROMETHEUS_FILES,
                "state_metrics": STATE_METRICS,
                "api_server": endpoint,
                "control_plane": Service.KUBERNETES_CONTROL_PLANE,
            },
        ),
    ),
    units=(
        Unit(
            name="prometheus.service",
            program="/usr/bin/prometheus",
            reloads=".yml",
            port=lambda plan: plan.spec.monitoring.prometheus_port,
        ),
    ),
)
