"""The manifest as data: what a deploy adds, what stays, what is left over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.manifest import (
    LeftOver,
    ManifestError,
    Sections,
    left_over,
    merged,
    parsed,
    wanted,
    without,
    written,
)
from lockstep.plan import NodePlan
from tests.checks import recorded

FIRST, SECOND = "boot-1 10", "boot-2 10"
PLAN = recorded.consistent().plan.nodes["worker3"]
EXPORTER = "/etc/default/prometheus-node-exporter"


def deployed(held: Sections, *roles: str, boot: str = FIRST, plan: NodePlan = PLAN) -> Sections:
    """Return the manifest after a deploy of some roles; all of them without names."""
    chosen = roles or plan.roles
    files = managed(plan, recorded.SECRETS)
    return merged(held, wanted(plan, files, chosen), plan, chosen, boot)


def changed(**fields: Any) -> NodePlan:
    """Return the plan of the same node after a change of its description."""
    spec = PLAN.cluster.spec.model_copy(update=fields)
    cluster = replace(PLAN.cluster, spec=spec)
    return cluster.nodes["worker3"]


def test_a_node_without_a_manifest_gets_one_with_all_that_its_plan_has() -> None:
    first = deployed(parsed(""))
    assert first["files"].keys() == {file.path for file in managed(PLAN, recorded.SECRETS)}
    assert first["units"].keys() == set(PLAN.system.units)
    assert first["packages"].keys() == set(PLAN.software.packages)
    assert {name for name, one in first["packages"].items() if "held" in one} == {
        *PLAN.software.held
    }
    assert first["sysctl"].keys() == PLAN.system.sysctl.keys()
    assert first["masked"].keys() == set(PLAN.system.masked_units)
    assert first["files"][EXPORTER]["role"] == "node_exporter"
    assert parsed(written(first)) == first


def test_a_second_deploy_has_nothing_to_write_not_even_after_a_reboot() -> None:
    first = deployed(parsed(""))
    assert deployed(first, boot=SECOND) == first


def test_a_deploy_of_some_roles_touches_their_entries_only() -> None:
    first = deployed(parsed(""), "node_exporter")
    assert {one["role"] for one in first["files"].values()} == {"node_exporter"}
    assert not first["packages"], "the role that installs packages was not deployed"
    assert not first["sysctl"]
    assert not first["masked"]
    stale = {**first, "files": {**first["files"], "/etc/munge/munge.key": {"role": "munge"}}}
    assert deployed(stale, "node_exporter") == stale


def test_new_content_keeps_the_old_hash_until_the_next_change() -> None:
    first = deployed(parsed(""))
    old = {**first["files"][EXPORTER], "sha256": "old", "package": "prometheus-node-exporter"}
    entry = deployed({**first, "files": {EXPORTER: old}})["files"][EXPORTER]
    assert entry == {**first["files"][EXPORTER], "before": "old", "package": old["package"]}
    assert deployed({**first, "files": {EXPORTER: entry}})["files"][EXPORTER] == entry


def test_a_secret_that_this_machine_does_not_hold_keeps_its_hash() -> None:
    first = deployed(parsed(""))
    again = merged(first, wanted(PLAN, managed(PLAN, None), ("munge",)), PLAN, ("munge",), FIRST)
    assert again == first


def test_what_the_plan_has_no_longer_stays_until_it_is_removed() -> None:
    first = deployed(parsed(""))
    first["files"]["/etc/gone"] = {"role": "fabric", "sha256": "a", "package": ""}
    later = deployed(first)
    assert later["files"]["/etc/gone"] == {"role": "fabric", "sha256": "a", "package": ""}
    gone = LeftOver("files", "/etc/gone", "fabric", "")
    assert "/etc/gone" not in without(later, [gone])["files"]


def test_a_dropped_sysctl_keeps_the_boot_in_which_it_was_dropped() -> None:
    first = deployed(parsed(""))
    first["sysctl"]["vm.odd"] = {"role": "kernel", "value": "1"}
    assert deployed(first, "node_exporter")["sysctl"]["vm.odd"] == first["sysctl"]["vm.odd"]
    later = deployed(first, boot=FIRST)
    assert later["sysctl"]["vm.odd"] == {"role": "kernel", "value": "1", "dropped": FIRST}
    assert deployed(later, boot=SECOND) == later


READING: dict[str, Any] = {
    "files": {
        "/etc/gone": {"role": "fabric", "state": "unchanged", "sha256": "a", "package": "p"},
        EXPORTER: {"role": "node_exporter", "state": "unchanged"},
    },
    "units": {
        "gone.service": {"role": "prometheus", "state": "enabled"},
        "slurmd.service": {"role": "slurm_worker", "state": "enabled, active"},
    },
    "packages": {"gone": {"role": "prometheus", "state": ""}},
    "sysctl": {"vm.odd": {"role": "kernel", "state": "1"}},
}


def test_left_over_is_what_the_manifest_holds_and_the_plan_does_not() -> None:
    found = left_over(PLAN, READING, {"gone"})
    assert [(one.section, one.name) for one in found] == [
        ("files", "/etc/gone"),
        ("packages", "gone"),
        ("sysctl", "vm.odd"),
        ("units", "gone.service"),
    ]
    assert found[0] == LeftOver("files", "/etc/gone", "fabric", "unchanged", "a", "p")
    assert found[1].state == "installed"
    assert left_over(PLAN, READING, ())[1].state == "", "somebody removed it"
    assert not found[0].changed
    assert replace(found[0], state="changed").changed


def test_what_the_description_leaves_to_the_site_is_not_left_over() -> None:
    plan = changed(unmanaged=("fabric", "node_exporter", "os_settings"))
    assert "node_exporter" not in plan.roles
    assert [one.name for one in left_over(plan, READING, {"gone"})] == ["gone", "gone.service"]
    without_packages = changed(unmanaged=("packages",))
    assert all(one.section != "packages" for one in left_over(without_packages, READING, {"gone"}))


def test_what_the_node_could_not_read_is_no_unchanged_file() -> None:
    reading = {"files": {"/etc/odd": {"unread": "/etc/odd: Input/output error"}}}
    (found,) = left_over(PLAN, reading, ())
    assert found.changed
    assert found.state == "unread: /etc/odd: Input/output error"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 2}', '{"format": 1, "files": {}}'])
def test_a_manifest_that_cannot_be_read_is_never_an_empty_one(text: str) -> None:
    with pytest.raises(ManifestError):
        parsed(text)
