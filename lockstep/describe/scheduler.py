"""Slurm's settings in a draft, from slurm.conf."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lockstep.describe.seen import Seen
from lockstep.describe.values import (
    Block,
    Value,
    agreed,
    checked,
    folded,
    found_on,
    rows,
    table,
    todo,
)
from lockstep.node.fingerprint.hostlists import expand
from lockstep.report import fold
from lockstep.spec.model import Cluster
from lockstep.spec.schedulers import Partition, Slurm

DEFAULT_INTERVAL = 300
"""The value of ``scheduler.health_check_interval_s`` when the field is left out."""


class SlurmConf:
    """What slurm.conf says, as most nodes have it."""

    def __init__(self, nodes: Sequence[Seen]) -> None:
        """Choose the slurm.conf of most nodes."""
        got = agreed(nodes, lambda one: dict(one.slurm) or None)
        self.found: Mapping[str, Any] = got[0] if got else {}
        having = [one for one in nodes if one.slurm]
        same = all(dict(one.slurm) == self.found for one in having)
        self.note = found_on(one for one in having if dict(one.slurm) == self.found) + (
            "" if same else "; other nodes have another slurm.conf; confirm"
        )
        self.unread = next(filter(None, (one.reason("describe.slurm") for one in nodes)), "")

    @property
    def settings(self) -> Mapping[str, str]:
        """Key in lower case -> value."""
        settings: Mapping[str, str] = self.found.get("settings", {})
        return settings

    @property
    def controllers(self) -> list[str]:
        """The hosts of slurmctld, the first one first, without their domains."""
        return [str(host).partition(".")[0] for host in self.found.get("controllers", ())]

    @property
    def nodes(self) -> dict[str, Mapping[str, str]]:
        """Node -> its keys."""
        return {
            name: line
            for line in self.found.get("nodes", ())
            for name in _names(line.get("names", ""))
        }

    @property
    def partitions(self) -> Mapping[str, Mapping[str, str]]:
        """Name of a partition -> its keys."""
        partitions: Mapping[str, Mapping[str, str]] = self.found.get("partitions", {})
        return partitions

    def name(self) -> Value:
        """Return the name of the cluster."""
        if "clustername" not in self.settings:
            return todo("name of the cluster", self.unread or "no slurm.conf on these nodes")
        # Slurm turns it into lower case (slurm.conf(5), ClusterName).
        value = self.settings["clustername"].lower()
        note = f"ClusterName in slurm.conf, {self.note}"
        return checked(Cluster, "name", Value(value, note), "name of the cluster")


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except ValueError:
        return []


def block(conf: SlurmConf, workers: Collection[str]) -> Block | None:
    """Return the scheduler; None if nothing of Slurm was found and no node needs one."""
    if not conf.found and not workers:
        return None
    parts: dict[Any, Value | Block] = {"kind": Value("slurm", conf.note if conf.found else "")}
    if not conf.found:
        why = conf.unread or "no node has a slurm.conf"
        parts["partitions"] = Value([], "", (f"{why}; workers need a scheduler; confirm",))
        return table(parts)
    partitions = [
        one for name, keys in conf.partitions.items() if (one := _partition(name, keys, workers))
    ]
    if partitions:
        parts["partitions"] = rows(partitions, f"slurm.conf, {conf.note}")
    reserved = {
        keys.get("memspeclimit", "0") for name, keys in conf.nodes.items() if name in workers
    }
    if len(reserved) == 1 and (text := reserved.pop()).isdigit() and int(text):
        note = f"MemSpecLimit in slurm.conf, {conf.note}"
        parts["system_memory_mib"] = Value(int(text), note)
    interval = conf.settings.get("healthcheckinterval", "")
    if interval.isdigit() and int(interval) != DEFAULT_INTERVAL:
        note = f"HealthCheckInterval in slurm.conf, {conf.note}"
        parts["health_check_interval_s"] = checked(
            Slurm, "health_check_interval_s", Value(int(interval), note), "seconds"
        )
    return table(parts)


def _partition(name: str, keys: Mapping[str, str], workers: Collection[str]) -> Block | None:
    """Return a partition with the workers that were read; None if it has none of them."""
    named = _names(keys.get("nodes", ""))
    own = [node for node in named if node in workers]
    if not own:
        return None
    parts: dict[Any, Value | Block] = {
        "name": checked(Partition, "name", Value(name, "PartitionName"), "name of the partition"),
        "nodes": Value(fold(own), "Nodes"),
    }
    if keys.get("default", "").upper() == "YES":
        parts["default"] = Value(True, "Default")
    if (limit := keys.get("maxtime", "UNLIMITED").upper()) != "UNLIMITED":
        parts["max_time"] = checked(Partition, "max_time", Value(limit, "MaxTime"), "time limit")
    others = [node for node in named if node not in workers]
    above = [f"without {folded(others)}, which the draft has as no worker"] if others else []
    return table(parts, *above)
