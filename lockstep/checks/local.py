"""The rules that a node judges alone, as data for its program. Pure: made from the plan."""

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
from lockstep.plan.job_containers import PYXIS_OPTION, PYXIS_PLUGIN
from lockstep.probe.record import Record

TEXTFILE = "/var/lib/prometheus/node-exporter/lockstep.prom"
"""In Debian's folder of the textfile collector (prometheus-node-exporter --help)."""
_NUMBER = 424242
"""Stands for any number, to see the words around it."""
_REQUEST = {"spank_plugins": [PYXIS_PLUGIN], "srun_options": [PYXIS_OPTION]}
"""What the probe takes by name only; all other readings that nodes judge are taken without."""
_DEFAULTS = {field.name: field.default for field in fields(Judgement)}


def judgements(plan: NodePlan) -> tuple[Judgement, ...]:
    """Return what the node of a plan is to judge."""
    # The plan alone: nothing was read, and no peer is in sight.
    record = Record(format=1, taken_at=0, duration_s=0, readings={})
    view = View(plan, record, Context(plan.cluster, {}, lambda node: ()))
    return tuple(
        replace(one, rule=rule.id, at_jobs=rule.on_node.when is Local.JOBS)
        for rule in rules_of(plan.spec)
        if rule.on_node is not None and rule.judges(view)
        for one in (rule.on_node.judgements or partial(_as_data, rule))(view)
    )


def configuration(plan: NodePlan) -> str:
    """Return the file that the program on the node reads."""
    document = {
        "node": plan.name,
        "housekeeping": plan.hardware.cpu.housekeeping,
        "textfile": TEXTFILE,
        "request": _REQUEST if "pyxis" in plan.capabilities else {},
    }
    # The longest part is the same for all nodes of a kind.
    judged = plan.once("judgements", partial(_as_json, plan))
    return json.dumps(document, indent=1).removesuffix("\n}") + judged


def _as_json(plan: NodePlan) -> str:
    """Return the end of the file: all judgements."""
    judged = [
        {name: value for name, value in asdict(one).items() if value != _DEFAULTS[name]}
        for one in judgements(plan)
    ]
    return json.dumps({"judgements": judged}, indent=1).replace("{", ",", 1) + "\n"


def _as_data(rule: Rule, view: View) -> Iterable[Judgement]:
    """Return a rule that is data already; nothing where only the peers could judge."""
    # The node leaves out what is not supported, whatever rule it is.
    picks = rule.look.pick not in (None, supported)
    expects = rule.expected
    if rule.look.items or picks or expects.by_device:
        raise TypeError(f"{rule.id}: judges by code, so a node needs its own judgements")
    if rule.kind not in (Kind.EQUAL, Kind.SLOTS, Kind.ABSOLUTE):
        raise TypeError(f"{rule.id}: no node can judge {rule.kind.value} alone")
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
