"""The check of SELinux on the RHEL family: mode, modules, booleans and labels."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lockstep.catalog.selinux import GPU_BOOLEAN, RDMA_MODULE
from lockstep.checks.context import Context
from tests.checks import recorded, test_rhel

NODE = "worker3"


@cache
def cluster(mode: str = "enforcing", gdrcopy: str | None = None) -> Context:
    def change(wanted: dict[str, Any]) -> None:
        repositories = wanted["software"]["repositories"]
        test_rhel.on_rocky(wanted)
        wanted["os"]["selinux"] = mode
        wanted["software"] = {
            "repositories": repositories,
            "nvidia": {
                "driver": recorded.DRIVER,
                "fabric_manager": recorded.DRIVER,
                "container_toolkit": "1.19.0",
                **({"gdrcopy": gdrcopy} if gdrcopy else {}),
            },
            "containers": {"engines": ["podman"]},
        }

    return test_rhel.cluster(change)


def test_the_check_finds_nothing_after_a_deploy() -> None:
    assert recorded.report(cluster()).findings == []
    assert recorded.report(cluster("permissive")).findings == []
    assert recorded.report(cluster(gdrcopy="2.5.1")).findings == []


@pytest.mark.parametrize(
    ("rule", "reading", "path", "value", "device", "found"),
    [
        ("selinux.mode", "selinux.mode", ("running",), "permissive", "running", "permissive"),
        ("selinux.mode", "selinux.mode", ("persisted",), "disabled", "persisted", "disabled"),
        ("selinux.mode", "selinux.mode", ("policy",), "mls", "policy", "mls"),
        ("selinux.module", "selinux.modules", (RDMA_MODULE,), "absent", RDMA_MODULE, "absent"),
        (
            *("selinux.boolean", "selinux.booleans", (GPU_BOOLEAN, "running"), "off"),
            *(GPU_BOOLEAN, "off"),
        ),
        (
            *("selinux.boolean", "selinux.booleans", (GPU_BOOLEAN, "persisted"), "not set"),
            *(f"{GPU_BOOLEAN} (next boot)", "not set"),
        ),
        (
            *("selinux.label", "selinux.labels", ("/usr/sbin/slurmd",), "user_home_t"),
            *("/usr/sbin/slurmd", "user_home_t"),
        ),
    ],
)
def test_a_lost_part_is_one_finding_and_its_repair_names_the_role(
    rule: str, reading: str, path: tuple[str, ...], value: str, device: str, found: str
) -> None:
    changed = recorded.mutated(cluster(), NODE, reading, path, value)
    one = recorded.only(recorded.report(changed))
    assert (one.rule, one.node, one.device, one.roles) == (rule, NODE, device, ("selinux",))
    assert found in one.found
    assert "--data roles=selinux" in one.repair


def test_a_label_of_a_path_that_is_not_there_is_no_finding() -> None:
    changed = recorded.mutated(
        cluster(), NODE, "selinux.labels", ("/var/lib/slurm/slurmctld",), "absent"
    )
    assert recorded.report(changed).findings == []


def test_disabled_with_the_right_file_needs_only_a_boot() -> None:
    changed = recorded.mutated(cluster(), NODE, "selinux.mode", ("running",), "disabled")
    one = recorded.only(recorded.report(changed))
    assert (one.device, f"reboot {NODE} when it is idle" in one.repair) == ("running", True)


def test_nodes_are_compared_where_no_mode_is_declared() -> None:
    context = test_rhel.cluster()
    for name in context.plan.nodes:
        mode = {"running": "enforcing", "persisted": "enforcing", "policy": "targeted"}
        context = recorded.mutated(context, name, "selinux.mode", (), mode)
    assert recorded.report(context).findings == []
    changed = recorded.mutated(context, NODE, "selinux.mode", ("running",), "permissive")
    one = recorded.only(recorded.report(changed))
    assert (one.rule, one.node, one.expected) == ("selinux.mode", NODE, "enforcing")
