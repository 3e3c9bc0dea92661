"""Creates the probe's modules from their source text, so that no files are copied to a node.

The program that is sent to a node begins with this module, which must therefore run on Python 3.9
and import only the standard library.
"""

from __future__ import annotations

import sys
from types import ModuleType


def run(texts: dict[str, str], start: str) -> None:
    """Create the modules in the given order, imported modules first, and run one of them."""
    for name, text in texts.items():
        module = sys.modules[name] = ModuleType(name)
        # Tracebacks show this file name.
        file = name.replace(".", "/") + ".py"
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    sys.modules[start].main()
