"""Instructions for a process that reads nodes: one line with all it needs from the plan."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.probe.ship import Request, table


@dataclass(frozen=True)
class Share:
    """The nodes that one process reads, with the request and the login for each."""

    requests: Mapping[str, Request]
    logins: Mapping[str, dict[str, Any]]
    """Node name -> the data that pyinfra needs to connect to it."""
    own: Mapping[str, tuple[tuple[str, str], ...]]
    """Node whose fingerprint is taken -> its identities (``Request.own``), which would make every
    request another one."""
    controller: str = ""
    """The node that makes the munge credential for the others to decode; "" if there is none."""
    workers: Collection[str] = ()
    at_once: int = 1
    through: str = ""
    """The program that reads the workers; "" if each is read directly."""


def dumps(share: Share) -> str:
    """Return a share as one line of JSON."""
    requests, nodes = table(share.requests)
    workers = sorted(share.workers)
    return json.dumps({**vars(share), "requests": requests, "nodes": nodes, "workers": workers})


def loads(line: str) -> Share:
    """Return the share that ``dumps`` wrote."""
    found = json.loads(line)
    kinds = [
        Request(**{name: _tuple(value) for name, value in one.items()})
        for one in found.pop("requests")
    ]
    nodes = found.pop("nodes")
    own = {name: _tuple(pairs) for name, pairs in found.pop("own").items()}
    return Share({name: kinds[number] for name, number in nodes.items()}, own=own, **found)


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
