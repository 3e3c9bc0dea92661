"""Colours for the text of a report on a terminal."""

from __future__ import annotations

import re

RED, GREEN, YELLOW, MAGENTA = "31", "32", "33", "35"
"""Parameters of Select Graphic Rendition (ECMA-48, console_codes(4))."""
OF_LABEL = {"ERROR": RED, "WARNING": YELLOW, "REBOOT": YELLOW, "UNKNOWN": MAGENTA}
"""Label of a finding (``Finding.label``) -> its colour."""
_LABEL = re.compile(rf"^({'|'.join(OF_LABEL)})(?= )", re.MULTILINE)
_GOOD = re.compile(r"\ball consistent\b")


def coloured(text: str) -> str:
    """Return a text with colours for the labels of findings, at the beginning of lines."""
    labelled = _LABEL.sub(lambda found: _in(OF_LABEL[found[1]], found[1]), text)
    return _GOOD.sub(lambda found: _in(GREEN, found[0]), labelled)


def _in(colour: str, text: str) -> str:
    return f"\x1b[1;{colour}m{text}\x1b[0m"
