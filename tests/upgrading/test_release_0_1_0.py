"""What 0.1.0 wrote is read, and what this release changes on its nodes is shown.

The files were written by the code of 0.1.0: records and a history of a recorded worker, its
manifest, and that release's example of an inventory.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lockstep.__main__ import main
from lockstep.history import findings, records, runs
from lockstep.history.store import HistoryError, opened
from lockstep.inventory import load
from lockstep.manifest import ManifestError, NewerManifest, parsed, written
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import loads
from lockstep.probe.record import only_records
from lockstep.roles.operations.manifest import unreadable

OLD = Path(__file__).with_name("release_0_1_0")
ROOT = Path(__file__).resolve().parent.parent.parent
COMMIT = "0740a831"
"""The commit of the release."""
READ_AT = 1795200000.0


def unpacked(name: str) -> str:
    return gzip.decompress((OLD / name).read_bytes()).decode()


def test_its_description_is_valid() -> None:
    plan = load(str(OLD / "prod.py"))
    assert len(plan.nodes) == 18


def test_a_newer_description_is_refused_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its other fields may have other meanings, so nothing else is said about them."""
    inventory = tmp_path / "prod.py"
    text = (ROOT / "inventories/small.py").read_text()
    inventory.write_text(text.replace('"format": 1,', '"later": 1,\n        "format": 2,'))
    with pytest.raises(SystemExit) as ended:
        load(str(inventory))
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert f"ERROR {inventory}:8 format\n  found    2\n" in said
    assert "  allowed  1: a newer version of Lockstep reads format 2. Next: use it\n" in said
    assert "1 problem in " in said


def test_its_records_are_read() -> None:
    (record,) = only_records(loads(unpacked("records.json.gz"))).values()
    assert record.get("os.id") == "debian"
    assert len(record.readings) > 100


def test_its_manifest_is_read_and_stays_as_it_is() -> None:
    text = (OLD / "manifest.json").read_text()
    manifest = parsed(text)
    assert all(manifest[section] for section in ("files", "packages", "sysctl", "units"))
    assert written(manifest) == text


def test_its_history_is_extended_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    database = sqlite3.connect(path)
    database.executescript(unpacked("history.sql.gz"))
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()
    path.chmod(0o600)
    with opened(path) as history:
        kept = records.at(history, "worker1", READ_AT)
        assert kept is not None
        assert kept.record.get("os.id") == "debian"
        assert findings.last_found(history, "gpu.count") == {"worker1": READ_AT}
        assert list(runs.since(history, 0.0)) == []
    with opened(path) as history:
        assert history.execute("PRAGMA user_version").fetchone() == (3,)


# -- what a newer release writes


def test_newer_records_are_refused_with_the_next_step() -> None:
    text = unpacked("records.json.gz")
    with pytest.raises(ProbeFormatError, match=r"a newer version .* format 7; .* Next: use the n"):
        loads(text.replace('{"format":1,"nodes"', '{"format":7,"nodes"'))
    with pytest.raises(ProbeFormatError, match="a newer version"):
        loads(text.replace('{"record":{"format":1,', '{"record":{"format":2,'))


def test_a_newer_manifest_is_never_to_be_removed() -> None:
    newer = json.dumps({**json.loads((OLD / "manifest.json").read_text()), "format": 2})
    with pytest.raises(NewerManifest) as refused:
        parsed(newer)
    said = unreadable(refused.value)
    assert "a newer version of Lockstep wrote this file, in format 2; this one reads" in said
    assert said.endswith("Next: deploy this node with the newer version")
    assert "remove it" in unreadable(ManifestError("half a file"))


def test_a_newer_history_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with opened(path):
        pass
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 4")
    database.close()
    before = path.read_bytes()
    with (
        pytest.raises(HistoryError, match="a newer version of Lockstep wrote this file"),
        opened(path),
    ):
        pass
    assert path.read_bytes() == before


# -- lockstep plan --against


def environment(folder: Path, tree: Path) -> Path:
    """Return a folder like a virtual environment, in which Lockstep is another tree."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin/python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tree} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return folder


def test_the_same_release_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = environment(tmp_path / "venv", ROOT)
    assert main(["plan", str(OLD / "prod.py"), "--against", str(venv)]) == 0
    assert capsys.readouterr().out.startswith("0 differences between release ")


def test_a_changed_template_is_shown_before_it_reaches_a_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree"
    for name in ("lockstep", "roles", "templates", "deploys"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True)
    template = tree / "templates/os_settings/limits.conf.j2"
    template.write_text(template.read_text() + "# of another release\n")
    venv = environment(tmp_path / "venv", tree)
    assert main(["plan", str(OLD / "prod.py"), "--against", str(venv)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("head[1-2],worker[01-16]: file /etc/security/limits.d/90-lockstep.conf")
    assert "\n  -# of another release\n" in said
    assert "\n1 difference between release " in said


def test_what_this_release_changes_on_nodes_of_0_1_0_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", COMMIT], capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip("this checkout has no history back to 0.1.0")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(tmp_path / "tree", filter="data")
    venv = environment(tmp_path / "venv", tmp_path / "tree")
    assert main(["plan", str(OLD / "prod.py"), "--against", str(venv), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["differences"]
    by_name = {one["what"]: one for one in found}
    settings = by_name["file /usr/local/sbin/lockstep-gpu-settings"]
    assert settings["nodes"] == "worker[01-16]"
    assert any(line.startswith("-") for line in settings["diff"])
    assert not any("munge.key" in one for one in by_name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none"], "none/bin/python: No such file or directory"),
        (["worker01", "none"], "--against compares all nodes"),
    ],
)
def test_wrong_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    *node, venv = words
    assert main(["plan", str(OLD / "prod.py"), *node, "--against", venv]) == 3
    assert said in capsys.readouterr().err


def test_a_release_that_refuses_the_description_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text("#!/bin/sh\necho 'ERROR prod.py:7: networks: unknown' >&2; exit 3\n")
    python.chmod(0o755)
    assert main(["plan", str(OLD / "prod.py"), "--against", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert f"the release of {python} cannot plan" in said
    assert "ERROR prod.py:7: networks: unknown" in said
