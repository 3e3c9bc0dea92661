"""Values that differ between equal nodes because they identify a node: names, addresses, serials.

They are replaced by what they are, such as ``<address of this node>``. Names and addresses come
from the plan, not from the node, so a file with a wrong address of its own still differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from lockstep.node.fingerprint.peers import Peers, beginning

UUID = re.compile(
    r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?([0-9A-Fa-f])[0-9A-Fa-f]{3}(?:-?[0-9A-Fa-f]){16}"
)
"""A UUID, or the ID of a machine. Programs write it into names of their own: ``luks-UUID``."""
RANDOM = "4"
"""Version of a random UUID (RFC 9562 5.4)."""
ESCAPED = r"\x2d"
"""A hyphen in a path that is the name of a unit (systemd.unit(5))."""
FUNCTION = ":00."
"""In the address of a PCI device that has number 0 on its bus, as those in slots have."""
BEGINNING = 4
SEVERAL = 3
"""Looking for a short text takes as long as looking for two long ones."""
OF_SEVERAL = " disk"
DEVICE = re.compile(r"<[^<>\n]* of (?:the|a) disk [^<>\n]* of this node>|<identifier of [^<>\n]*>")


class Own:
    """The identities of one node, and the function that replaces them."""

    def __init__(
        self, identities: Mapping[str, Sequence[str]], alike: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Prepare to replace identities.

        Args:
            identities: what a value is ("name") -> the values.
            alike: the names and addresses of all nodes of this kind (``Peers``).
        """
        kinds = {value: kind for kind, values in identities.items() for value in values if value}
        self._places = {value: f"<{kind} of this node>" for value, kind in kinds.items()}
        self._peers = Peers(alike, kinds)
        # The longest first: a qualified name contains the short one.
        values = sorted(self._places, key=lambda value: (-len(value), value))
        self._pattern = re.compile(
            "|".join(
                rf"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])"
                if UUID.fullmatch(value) or ESCAPED in value
                else rf"(?<![\w.:-]){re.escape(value)}(?![\w-])"
                for value in values
            )
            or r"(?!)"
        )
        # A text with a value also has each shorter one that is a part of it.
        shortest: list[str] = list(self._peers.marks)
        for value in values[::-1]:
            if not any(part in value for part in shortest):
                shortest.append(value)
        self._marks = _marked(shortest)

    def replaced(self, text: str) -> str:
        """Return a text with every identity replaced; the same object if it contains none."""
        if not self.occur_in(text):
            return text
        if any(mark in text for mark in self._peers.marks):
            new = self._peers.replaced(text, self._replaced)
        else:
            new = self._replaced(text)
        if OF_SEVERAL in new and "\n" in new:
            new = "\n".join(_sorted(new.split("\n")))
        return text if new == text else new  # of a Secret, sub() makes a str

    def _replaced(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._places[found.group()], text)

    def occur_in(self, text: str) -> bool:
        """Return whether a text may contain an identity, perhaps as a part of a longer word."""
        # Looking for plain words is ten times as fast as the pattern.
        for mark in self._marks:
            if mark in text:
                for value in self._marks[mark]:
                    if value in text:
                        return True
        return False


def _sorted(lines: list[str]) -> Iterator[str]:
    """Yield lines; neighbours that are equal except for the disk that they name are sorted.

    Programs write lists of disks in the order of serial numbers.
    """
    for shape, run in groupby(lines, lambda line: DEVICE.sub("<>", line)):
        same = list(run)
        yield from sorted(same) if "<>" in shape else same


def _marked(values: Iterable[str]) -> dict[str, list[str]]:
    """Return texts, each with the values that contain it.

    A node has a hundred identities, and ten thousand texts that contain none.
    """
    alike: dict[str, list[str]] = {}
    for value in values:
        uuid = UUID.fullmatch(value)
        if ESCAPED in value:
            key = ESCAPED
        elif uuid and uuid.group(1) == RANDOM and "-" in value:
            key = f"-{RANDOM}"
        elif FUNCTION in value:
            key = FUNCTION
        else:
            key = value[:BEGINNING]
        alike.setdefault(key, []).append(value)
    found: dict[str, list[str]] = {}
    for key, some in alike.items():
        common = beginning(some)
        mark = common if common.startswith(key) else key
        if len(some) < SEVERAL:
            found.update({value: [value] for value in some})
        else:
            found[mark] = [*found.get(mark, ()), *some]
    return found
