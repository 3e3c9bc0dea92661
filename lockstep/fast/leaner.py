"""Functions of pyinfra 3.10 that are slow for no gain, replaced by equal ones.

Each is replaced only while its source is the one that was read; another pyinfra is left alone
(and a test says so, for whoever raises the version).
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyinfra
from pyinfra.api import arguments, connectors, util
from pyinfra.api.exceptions import ArgumentTypeError
from pyinfra.context import ctx_config

if TYPE_CHECKING:
    from types import FrameType

    from pyinfra.api.host import Host
    from pyinfra.api.state import State

_global_arguments = cache(arguments.all_global_arguments)


def global_arguments() -> list[tuple[str, Any]]:
    """Return pyinfra's 37 global arguments; it evaluates their type hints each time."""
    return _global_arguments()


_connectors = cache(connectors.get_all_connectors)


def all_connectors() -> dict[str, Any]:
    """Return the connectors by name; pyinfra asks the disk for them, twice per host."""
    found: dict[str, Any] = _connectors()
    return found


@cache
def _looked_up() -> list[tuple[str, Any, Callable[[Any], Any], Callable[[Any, Any], Any] | None]]:
    """Return each global argument with its type, the call for its default, and its handler."""
    every = ((name, kind, arguments.all_argument_meta[name]) for name, kind in global_arguments())
    return [(name, kind, meta.default, meta.handler) for name, kind, meta in every]


def pop_global_arguments(
    state: State, host: Host, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Take the global arguments out of ``kwargs``; the rest from the deploy, the host, the config.

    pyinfra looks each of them up in six places of the host's data; here they are merged once.
    """
    own = ctx_config.isset()  # type: ignore[no-untyped-call]  # pyinfra's, and the next two
    config = ctx_config.get() if own else state.config  # type: ignore[no-untyped-call]
    of_host = host.data.dict()  # type: ignore[no-untyped-call]
    of_deploy: Any = host.current_deploy_kwargs or {}
    values, given = {}, []
    for name, kind, default_of, handler in _looked_up():
        default = copy(of_host[name]) if name in of_host else default_of(config)
        if name in kwargs:
            given.append(name)
            value = kwargs.pop(name)
        else:
            value = of_deploy.get(name, default) if of_deploy else default
        if handler:
            value = handler(config, value)
        if value is not default and value != default:
            problem = f"Invalid argument `{name}`:"
            util.raise_if_bad_type(value, kind, ArgumentTypeError, problem)
        values[name] = value
    return values, given


def operation_order(state: State) -> list[int]:
    """Return the lines through which an operation is reached, from the deploy file on.

    pyinfra asks ``inspect.stack()``, which reads the source around every frame from disk.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    if state.current_deploy_filename:
        files = [one.f_code.co_filename for one in frames]
        # pyinfra's own search ends at the last frame where it finds nothing.
        start = (
            files.index(state.current_deploy_filename)
            if state.current_deploy_filename in files
            else len(files)
        )
        frames = frames[start:]
    of_ours = (
        one.f_lineno
        for one in frames
        if not one.f_code.co_filename.startswith(util.PYINFRA_INSTALL_DIR)
    )
    return [*([state.current_op_file_number] if pyinfra.is_cli else []), *of_ours]


@dataclass(frozen=True)
class Patch:
    """A function of pyinfra, where it is called from, and what takes its place."""

    function: Callable[..., Any]
    source_sha256: str
    callers: tuple[str, ...]
    """Modules in whose namespaces it is looked up."""
    instead: Callable[..., Any]

    @property
    def fits(self) -> bool:
        """Whether pyinfra's function is the one that was read."""
        source = inspect.getsource(self.function)
        return hashlib.sha256(source.encode()).hexdigest() == self.source_sha256


PATCHES = (
    Patch(
        connectors.get_all_connectors,
        "7d05cb4b81d92078b20c1ad876186310472ce3dc4c3636f3815d031bbf7e1d8e",
        ("pyinfra.api.inventory",),
        all_connectors,
    ),
    Patch(
        arguments.all_global_arguments,
        "f7afbc472d78c5d2f0bb282994175647651e888543da001968d903cc4a26a5a1",
        ("pyinfra.api.arguments",),
        global_arguments,
    ),
    Patch(
        arguments.pop_global_arguments,
        "a12a311539ff5068152b1c9c4578d77a8a893239a570f912768050a623069faf",
        ("pyinfra.api.facts", "pyinfra.api.operation", "pyinfra.api.deploy"),
        pop_global_arguments,
    ),
    Patch(
        util.get_operation_order_from_stack,
        "f4807f61585570e091fd453c7552d9e2b49329555f07f395a8e8f1d2a398a0b2",
        ("pyinfra.api.operation",),
        operation_order,
    ),
)


@cache
def patch() -> None:
    """Put the lean functions in the place of those that are as expected; once per process.

    And have Python go easy on what is imported.
    """
    for one in PATCHES:
        if one.fits:
            # The package's attribute `operation` is a decorator: only this gives the module.
            for caller in one.callers:
                setattr(importlib.import_module(caller), one.function.__name__, one.instead)
    # What was imported so far stays to the end: no search for garbage goes through it again.
    gc.freeze()
    # pyinfra leaves no bytecode behind; our roles and rules are 300 modules to compile each time.
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
