"""The check does not compare a role that the site manages with the plan."""

from __future__ import annotations

from dataclasses import replace

from lockstep.checks.context import Context
from tests.checks import recorded


def rules(context: Context) -> set[str]:
    return {finding.rule for finding in recorded.report(context).findings}


def test_what_the_role_sets_is_judged_only_while_it_is_lockstep_s() -> None:
    changed = recorded.mutated(recorded.consistent(), "worker3", "munge.key_sha256", (), "0" * 64)
    spec = changed.plan.spec.model_copy(update={"unmanaged": ("munge",)})
    assert "munge.key" in rules(changed)
    assert "munge.key" not in rules(replace(changed, plan=replace(changed.plan, spec=spec)))
