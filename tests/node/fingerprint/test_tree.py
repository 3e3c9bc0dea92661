"""The hashes of objects, and which of their values identify a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from lockstep.node.fingerprint.entry import LARGEST_TEXT, Domain, Entry, Secret, content
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread

NOTHING: dict[str, list[str]] = {}


def taken(
    node: str,
    entries: Iterable[Entry],
    *,
    key: bytes = b"k",
    asked: dict[str, list[str]] = NOTHING,
    exceptions: tuple[Exempt, ...] = (),
    buckets: int = 4,
) -> Fingerprint:
    def read(request: Request, commands: Commands) -> Iterator[Entry]:
        yield from entries

    found = Fingerprint(Own({"name": [node], "address": [f"fd00::{node}"]}), key, asked, exceptions)
    found.read(Domain("file", read, buckets), {}, Commands())
    return found


def sums(node: str, *entries: Entry, **more: Any) -> Any:
    return taken(node, entries, **more).answer()


def test_the_order_of_objects_and_fields_says_nothing() -> None:
    one, other = Entry("/a", {"x": "1", "y": "2"}), Entry("/b", {"x": "3"})
    turned = Entry("/a", {"y": "2", "x": "1"})
    assert sums("n", one, other) == sums("n", other, turned)


def test_every_part_of_an_object_is_hashed() -> None:
    one = Entry("/a", {"x": "1"})
    others = (Entry("/b", {"x": "1"}), Entry("/a", {"y": "1"}), Entry("/a", {"x": "2"}))
    for other in (*others, Entry("/a", {"x": "1", "y": ""}), Entry("/ax", {"": "1"})):
        assert sums("n", one)["sums"] != sums("n", other)["sums"], other


def test_what_identifies_the_node_has_two_hashes() -> None:
    both = [
        sums(node, Entry("/a", {"x": f"name {node}, address fd00::{node}"}))
        for node in ("alpha", "beta")
    ]
    assert both[0]["sums"] == both[1]["sums"]
    (one, other) = (answer["touched"]["file"]["/a"] for answer in both)
    assert one[0] != other[0]
    assert one[1] == other[1]


def test_an_identity_is_replaced_only_as_a_word() -> None:
    own = Own({"name": ["n1"], "address": ["fd00::1"]})
    for text in ("n10", "fd00::12", "in1", "dfd00::1", "n1-old", "x.n1"):
        assert own.replaced(text) is text
    assert own.replaced("n1.example fd00::1/64 [fd00::1]:22 n1") == (
        "<name of this node>.example <address of this node>/64 [<address of this node>]:22 "
        "<name of this node>"
    )


def test_the_longest_identity_is_replaced_first() -> None:
    own = Own({"name": ["n1"], "qualified name": ["n1.example.org"]})
    assert own.replaced("n1.example.org") == "<qualified name of this node>"


def test_objects_that_get_one_name_stay_two() -> None:
    entries = (Entry("to fd00::n", {"x": "1"}), Entry("to n", {"x": "2"}))
    answer = taken("n", entries, asked={"file": ["#0", "#1", "#2", "#3"]}).answer()
    assert len(answer["touched"]["file"]) == 2


def test_the_fields_of_what_was_asked_for_travel() -> None:
    entries = [Entry(f"/{number}", {"x": "1"}) for number in range(20)]
    entries.append(Entry("/own", {"x": "n", "y": "2"}))
    names = [f"#{number}" for number in range(4)]
    shown = taken("n", entries, asked={"file": [*names, "/own"]}).branches["file"]
    in_buckets = [name for place in names for name in shown[place]]
    assert sorted(in_buckets) == sorted(entry.name for entry in entries)
    assert shown["/own"] == {"/own": [{"x": "n", "y": "2"}, {"x": "<name of this node>"}]}
    assert taken("n", entries, asked={"file": ["/gone"]}).branches == {"file": {"/gone": {}}}


def test_a_secret_is_hashed_with_the_key_and_never_shown() -> None:
    entry = Entry("/a", {"mode": "600", "content": Secret("hunter2")})
    asked = {"file!": ["#0", "#1", "#2", "#3"], "file": ["#0", "#1", "#2", "#3"]}
    found = taken("n", [entry], asked=asked)
    assert "hunter2" not in str(found.answer()) + str(found.branches)
    other = sums("n", Entry("/a", {"mode": "600", "content": Secret("hunter3")}))
    same = sums("n", entry)
    assert same["sums"]["file"] == other["sums"]["file"]
    assert same["sums"]["file!"] != other["sums"]["file!"]
    rekeyed = sums("n", entry, key=b"j")
    assert rekeyed["sums"]["file!"] != same["sums"]["file!"]
    assert rekeyed["key"] != same["key"]


def test_an_identity_in_a_secret_is_replaced_as_well() -> None:
    both = [
        sums(node, Entry("/a", {"mode": "600", "content": Secret(f"name {node}")}))
        for node in ("alpha", "beta")
    ]
    (one, other) = (answer["touched"]["file!"]["/a"] for answer in both)
    assert one[0] != other[0]
    assert one[1] == other[1]


def test_a_domain_that_fails_halfway_has_no_sums() -> None:
    def entries() -> Iterator[Entry]:
        yield Entry("/a", {"x": "1"})
        raise Unread("gone")

    answer = taken("n", entries()).answer()
    assert answer["unread"] == {"file": "gone"}
    assert answer["sums"] == {}


def test_an_exception_spares_its_neighbour() -> None:
    usual = Entry("/a/b", {"x": "1", "y": "2"})
    field = (Exempt("file", "/a/b", "x", "why"),)
    changed = Entry("/a/b", {"x": "9", "y": "2"})
    assert sums("n", usual, exceptions=field) == sums("n", changed, exceptions=field)
    for other in (Entry("/a/b", {"x": "1", "y": "9"}), Entry("/a/bc", {"x": "1", "y": "2"})):
        assert sums("n", usual, exceptions=field) != sums("n", other, exceptions=field)
    whole = (Exempt("file", "/a/b", WHOLE, "why"),)
    assert sums("n", usual, exceptions=whole)["count"] == {}


def test_large_and_binary_contents_are_shown_by_size_and_hash() -> None:
    assert content(b"text\n") == "text\n"
    large = content(b"x" * (LARGEST_TEXT + 1))
    assert large.startswith(f"{LARGEST_TEXT + 1} bytes, BLAKE2b ")
    assert content(b"a\0b").startswith("3 bytes")
    assert content(b"\xff").startswith("1 bytes")
    assert large != content(b"x" * LARGEST_TEXT + b"y")


@pytest.mark.parametrize(
    ("pattern", "hidden", "shown"),
    [
        (r"/etc/(a|b)/\1", "/etc/b/b", "/etc/a/b"),
        (r"(?i)/etc/X", "/etc/x", "/etc/y"),
        (r"/etc/(?!keep).*", "/etc/x", "/etc/keep"),
        (r"/etc/x|/srv/.*", "/srv/x", "/etc/xx"),
    ],
)
def test_exceptions_of_a_site_are_whole_patterns(pattern: str, hidden: str, shown: str) -> None:
    """They are one pattern with the other rows, unless they have references or flags."""
    rows = tuple(Exempt("file", text, WHOLE, "r") for text in (r"/opt/(y)/.*", pattern))
    entries = [Entry(name, {"x": "1"}) for name in (hidden, shown, "/opt/y/z")]
    answer = taken("n", entries, exceptions=rows).answer()
    assert answer["sums"] == taken("n", [entries[1]]).answer()["sums"]
