"""SELinux of the RHEL family: its mode, policy modules, booleans, and labels of Slurm's folders.

Owns     /etc/selinux/config, the modules lockstep_*, and the booleans that the plan names.
Restart  nothing. The mode becomes enforcing only while no job step runs on the node.
Reboot   needed where SELinux is disabled: only a boot can turn it on.
"""

from __future__ import annotations

from lockstep.facts.selinux import selinux_state
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.selinux import (
    GDRCOPY_MODULE,
    GDRCOPY_SOURCE,
    RDMA_MODULE,
    RDMA_SOURCE,
    confines,
    modules,
)
from lockstep.question import Questions


def _asks(plan: NodePlan) -> Questions:
    yield selinux_state(plan.selinux)


def _packages(plan: NodePlan) -> tuple[str, ...]:
    return ("container-selinux",) if confines(plan) else ()


ROLE = Declaration(
    name="selinux",
    title="SELinux",
    jobs_use=True,
    when=lambda plan: plan.release.selinux and plan.spec.os.selinux is not None,
    # Red Hat, SELinux guide of RHEL 7, 4.1 "SELinux Packages": policycoreutils has semodule,
    # setsebool and restorecon, libselinux-utils has getenforce and matchpathcon. RHEL 9 still has
    # both (lists of CentOS Stream 9, BaseOS: 3.6 of each). Looked up on 2026-11-28.
    packages={"rhel": ("libselinux-utils", "policycoreutils")},
    more_packages=_packages,
    files=(
        File(path="/etc/selinux/config", template="selinux/config.j2"),
        # semodule links a module with the whole policy before it loads anything; nothing else
        # can check it.
        File(
            path=RDMA_SOURCE,
            template="selinux/lockstep_container_rdma.cil.j2",
            wanted=lambda plan: RDMA_MODULE in modules(plan),
        ),
        File(
            path=GDRCOPY_SOURCE,
            template="selinux/lockstep_container_gdrcopy.cil.j2",
            wanted=lambda plan: GDRCOPY_MODULE in modules(plan),
        ),
    ),
    operations="lockstep.roles.operations.selinux",
    asks=_asks,
)
