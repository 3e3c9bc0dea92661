"""Status of a lab as table or JSON: one line per node."""

import json

from pydantic import BaseModel

from lab import network, proxy
from lab.providers import provider_of
from lab.state import LabState, NodeRole


class NodeView(BaseModel):
    """Current state of one node."""

    name: str
    role: NodeRole
    address: str
    condition: str
    """up, off, or cut (running, but disconnected at the switch)."""
    pid: int | None
    os: str


def view(lab: LabState) -> list[NodeView]:
    """Return the current state of every node of a lab."""
    provider = provider_of(lab)
    views = []
    for node in lab.nodes:
        running = provider.running(node)
        if not running:
            condition = "off"
        else:
            condition = "up" if network.link_state(lab.name, node.name) == "up" else "cut"
        views.append(
            NodeView(
                name=node.name,
                role=node.role,
                address=node.address,
                condition=condition,
                pid=node.process.pid if running and node.process else None,
                os=lab.os,
            )
        )
    return views


def as_json(lab: LabState, views: list[NodeView]) -> str:
    """Return the views as JSON."""
    return json.dumps(
        {
            "name": lab.name,
            "os": lab.os,
            "kernel": lab.kernel,
            "accelerator": lab.accelerator,
            "prefix": lab.prefix,
            "fabric_prefix": lab.fabric_prefix,
            "ssh_config": lab.ssh_config,
            "apt_proxy": proxy.URI,
            "nodes": [node.model_dump() for node in views],
        },
        indent=2,
    )


def as_table(lab: LabState, views: list[NodeView]) -> str:
    """Return the views as a table."""
    kernels = {node.role: lab.kernel_of(node.role) for node in lab.nodes}
    shown = {
        role: f"own ({lab.accelerator})" if kind == "own" else kind
        for role, kind in kernels.items()
    }
    rows = [("NODE", "ROLE", "CONDITION", "ADDRESS", "PID", "OS", "KERNEL")]
    rows += [
        (
            *(node.name, node.role, node.condition, node.address),
            *(str(node.pid or "-"), node.os, shown[node.role]),
        )
        for node in views
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([f"lab {lab.name!r}, network {lab.prefix}", *lines])
