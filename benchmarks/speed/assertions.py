"""Converts a node's plan to testinfra tests, one per assertion, as is usual.

It takes the first ones of each kind in turn, so that every node has the same number.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, zip_longest
from pathlib import Path

from lockstep.files import managed
from lockstep.plan import NodePlan

EACH = 30
"""Assertions per node. lockstep check compares several hundred values per node."""
BODIES = {
    "content": "host.file({0!r}).sha256sum == {1!r}",
    "mode": "host.file({0!r}).mode == {1}",
    "package": "host.package({0!r}).is_installed",
    "running": "host.service({0!r}).is_running",
    "enabled": "host.service({0!r}).is_enabled",
    "sysctl": "str(host.sysctl({0!r})) == {1!r}",
}


def write(folder: Path, nodes: Collection[NodePlan]) -> None:
    """Write one test module per node to a folder."""
    for node in nodes:
        tests = [f"testinfra_hosts = [{'ssh://' + node.name!r}]"]
        for number, one in enumerate(expressions(node)[:EACH]):
            tests.append(f"def test_{number}(host):\n    assert {one}")
        (folder / f"test_{node.name}.py").write_text("\n\n\n".join(tests) + "\n")


def expressions(node: NodePlan) -> list[str]:
    """Return the assertions about a node, each kind in turn, without secrets."""
    files = managed(node, None)
    kinds = (
        [BODIES["content"].format(file.path, file.sha256) for file in files],
        [BODIES["mode"].format(file.path, f"0o{file.mode}") for file in files],
        [BODIES["package"].format(name) for name in node.software.packages],
        [BODIES["running"].format(unit) for unit in node.system.units],
        [BODIES["enabled"].format(unit) for unit in node.system.units],
        [BODIES["sysctl"].format(key, value) for key, value in node.system.sysctl.items()],
    )
    return [one for one in chain.from_iterable(zip_longest(*kinds)) if one is not None]
