"""Nodes as pyinfra's inventories have them: their names there, and how they are reached."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from lockstep.fast_path import inventory_name
from lockstep.spec.model import Access
from lockstep.spec.names import expand


def login(access: Access) -> dict[str, Any]:
    """Return the data with which pyinfra logs in on a node."""
    return {
        "ssh_user": access.user,
        "ssh_port": access.port,
        "ssh_strict_host_key_checking": "yes",
        "_sudo": True,
        **({"ssh_key": access.key} if access.key else {}),
        **({"ssh_known_hosts_file": access.known_hosts} if access.known_hosts else {}),
    }


def named(names: str, known: Container[str]) -> list[str]:
    """Return what an inventory calls nodes: ``worker[1-4]``.

    Raises:
        ValueError: no range of names, or a name that is not known.
    """
    nodes = expand(names)
    unknown = [node for node in nodes if node not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such node in this cluster")
    return [inventory_name(node) for node in nodes]
