"""The table of functions that Lockstep replaces in pyinfra and gevent.

A replacement is used only if the source code of the original has the expected hash. Otherwise, the
original stays in use, which is slower but has the same result, and a message reports that.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name

from lockstep import fast_path


@dataclass(frozen=True)
class Patch:
    """A replacement for one function. Names are written as ``module:object``."""

    original: str
    source_sha256: str
    replacement: str
    """Name of the new function, relative to this package."""
    places: tuple[str, ...]
    """Modules and classes in which pyinfra, gevent or Lockstep looks the function up."""

    @property
    def fits(self) -> bool:
        """Whether the original is the one that the replacement was written for."""
        try:
            source = inspect.getsource(resolve_name(self.original))
        except (AttributeError, ImportError):  # it was renamed or removed
            return False
        return hashlib.sha256(source.encode()).hexdigest() == self.source_sha256

    @property
    def name(self) -> str:
        """The name under which the original is looked up."""
        return re.split("[:.]", self.original)[-1]

    def apply(self) -> None:
        """Put the replacement where the original is looked up."""
        function = resolve_name(f"{__package__}.{self.replacement}")
        for place in self.places:
            setattr(resolve_name(place), self.name, function)


READING = (
    Patch(
        "gevent.events:notify_and_call_entry_points",
        "32bb7797128b0fc607f2fb174a5627cd6661599c848865f02714271522c96751",
        "gevent_plugins:notify_and_call_entry_points",
        ("gevent.events",),
    ),
)
"""Patches for the processes that read nodes for a check; applied before gevent patches the
standard library."""

DEPLOY = (
    Patch(
        "pyinfra.api.connectors:get_all_connectors",
        "7d05cb4b81d92078b20c1ad876186310472ce3dc4c3636f3815d031bbf7e1d8e",
        "pyinfra_functions:all_connectors",
        ("pyinfra.api.inventory",),
    ),
    Patch(
        "pyinfra.api.arguments:pop_global_arguments",
        "a12a311539ff5068152b1c9c4578d77a8a893239a570f912768050a623069faf",
        "pyinfra_functions:pop_global_arguments",
        (
            *("pyinfra.api.facts", "pyinfra.api.operation", "pyinfra.api.deploy"),
            *("lockstep.facts.reading", "lockstep.fast.read"),
        ),
    ),
    Patch(
        "pyinfra.api.util:get_operation_order_from_stack",
        "f4807f61585570e091fd453c7552d9e2b49329555f07f395a8e8f1d2a398a0b2",
        "pyinfra_functions:operation_order",
        ("pyinfra.api.operation",),
    ),
    Patch(
        "pyinfra.context:ContextObject.__getattr__",
        "9a7ac623fa312faa8e02533c17ba3f4f70c8ce9157e6cb196ddf0f2af08d3631",
        "pyinfra_functions:attribute",
        ("pyinfra.context.ContextObject",),
    ),
)
"""Patches that are applied when pyinfra runs a deploy."""


def apply(patches: Sequence[Patch]) -> None:
    """Apply the patches that fit the installed versions, unless ``LOCKSTEP_FAST=0``."""
    if not fast_path.wanted():
        return
    known = [patch for patch in patches if patch.fits]
    for patch in known:
        patch.apply()
    if other := len(patches) - len(known):
        print(
            f"Lockstep does not use {other} of its {len(patches)} faster functions for pyinfra and "
            "gevent, because the installed versions differ; the results are the same. "
            "Next: install the versions in requirements.lock",
            file=sys.stderr,
        )


@cache
def speed_up_deploy() -> None:
    """Reduce pyinfra's CPU time, unless ``LOCKSTEP_FAST=0``. Later calls have no effect."""
    fast_path.collect_seldom()
    apply(DEPLOY)
