"""Of two nodes, the one whose object is no longer as it was is wrong; and when it has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.checks.fingerprint.findings import wanted_past
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.history import fingerprints, records
from lockstep.history.store import opened
from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.node.fingerprint.tree import bucket_of
from lockstep.node.readers.reading import Unread
from lockstep.report import Finding, Status
from lockstep.when import HOUR_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import BUCKETS, objects, with_objects

START = 1795200000.0  # 2026-11-20 18:40 UTC
PAIR = ("worker2", "worker3")
FIRST, SECOND, THIRD = [f"/etc/{n}" for n in range(30) if bucket_of(f"/etc/{n}", BUCKETS) == 1][:3]
"""Files of one bucket: only their common sum travels."""
A, B, C = ({"mode": "0644", "content": f"{letter}\n"} for letter in "abc")
Changes = dict[str, Any]
"""Domain -> object -> its fields, or None to take it away; or why it cannot be read."""


class Checks:
    """Hourly checks of two workers."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "history.sqlite"
        self.turn = 0
        start = recorded.consistent()
        others = {name for name in start.plan.nodes if name[-1] in "145678" and name != "head1"}
        left = {name: record for name, record in start.reading.items() if name not in others}
        self.start = replace(start, reading=left)

    def __call__(
        self, second: Changes | None = None, third: Changes | None = None, **how: Any
    ) -> list[Finding]:
        """Check after changes on worker2 and worker3; return the findings of fingerprints."""
        context = self.context({"worker2": second or {}, "worker3": third or {}}, **how)
        past = self.saved(context, how.get("method", ""))
        found = recorded.report(replace(context, past=past)).findings
        return [one for one in found if one.rule.startswith(FAMILY)]

    def context(
        self,
        changed: dict[str, Changes],
        boots: dict[str, str] | None = None,
        keys: dict[str, bytes] | None = None,
        **_: Any,
    ) -> Context:
        every = {}
        for node, changes in changed.items():
            found: dict[str, Any] = dict(objects(node, self.start.plan.nodes[node].address))
            for domain, inside in changes.items():
                if isinstance(inside, Unread):
                    found[domain] = inside
                else:
                    kept = {**found[domain], **inside}
                    found[domain] = {n: fields for n, fields in kept.items() if fields is not None}
            every[node] = found
        return with_objects(self.start, every, keys, boots=boots)

    def saved(self, context: Context, method: str = "") -> dict[tuple[str, str], Any]:
        now = START + HOUR_S * self.turn
        self.turn += 1
        with opened(self.path) as history:
            records.save(history, context.reading, now, method)
            return {one: fingerprints.versions(history, *one) for one in wanted_past([context])}


@pytest.fixture
def check(tmp_path: Path) -> Checks:
    return Checks(tmp_path)


def only(found: list[Finding]) -> Finding:
    return recorded.only(found)


@pytest.mark.parametrize("node", PAIR)
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (FIRST, A, B),
        (FIRST, A, None),
        (FIRST, None, A),
        ("key", {"content": Secret("of all nodes")}, {"content": Secret("another")}),
        ("own", None, {"content": "without an identity\n"}),
        ("new", {"content": "the same everywhere\n"}, {"content": "this is worker9\n"}),
    ],
)
def test_the_changed_node_is_wrong(
    check: Checks, node: str, name: str, before: Fields | None, after: Fields | None
) -> None:
    healthy = {} if before is None and name == "own" else {"file": {name: before}}
    assert check(healthy, healthy) == []
    assert check(healthy, healthy) == []
    changed = {**healthy, "file": {name: after}}
    given = (changed, healthy) if node == "worker2" else (healthy, changed)
    for _ in range(3):
        finding = only(check(*given))
        assert (finding.node, finding.device) == (node, name)
        assert finding.reference == "earlier record"
        assert finding.changed == "between 2026-11-20 19:40 and 20:40 UTC"


