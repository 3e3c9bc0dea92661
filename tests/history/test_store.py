"""The history file: private, shared by concurrent checks, and rejected if it is unusable."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.history import records
from lockstep.history.store import HistoryError, file, opened
from lockstep.probe.record import Reading, Record, Taken, Unreachable, Unread
from lockstep.when import DAY_S, HOUR_S, MINUTE_S

NOW = 1795200000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "unit" / "history.sqlite"


def record(errors: int = 0, boot: str | None = "one") -> Record:
    readings: dict[str, Taken | Unread] = {
        "gpu.errors": Taken(value={"gpu0": errors}),
        "os.id": Taken(value="debian"),
    }
    if boot is not None:
        readings["os.boot_id"] = Taken(value=boot)
    return Record(format=1, taken_at=NOW, duration_s=0.1, readings=readings)


def save(path: Path, at: float, **nodes: Record) -> None:
    with opened(path) as history:
        records.save(history, dict(nodes), at)


def test_it_lies_beside_the_secrets_or_where_the_spec_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert file("unit") == tmp_path / "lockstep" / "unit" / "history.sqlite"
    assert file("unit", "/srv/records") == Path("/srv/records/history.sqlite")


def test_only_the_owner_can_read_it_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        save(path, NOW, a=record())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    with pytest.raises(HistoryError, match=r"mode 0644\n  expected  0600\n  next      chmod"):
        save(path, NOW, a=record())


def test_a_record_comes_back_whole(path: Path) -> None:
    save(path, NOW, a=record(3), b=record(4))
    with opened(path) as history:
        records.save(history, {"c": Unreachable("ssh")}, NOW)
        kept = records.at(history, "a", NOW)
        assert kept == records.Kept(NOW, record(3))
        assert records.at(history, "a", NOW - 1) is None
        assert set(records.newest(history, ("a", "b", "c"))) == {"a", "b"}
        assert records.times(history, "a") == [NOW]


def test_the_earlier_record_is_of_the_same_boot_and_some_minutes_old(path: Path) -> None:
    for minutes, errors, boot in ((90, 1, "one"), (20, 2, "one"), (15, 3, "two"), (2, 4, "one")):
        save(path, NOW - minutes * MINUTE_S, a=record(errors, boot))
    with opened(path) as history:
        reading: Reading = {name: record(9) for name in "ab"}
        reading |= {"c": Unreachable("ssh"), "d": record(9, None)}
        found, later = records.earlier(history, reading, ["gpu"], NOW)
    assert set(found) == {"a"}
    assert found["a"].get("gpu.errors") == {"gpu0": 2}
    assert set(found["a"].readings) == {"os.boot_id", "gpu.errors"}
    assert {name: one.get("gpu.errors") for name, one in later.items()} == {"a": {"gpu0": 4}}
    with opened(path) as history:
        _, later = records.earlier(history, reading, ["gpu"], NOW + 30 * MINUTE_S)
        assert later == {}, "it is earlier"


def test_old_records_are_thinned_out_per_node(path: Path) -> None:
    for hours in range(24 * 100):
        with opened(path) as history:
            history.executemany(
                "INSERT INTO record VALUES (?, ?, ?, ?)",
                [
                    (n, NOW - hours * HOUR_S - m * MINUTE_S, "one", b"")
                    for n in "ab"
                    for m in (1, 9)
                ],
            ) if hours < 3 or hours % 6 == 0 else None
    save(path, NOW, a=record())
    with opened(path) as history:
        for node in "ab":
            ages = [NOW - at for at in records.times(history, node) if at < NOW]
            recent = [age for age in ages if age <= 2 * HOUR_S]
            day = [age for age in ages if 2 * HOUR_S < age <= DAY_S]
            older = [age for age in ages if age > DAY_S]
            assert len(recent) == 4
            assert len(day) == len({(NOW - age) // HOUR_S for age in day}) == 4
            assert len(older) == len({(NOW - age) // DAY_S for age in older})
            assert 88 <= len(older) <= 91
            assert max(ages) <= 90 * DAY_S


WRITER = """
import sys
import time
from pathlib import Path
from lockstep.history import records
from lockstep.history.store import opened
from tests.history.test_store import NOW, record
sys.stdin.read()  # ends when the test lets all writers go
for turn in range(20):
    with opened(Path(sys.argv[1])) as history:
        assert len(records.times(history, f"w{sys.argv[2]}")) == turn
        time.sleep(0.002)  # a check reads the earlier records before it saves its own
        records.save(history, {f"w{sys.argv[2]}": record(turn)}, NOW + turn)
"""


def test_checks_at_the_same_time_wait_for_each_other(path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)], stdin=subprocess.PIPE
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    with opened(path) as history:
        assert [len(records.times(history, f"w{number}")) for number in range(4)] == [20] * 4


def test_what_was_not_finished_is_not_kept(path: Path) -> None:
    with opened(path) as history:
        records.save(history, {"a": record()}, NOW)
        history.execute("ROLLBACK")  # as a process that is killed leaves it
        history.execute("BEGIN")
    with opened(path) as history:
        assert records.times(history, "a") == []


def unusable(path: Path) -> str:
    with pytest.raises(HistoryError) as refused:
        save(path, NOW, a=record())
    return str(refused.value)


def test_a_damaged_file_is_named_with_the_next_step_and_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database, but long enough to be read as one" * 50)
    path.chmod(0o600)
    assert unusable(path) == (
        f"{path}: file is not a database\n"
        "  expected  the history of a cluster, format 3\n"
        f"  next      mv {path} {path}.old; the next check creates a new one"
    )
    assert path.read_bytes().startswith(b"no database")


def test_damaged_pages_are_named(path: Path) -> None:
    for number in range(200):
        save(path, NOW + number, a=record(number), b=record(number))
    text = bytearray(path.read_bytes())
    text[4096 * 2 : 4096 * 4] = os.urandom(4096 * 2)
    path.write_bytes(text)
    assert "malformed" in unusable(path)
    assert f"mv {path} {path}.old" in unusable(path)


def test_a_file_of_another_version_or_program_is_left_alone(path: Path) -> None:
    save(path, NOW, a=record())
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 4")
    database.close()
    said = unusable(path)
    assert "a newer version of Lockstep wrote this file, in format 4\n" in said
    assert f"next      use the newer version, or mv {path} {path}.old" in said
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE songs (title)")
    database.close()
    path.chmod(0o600)
    assert "this database belongs to another program\n" in unusable(path)


def test_a_lock_that_is_not_given_back_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.history.store.WAIT_S", 0.1)
    with opened(path):
        assert "database is locked\n" in unusable(path)
        assert "or use --no-history" in unusable(path)


def test_a_record_of_another_format_is_named(path: Path) -> None:
    save(path, NOW, a=record())
    with opened(path) as history:
        history.execute("UPDATE record SET data = ?", (b"\0",))
    with opened(path) as history, pytest.raises(HistoryError, match=r"2026-11-20 18:40 UTC"):
        records.at(history, "a", NOW)
