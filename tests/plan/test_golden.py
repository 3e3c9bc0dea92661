"""What inventories/prod.py becomes, byte by byte: its plan and every file of its nodes.

When a difference is wanted: ``python -m tests.golden.write``, then read ``git diff``.
"""

import pytest

from tests.golden import write


@pytest.mark.parametrize("name", sorted(write.present() | set(write.expected())))
def test_production_is_as_it_was_read_by_a_person(name: str) -> None:
    again = "wanted? python -m tests.golden.write"
    expected = write.expected().get(name)
    assert expected is not None, f"no node has this file any more; {again}"
    path = write.GOLDEN / name
    assert path.is_file(), f"a new file; {again}"
    assert path.read_bytes().decode() == expected.decode(), again


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
