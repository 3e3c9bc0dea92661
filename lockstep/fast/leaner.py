"""Functions of pyinfra 3.10 that are slow for no gain, replaced by equal ones.

Each is replaced only while its source is the one that was read; another pyinfra is left alone
(and a test fails, so that a new version is looked at).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import pyinfra
from pyinfra.api import arguments, connectors, facts, util
from pyinfra.api.exceptions import ArgumentTypeError
from pyinfra.context import ContextObject, ctx_config

from lockstep import garbage

if TYPE_CHECKING:
    from types import FrameType

    from pyinfra.api.host import Host
    from pyinfra.api.state import State

# The package's attribute `operation` is a decorator: only this gives the module.
_operation = importlib.import_module("pyinfra.api.operation")
_global_arguments = cache(arguments.all_global_arguments)


def global_arguments() -> list[tuple[str, Any]]:
    """Return pyinfra's 32 global arguments; it evaluates their type hints each time."""
    return _global_arguments()


_connectors = cache(connectors.get_all_connectors)


def all_connectors() -> dict[str, Any]:
    """Return the connectors by name; pyinfra asks the disk for them, twice per host."""
    found: dict[str, Any] = _connectors()
    return found


_META = arguments.all_argument_meta
_SCALARS = (str, bool, int, float, type(None))


def _check_type(name: str, value: Any, kind: Any) -> None:
    """Raise what pyinfra raises where a global argument has a wrong type; the same one only once.

    Raises:
        ArgumentTypeError: it has.
    """
    if type(value) in _SCALARS and "password" not in name:  # what is kept is no secret
        _check_scalar(name, value, kind)
    else:
        util.raise_if_bad_type(value, kind, ArgumentTypeError, f"Invalid argument `{name}`:")


@lru_cache(maxsize=1024, typed=True)
def _check_scalar(name: str, value: Any, kind: Any) -> None:
    util.raise_if_bad_type(value, kind, ArgumentTypeError, f"Invalid argument `{name}`:")


@cache
def _kinds() -> dict[str, Any]:
    return dict(global_arguments())


def pop_global_arguments(
    state: State, host: Host, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Take the global arguments out of ``kwargs``; the rest from the deploy, the host, the config.

    pyinfra looks for each of them in six places of the host's data; here these are merged once.
    """
    of_deploy_file = ctx_config.get()  # type: ignore[no-untyped-call]  # pyinfra's, and the next
    config = state.config if of_deploy_file is None else of_deploy_file
    every = _kinds()
    values = {name: _META[name].default(config) for name in every}
    of_host = host.data.dict()  # type: ignore[no-untyped-call]
    values |= {name: copy(value) for name, value in of_host.items() if name in every}
    of_deploy: Any = host.current_deploy_kwargs or {}
    given = [name for name in every if name in kwargs]
    for name, kind in every.items():
        handler = _META[name].handler
        if name not in kwargs and name not in of_deploy and not handler:
            continue
        default = values[name]
        value = kwargs.pop(name) if name in kwargs else of_deploy.get(name, default)
        if handler:
            value = handler(config, value)
        if value is not default and value != default:
            _check_type(name, value, kind)
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


def attribute_of_context(context: ContextObject, key: str) -> Any:
    """Return what ``host``, ``state`` and their like in a deploy have, looking once who it is."""
    module: Any = context._container.module
    return getattr(context._base_cls if module is None else module, key)


operation_signature = cache(inspect.signature)
"""pyinfra checks the arguments of each call of an operation against it."""


@cache
def _plain_signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function, follow_wrapped=False)


def call_arguments(function: Callable[..., Any], /, *given: Any, **named: Any) -> dict[str, Any]:
    """Return what a call passes by the names of the parameters, as ``inspect.getcallargs`` does.

    Raises:
        TypeError: the function cannot be called so.
    """
    if inspect.ismethod(function):
        # Each instance has a method of its own; the function behind it is one.
        given, function = (function.__self__, *given), function.__func__
    passed = _plain_signature(function).bind(*given, **named)
    passed.apply_defaults()
    return passed.arguments


@dataclass(frozen=True)
class Patch:
    """A function, where pyinfra looks it up, and what takes its place."""

    function: Callable[..., Any]
    source_sha256: str
    """Of the function; where it is Python's, of the function of pyinfra that calls it."""
    places: tuple[str, ...]
    """Modules, and classes of them (``module:class``), in whose namespaces it is looked up."""
    instead: Callable[..., Any]
    caller: Callable[..., Any] | None = None
    """Of a function of Python's."""

    @property
    def fits(self) -> bool:
        """Whether pyinfra's function is the one that was read."""
        source = inspect.getsource(self.caller or self.function)
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
    Patch(
        ContextObject.__getattr__,
        "9a7ac623fa312faa8e02533c17ba3f4f70c8ce9157e6cb196ddf0f2af08d3631",
        ("pyinfra.context:ContextObject",),
        attribute_of_context,
    ),
    Patch(
        inspect.signature,
        "8195e098a9c6a0b359e76364e6e6faced77ae9f94a2551882e48809626b4bedb",
        ("pyinfra.api.operation",),
        operation_signature,
        caller=_operation._wrap_operation,
    ),
    Patch(
        inspect.getcallargs,
        "f1e30b1315adca787fc225c82ec7d2ce631a01602c4ee015204a7940ec041ae1",
        ("pyinfra.api.facts",),
        call_arguments,
        caller=facts._handle_fact_kwargs,
    ),
)


def place_of(name: str) -> Any:
    """Return a module, or a class of it."""
    module, _, of = name.partition(":")
    found = importlib.import_module(module)
    return getattr(found, of) if of else found


@cache
def patch() -> None:
    """Put the lean functions in the place of those that are as expected; once per process.

    And have Python not look for garbage in what is imported.
    """
    for one in PATCHES:
        if one.fits:
            for place in one.places:
                setattr(place_of(place), one.function.__name__, one.instead)
    garbage.seldom()
    # pyinfra leaves no bytecode behind; our roles and rules are 300 modules to compile each time.
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
