"""What a process does without that is started for each check: it reads nodes, and little else."""

from __future__ import annotations

import importlib
import sys
from functools import cache
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
        sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


def later(name: str, **known: Any) -> None:
    """Have ``import NAME`` cost nothing until the module is used.

    Args:
        name: of the module.
        known: what it has already, without being imported.
    """
    if name not in sys.modules:
        stand_in = Later(name)
        vars(stand_in).update(known)
        sys.modules[name] = stand_in


def no_mocks() -> None:
    """Have typeguard, which pyinfra brings, not bring mocks and with them asyncio.

    It lets a mock pass as anything, and has an import hook, which nobody installs here.
    """

    class Mock:
        """Nothing is one."""

    def patch(*given: Any, **named: Any) -> Any:
        sys.modules.pop("unittest.mock", None)
        return importlib.import_module("unittest.mock").patch(*given, **named)

    later("unittest.mock", Mock=Mock, patch=patch)


def entry_points_once() -> None:
    """Have the disk asked once which entry points there are, and not for each group of them.

    gevent asks at each of the 25 steps in which it patches the standard library: 1,250 files where
    50 packages are installed. What is installed meanwhile this process does not see.
    """
    every = cache(metadata.entry_points)

    def entry_points(**wanted: Any) -> Any:
        return every().select(**wanted)

    setattr(metadata, "entry_points", entry_points)  # noqa: B010  # overloaded: no plain assignment
