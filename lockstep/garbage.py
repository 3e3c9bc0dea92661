"""How often Python looks for garbage, in programs that keep nearly all that they make."""

from __future__ import annotations

import atexit
import gc
from functools import cache

NEW_OBJECTS = 20_000
"""Between two searches; Python's own is 700, 2,000 from 3.13 on."""


def seldom() -> None:
    """Have it search seldom, not in what is there already, and not once more at the end."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 10, 10)
    _not_at_the_end()


@cache
def _not_at_the_end() -> None:
    # That search, through all that is left, takes as long as a tenth of a check.
    atexit.register(gc.freeze)
