"""Snapshots of etcd on each head that runs the control plane: a timer makes them, and keeps some.

etcd's own programs run in its container, which every control plane of kubeadm has.
deploys/restore_etcd.py restores one.

Owns     the program, the timer and its service; it makes files in /var/lib/lockstep/etcd-snapshots,
         and deletes the oldest of them.
Restart  nothing: the service runs for seconds, and etcd serves meanwhile.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File, Unit, whole_unit
from lockstep.plan.kubernetes import DONE, ETCD_DATA, SNAPSHOTS, etcdctl
from lockstep.spec import Service

NAME = "lockstep-etcd-snapshot"
PROGRAM = "/usr/local/libexec/lockstep/etcd-snapshot"


def _when(plan: NodePlan) -> bool:
    settings = plan.spec.kubernetes
    return (
        settings is not None
        and settings.snapshots is not None
        and plan.runs(Service.KUBERNETES_CONTROL_PLANE)
    )


ROLE = Declaration(
    name="kubernetes_snapshots",
    title="Kubernetes snapshots",
    when=_when,
    after=("kubernetes_control_plane",),
    files=(
        File(
            path=PROGRAM,
            template="kubernetes_snapshots/etcd-snapshot.sh.j2",
            own=True,
            mode="755",
            validate=SHELL,
            values={
                "done": DONE,
                "data": ETCD_DATA,
                "folder": SNAPSHOTS,
                "etcdctl": etcdctl(),
                "etcdutl": etcdctl("etcdutl").partition(" --endpoints")[0],
            },
        ),
        File(
            path=f"/etc/systemd/system/{NAME}.service",
            template=f"kubernetes_snapshots/{NAME}.service.j2",
            validate=whole_unit(f"{NAME}.service"),
            values={"program": PROGRAM},
        ),
        File(
            path=f"/etc/systemd/system/{NAME}.timer",
            template=f"kubernetes_snapshots/{NAME}.timer.j2",
            validate=whole_unit(f"{NAME}.timer"),
        ),
    ),
    units=(
        Unit(
            name=f"{NAME}.timer",
            reads=lambda plan: (f"/etc/systemd/system/{NAME}.timer",),
            reads_own_files=False,
        ),
    ),
)
