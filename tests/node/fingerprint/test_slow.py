"""Domains that a node reads once a day at most: when it reads them anew, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockstep.node.fingerprint import slow
from lockstep.node.fingerprint.entry import Domain, Entry, Secret
from lockstep.node.fingerprint.slow import DAY_S, HOUR_S, SLOW, Slow
from lockstep.node.fingerprint.take import fingerprint
from lockstep.node.readers import kept
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from tests.node.fingerprint.conftest import Root

NOW = 1_800_000_000.0


class Counting:
    """A domain that counts how often it was read."""

    def __init__(self, *entries: Entry) -> None:
        self.entries, self.times, self.failure = entries, 0, ""
        self.domain = Domain("program", self.read)

    def read(self, request: Request, commands: Commands) -> Iterator[Entry]:
        self.times += 1
        if self.failure:
            raise Unread(self.failure)
        yield from self.entries


@pytest.fixture
def deployed(root: Root) -> Root:
    """A node that Lockstep deploys."""
    root.file(kept.DEPLOYED, "{}")
    root.at("/var/cache").mkdir(parents=True)
    root.file("/var/lib/dpkg/status", "one package\n")
    root.file("/usr/bin/tool")
    return root


def request(**more: Any) -> Request:
    return {"slow": False, "asked": [], **more}


def found(counting: Counting, now: float = NOW, **more: Any) -> tuple[list[Entry], float]:
    state = Slow(request(**more), now)
    entries = list(state.read(counting.domain, request(**more), Commands()))
    return entries, state.taken["program"]


def test_objects_are_kept_for_a_day(deployed: Root) -> None:
    entry = Entry("/usr/bin/x", {"mode": "755", "environment TOKEN": Secret("hidden")})
    counting = Counting(entry)
    assert found(counting) == ([entry], NOW)
    again, taken = found(counting, NOW + DAY_S - 1)
    assert (again, taken, counting.times) == ([entry], NOW, 1)
    assert isinstance(again[0].fields["environment TOKEN"], Secret)
    assert not isinstance(again[0].fields["mode"], Secret)
    assert found(counting, NOW + DAY_S) == ([entry], NOW + DAY_S)
    assert counting.times == 2
    found(counting, NOW)  # the clock was set back
    assert counting.times == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root.file("/var/lib/dpkg/status", "two packages\n"),
        lambda root: root.file("/usr/bin/new"),
        lambda root: root.at("/usr/bin/tool").unlink(),
        lambda root: root.file("/usr/lib/new"),
    ],
)
def test_a_change_that_is_cheap_to_see_makes_it_due(deployed: Root, change: Any) -> None:
    counting = Counting()
    deployed.at("/usr/lib").mkdir()
    found(counting)
    change(deployed)
    assert found(counting, NOW + 1)[1] == NOW + 1


@pytest.mark.parametrize("slow", [False, True])
def test_what_is_asked_for_is_read_anew(deployed: Root, slow: bool) -> None:
    """The same check may ask twice; another domain does not matter."""
    more = {"slow": slow, "asked": [("program", "#3")]}
    counting = Counting()
    found(counting)
    found(counting, NOW + 30, **more)
    found(counting, NOW + 90, asked=[("file", "#3")])
    assert counting.times == 1
    found(counting, NOW + 90, **more)
    assert counting.times == 2


def test_a_second_slow_check_reads_anew_at_once(deployed: Root) -> None:
    """A repair between the two checks shows."""
    counting = Counting()
    found(counting, NOW, slow=True)
    found(counting, NOW + 1, slow=True)
    assert counting.times == 2


def test_a_failure_is_kept_for_an_hour(deployed: Root) -> None:
    counting = Counting()
    counting.failure = "too many files"
    for later in (0, HOUR_S - 1):
        with pytest.raises(Unread, match="too many files"):
            found(counting, NOW + later)
    assert counting.times == 1
    counting.failure = ""
    assert found(counting, NOW + HOUR_S) == ([], NOW + HOUR_S)


@pytest.mark.parametrize("text", ["", "[", "{}", '{"format": 0, "domains": {}}'])
def test_what_is_no_answer_of_this_version_is_not_used(deployed: Root, text: str) -> None:
    counting = Counting()
    found(counting)
    deployed.at(f"{kept.CACHE}/{slow.FILE}").write_text(text)
    found(counting, NOW + 1)
    assert counting.times == 2


def test_what_others_may_write_is_not_used(deployed: Root) -> None:
    counting = Counting()
    found(counting)
    deployed.at(f"{kept.CACHE}/{slow.FILE}").chmod(0o602)
    found(counting, NOW + 1)
    assert counting.times == 2


def test_another_node_reads_them_only_if_asked_and_keeps_nothing(root: Root) -> None:
    counting = Counting()
    assert not Slow(request()).is_read(counting.domain)
    assert not Slow(request(asked=[("file", "#0")])).is_read(counting.domain)
    assert Slow(request(asked=[("program", "#0")])).is_read(counting.domain)
    assert Slow(request(slow=True)).is_read(counting.domain)
    for later in (0, 1):
        found(counting, NOW + later, slow=True)
    assert counting.times == 2
    assert not root.at(kept.CACHE).exists()


def whole(**more: Any) -> dict[str, Any]:
    full = {"fingerprint": "prod", "exempt": [], "units": [], **request(**more)}
    full.update(own=[], alike=[])
    return fingerprint(full, Commands())[0]


def test_the_fingerprint_says_when_slow_domains_were_read(
    deployed: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(Entry("/usr/bin/x", {"mode": "755"}))
    monkeypatch.setattr("lockstep.node.fingerprint.take.SLOW", (counting.domain,))
    monkeypatch.setattr("lockstep.node.fingerprint.take.DOMAINS", ())
    answer = whole()
    assert answer["slow"].keys() == {"program"}
    assert answer["count"] == {"program": 1}
    assert whole() == answer
    deployed.at(kept.DEPLOYED).unlink()
    without = whole()
    assert without["slow"] == without["sums"] == {}


def test_the_slow_domains() -> None:
    assert [domain.name for domain in SLOW] == ["program", "login"]
    assert slow.WATCHED.keys() == slow.NAMES
