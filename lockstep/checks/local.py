"""Turns rules into the checks that a node runs on itself, using only the node's plan."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from functools import partial

from lockstep.checks.context import Context, View
from lockstep.checks.rule import Kind, Local, Rule
from lockstep.checks.rules._gpu import supported
from lockstep.checks.site import rules_of
from lockstep.node.check.judge import Judgement
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_OPTION
from lockstep.probe.record import Record

TEXTFILE = "/var/lib/prometheus/node-exporter/lockstep.prom"
"""A file in Debian's default folder for prometheus-node-exporter's textfile collector."""
_NUMBER = 424242
"""Sample number: formatting it shows the text that a rule puts around numbers."""
_DEFAULTS = {field.name: field.default for field in fields(Judgement)}


def judgements(plan: NodePlan) -> tuple[Judgement, ...]:
    """Return the checks that a node runs on itself."""
    # Only the plan is known: there are no readings and no peers.
    nothing_read = Record(format=1, taken_at=0, duration_s=0, readings={})
    view = View(plan, nothing_read, Context(plan.cluster, {}, lambda node: ()))
    return tuple(
        replace(one, rule=rule.id, at_jobs=rule.on_node.when is Local.JOBS)
        for rule in rules_of(plan.spec)
        if rule.on_node is not None
        and rule.judges(view)
        and plan.manages(rule.expected.set_by or rule.repair.owner)
        for one in (rule.on_node.judgements or partial(_as_data, rule))(view)
    )


def configuration(plan: NodePlan) -> str:
    """Return the text of the node check's configuration file."""
    document = {
        "node": plan.name,
        "housekeeping": plan.hardware.cpu.housekeeping,
        "textfile": TEXTFILE,
        **({"scheduler": "kubernetes"} if plan.takes_pods else {}),
        # The probe reads them only on request.
        "request": {
            "spank_plugins": [plan.job_containers.plugin],
            "srun_options": [PYXIS_OPTION],
        }
        if "pyxis" in plan.roles
        else {},
    }
    # The longest part is the same for all nodes of a kind.
    return json.dumps(document, indent=1).removesuffix("\n}") + plan.once(
        "judgements", partial(_as_json, plan)
    )


def _as_json(plan: NodePlan) -> str:
    """Return the last part of the configuration file: the node's checks."""
    judged = [
        {name: value for name, value in asdict(one).items() if value != _DEFAULTS[name]}
        for one in judgements(plan)
    ]
    return json.dumps({"judgements": judged}, indent=1).replace("{", ",", 1) + "\n"


def _as_data(rule: Rule, view: View) -> Iterable[Judgement]:
    """Return the checks for a rule without code, or () if only peers provide the expected value."""
    # The node check skips unsupported values in every rule.
    picks = rule.look.pick not in (None, supported)
    expects = rule.expected
    if rule.look.items or picks or expects.by_device:
        raise TypeError(f"{rule.id}: the rule uses code; set OnNode.judgements")
    if rule.kind not in (Kind.EQUAL, Kind.SLOTS, Kind.ABSOLUTE):
        raise TypeError(f"{rule.id}: a node cannot check a {rule.kind.value} rule on its own")
    expected = None if expects.common is None else expects.common(view)
    if expected is None and expects.default is None:
        return ()
    return (
        Judgement(
            (rule.reading,),
            devices=rule.look.devices or "",
            expected=expected,
            reference=expects.default or "",
            bound=expects.bound.value if rule.kind is Kind.ABSOLUTE else "",
            shown=rule.text.show(_NUMBER).replace(str(_NUMBER), "{}"),
        ),
    )
