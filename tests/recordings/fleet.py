"""A cluster of which each worker has the recorded GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.checks import local
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.node.check.judge import Result, judge
from lockstep.node.readers import collect
from lockstep.node.readers.commands import Commands
from lockstep.plan import NodePlan
from lockstep.probe.record import Record
from lockstep.report import Finding
from lockstep.when import HOUR_S
from tests.checks import recorded
from tests.recordings.player import Recording

ASKED = frozenset(name for _, names in collect.OF_NVIDIA_SMI for name in names) - collect.OF_ROLES
WORKERS = ("worker1", "worker2", "worker3")
SICK = "worker3"
RULES = [rule for rule in all_rules() if rule.reading in ASKED]


def read(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the readings that the probe takes of the recording."""

    def outcome(self: Commands, *argv: str, **options: str) -> tuple[int, str, str]:
        assert argv[0] == "nvidia-smi", argv
        return recording.outcome(*argv[1:])

    with monkeypatch.context() as patch:
        patch.setattr(Commands, "outcome", outcome)
        readings: dict[str, Any] = collect.collect({}, only=ASKED)["readings"]
    readings["gpu.answered_in_s"] = {"value": 0.1}
    return readings


def cluster(recording: Recording, **declared: Any) -> Context:
    """Return a cluster whose description has the name and the number of the GPUs, and ``declared``.

    No driver is declared, so the GPUs are used as they are.
    """

    def described(description: dict[str, Any]) -> None:
        name = next(iter(recording.gpus.values()))["name"]
        gpus = description["hardware"]["hgx-h200"]
        gpus["gpu"] = {"model": name, "count": len(recording.gpus), **declared}
        if name.startswith(("NVIDIA GB200", "NVIDIA GB300", "NVIDIA GH200")):
            gpus["architecture"] = "arm64"
            del gpus["kernel"]["max_cstate"]
        description["nodes"][1]["name"] = "worker[1-3]"
        del description["software"]["nvidia"]
        description["software"]["containers"] = {}

    return recorded.clustered(described)


def with_readings(context: Context, readings: dict[str, dict[str, Any]]) -> Context:
    """Return the cluster with the readings of some workers, now and an hour ago."""
    read = now_with(context, readings)
    before = {
        name: record.model_copy(update={"taken_at": record.taken_at - HOUR_S})
        for name, record in read.reading.items()
        if isinstance(record, Record)
    }
    return replace(read, before=before)


def now_with(context: Context, readings: dict[str, dict[str, Any]]) -> Context:
    """Return the cluster with the readings of some workers."""
    records = dict(context.reading)
    for name, found in readings.items():
        record = records[name]
        assert isinstance(record, Record)
        raw = record.model_dump(mode="json")
        raw["readings"] |= found
        # The slots are those of the recorded H200.
        raw["readings"]["gpu.pci.slot_width"] = {"value": {}}
        records[name] = recorded.parsed(raw)
    return recorded.with_reading(context, records)


def findings(context: Context) -> list[Finding]:
    """Return what the rules about answers of nvidia-smi find."""
    return list(check(RULES, context))


def node_check(plan: NodePlan, readings: dict[str, Any]) -> list[Result]:
    """Return what the node check finds in these readings."""
    ids = {rule.id for rule in RULES}
    return [one for one in judge(local.judgements(plan), readings) if one.rule in ids]
