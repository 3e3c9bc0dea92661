"""Makes modules from their texts, so that none has to lie on the node; begins what is shipped.

Python 3.9 or newer, standard library only, as the modules.
"""

from __future__ import annotations

import sys
from types import ModuleType


def run(texts: dict[str, str], start: str) -> None:
    """Make the modules in their order, each after those that it imports, and run one of them."""
    for name, text in texts.items():
        module = sys.modules[name] = ModuleType(name)
        # What tracebacks say in front of the line.
        file = name.replace(".", "/") + ".py"
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    sys.modules[start].main()
