"""``lockstep secrets``: it makes what is missing, says so, and shows no secret."""

import json
from pathlib import Path

import pytest

from lockstep.__main__ import main
from lockstep.secrets import existing, store
from tests.checks import recorded
from tests.commands.conftest import INVENTORY

NAME = "recorded"


@pytest.fixture(autouse=True)
def _inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("inventory.py").write_text(INVENTORY.format(description="DESCRIPTION"))


def said(capsys: pytest.CaptureFixture[str], status: int = 0, *options: str) -> list[str]:
    assert main(["secrets", "inventory.py", *options]) == status
    out, error = capsys.readouterr()
    found = existing(NAME) if status == 0 else None
    for hidden in (
        (found.database_password, json.loads(store(NAME).read_text())["munge_key"])
        if (found)
        else ()
    ):
        assert hidden not in out + error
    return (out + error).splitlines()


def test_all_are_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys)
    assert first[:2] == [
        f"cluster {NAME}: {store(NAME)}",
        "  made     munge key, database password",
    ]
    made = existing(NAME)
    assert said(capsys) == [first[0], "  existed  munge key, database password"]
    assert existing(NAME) == made
    assert store(NAME).stat().st_mode & 0o777 == 0o600


def test_the_missing_one_is_made_and_the_other_stays(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys)
    held = json.loads(store(NAME).read_text())
    del held["munge_key"]
    store(NAME).write_text(json.dumps(held))
    assert said(capsys)[1:3] == ["  made     munge key", "  existed  database password"]
    made = existing(NAME)
    assert made is not None
    assert made.database_password == held["database_password"]


def test_a_file_that_others_can_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys)
    store(NAME).chmod(0o644)
    assert "expected 0600" in said(capsys, status=3)[0]


def test_a_folder_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("state").write_text("a file\n")
    (line,) = said(capsys, status=3)
    assert line.startswith("ERROR ")
    assert "state" in line


def test_a_cluster_without_slurm_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    heads = {
        "name": NAME,
        "networks": {"management": {"prefix": "fd00:1::/64"}},
        "hardware": {"head": {"sockets": 1, "cores_per_socket": 8, "memory_mib": 32000}},
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "head",
                "management": "fd00:1::1",
                "runs": ["prometheus"],
            }
        ],
        "os": {"release": "debian_13"},
    }
    Path("inventory.py").write_text(INVENTORY.format(description=repr(heads)))
    assert main(["secrets", "inventory.py"]) == 0
    assert "needs no secrets" in capsys.readouterr().out
    assert not store(NAME).exists()


def test_the_key_of_nodes_that_exist_is_taken_and_never_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key, options = Path("munge.key"), ("--munge-key", "munge.key")
    key.write_bytes(b"k" * 128)
    assert "chmod 600" in said(capsys, 3, *options)[0]
    key.chmod(0o600)
    assert said(capsys, 0, *options)[1:3] == [
        "  taken    munge key",
        "  made     database password",
    ]
    made = existing(NAME)
    assert made is not None
    assert made.munge_key == b"k" * 128
    assert said(capsys, 0, *options)[1:] == ["  existed  munge key, database password"]
    key.write_bytes(b"l" * 128)
    (refused,) = said(capsys, 3, *options)
    assert "it has another munge key" in refused
    assert existing(NAME) == made


def test_the_key_is_taken_before_the_role_munge_is_managed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As docs/existing-clusters.md has it: the first deploy with munge must not make a key."""
    key = Path("munge.key")
    key.write_bytes(b"k" * 128)
    key.chmod(0o600)
    wanted = {**recorded.DESCRIPTION, "unmanaged": ["all"]}
    Path("inventory.py").write_text(INVENTORY.format(description=repr(wanted)))
    assert main(["secrets", "inventory.py", "--munge-key", "munge.key"]) == 0
    assert "taken    munge key" in capsys.readouterr().out
    made = existing(NAME)
    assert made is not None
    assert made.munge_key == b"k" * 128


@pytest.mark.parametrize(("size", "why"), [(31, "31 bytes"), (1025, "1025 bytes"), (0, "0 bytes")])
def test_a_file_that_is_no_munge_key_is_refused(
    capsys: pytest.CaptureFixture[str], size: int, why: str
) -> None:
    Path("munge.key").write_bytes(b"k" * size)
    Path("munge.key").chmod(0o600)
    assert why in said(capsys, 3, "--munge-key", "munge.key")[0]
    assert "no such file" in said(capsys, 3, "--munge-key", "other.key")[0]
    assert not store(NAME).exists()
