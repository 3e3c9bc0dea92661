"""Fingerprints over months: what is found again, and the space that it takes."""

from __future__ import annotations

import random
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from lockstep.history import fingerprints, records
from lockstep.history.store import HistoryError, opened
from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.slow import NAMES as SLOW
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread as CannotRead
from lockstep.probe.parse import text
from lockstep.probe.record import Record, Taken
from lockstep.when import DAY_S, HOUR_S

NOW = 1795200000.0

Objects = dict[str, dict[str, Fields] | CannotRead]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unit" / "history.sqlite"


def taken(found: Objects, node: str = "a", buckets: int = 4, key: bytes = b"k") -> dict[str, Any]:
    """Return the fingerprint of a node with these objects."""
    made = Fingerprint(Own({"name": [node]}), key, {})
    for name, inside in found.items():

        def read(*_: object, inside: dict[str, Fields] | CannotRead = inside) -> Any:
            if isinstance(inside, CannotRead):
                raise inside
            return [Entry(called, fields) for called, fields in inside.items()]

        made.read(Domain(name, read, buckets), {}, Commands())
    made.slow = dict.fromkeys(SLOW, 0.0)
    return made.answer()


def record(value: dict[str, Any] | None) -> Record:
    readings = {"os.id": Taken(value="debian")}
    if value is not None:
        readings["fingerprint"] = Taken(value=value)
    return Record.model_validate(
        {"format": 1, "taken_at": NOW, "duration_s": 0.1, "readings": readings}
    )


def save(path: Path, at: float, method: str = "m", **nodes: dict[str, Any] | None) -> None:
    with opened(path) as history:
        reading: Any = {name: record(value) for name, value in nodes.items()}
        records.save(history, reading, at, method)


def rows(path: Path, table: str) -> int:
    with opened(path) as history:
        number: int = history.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return number


def files(**contents: str) -> Objects:
    return {"file": {name: {"content": one} for name, one in contents.items()}}


def test_a_record_comes_back_with_its_fingerprint(path: Path) -> None:
    unread: Objects = {"user": CannotRead("timed out"), "firewall": {}}
    values = [
        taken({**files(x="1", own="of a"), "user": {"bob": {"uid": "1"}}}),
        taken({**files(x="1", own="of a"), **unread}),
        taken({**files(), "swap": {"/swap": {"size": "1"}}, "user": {}}),
    ]
    for turn, value in enumerate(values):
        save(path, NOW + turn, a=value)
    save(path, NOW + 3, a=None)
    with opened(path) as history:
        for turn, value in enumerate(values):
            kept = records.at(history, "a", NOW + turn)
            assert kept is not None
            assert kept.record.get("fingerprint") == value, turn
        kept = records.at(history, "a", NOW + 3)
        assert kept is not None
        assert "fingerprint" not in kept.record.readings, "that check did not take it"
        (data,) = history.execute("SELECT data FROM record WHERE read_at = ?", (NOW,)).fetchone()
    assert len(data) < len(text(record(values[0]))) / 2


