"""``lockstep accept``: a difference of a node that is wanted, until its day or another value."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.changes.trial import INVENTORY
from tests.lab.labs import ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
LOCKSTEP = str(ROOT / ".venv/bin/lockstep")
PATH = "/etc/motd"
TODAY = datetime.datetime.now(datetime.UTC).date()
DAYS = datetime.timedelta(days=2)
KEPT = "/run/kept-motd"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(cluster: Lab, tmp_path: Path) -> Iterator[Run]:
    """Run a command of Lockstep; return its exit status and what it printed."""

    def command(*words: str) -> tuple[int, str]:
        where = f"CHANGES_RECORDS={tmp_path / 'records'}"
        done = cluster.command("env", where, LOCKSTEP, *words, check=False)
        return done.returncode, done.stdout + done.stderr

    cluster.on("worker1", f"cp -p {PATH} {KEPT}")
    yield command
    cluster.on("worker1", f"cp -p {KEPT} {PATH}; rm {KEPT}")


def test_an_accepted_difference_is_no_finding_until_it_changes_or_its_day_is_over(
    cluster: Lab, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "records.accepted.toml"
    file.touch()  # a file that the description names must be there

    def found() -> tuple[int, list[dict[str, Any]], str]:
        status, _ = run("check", INVENTORY, "--json", str(tmp_path / "report.json"))
        document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        return status, document["findings"], " ".join(document["notes"])

    assert found()[:2] == (0, []), "the nodes are equal before"
    cluster.on("worker1", f"echo lent until January >> {PATH}")
    status, (finding,), _ = found()
    assert (status, finding["rule"], finding["node"]) == (1, "fingerprint.file", "worker1")
    assert finding["device"] == PATH

    until, reason = TODAY + DAYS, "OPS-412: lent to the network team"
    about = ("accept", INVENTORY, "fingerprint.file", PATH, "--limit", "worker1")
    how = ("--by", "anna", "--reason", reason)
    status, text = run(*about, *how, "--until", str(until))
    assert status == 0, text
    assert found()[:2] == (0, [])
    status, text = run("check", INVENTORY, "--all")
    assert status == 0, text
    for word in (PATH, "anna", reason, str(until)):
        assert word in text

    cluster.on("worker1", f"echo a third value >> {PATH}")
    status, (finding,), _ = found()
    assert (status, finding["device"]) == (1, PATH)
    assert f"accepted until {until} by anna ({reason}): it has changed since" in finding["detail"]

    cluster.on("worker1", f"sed -i '/a third value/d' {PATH}")
    kept = file.read_text(encoding="utf-8")
    file.write_text(kept.replace(str(until), str(TODAY - DAYS)), encoding="utf-8")
    status, (finding,), _ = found()
    assert (status, finding["device"]) == (1, PATH)
    assert finding["detail"].endswith("expired")

    file.write_text(kept, encoding="utf-8")
    cluster.on("worker1", f"cp -p {KEPT} {PATH}")
    status, findings, notes = found()
    assert (status, findings) == (0, [])
    assert "1 row without a difference, to be removed" in notes
    assert f"fingerprint.file {PATH} on worker1" in notes
