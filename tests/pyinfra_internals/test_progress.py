"""How far pyinfra's phases and operations are, as text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from lockstep.pyinfra_internals.progress import Progress


def hosts(stage: StateStage) -> list[Any]:
    state = SimpleNamespace(failed_hosts=set(), current_stage=stage)
    return [Host(name=f"gpu{number}", state=state, connected=False) for number in range(1, 5)]


class Host(SimpleNamespace):
    """A host of pyinfra."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_done_failed_and_remaining_nodes_are_counted() -> None:
    nodes = hosts(StateStage.Execute)
    progress = Progress(nodes)
    assert progress.text() == "0 of 4 nodes done, 0 s; waiting for gpu[1-4]"
    for node in nodes[:2]:
        progress.complete(node)
    nodes[0].state.failed_hosts |= {nodes[1], nodes[2]}  # one of them still ends
    assert progress.text() == "2 of 4 nodes done, 1 failed, 0 s; waiting for gpu[3-4]"
    with pytest.raises(ValueError, match="not an item that is left"):
        progress.complete(nodes[0])


def test_a_node_that_is_not_connected_has_failed() -> None:
    nodes = hosts(StateStage.Connect)
    progress = Progress(nodes)
    nodes[0].connected = True
    for node in nodes[:3]:
        progress.complete(node)
    assert progress.text() == "3 of 4 nodes done, 2 failed, 0 s; waiting for gpu4"


def test_without_barriers_operations_are_counted() -> None:
    nodes = hosts(StateStage.Execute)[:2]
    progress = Progress((node, number) for node in nodes for number in range(3))
    progress.complete((nodes[0], 1))
    assert progress.text() == "1 of 6 operations done, 0 s; waiting for gpu[1-2]"
