"""The check of a cluster on the RHEL family, which has its own names of units, paths, packages."""

from collections.abc import Callable
from typing import Any

from lockstep.checks.context import Context
from tests.checks import recorded

RELEASE = {"os.id": "rocky", "os.version_id": "9.4"}
STOPPED = {"load": "loaded", "active": "failed", "sub": "failed", "enabled": "enabled"}


def on_rocky(wanted: dict[str, Any]) -> None:
    wanted["os"].update(release="rocky_9")
    wanted.update(software={})
    wanted["networks"]["fabric"]["manager"] = "release"


def cluster(change: Callable[[dict[str, Any]], None] = on_rocky) -> Context:
    context = recorded.clustered(change)
    for name in context.plan.nodes:
        for reading, value in RELEASE.items():
            context = recorded.mutated(context, name, reading, (), value)
    return context


def test_the_check_expects_what_the_plan_of_the_release_has() -> None:
    assert recorded.report(cluster()).findings == []


def test_a_unit_with_another_name_is_the_cause_of_what_follows() -> None:
    unit, port = "node_exporter.service", "tcp/9100"
    changed = recorded.mutated(cluster(), "worker3", "units", (unit,), STOPPED)
    changed = recorded.mutated(changed, "worker3", "listeners", (port,), [])
    one = recorded.only(recorded.report(changed).findings)
    assert (one.rule, one.node, one.device, one.roles) == (
        "unit.active",
        "worker3",
        unit,
        ("node_exporter",),
    )
    assert f"listener.family ({port})" in one.detail
