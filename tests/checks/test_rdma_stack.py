"""The declared RDMA stack, and a cluster that declares none."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.checks.context import Context
from tests.checks import recorded

DISK = "rdma.driver_on_disk"


def stack(**rdma: Any) -> Context:
    def declare(wanted: dict[str, Any]) -> None:
        wanted["software"].pop("rdma")
        wanted["software"].update({"rdma": rdma} if rdma else {})

    return recorded.clustered(declare)


def test_without_a_declaration_the_peers_decide() -> None:
    changed = recorded.mutated(stack(), "worker3", DISK, ("folder",), "updates/dkms")
    finding = recorded.only(recorded.report(changed).findings)
    assert (finding.rule, finding.node) == (DISK, "worker3")
    assert "mlx5_core of updates/dkms" in finding.found


@pytest.mark.parametrize(
    ("folder", "found", "repair"),
    [
        ("kernel", "the kernel's own modules", "deploys/worker.py"),
        ("updates/dkms", "DOCA-OFED's modules, but mlx5_core A1B2 is loaded", "deploys/reboot.py"),
    ],
)
def test_doca_ofed_is_on_disk_and_then_loaded(folder: str, found: str, repair: str) -> None:
    cluster = stack(stack="doca_ofed", version="3.3.0")
    for worker in (f"worker{number}" for number in range(1, 9)):
        on_disk = {"folder": folder, "version": "26.01-1.0.0", "ofed": "absent"}
        cluster = recorded.mutated(cluster, worker, DISK, (), on_disk)
    findings = [one for one in recorded.report(cluster).findings if one.rule == "rdma.stack"]
    assert {one.node for one in findings} == {f"worker{number}" for number in range(1, 9)}
    assert {(one.found, one.expected) for one in findings} == {(found, "DOCA-OFED's modules")}
    assert all(repair in one.repair for one in findings)
