"""The time source of each node."""

from lockstep.plan.node import TimePlan
from tests.plan.example import planned

ALL = ("fd00:1::/64",)


def test_without_servers_the_first_head_is_the_reference() -> None:
    nodes = planned().nodes
    assert nodes["head1"].time == TimePlan(servers=(), reference=True, allow=ALL)
    assert nodes["head2"].time == TimePlan(servers=("head1",), reference=False, allow=ALL)


def test_workers_follow_every_head() -> None:
    assert planned().nodes["worker3"].time == TimePlan(("head1", "head2"), False, ())


def test_declared_servers_are_for_every_head() -> None:
    nodes = planned(lambda wanted: wanted.update(time={"servers": ["ntp.example.net"]})).nodes
    expected = TimePlan(("ntp.example.net",), False, ALL)
    assert nodes["head1"].time == nodes["head2"].time == expected
    assert nodes["worker1"].time == TimePlan(("head1", "head2"), False, ())


def test_there_is_at_most_one_reference() -> None:
    assert sum(node.time.reference for node in planned().nodes.values()) == 1
