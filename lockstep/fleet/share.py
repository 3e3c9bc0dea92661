"""What a process is told that reads a share of the nodes: a line, so that it needs no plan."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.probe.ship import Request, table


@dataclass(frozen=True)
class Share:
    """Nodes, what to look at on each, and how it is reached."""

    requests: Mapping[str, Request]
    hosts: Mapping[str, tuple[str, dict[str, Any]]]
    """What pyinfra's inventory calls a node, and the data of its login."""
    controller: str = ""
    """Makes the credential that the others decode; "": there is none."""
    workers: Collection[str] = ()
    at_once: int = 1
    through: str = ""
    """Another program that reads the workers; "": each directly."""


def dumps(share: Share) -> str:
    """Return it as one line."""
    requests, nodes = table(share.requests)
    return json.dumps(
        {
            "requests": requests,
            "nodes": nodes,
            "hosts": share.hosts,
            "controller": share.controller,
            "workers": sorted(share.workers),
            "at_once": share.at_once,
            "through": share.through,
        }
    )


def loads(line: str) -> Share:
    """Return what ``dumps`` wrote."""
    said = json.loads(line)
    kinds = [
        Request(**{name: _tuple(value) for name, value in one.items()}) for one in said["requests"]
    ]
    return Share(
        {name: kinds[number] for name, number in said["nodes"].items()},
        {name: (called, data) for name, (called, data) in said["hosts"].items()},
        said["controller"],
        frozenset(said["workers"]),
        said["at_once"],
        said["through"],
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