@pytest.mark.parametrize("node", PAIR)
def test_an_older_difference_in_the_bucket_hides_nothing(check: Checks, node: str) -> None:
    """The nodes were never equal, and the older difference was there before the history."""
    second, third = {"file": {FIRST: A, SECOND: A}}, {"file": {FIRST: B, SECOND: A}}
    check(second, third)
    check(second, third)
    (second if node == "worker2" else third)["file"][SECOND] = C
    old, new = sorted(check(second, third), key=lambda one: one.device == SECOND)
    assert (old.device, old.status) == (FIRST, Status.UNDECIDED.value)
    assert old.changed == "before 2026-11-20 18:40 UTC on worker[2-3]"
    assert (new.device, new.node, new.reference) == (SECOND, node, "earlier record")
    assert new.changed == "between 2026-11-20 19:40 and 20:40 UTC"


@pytest.mark.parametrize("node", PAIR)
@pytest.mark.parametrize("late", [False, True])
def test_both_nodes_were_upgraded_as_well(check: Checks, node: str, late: bool) -> None:
    """Another object of the bucket changes on both, before or after the change on one."""
    healthy = {"file": {FIRST: A, SECOND: A}}
    odd = {"file": {FIRST: B, SECOND: A}}
    upgraded = {"file": {FIRST: A, SECOND: C}}
    both = {"file": {FIRST: B, SECOND: C}}

    def of(changed: Changes, other: Changes) -> list[Finding]:
        return check(*((changed, other) if node == "worker2" else (other, changed)))

    of(healthy, healthy)
    of(*((odd, healthy) if late else (upgraded, upgraded)))
    finding = only(of(both, upgraded))
    assert (finding.node, finding.device, finding.reference) == (node, FIRST, "earlier record")
    finding = only(of(both, upgraded))
    assert (finding.node, finding.reference) == (node, "earlier record")
    hours = "18:40 and 19:40" if late else "19:40 and 20:40"
    assert finding.changed == f"between 2026-11-20 {hours} UTC"


def test_what_was_changed_twice_is_compared_with_the_first_value(check: Checks) -> None:
    check({"file": {FIRST: A}}, {"file": {FIRST: A}})
    check({"file": {FIRST: B}}, {"file": {FIRST: A}})
    finding = only(check({"file": {FIRST: C}}, {"file": {FIRST: A}}))
    assert (finding.node, finding.reference) == ("worker2", "earlier record")
    assert finding.changed == "between 2026-11-20 18:40 and 20:40 UTC"


@pytest.mark.parametrize("known", [True, False])
def test_a_package_of_one_node_says_nothing_about_the_other(check: Checks, known: bool) -> None:
    """Its file is as it is shipped, and the other node rightly lacks both."""
    file = {"/etc/site.conf": {"package": "site", "shipped": "yes", "content": "1"}}
    new: Changes = {"package": {"site:all": {"version": "1"}}, "file": {**file}}
    if known:
        check()
    found = check(new)
    assert {one.reference for one in found} == {"earlier record" if known else "peers"}
    assert {one.node for one in found} == {"worker2" if known else "worker[2-3]"}


def test_a_value_that_comes_back_is_no_change(check: Checks) -> None:
    for value in (B, A, B):
        check({"file": {FIRST: value}}, {"file": {FIRST: A}})
    finding = only(check({"file": {FIRST: B}}, {"file": {FIRST: A}}))
    assert (finding.node, finding.changed) == ("worker2", "between 2026-11-20 19:40 and 20:40 UTC")


def test_if_both_have_changed_nobody_is_right(check: Checks) -> None:
    check({"file": {FIRST: A}}, {"file": {FIRST: A}})
    finding = only(check({"file": {FIRST: B}}, {"file": {FIRST: C}}))
    assert finding.status == Status.UNDECIDED.value


def test_what_both_got_in_different_forms_has_no_right_value(check: Checks) -> None:
    check()
    finding = only(check({"file": {FIRST: B}}, {"file": {FIRST: C}}))
    assert finding.status == Status.UNDECIDED.value
    assert finding.changed == "between 2026-11-20 18:40 and 19:40 UTC on worker[2-3]"


