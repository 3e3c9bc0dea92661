"""Runs operations on this machine with pyinfra's own ``@local`` connector."""

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import gevent
import pytest
from pyinfra.api.config import Config
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.facts import FactBase, get_fact
from pyinfra.api.inventory import Inventory
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import State
from pyinfra.context import ctx_host, ctx_state

from lockstep.facts.reading import ask
from lockstep.probe import ship
from lockstep.question import Question

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """One run of one operation on this machine."""

    succeeded: bool
    commands: int
    """Commands that were executed."""
    output: str


def machine(name: str = "@local") -> State:
    """pyinfra, connected to this machine."""
    state = State(
        Inventory(([name], {})),  # type: ignore[no-untyped-call]  # pyinfra's
        Config(),  # type: ignore[no-untyped-call]  # pyinfra's
    )
    connect_all(state)
    return state


def run(operation: Callable[..., Any], **arguments: object) -> Done:
    """Execute an operation; its facts are read from this machine."""
    return run_in_order(lambda state: add_op(state, operation, **arguments))


def run_in_order(*added: Callable[[State], Any], looks_first: bool = True) -> Done:
    """Execute operations in one run, and return what became of the last one.

    Args:
        added: functions that add one operation each.
        looks_first: whether the run looks for changes first; False as with ``-y``.
    """
    state = machine()
    state.check_for_changes = looks_first
    (host,) = state.inventory
    for add in added:
        last: dict[Any, Any] = {}
        # In a greenlet, as pyinfra loads a deploy: that of a host which cannot be read ends.
        gevent.spawn(lambda add=add, last=last: last.update(add(state))).get()
        if host in state.failed_hosts:
            return Done(False, 0, "")
    with ctx_state.use(state), ctx_host.use(host):
        try:
            run_ops(state)
        except PyinfraError:  # no host is left: it failed
            return Done(False, 0, last[host].stderr)
        return Done(last[host].did_succeed(), len(last[host]._commands or []), "")


def noting(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a program do nothing but note its arguments; return the file with them, once it ran."""
    program = folder / "bin" / name
    program.parent.mkdir()
    noted = folder / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {noted}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return noted


def fact(kind: type[FactBase[Any]], **arguments: object) -> Any:
    """Read a fact from this machine."""
    state = machine()
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        return get_fact(state, host, kind, kwargs=arguments)


def asked(question: Question[T]) -> T:
    """Ask this machine."""
    state = machine()
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        return ask(host, question)


def on_node(monkeypatch: pytest.MonkeyPatch, text: str, other: str) -> None:
    """Have what reads a node look elsewhere: a text of its modules is another one."""
    whole = ship.sources()
    assert any(text in module for module in whole.values()), text
    changed = {name: module.replace(text, other) for name, module in whole.items()}
    monkeypatch.setattr(ship, "sources", lambda: changed)
    # What is made of the other texts must not outlive the test.
    monkeypatch.setattr(ship, "_packed", functools.cache(ship._packed.__wrapped__))


def read_below(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Have what reads a node take a folder for its root."""
    on_node(monkeypatch, 'ROOT = ""', f"ROOT = {str(root)!r}")


def has_loaded(root: Path, version: str, *modules: str) -> None:
    """Make the files of a node that has loaded some kernel modules, and NVIDIA's driver or none."""
    for folder in ("sys/module", "proc/driver/nvidia"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)
    for name in modules:
        (root / "sys/module" / name).mkdir()
    if version:
        line = (
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        )
        (root / "proc/driver/nvidia/version").write_text(line)
        (root / "proc/driver/nvidia/params").write_text('EnableMSI: 1\nRegistryDwords: "a=1"\n')
