"""The history file: its path, its tables and its errors."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep import state
from lockstep.when import DAY_S, utc

FORMAT = 3
"""Version of the tables (SQLite's user_version). Records have their own format version."""
KEPT_FOR_S = 90 * DAY_S
"""Records, findings and fingerprints are kept for three months, which is longer than the usual time
between two maintenance windows or driver updates."""
APPLICATION_ID = 0x4C6F636B
"""SQLite's application_id, "Lock": it keeps Lockstep from writing to other programs' databases."""
WAIT_S = 30.0
"""Seconds to wait while another ``lockstep check`` is saving; 2,000 records take a few seconds."""
PRIVATE = 0o600
"""Mode of files with records, whose hashes and versions would help an attacker."""

_STEPS = (
    """
CREATE TABLE record (
    node TEXT NOT NULL,
    read_at REAL NOT NULL,
    boot TEXT,
    data BLOB NOT NULL,
    PRIMARY KEY (node, read_at)
);
CREATE TABLE finding (
    rule TEXT NOT NULL,
    node TEXT NOT NULL,
    device TEXT NOT NULL,
    since REAL NOT NULL,
    last REAL NOT NULL,
    checks INTEGER NOT NULL,
    PRIMARY KEY (rule, node, device)
);
""",
    """
CREATE TABLE fingerprint (
    node TEXT PRIMARY KEY,
    since REAL NOT NULL,
    last REAL NOT NULL,
    method TEXT NOT NULL,
    digest BLOB NOT NULL
);
CREATE TABLE fingerprint_version (
    node TEXT NOT NULL,
    domain TEXT NOT NULL,
    since REAL NOT NULL,
    before REAL,
    changed INTEGER NOT NULL,
    common INTEGER NOT NULL,
    own INTEGER NOT NULL,
    PRIMARY KEY (node, domain, since)
) WITHOUT ROWID;
CREATE TABLE fingerprint_part (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
);
""",
    """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    began REAL NOT NULL,
    ended REAL NOT NULL,
    user TEXT NOT NULL,
    host TEXT NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    site TEXT NOT NULL
);
CREATE TABLE run_node (
    run INTEGER NOT NULL,
    node TEXT NOT NULL,
    result TEXT NOT NULL,
    reason TEXT NOT NULL,
    changes TEXT NOT NULL
);
CREATE INDEX run_node_of ON run_node (run);
""",
)
"""The statements that lead to each format from the one before it; the first one from nothing."""


class HistoryError(Exception):
    """Raised when the history cannot be used; the message gives the reason and the next step."""


def file(cluster: str, folder: str | None = None) -> Path:
    """Return the path of a cluster's history, whether or not the file exists."""
    return state.folder(cluster, folder) / "history.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the history for one transaction; create it if it does not exist.

    Writers wait for each other. WAL mode is not used, because it does not work on network file
    systems, and home directories are often on one (sqlite.org/wal.html).

    Raises:
        HistoryError: the file is readable by others, damaged, locked, in another format, or a
            database of another program.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite creates its journal with the mode of the database.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE))
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise HistoryError(
                f"{path}: mode {mode:04o}\n  expected  0600\n  next      chmod 600 {path}"
            )
        database = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise HistoryError(_advice(path, str(error))) from error
    try:
        database.execute("BEGIN IMMEDIATE")
        _with_tables(database, path)
        yield database
        database.execute("COMMIT")
    except sqlite3.Error as error:
        damaged = error.sqlite_errorcode in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
        raise HistoryError(_advice(path, str(error), damaged)) from error
    finally:
        database.close()  # rolls back an uncommitted transaction


def damaged(
    history: sqlite3.Connection, node: str, read_at: float, error: Exception
) -> HistoryError:
    """Return the error for what was saved of a node and cannot be read."""
    path = history.execute("PRAGMA database_list").fetchone()[2]
    return HistoryError(
        f"{path}: the saved record of {node} from {utc(read_at)} is damaged: {str(error)[:120]}\n"
        f"  next      restore {path} from a backup, or rename it: the next check creates a new one"
    )


def _with_tables(database: sqlite3.Connection, path: Path) -> None:
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if (application, version) == (APPLICATION_ID, FORMAT):
        return
    if application == APPLICATION_ID and version > FORMAT:
        raise HistoryError(
            f"{path}: a newer version of Lockstep wrote this file, in format {version}\n"
            f"  expected  the history of a cluster, format 1 to {FORMAT}\n"
            f"  next      use the newer version, or mv {path} {path}.old"
        )
    if application == APPLICATION_ID and version < 1:
        raise HistoryError(_advice(path, f"format {version} does not exist", move=True))
    if application != APPLICATION_ID:
        version = 0
        if database.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise HistoryError(_advice(path, "this database belongs to another program", move=True))
    for step in _STEPS[version:]:
        for statement in step.split(";"):  # executescript() would commit the transaction
            database.execute(statement)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {FORMAT}")


def _advice(path: Path, found: str, move: bool = False) -> str:
    step = (
        f"mv {path} {path}.old; the next check creates a new one"
        if move
        else "check whether another process uses it or the disk is full, or use --no-history"
    )
    return (
        f"{path}: {found}\n  expected  the history of a cluster, format {FORMAT}\n"
        f"  next      {step}"
    )
