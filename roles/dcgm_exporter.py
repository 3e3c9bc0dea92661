"""DCGM's exporter: GPU metrics for Prometheus, on the management address only."""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File, Unit, drop_in
from lockstep.plan.nvidia import DCGM_EXPORTER, stack_packages

ROLE = Declaration(
    name="dcgm_exporter",
    title="DCGM exporter",
    when=lambda plan: plan.nvidia is not None and plan.nvidia.has("dcgm_exporter"),
    after=("dcgm",),
    more_packages=lambda plan: stack_packages(plan, "dcgm_exporter"),
    files=(
        File(
            path=f"/etc/systemd/system/{DCGM_EXPORTER}.d/50-lockstep.conf",
            template="dcgm_exporter/exporter.conf.j2",
            own=True,
            validate=drop_in(DCGM_EXPORTER),
        ),
    ),
    units=(
        Unit(
            name=DCGM_EXPORTER,
            program="/usr/bin/dcgm-exporter",
            port=lambda plan: plan.spec.monitoring.dcgm_exporter_port,
        ),
    ),
)
