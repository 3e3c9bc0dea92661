"""How often Python looks for garbage, in programs that keep nearly all that they make."""

from __future__ import annotations

import atexit
import gc
from functools import cache

NEW_OBJECTS = 20_000
"""Between two searches; 700 is Python's own."""


@cache
def seldom() -> None:
    """Have it search seldom, not in what is there already, and not once more at the end.

    The last search, of all that is left when a program ends, takes as long as a tenth of a check.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 10, 10)
    atexit.register(gc.freeze)
