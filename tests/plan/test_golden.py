"""What the example inventories become, byte by byte: the plan and every file of their nodes.

tests/test_generated.py compares them with the plan. When a difference is wanted: ``make generate``,
then read ``git diff tests/golden``.
"""

import pytest

from tests.golden import write


@pytest.mark.parametrize("inventory", write.NODES)
def test_other_nodes_of_a_kind_differ_in_name_and_addresses_only(inventory: str) -> None:
    nodes = write.plan_of(inventory).nodes
    kinds = {
        (nodes[name].role, nodes[name].node.runs, nodes[name].hardware.name)
        for name in write.NODES[inventory]
    }
    assert {(n.role, n.node.runs, n.hardware.name) for n in nodes.values()} == kinds


def test_no_golden_file_holds_a_secret_of_a_cluster() -> None:
    assert write.FAKE.munge_key in write.expected()["prod/head1/files/etc/munge/munge.key"]
    dbd = write.expected()["prod/head1/files/etc/slurm/slurmdbd.conf"].decode()
    assert "\nStoragePass=not-a-password\n" in dbd
