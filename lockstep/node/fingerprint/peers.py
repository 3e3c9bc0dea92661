"""Lists of nodes: texts that name this node and its peers in different places.

Two forms of lists are recognised among the lines of a text, and among the words of a line:

- a list of all nodes, such as the lines of hosts(5): all its lines stay as they are;
- a list of the *other* nodes, such as ``unicast_peer`` of keepalived.conf(5): if it has exactly
  the nodes that must be equal to this one, without this one, then their names and addresses are
  replaced. The rest of the text stays.

Lines or words belong to one list if they are equal without names, addresses and numbers. So a list
with a wrong node stays as it is, and differs.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from lockstep.node.fingerprint.hostlists import expand

NODE = re.compile(
    r"(?<![\w.:-])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}|\w[\w-]*)"
    r"(?![\w-])"
)
"""A word that may be an address or a name."""
WORDS = re.compile(r"([\s,;=|\"'\[\](){}]+)")
NAME = "name"
OTHER = "of another node of its kind"
SHORTEST = 3
"""Characters that the names or addresses of all nodes must have in common. Otherwise nearly every
text would be searched."""
FEW = 8
"""Names without a common beginning of which each is looked for."""
Replace = Callable[[str], str]
Node = tuple[str, str]
"""What a node is named by, and the name or address."""


def _number(word: str) -> int | None:
    """Return an address as a number; IPv6 ones are above all IPv4 ones. None: it is no address."""
    try:
        if ":" in word:
            packed = socket.inet_pton(socket.AF_INET6, word)
            return int.from_bytes(packed, "big") + (1 << 32)
        return int.from_bytes(socket.inet_pton(socket.AF_INET, word), "big")
    except OSError:
        return None


def beginning(texts: Sequence[str]) -> str:
    """Return the beginning that texts have in common."""
    first, last = min(texts), max(texts)
    for at, character in enumerate(first):
        if last[at : at + 1] != character:
            return first[:at]
    return first


class Peers:
    """The nodes that must be equal to this one, as the plan knows them."""

    def __init__(self, alike: Iterable[tuple[str, str]], own: Mapping[str, str]) -> None:
        """Load the lists.

        Args:
            alike: what a value is ("name", "management address") -> the values of all nodes of the
                kind: a hostlist, or ranges of addresses such as ``10.0.0.1-10.0.0.9,10.0.0.20``.
            own: value -> what it is, of this node.
        """
        self._own = own
        self._names: frozenset[str] = frozenset()
        self._ranges: list[tuple[int, int, str]] = []
        self._sizes: dict[str, int] = {}
        self.marks: list[str] = []
        """Texts of which one is in every text that names a node."""
        for kind, text in alike:
            if kind == NAME:
                self._names = frozenset(expand(text))
                self._sizes[kind] = len(self._names)
                ends = sorted(self._names)
            else:
                ends = re.split("[,-]", text)
                for part in text.split(","):
                    first, _, last = part.partition("-")
                    low, high = _number(first), _number(last or first)
                    if low is not None and high is not None:
                        self._ranges.append((low, high, kind))
                        self._sizes[kind] = self._sizes.get(kind, 0) + high - low + 1
            mark = beginning(ends)
            if kind != NAME:  # an address between two others may go on otherwise
                mark = mark[: max(mark.rfind("."), mark.rfind(":")) + 1]
            if len(mark) >= SHORTEST:
                self.marks.append(mark)
            elif kind == NAME and len(ends) <= FEW:
                self.marks += ends

    def kind_of(self, word: str) -> str:
        """Return what a word names a node of the kind by; "" if it names none."""
        if word in self._names:
            return NAME
        if not self._ranges or not ("." in word or ":" in word):
            return ""
        number = _number(word)
        return next(
            (kind for low, high, kind in self._ranges if number and low <= number <= high), ""
        )

    def replaced(self, text: str, replace: Replace) -> str:
        """Return a text with the identities of this node replaced, except in lists of nodes.

        Args:
            text: the text.
            replace: replaces all identities in a part of it.
        """
        return "\n".join(self._listed(text.split("\n"), replace, self._of_line))

    def _of_line(self, line: str, replace: Replace) -> str:
        parts = WORDS.split(line)
        words = parts[::2]
        parts[::2] = self._listed(words, lambda word: word, lambda word, _: word)
        if parts[::2] == words and not self._is_list(words):
            return replace(line)
        parts[::2] = self._listed(words, replace, lambda word, replace: replace(word))
        return "".join(parts)

    def _is_list(self, words: Iterable[str]) -> bool:
        lists: dict[str, _List] = {}
        for word in words:
            self._shape(word, lists)
        return any(one.has_own and one.others for one in lists.values())

    def _listed(
        self, parts: Sequence[str], replace: Replace, alone: Callable[[str, Replace], str]
    ) -> list[str]:
        """Replace identities in parts of a text, without those in a list of nodes.

        Args:
            parts: the lines or words.
            replace: replaces the identities in a part.
            alone: replaces them in a part that is in no list.
        """
        lists: dict[str, _List] = {}
        shaped = [(part, self._shape(part, lists)) for part in parts]
        complete = {shape for shape, one in lists.items() if self._is_complete(one)}
        done: list[str] = []
        for part, shape in shaped:
            one = lists.get(shape)
            if one is None:
                done.append(replace(part))
            elif one.has_own and one.others:
                done.append(part)
            elif shape in complete:
                done.append(replace(self._without_others(part)))
            else:
                done.append(alone(part, replace))
        return done

    def _shape(self, part: str, lists: dict[str, _List]) -> str:
        """Return a part without what differs within a list; add the nodes in it to its list."""
        own = False
        others: Counter[Node] = Counter()

        def kind(found: re.Match[str]) -> str:
            nonlocal own
            word = found.group()
            is_own = word in self._own
            of = self._own[word] if is_own else self.kind_of(word)
            if is_own and of not in self._sizes:
                return word  # no identity of the plan
            if of:
                own = own or is_own
                if not is_own:
                    others[of, word] += 1
                return "<name>" if of == NAME else "<address>"
            return word

        shape = NODE.sub(kind, part)
        if not own and not others:
            return ""
        rest = shape
        shape = re.sub(r"\d+", "#", shape).strip(" \t,;")
        one = lists.setdefault(shape, _List())
        # A part that has both is about two nodes, or a list by itself.
        if own and others:
            shape = f"{shape} of both"
            lists.setdefault(shape, _List())
            return shape
        one.has_own = one.has_own or own
        if others:
            one.others.append((rest, others))
        return shape

    def _without_others(self, part: str) -> str:
        """Return a part of a list of the other nodes with their names and addresses replaced."""

        def other(found: re.Match[str]) -> str:
            of = self.kind_of(found.group())
            return f"<{of} {OTHER}>" if of else found.group()

        return NODE.sub(other, part)

    def _is_complete(self, one: _List) -> bool:
        """Return whether a list has all nodes of the kind except this one, and all equally often.

        Several lists may have one shape, such as those of two ports. A part that a list has twice
        must be there twice for each node.
        """
        if one.has_own or not one.others:
            return False
        lists: dict[str, Counter[Node]] = {}
        whole: Counter[Node] = Counter()
        for rest, others in one.others:
            if not all(len(set(counts.values())) == 1 for counts in _by_kind(others).values()):
                return False
            lists.setdefault(rest, Counter()).update(others.keys())
            whole.update(others.keys())
        return self._is_even(whole) and all(
            max(counts.values()) == 1 or self._is_even(counts) for counts in lists.values()
        )

    def _is_even(self, counts: Counter[Node]) -> bool:
        return all(
            len(of) == self._sizes[kind] - 1 and len(set(of.values())) == 1
            for kind, of in _by_kind(counts).items()
        )


def _by_kind(counts: Counter[Node]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (kind, word), count in counts.items():
        found.setdefault(kind, {})[word] = count
    return found


class _List:
    """The parts of a text with one shape."""

    def __init__(self) -> None:
        self.has_own = False
        self.others: list[tuple[str, Counter[Node]]] = []
        """The rest of each part that names other nodes, and how often it names each."""
