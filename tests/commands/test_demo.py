"""``lockstep demo``: a report and a page of a simulated cluster, in a folder of the user's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from lockstep.__main__ import main

SEEDED = {
    ("fingerprint.file", "gpu12", "/etc/cron.d/burn-in"),
    ("gpu.ecc_uncorrected", "gpu11", "gpu6"),
    ("gpu.pcie_width", "gpu05", "gpu3"),
    ("hugepages", "gpu14", "1G node1"),
    ("platform.bios", "gpu07", ""),
    ("platform.bios", "gpu08", ""),
    ("sysctl.running", "gpu09", "vm.swappiness"),
}


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of a user who has neither nodes, nor ssh, nor secrets."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_it_reports_the_seeded_faults_and_says_what_to_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "8 findings: 7 differing, 1 waiting for a reboot. Nothing was changed. Exit 1." in said
    assert "The faults are seeded, so lockstep demo ends with 0." in said
    assert "  lockstep init my-cluster\n" in said
    page = Path("lockstep-demo/report.html").read_text()
    assert "<title>demo, 2026-11-20 18:41 UTC: 8 findings - lockstep check</title>" in page
    assert {path.name for path in Path("lockstep-demo").iterdir()} == {
        *("deploys", "inventory.py", "records.json", "report.html")
    }
    # The commands that it names work, from the same folder.
    (checked, *more) = re.findall(r"^(?:\$|  (?=lockstep)) ?(lockstep .*)$", said, re.MULTILINE)
    assert main([*shlex.split(checked)[1:], "--json", "again.json"]) == 1
    statuses = [main(shlex.split(command)[1:]) for command in more]
    assert statuses == [0, 1, 0, 0], more
    found = json.loads(Path("again.json").read_text())["findings"]
    old = [one for one in found if one["node"] == "gpu02"]
    assert {(one["rule"], one["node"], one["device"]) for one in found if one not in old} == SEEDED
    assert [(one["rule"], one["found"]) for one in old] == [("package.version", "580.65.06-1")]
    repairs = " ".join(one["repair"] for one in found)
    assert "lockstep-demo/deploys/worker.py --limit gpu14 --data roles=hugepages" in repairs


def test_it_takes_another_folder_and_overwrites_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine").mkdir()
    Path("mine/notes").write_text("")
    assert main(["demo", "mine"]) == 3
    assert capsys.readouterr().err == (
        "ERROR mine: the folder has files: notes\n"
        "  expected  a folder that is empty or does not exist\n"
    )
    assert main(["demo", "mine/notes"]) == 3
    assert capsys.readouterr().err.startswith("ERROR mine/notes: this is a file\n")
    assert main(["demo", "my demo"]) == 0
    assert "$ lockstep check 'my demo/inventory.py' --records " in capsys.readouterr().out
    assert [path.name for path in Path("mine").iterdir()] == ["notes"]
