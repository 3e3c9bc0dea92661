"""The parts of a snapshot that need no apt."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from lockstep.__main__ import main
from lockstep.catalog import os as operating_systems
from lockstep.mirror import sources, wheels
from lockstep.mirror.root import ARCHIVE
from lockstep.mirror.trouble import MirrorError
from lockstep.mirror.versions import nearest
from tests.mirror.site import description, inventory


@pytest.mark.parametrize(
    ("wanted", "there", "found"),
    [
        ("590.48.01-*", ["595.10.02-1", "590.44.01-1", "580.95.05-1"], "590.44.01-1"),
        ("590.48.01-*", ["595.10.02-1", "580.95.05-1"], "595.10.02-1"),
        ("1:4.6.0-*", ["1:4.5.2-1", "1:4.4.1-1"], "1:4.5.2-1"),
        ("0.5.15-2", ["0.5.15-2+deb12u1"], "0.5.15-2+deb12u1"),
        ("2.0-1", ["1.0-1", "3.0-1"], "3.0-1"),
        ("2.0-1", [], None),
    ],
)
def test_the_nearest_version(wanted: str, there: list[str], found: str | None) -> None:
    assert nearest(wanted, there) == found


def wheel(folder: Path, name: str) -> str:
    """Make a wheel without content; return its line in a file of pinned requirements."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    with zipfile.ZipFile(path, "w") as file:
        for part, text in (("METADATA", metadata), ("WHEEL", tag)):
            file.writestr(f"{name}-1.0.dist-info/{part}", text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
            record += f"{name}-1.0.dist-info/{part},sha256={digest.rstrip('=')},{len(text)}\n"
        file.writestr(f"{name}-1.0.dist-info/RECORD", record)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}==1.0 \\\n    --hash=sha256:{digest} \\\n    --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two pinned requirements, which pip finds in a folder; the first one is for Windows."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    other = f'other==1.0 ; sys_platform == "win32" \\\n    --hash=sha256:{"1" * 64}\n'
    path = tmp_path / "requirements.lock"
    path.write_text(other + wheel(tmp_path / "index", "lockstep_unit"))
    return path


def test_pip_fetches_the_pinned_wheels(tmp_path: Path, lock: Path) -> None:
    wanted = wheels.requirements(lock)
    assert [(one.name, one.version) for one in wanted] == [
        ("other", "1.0"),
        ("lockstep_unit", "1.0"),
    ]
    wheels.fetch(lock, tmp_path / "fetched")
    assert [*wheels.files(tmp_path / "fetched", wanted)] == ["lockstep_unit-1.0-py3-none-any.whl"]


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, lock: Path) -> None:
    lock.write_text(lock.read_text().replace("--hash=sha256:", "--hash=sha256:f", 1)[:-1])
    lock.write_text(f"lockstep_unit==1.0 --hash=sha256:{'2' * 64}\n")
    with pytest.raises(MirrorError, match="pip download failed: ERROR: THESE PACKAGES DO NOT"):
        wheels.fetch(lock, tmp_path / "fetched")


def test_a_requirement_without_a_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requirements.lock"
    path.write_text("jinja2==3.1.6\n")
    with pytest.raises(ValueError, match=r"jinja2 3\.1\.6 has no --hash"):
        wheels.requirements(path)


def test_the_checkout_lists_its_own_requirements() -> None:
    assert {"pyinfra", "pydantic"} <= {one.name for one in wheels.requirements(wheels.LOCK)}


def test_a_cluster_without_packages_needs_only_wheels(
    tmp_path: Path, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {**description(), "unmanaged": ["packages"]}
    folder, path = tmp_path / "snapshot", inventory(tmp_path, wanted)
    words = ["mirror", path, str(folder), "--make", "--lock", str(lock)]
    assert main(words) == 0
    assert ", 1 fetched" in capsys.readouterr().out
    assert json.loads((folder / "snapshot.json").read_text())["wheels"] == [
        "lockstep_unit-1.0-py3-none-any.whl"
    ]
    (tmp_path / "index/lockstep_unit-1.0-py3-none-any.whl").unlink()  # pip would fail now
    assert main(words) == 0
    assert ", 0 fetched" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("release", "files", "found"),
    [
        ("debian_12", {"apt/sources.list": "deb http://a/ bookworm main\n"}, "sources.list"),
        (
            "debian_12",
            {"apt/sources.list": "# moved\n", "apt/sources.list.d/debian.sources": "Types: deb\n"},
            "debian.sources",
        ),
        ("debian_12", {"apt/sources.list": "# nothing\n"}, None),
        ("debian_13", {"apt/sources.list": "deb http://a/ bookworm main\n"}, None),
    ],
)
def test_the_archive_of_this_machine(
    release: str, files: dict[str, str], found: str | None, tmp_path: Path
) -> None:
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = sources.of_this_machine(operating_systems.load(release), etc=tmp_path)
    assert (path.name if path else None) == found


def test_folders_of_repositories_have_the_names_of_the_description() -> None:
    assert sources.folders(
        {
            "http://a/debian/": ARCHIVE,
            "http://b/debian/": ARCHIVE,
            "http://c/cuda/": "nvidia",
            "http://d/": "debian",
        }
    ) == {
        "http://c/cuda/": "nvidia",
        "http://d/": "debian",
        "http://a/debian/": "debian-2",
        "http://b/debian/": "debian-3",
    }
