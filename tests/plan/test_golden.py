"""What inventories/prod.py becomes, byte by byte: its plan and every file of its nodes.

When a difference is wanted: ``python -m tests.golden.write``, then read ``git diff``.
"""

import pytest

from tests.golden import write

AGAIN = "wanted? python -m tests.golden.write"


@pytest.mark.parametrize("name", sorted(write.present()))
def test_production_is_as_it_was_read_by_a_person(name: str) -> None:
    expected = write.expected().get(name, b"the plan has no such file any more")
    assert (write.GOLDEN / name).read_bytes().decode() == expected.decode(), AGAIN


def test_every_file_of_the_plan_was_read_by_a_person() -> None:
    assert write.present() == set(write.expected()), AGAIN


def test_other_nodes_of_a_kind_differ_in_name_and_addresses_only() -> None:
    nodes = write.production().nodes
    kinds = {
        (nodes[name].role, nodes[name].node.runs, nodes[name].hardware.name) for name in write.NODES
    }
    assert {(n.role, n.node.runs, n.hardware.name) for n in nodes.values()} == kinds


def test_no_golden_file_holds_a_secret_of_a_cluster() -> None:
    assert write.FAKE.munge_key in write.expected()["prod/head1/files/etc/munge/munge.key"]
    dbd = write.expected()["prod/head1/files/etc/slurm/slurmdbd.conf"].decode()
    assert "\nStoragePass=not-a-password\n" in dbd
