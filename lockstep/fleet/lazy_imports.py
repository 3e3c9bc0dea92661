"""What a process does without that is started for each check: it reads nodes, and little else."""

from __future__ import annotations

import importlib
import sys
from functools import cache, partial
from importlib import metadata
from types import ModuleType
from typing import Any

from typing_extensions import override


class Later(ModuleType):
    """Stands where the module will be."""

    @override
    def __getattr__(self, name: str) -> Any:
        """Import it, and give what was asked of it.

        Raises:
            AttributeError: ``import`` itself asks (``__path__``), which is no use of it.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def later(name: str, *called: str, **known: Any) -> None:
    """Have ``import NAME`` cost nothing until the module is used.

    Args:
        name: of the module.
        called: what is imported from it by name, and imports it when it is called.
        known: what it has already, without being imported.
    """
    if name in sys.modules:
        return
    stand_in = Later(name)
    vars(stand_in).update({one: partial(_called, name, one) for one in called}, **known)
    sys.modules[name] = stand_in


def _called(module: str, name: str, *given: Any, **named: Any) -> Any:
    return getattr(_real(module), name)(*given, **named)


def _real(module: str) -> ModuleType:
    if isinstance(sys.modules.get(module), Later):
        # All of them: it must not take a name from another one that is none either.
        for name in [name for name, found in sys.modules.items() if isinstance(found, Later)]:
            del sys.modules[name]
    return importlib.import_module(module)


class NoMock:
    """In the place of a mock's class: nothing is one."""


def import_little() -> None:
    """Have pyinfra, and what it brings, import later what reading nodes does not need."""
    # paramiko wants it for "Match exec" of an ssh_config alone; it brings asyncio, YAML and mocks.
    later("invoke")
    # typeguard lets a mock pass as anything, and has an import hook; they bring asyncio.
    later("unittest.mock", "patch", Mock=NoMock)
    # For what a deploy file requires.
    later("packaging.markers", "Marker")
    later("packaging.requirements", "Requirement")
    later("packaging.specifiers", "SpecifierSet")
    later("packaging.version", "Version")


def entry_points_once() -> None:
    """Have the disk asked once which entry points there are, and not for each group of them.

    gevent asks at each of the 25 steps in which it patches the standard library: 1,250 files where
    50 packages are installed. What is installed meanwhile this process does not see.
    """
    every = cache(metadata.entry_points)

    def entry_points(**wanted: Any) -> Any:
        return every().select(**wanted)

    setattr(metadata, "entry_points", entry_points)  # noqa: B010  # overloaded: no plain assignment