@pytest.mark.parametrize("node", PAIR)
@pytest.mark.parametrize("rebooted", PAIR)
def test_a_reboot_is_no_change(check: Checks, node: str, rebooted: str) -> None:
    def file(boot: str, text: str) -> Changes:
        return {"file": {"unit": {"content": f"boot-{boot} {text}\n"}}}

    def of(boots: dict[str, str], changed: bool) -> list[Finding]:
        texts = {name: "b" if changed and name == node else "a" for name in PAIR}
        return check(*(file(boots[name], texts[name]) for name in PAIR), boots=boots)

    first = dict.fromkeys(PAIR, "first")
    assert of(first, changed=False) == []
    assert of({**first, rebooted: "second"}, changed=False) == []
    for boot in ("second", "third"):
        finding = only(of({**first, rebooted: boot}, changed=True))
        assert (finding.node, finding.device) == (node, "unit")
        assert finding.reference == "earlier record"
        assert finding.changed == "between 2026-11-20 19:40 and 20:40 UTC"


def test_a_daemon_that_now_runs_as_configured_is_not_wrong(check: Checks) -> None:
    """Both were older than their configuration, and one of them was restarted."""
    old: Changes = {
        "process": {"x.service": {"CPUs": "0-1"}},
        "running": {"x.service: CPUs": {"running": "0-1", "configured": "0"}},
    }
    check(old, old)
    finding = only(check({"process": {"x.service": {"CPUs": "0"}}}, old))
    assert (finding.rule, finding.node, finding.expected) == (
        "fingerprint.running",
        "worker3",
        "0",
    )


def test_a_domain_that_was_not_read_meanwhile_has_its_past(check: Checks) -> None:
    check({"file": {FIRST: A}}, {"file": {FIRST: A}})
    unread: Any = {"file": Unread("timed out")}
    check(unread, {"file": {FIRST: A}})
    finding = only(check({"file": {FIRST: B}}, {"file": {FIRST: A}}))
    assert (finding.node, finding.reference) == ("worker2", "earlier record")
    assert finding.changed == "between 2026-11-20 18:40 and 20:40 UTC"


def test_a_domain_that_was_not_read_later_has_not_changed(check: Checks) -> None:
    check({"file": {FIRST: A}}, {"file": {FIRST: A}})
    check({"file": {FIRST: B}}, {"file": {FIRST: A}})
    check({"file": Unread("timed out")}, {"file": {FIRST: A}})
    finding = only(check({"file": {FIRST: B}}, {"file": {FIRST: A}}))
    assert finding.changed == "between 2026-11-20 18:40 and 19:40 UTC"


def test_another_way_to_read_is_no_change(check: Checks) -> None:
    """A new release reads a field more: every hash is another, and no node has changed."""
    check({"file": {FIRST: A}}, {"file": {FIRST: B}}, method="old")
    now = [{"file": {FIRST: {**value, "flags": "i"}}} for value in (A, B)]
    assert only(check(*now, method="new")).changed == ""
    finding = only(check(*now, method="new"))
    assert finding.changed == "before 2026-11-20 19:40 UTC on worker[2-3]"


def test_each_difference_from_the_configuration_has_its_own_time(check: Checks) -> None:
    """They have one sum, and each of them comes and goes alone."""
    one, other = ({f"{name}.service: nice": {"running": "1", "configured": "0"}}
                   for name in ("one", "other"))  # fmt: skip
    for running in ({}, one, {**one, **other}, {**one, **other}):
        found = check({"running": running})
    assert {finding.device: finding.changed for finding in found} == {
        "one.service: nice": "between 2026-11-20 18:40 and 19:40 UTC",
        "other.service: nice": "between 2026-11-20 19:40 and 20:40 UTC",
    }


def test_the_first_check_knows_no_change(check: Checks) -> None:
    finding = only(check({"file": {FIRST: A}}, {"file": {FIRST: B}}))
    assert (finding.status, finding.changed) == (Status.UNDECIDED.value, "")


def test_with_a_majority_only_the_past_of_the_odd_node_is_wanted() -> None:
    start = recorded.consistent()
    address = start.plan.nodes["worker3"].address
    usual = objects("worker3", address)
    changed: Any = {"worker3": {**usual, "user": {**usual["user"], "eve": {"uid": "0"}}}}
    assert wanted_past([with_objects(start, changed)]) == {("worker3", "user")}
    assert wanted_past([with_objects(start, {})]) == set()
