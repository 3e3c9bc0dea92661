"""Prometheus's node exporter, on the management address only."""

from __future__ import annotations

from lockstep.plan.declaration import SHELL, Declaration, File, Unit, drop_in

UNIT = "prometheus-node-exporter.service"


ROLE = Declaration(
    name="node_exporter",
    title="Node exporter",
    after=("time_sync",),
    # RHEL: lest/prometheus-rpm, templates/spec.tpl; EPEL 9 has no such package for certain.
    packages={"debian": ("prometheus-node-exporter",), "rhel": ("node_exporter",)},
    files=(
        File(
            path="/etc/default/prometheus-node-exporter",
            template="node_exporter/default.j2",
            own=True,
            validate=SHELL,
        ),
        File(
            path=f"/etc/systemd/system/{UNIT}.d/50-lockstep.conf",
            template="node_exporter/unit.conf.j2",
            validate=drop_in(UNIT),
        ),
    ),
    units=(
        Unit(
            name=UNIT,
            program="/usr/bin/prometheus-node-exporter",
            port=lambda plan: plan.spec.monitoring.node_exporter_port,
        ),
    ),
)
