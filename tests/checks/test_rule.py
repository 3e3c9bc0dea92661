"""The shape of rules: few fields, few modules, and the objects that a rule explains."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from lockstep.checks import rules
from lockstep.checks.catalogue import all_rules
from lockstep.checks.objects import FILES, OF_READINGS, Object, ObjectKind
from lockstep.checks.rule import Cause, Effect, Rule
from lockstep.checks.rules._interfaces import interfaces
from tests.checks import recorded

RULES = {rule.id: rule for rule in all_rules()}
WORKER = recorded.consistent().views["worker3"]
MANAGEMENT = interfaces(WORKER)["management"]
MODULES = [
    path for path in Path(rules.__path__[0]).glob("*.py") if not path.name.startswith("__init__")
]


def test_a_rule_has_few_fields() -> None:
    assert len(fields(Rule)) <= 20
    assert max(len(fields(Cause)), len(fields(Effect))) <= 5


def test_rules_are_in_few_and_short_modules() -> None:
    assert len(MODULES) <= 33
    assert [path.name for path in MODULES if len(path.read_text().splitlines()) >= 400] == []


def test_no_two_rules_have_one_id() -> None:
    assert [
        name for name, times in Counter(rule.id for rule in all_rules()).items() if times > 1
    ] == []


@pytest.mark.parametrize(
    ("rule", "item", "kind", "name"),
    [
        ("file.content", "/etc/gai.conf", ObjectKind.FILE, "/etc/gai.conf"),
        ("unit.active", "slurmd.service", ObjectKind.UNIT, "slurmd.service"),
        ("mounts.fstab", "/home", ObjectKind.MOUNT, "/home"),
        ("gpu.vbios", "gpu3", ObjectKind.GPU, "gpu3"),
        ("rdma.firmware", "mlx5_0", ObjectKind.RDMA_DEVICE, "mlx5_0"),
        ("net.mtu", "management", ObjectKind.INTERFACE, MANAGEMENT),
        ("sysctl.running", "vm.swappiness", ObjectKind.SYSCTL, "vm.swappiness"),
        ("munge.key", "", ObjectKind.FILE, "/etc/munge/munge.key"),
        ("os.hostname", "", ObjectKind.FILE, "/etc/hostname"),
    ],
)
def test_a_finding_explains_its_object(rule: str, item: str, kind: ObjectKind, name: str) -> None:
    assert RULES[rule].explains(WORKER, item) == (Object(kind, name),)


def test_an_address_that_is_lost_explains_its_interface() -> None:
    """The file says which interface has it."""
    rail = next(one.name for one in WORKER.plan.interfaces if one.purpose == "rail0")
    address = WORKER.plan.node.fabric[0]
    read = WORKER.items("net.addresses")[rail]
    assert isinstance(read, list)
    left = [one for one in read if one != str(address)]
    lost = recorded.mutated(recorded.consistent(), "worker3", "net.addresses", (rail,), left)
    expected = (Object(ObjectKind.INTERFACE, rail),)
    assert RULES["net.address"].explains(lost.views["worker3"], "rail0") == expected
    assert RULES["net.address"].explains(WORKER, "rail0") == expected


def test_packages_that_came_together_are_objects_of_their_own() -> None:
    assert RULES["package.version"].explains(WORKER, "libc6, libc-bin") == (
        Object(ObjectKind.PACKAGE, "libc6"),
        Object(ObjectKind.PACKAGE, "libc-bin"),
    )


def test_a_finding_about_the_whole_node_explains_no_object() -> None:
    assert RULES["kernel.release"].explains(WORKER, "") == ()
    assert RULES["gpu.count"].explains(WORKER, "") == ()


def test_a_rule_names_other_objects_where_its_reading_does_not() -> None:
    arguments = RULES["kernel.args_foreign"].explains(WORKER, "isolcpus=2-3")
    assert arguments == (Object(ObjectKind.KERNEL_ARGUMENT, "isolcpus=2-3"),)


def test_every_pattern_of_a_reading_belongs_to_a_rule() -> None:
    readings = {rule.reading for rule in all_rules()}
    assert [name for name in FILES if name not in readings] == []
    unused = [p for p in OF_READINGS if not any(fnmatchcase(name, p) for name in readings)]
    assert unused == []