def test_checks_without_fingerprints_push_none_out(path: Path) -> None:
    """One record per day is kept, the newest of the day, and it has no fingerprint."""
    for day in range(30):
        save(path, NOW + day * DAY_S, a=taken(files(x=str(day // 10))))
        save(path, NOW + day * DAY_S + HOUR_S, a=None)
    with opened(path) as history:
        states = fingerprints.versions(history, "a", "file")
    days = [round((one.since - NOW) / DAY_S) for one in states]
    assert days == [20, 10, 0]
    assert [one.until - NOW for one in states] == [29 * DAY_S, 19 * DAY_S, 9 * DAY_S]
    assert [one.before for one in states] == [NOW + 19 * DAY_S, NOW + 9 * DAY_S, None]


def test_equal_checks_add_nothing(path: Path) -> None:
    value = taken(files(x="1", own="of a"))
    save(path, NOW, a=value, b=value)
    before = [rows(path, table) for table in ("fingerprint_version", "fingerprint_part")]
    assert before[1] == 4, "equal nodes share their parts: of the whole, the sums, the touched, {}"
    for hour in range(1, 50):
        save(path, NOW + hour * HOUR_S, a=value, b=value)
    after = [rows(path, table) for table in ("fingerprint_version", "fingerprint_part")]
    assert after == before


def test_what_was_replaced_three_months_ago_goes(path: Path) -> None:
    for day in range(200):
        save(path, NOW + day * DAY_S, a=taken(files(x=str(day // 20))), b=taken(files(x="1")))
    with opened(path) as history:
        states = fingerprints.versions(history, "a", "file")
        (stable,) = fingerprints.versions(history, "b", "file")
    assert [round((one.since - NOW) / DAY_S) for one in states] == [180, 160, 140, 120, 100, 80]
    assert (stable.since, stable.until) == (NOW, NOW + 199 * DAY_S)
    # Of file: six of a, one of b. Of both: the rest, the touched objects, and nothing.
    assert rows(path, "fingerprint_part") == 7 + 3, "the parts go with the last version"


def test_a_node_that_is_gone_goes_after_three_months(path: Path) -> None:
    save(path, NOW, a=taken(files(x="1")), b=taken(files(x="2")))
    save(path, NOW + 80 * DAY_S, b=taken(files(x="2")))
    with opened(path) as history:
        assert fingerprints.versions(history, "a", "file")
    save(path, NOW + 91 * DAY_S, b=taken(files(x="2")))
    with opened(path) as history:
        assert fingerprints.versions(history, "a", "file") == []
        assert fingerprints.domains(history, "b") == ["file"]


def test_a_domain_that_always_differs_takes_bounded_space(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.history.fingerprints.VERSIONS", 10)
    for turn in range(50):
        save(path, NOW + turn, a=taken({**files(x=str(turn)), "user": {"bob": {"uid": "1"}}}))
    with opened(path) as history:
        states = fingerprints.versions(history, "a", "file")
        assert [one.since - NOW for one in states] == [*range(49, 39, -1)]
        kept = records.at(history, "a", NOW + 30)
        assert kept is not None
        value = kept.record.get("fingerprint")
        assert isinstance(value, dict)
        assert value["unread"] == {"file": "it changed too often to be kept"}
        assert isinstance(value["sums"], dict)
        assert value["sums"].keys() == {"user"}


def test_a_domain_without_objects_has_a_past(path: Path) -> None:
    save(path, NOW, a=taken(files(x="1")))
    save(path, NOW + 1, a=taken(files(x="1")))
    with opened(path) as history:
        (state,) = fingerprints.versions(history, "a", "swap")
        assert (state.since, state.until, state.sums) == (NOW, NOW + 1, "")
        assert fingerprints.versions(history, "unknown", "swap") == []
    save(path, NOW + 2, a=taken({**files(x="1"), "swap": {"/swap": {"size": "1"}}}))
    with opened(path) as history:
        new, old = fingerprints.versions(history, "a", "swap")
        assert len(fingerprints.versions(history, "a", "file")) == 1, "it has not changed"
    assert (old.since, old.until, old.sums) == (NOW, NOW + 1, "")
    assert (new.since, new.before) == (NOW + 2, NOW + 1)


def test_another_method_or_key_is_no_change_of_the_node(path: Path) -> None:
    save(path, NOW, "one", a=taken(files(x="1")))
    save(path, NOW + 1, "other", a=taken(files(x="2")))
    save(path, NOW + 2, "other", a=taken(files(x="3"), key=b"another"))
    save(path, NOW + 3, "other", a=taken(files(x="4"), key=b"another"))
    with opened(path) as history:
        states = fingerprints.versions(history, "a", "file")
    assert [one.before for one in states] == [NOW + 2, None, None, None]
    assert [one.until - NOW for one in states] == [3, 2, 1, 0]


def test_slow_domains_change_only_with_their_objects(path: Path) -> None:
    first = taken({"program": {"/usr/bin/x": {"mode": "755"}}})
    save(path, NOW, a={**first, "slow": dict.fromkeys(SLOW, NOW - 60)})
    save(path, NOW + DAY_S, a={**first, "slow": dict.fromkeys(SLOW, NOW + DAY_S - 60)})
    with opened(path) as history:
        (only,) = fingerprints.versions(history, "a", "program")
    assert (only.since, only.until) == (NOW, NOW + DAY_S)
    unread = {name: one for name, one in first["sums"].items() if name != "program"}
    save(path, NOW + 2 * DAY_S, a={**first, "sums": unread, "slow": {}})
    with opened(path) as history:
        newest, _ = fingerprints.versions(history, "a", "program")
    assert newest.sums is None, "a domain that was not read is not empty"


def test_a_clock_that_was_set_back_loses_nothing(path: Path) -> None:
    save(path, NOW, a=taken(files(x="1")))
    save(path, NOW - HOUR_S, a=taken(files(x="2")))
    save(path, NOW + 1, a=taken(files(x="3")))
    with opened(path) as history:
        newest, *_ = fingerprints.versions(history, "a", "file")
        kept = records.at(history, "a", NOW + 1)
    assert (newest.since, newest.before) == (NOW + 1, NOW)
    assert kept is not None
    assert kept.record.get("fingerprint") == taken(files(x="3"))


def test_a_damaged_part_is_named(path: Path) -> None:
    save(path, NOW, a=taken(files(x="1")))
    with opened(path) as history:
        history.execute("UPDATE fingerprint_part SET data = ?", (b"\0",))
    with opened(path) as history, pytest.raises(HistoryError, match="of a from 2026-11-20 18:40"):
        fingerprints.versions(history, "a", "file")


OLD = """
CREATE TABLE record (node TEXT NOT NULL, read_at REAL NOT NULL, boot TEXT, data BLOB NOT NULL,
    PRIMARY KEY (node, read_at));
CREATE TABLE finding (rule TEXT NOT NULL, node TEXT NOT NULL, device TEXT NOT NULL,
    since REAL NOT NULL, last REAL NOT NULL, checks INTEGER NOT NULL,
    PRIMARY KEY (rule, node, device));
PRAGMA application_id = 1282368363;
PRAGMA user_version = 1;
"""


def test_a_history_of_format_1_is_extended(path: Path) -> None:
    """Its records have their fingerprints inside."""
    path.parent.mkdir(mode=0o700)
    database = sqlite3.connect(path)
    database.executescript(OLD)
    whole = record(taken(files(x="1")))
    database.execute(
        "INSERT INTO record VALUES ('a', ?, NULL, ?)", (NOW, zlib.compress(text(whole)))
    )
    database.execute("INSERT INTO finding VALUES ('gpu.count', 'a', '', ?, ?, 3)", (NOW, NOW))
    database.commit()
    database.close()
    path.chmod(0o600)
    with opened(path) as history:
        assert history.execute("PRAGMA user_version").fetchone() == (3,)
        assert history.execute("SELECT * FROM finding").fetchall() == [
            ("gpu.count", "a", "", NOW, NOW, 3)
        ]
    save(path, NOW + 1, a=taken(files(x="2")))
    with opened(path) as history:
        kept = records.at(history, "a", NOW)
        assert kept == records.Kept(NOW, whole)
        (state,) = fingerprints.versions(history, "a", "file")
    assert (state.since, state.before) == (NOW + 1, None)


def of_worker(rng: random.Random) -> dict[str, Any]:
    """Return a fingerprint with as many hashes as the one of a worker of the light lab."""
    touched = {"file": 7, "address": 2, "interface": 3, "listener": 2, "process": 2, "sysctl": 1}

    def hashes(number: int) -> str:
        return "".join(f"{rng.getrandbits(64):016x}" for _ in range(number))

    return {
        "format": 1,
        "key": "29caac18",
        "sums": {domain.name: hashes(domain.buckets) for domain in DOMAINS},
        "count": {domain.name: 100 for domain in DOMAINS},
        "touched": {
            name: {f"/etc/an/object/{n}": [hashes(1), hashes(1), str(n)] for n in range(number)}
            for name, number in touched.items()
        },
        "unread": {},
    }


def changed(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a fingerprint after a change of one object: half of all are files."""
    name = "file" if rng.random() < 0.5 else rng.choice([*value["sums"]])
    at = 16 * rng.randrange(len(value["sums"][name]) // 16)
    sums = value["sums"][name]
    new = f"{sums[:at]}{rng.getrandbits(64):016x}{sums[at + 16 :]}"
    return {**value, "sums": {**value["sums"], name: new}}


@pytest.mark.parametrize(("together", "limit"), [(False, 150_000), (True, 70_000)])
def test_ninety_days_take_this_space_per_node(path: Path, together: bool, limit: int) -> None:
    """Hourly checks with three changes a day, on each node alone or on all at once."""
    rng = random.Random(17)
    names = [f"worker{number}" for number in range(4)]
    values = dict.fromkeys(names, of_worker(rng))
    values = {name: {**one, "touched": of_worker(rng)["touched"]} for name, one in values.items()}
    for hour in range(0, 90 * 24, 8):  # the other checks of the day are equal and add nothing
        state = rng.getstate()
        for name, value in values.items():
            if together:
                rng.setstate(state)
            values[name] = changed(value, rng)
        with opened(path) as history:
            reading: Any = {name: record(value) for name, value in values.items()}
            fingerprints.save(history, reading, NOW + hour * HOUR_S, "m")
    assert path.stat().st_size / len(names) < limit
