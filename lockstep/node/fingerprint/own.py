"""Values that differ between equal nodes because they identify a node: names, addresses, serials.

They are replaced by what they are, such as ``<address of this node>``. Names and addresses come
from the plan, not from the node, so a file with a wrong address of its own still differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


class Own:
    """The identities of one node, and the function that replaces them."""

    def __init__(self, identities: Mapping[str, Sequence[str]]) -> None:
        """Prepare to replace identities.

        Args:
            identities: what a value is ("name") -> the values.
        """
        self._places = {
            value: f"<{kind} of this node>"
            for kind, values in identities.items()
            for value in values
            if value
        }
        # The longest first: a qualified name contains the short one.
        self._values = sorted(self._places, key=lambda value: (-len(value), value))
        self._pattern = re.compile(
            "|".join(rf"(?<![\w.:-]){re.escape(value)}(?![\w-])" for value in self._values)
            or r"(?!)"
        )

    def replaced(self, text: str) -> str:
        """Return a text with every identity replaced; the same object if it contains none."""
        if not self.occur_in(text):
            return text
        new = self._pattern.sub(lambda found: self._places[found.group()], text)
        return text if new == text else new  # of a Secret, sub() makes a str

    def occur_in(self, text: str) -> bool:
        """Return whether a text may contain an identity, perhaps as a part of a longer word."""
        # Looking for plain words is ten times as fast as the pattern.
        for value in self._values:  # noqa: SIM110  # any() takes three times as long
            if value in text:
                return True
        return False
