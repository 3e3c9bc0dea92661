"""A module that is imported when somebody uses it."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from typing_extensions import override


class Later(ModuleType):
    """Stands where the module will be."""

    @override
    def __getattr__(self, name: str) -> Any:
        """Import it, and give what was asked of it."""
        sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


def later(name: str) -> None:
    """Have ``import NAME`` cost nothing until the module is used."""
    if name not in sys.modules:
        sys.modules[name] = Later(name)
