"""``lockstep mirror`` against real signed repositories, with the real apt."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lab import repository
from lab.standins.package import Package
from lockstep.__main__ import main
from lockstep.commands import mirror, plan
from lockstep.mirror import apt
from tests.mirror import site
from tests.mirror.site import Signer, description, inventory, signing, software
from tests.plan.on_release import planned_on

pytestmark = pytest.mark.skipif(bool(site.MISSING), reason=f"not installed: {site.MISSING}")
LOCAL = ("--archive", "none", "--lock", "none")
LIBRARY = Package("liblock1", "1:2.0-1")


@pytest.fixture(scope="module")
def original(signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vendor's repository; munge there depends on a library that no role names."""
    munge = Package("munge", "0.5.16-1", depends="liblock1")
    wanted = description(**software("file:/none", signer.key))
    folder = tmp_path_factory.mktemp("vendor") / "site"
    return signer.flat([*site.packages(wanted, munge), LIBRARY], folder)


@pytest.fixture
def vendor(original: Path, tmp_path: Path) -> Path:
    """A copy, which a test may change."""
    return shutil.copytree(original, tmp_path / "vendor")


def described(tmp_path: Path, vendor: Path | str, signer: Signer, **changes: Any) -> str:
    uri = vendor if isinstance(vendor, str) else f"file:{vendor}/"
    return inventory(tmp_path, description(**software(uri, signer.key, **changes)))


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Path -> inode and time of each file: a file that was written again differs."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_list_names_packages_versions_and_fields_and_contacts_nothing(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, "https://me:secret@packages.example.net/debian", signer)
    assert main(["mirror", path, "--lock", "none", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["repositories"][0]["uri"] == "https://packages.example.net/debian"
    workers = next(kind for kind in document["kinds"] if "worker1" in kind["nodes"])
    of = {one["name"]: (one["version"], one["field"]) for one in workers["packages"]}
    assert of["libcuda1"] == (f"{site.DRIVER}-*", "software.nvidia.driver")
    assert of["nvidia-kernel-open-dkms"] == (f"{site.DRIVER}-*", "software.nvidia.driver")
    assert of["chrony"] == (None, "role time_sync")
    assert document["images"] == []
    assert main(["mirror", path, "--lock", "none"]) == 0
    said = capsys.readouterr().out
    assert "worker[1-4]: debian_13, " in said
    assert "secret" not in said


def test_a_complete_repository_has_everything(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mirror", described(tmp_path, vendor, signer), "--check", *LOCAL]) == 0
    said = capsys.readouterr().out
    assert said.startswith("every package of 5 nodes is in a repository")
    assert "not included: kernel headers, with which worker[1-4] build" in said


def test_a_pinned_version_that_is_gone_is_named_with_the_nearest_one(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, vendor, signer, driver="580.65.06")
    assert main(["mirror", path, "--check", *LOCAL]) == 1
    said = capsys.readouterr().out
    assert (
        "ERROR libcuda1 580.65.06-*: no repository has version 580.65.06-* (asked: site)\n"
        "  nodes      worker[1-4]\n"
        "  available  580.95.05-1 (site)\n"
        "  next       nearest version: 580.95.05-1. Change software.nvidia.driver, or declare a "
        "mirror that still has 580.65.06-*. debian_13's own archive was not asked: --archive FILE "
        "names a file of sources.list(5) that lists it\n"
    ) in said
    assert "munge" not in said
    assert main(["mirror", path, "--check", *LOCAL, "--json", "-"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert {one["where"] for one in problems} >= {"libcuda1 580.65.06-*"}


def test_a_package_that_is_nowhere_is_named_with_its_role(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = description(**software(f"file:{tmp_path}/vendor/", signer.key))
    held = [one for one in site.packages(wanted) if one.name != "chrony"]
    signer.flat(held, tmp_path / "vendor")
    assert main(["mirror", inventory(tmp_path, wanted), "--check", *LOCAL]) == 1
    said = capsys.readouterr().out
    assert "ERROR chrony: no repository has this package (asked: site)\n" in said
    assert "  nodes      head1,worker[1-4]\n  available  no version\n" in said
    assert "(software.repositories), or leave out role time_sync" in said


def test_a_dependency_that_is_nowhere_ends_the_check(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = description(**software(f"file:{tmp_path}/vendor/", signer.key))
    munge = Package("munge", "0.5.16-1", depends="liblock1")
    signer.flat(site.packages(wanted, munge), tmp_path / "vendor")
    assert main(["mirror", inventory(tmp_path, wanted), "--check", *LOCAL]) == 2
    assert "Depends: liblock1 but it is not installable" in capsys.readouterr().err


def test_nodes_can_use_the_snapshot_and_a_second_run_fetches_nothing(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    said = capsys.readouterr().out
    assert "debian_13  site/  /      -" in said
    document = json.loads((folder / "snapshot.json").read_text())
    assert {"liblock1", "munge"} <= {one["name"] for one in document["packages"]}
    assert (folder / "site/liblock1_2.0-1_amd64.deb").is_file()
    before = files(folder)
    assert set(before) == {*document["files"], "snapshot.json"}

    # The vendor's signature and key are kept, so only the address changes. The vendor is gone.
    shutil.rmtree(vendor)
    mirrored = described(tmp_path, folder / "site", signer, frozen=True)
    assert main(["mirror", mirrored, "--check", *LOCAL]) == 0

    shutil.copytree(folder / "site", vendor)
    capsys.readouterr()
    assert main(["mirror", described(tmp_path, vendor, signer), str(folder), "--make", *LOCAL]) == 0
    assert ", 0 fetched (0 B)" in capsys.readouterr().out
    assert files(folder) == before


def test_a_new_version_replaces_the_old_one_and_the_rest_stays(
    tmp_path: Path, vendor: Path, signer: Signer
) -> None:
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    before = files(folder)
    wanted = description(**software(f"file:{vendor}/", signer.key))
    newer = Package("munge", "0.5.17-1")
    wanted["software"]["versions"] = {"munge": "0.5.17-1"}
    shutil.rmtree(vendor)
    signer.flat(site.packages(wanted, newer), vendor)
    path = inventory(tmp_path, wanted)
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    after = files(folder)
    gone = {"site/munge_0.5.16-1_amd64.deb", "site/liblock1_2.0-1_amd64.deb"}
    assert set(before) - set(after) == gone
    assert set(after) - set(before) == {"site/munge_0.5.17-1_amd64.deb"}
    assert not (folder / ".incomplete").exists()


def test_a_damaged_file_of_the_snapshot_is_fetched_again(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    damaged = folder / "site/munge_0.5.16-1_amd64.deb"
    damaged.write_bytes(b"?")
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    assert ", 1 fetched" in capsys.readouterr().out
    assert damaged.read_bytes() == (vendor / damaged.name).read_bytes()


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"other", "Hash Sum mismatch")]
)
def test_an_incomplete_repository_leaves_the_folder_as_it_was(
    content: bytes | None,
    reason: str,
    tmp_path: Path,
    vendor: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    package = vendor / "munge_0.5.16-1_amd64.deb"
    good = package.read_bytes()
    package.unlink()
    if content is not None:
        package.write_bytes(content)
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert "ERROR site: munge 0.5.16-1: the repository lists it, but it cannot be fetched" in said
    assert reason in said
    assert "  next       run the command again" in said
    assert [one.name for one in folder.iterdir()] == [".incomplete"]
    # The vendor has completed it: only what is missing is fetched.
    package.write_bytes(good)
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    assert ", 1 fetched" in capsys.readouterr().out
    assert (folder / "site" / package.name).read_bytes() == good


@pytest.mark.parametrize("name", ["Packages", "InRelease"])
def test_a_repository_that_was_changed_after_it_was_signed(
    name: str,
    tmp_path: Path,
    vendor: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (vendor / "Packages.gz").unlink()
    changed = vendor / name
    changed.write_bytes(changed.read_bytes().replace(b"amd64", b"amd65"))
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ERROR site (file:{vendor}/ /): ")
    assert {
        "Packages": "an index differs from the signed list of files",
        "InRelease": "its signature does not fit its content",
    }[name] in said
    assert not folder.exists()


def test_a_repository_that_another_key_has_signed(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    with signing() as other:
        path = described(tmp_path, vendor, other)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert "it is signed by another key than the declared one (the missing key is " in said
    assert "compare the repository's key with the field `key`" in said


def test_an_expired_list_is_accepted_only_from_a_snapshot(
    tmp_path: Path,
    original: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not the settings of this machine, which may have a frozen copy of an archive.
    usual = 'Acquire::Check-Valid-Until "true";\nAcquire::Check-Date "true";\n'
    monkeypatch.setattr(apt, "_CONFIGURATION", apt._CONFIGURATION + usual)
    fields = "Date: Thu, 01 Jan 2026 00:00:00 UTC\nValid-Until: Fri, 02 Jan 2026 00:00:00 UTC\n"
    made = signer.suite(original, tmp_path / "old", fields)
    suite = {"suite": "trixie", "components": ["main"]}
    path = described(tmp_path, made, signer, **suite)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    assert "no longer valid (Valid-Until)" in capsys.readouterr().err
    path = described(tmp_path, made, signer, **suite, frozen=True)
    assert main(["mirror", path, "--check", *LOCAL]) == 0


def test_a_suite_keeps_its_folders_and_the_names_by_hash(
    tmp_path: Path, original: Path, signer: Signer
) -> None:
    made = signer.suite(original, tmp_path / "debian", "Acquire-By-Hash: yes\n")
    listed = tmp_path / "archive.sources"
    lines = "".join(f" {line or '.'}\n" for line in signer.key.splitlines())
    listed.write_text(
        f"Types: deb\nURIs: file:{made}\nSuites: trixie\nComponents: main\n"
        f"Targets: Packages\nSigned-By:\n{lines}"
    )
    wanted = description(**software("", signer.key))
    del wanted["software"]["repositories"]
    wanted["software"]["nvidia"] = None
    path, folder = inventory(tmp_path, wanted), tmp_path / "snapshot"
    options = ("--archive", str(listed), "--lock", "none")
    assert main(["mirror", path, str(folder), "--make", *options]) == 0
    found = set(json.loads((folder / "snapshot.json").read_text())["files"])
    assert {
        "debian/dists/trixie/InRelease",
        "debian/dists/trixie/main/binary-amd64/Packages.gz",
        "debian/pool/main/munge_0.5.16-1_amd64.deb",
    } <= found
    assert any("main/binary-amd64/by-hash/SHA256/" in name for name in found)
    assert not any("libcuda1" in name for name in found)
    listed.write_text(listed.read_text().replace(f"file:{made}", f"file:{folder}/debian"))
    shutil.rmtree(made)
    assert main(["mirror", path, "--check", *options]) == 0


@pytest.fixture
def served(vendor: Path) -> Iterator[str]:
    """The address at which a loopback server has the vendor's repository."""

    class Handler(SimpleHTTPRequestHandler):
        @override
        def log_message(self, *words: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(vendor))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """apt asks the loopback server itself, and does not wait for one that is not there."""
    settings = (
        'Acquire::http::Proxy "DIRECT";\nAcquire::Retries "0";\nAcquire::http::Timeout "2";\n'
    )
    monkeypatch.setattr(apt, "_CONFIGURATION", apt._CONFIGURATION + settings)


@pytest.mark.usefixtures("direct")
def test_a_repository_over_http(
    tmp_path: Path, served: str, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = described(tmp_path, served, signer), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    assert (folder / "site/munge_0.5.16-1_amd64.deb").is_file()
    path = described(tmp_path, f"{served}/nowhere", signer)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    assert "there is no signed list of files (InRelease) at this address" in capsys.readouterr().err


@pytest.mark.usefixtures("direct")
def test_a_repository_that_does_not_answer(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, "http://127.0.0.1:9/debian", signer)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ERROR site (http://127.0.0.1:9/debian /): it cannot be read. apt says:")
    assert "Could not connect to 127.0.0.1:9" in said


def test_a_folder_that_is_not_a_snapshot_of_this_cluster_is_left_alone(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = described(tmp_path, vendor, signer), tmp_path / "snapshot"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 3
    assert "the folder holds other files (thesis.txt)" in capsys.readouterr().err
    (folder / "thesis.txt").unlink()
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    wanted = {**description(**software(f"file:{vendor}/", signer.key)), "name": "other"}
    before = files(folder)
    assert main(["mirror", inventory(tmp_path, wanted), str(folder), "--make", *LOCAL]) == 3
    assert "the snapshot of cluster isle, not of other" in capsys.readouterr().err
    assert files(folder) == before


def test_headers_of_the_kernels_are_included(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = description(**software(f"file:{tmp_path}/vendor/", signer.key))
    headers = Package("linux-headers-6.12.1-amd64", "6.12.1-1")
    signer.flat([*site.packages(wanted), headers], tmp_path / "vendor")
    path = inventory(tmp_path, wanted)
    assert main(["mirror", path, "--check", *LOCAL, "--kernel", "6.12.1-amd64", "--json", "-"]) == 0
    names = {one["name"] for one in json.loads(capsys.readouterr().out)["packages"]}
    assert headers.name in names
    assert main(["mirror", path, "--check", *LOCAL, "--kernel", "6.99"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "ERROR --kernel 6.99: no repository has linux-headers-6.99 (asked: site)\n"
        "  nodes      worker[1-4]\n"
        "  available  linux-headers-6.12.1-amd64\n"
        "  next       compare with uname -r of the nodes, or declare"
    )


def test_options_for_one_release_of_several(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = description(**software(f"file:{tmp_path}/vendor/", signer.key))
    wanted["software"]["repositories"][0]["releases"] = ["debian_13"]
    other = {"name": "other", "uri": f"file:{tmp_path}/other/", "suite": "/", "key": signer.key}
    wanted["software"]["repositories"].append({**other, "releases": ["debian_12"]})
    wanted["software"]["versions"] = {}
    second = {"name": "head2", "role": "head", "hardware": "plain", "management": "fd00:1::2"}
    wanted["nodes"].append({**second, "release": "debian_12"})
    headers = Package("linux-headers-6.12.1-amd64", "6.12.1-1")
    signer.flat([*site.packages(wanted), headers], tmp_path / "vendor")
    signer.flat(site.packages(wanted), tmp_path / "other")
    path = inventory(tmp_path, wanted)
    check = ["mirror", path, "--check", *LOCAL]
    assert main([*check, "--kernel", "debian_13=6.12.1-amd64", "--json", "-"]) == 0
    names = {one["name"] for one in json.loads(capsys.readouterr().out)["packages"]}
    assert headers.name in names
    assert main([*check, "--kernel", "6.12.1-amd64"]) == 3
    expected = "expected  RELEASE=KERNEL, where RELEASE is one of debian_12, debian_13\n"
    assert expected in capsys.readouterr().err
    assert main(["mirror", path, "--check", "--archive", "x.sources"]) == 3
    expected = "expected  RELEASE=FILE, or none, where RELEASE is one of debian_12, debian_13\n"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--make"], "--make: no folder"),
        (["snapshot", "--make", "--check"], "--check and --make: choose one; --make checks first"),
        (["snapshot"], "snapshot: a folder is written only with --make"),
        (["--check", "--archive", "debian_12=none"], "RELEASE is one of debian_13"),
        (["--check", "--archive", "nowhere.sources"], "nowhere.sources: no such file"),
        (["--check", "--lock", "nowhere.lock"], "--lock nowhere.lock: No such file"),
        (
            ["--check", "--archive", "binary"],
            "--archive binary: not a text file\n  expected  a file of sources.list(5)",
        ),
        (
            ["--check", "--lock", "binary"],
            "--lock binary: not a text file\n  expected  pinned requirements",
        ),
        (["--archive", "none"], "--archive: the list does not use it"),
        (["--kernel", "6.12.1-amd64"], "--kernel: the list does not use it"),
    ],
)
def test_wrong_use(
    words: list[str],
    said: str,
    tmp_path: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\x00")
    assert main(["mirror", described(tmp_path, "file:/none", signer), *words]) == 3
    assert said in capsys.readouterr().err


def test_the_list_of_a_repository_without_sha256(
    tmp_path: Path, vendor: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    release = "Origin: x\nArchitectures: amd64\nMD5Sum:\n 00 0 Packages\n"
    (vendor / "InRelease").write_text(repository.sign(release, signer.home)[0])
    path = described(tmp_path, vendor, signer)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    assert capsys.readouterr().err.startswith("ERROR site (file:")


HINTS = (
    "Are its versions still in the repositories? lockstep mirror",
    "Ask the repositories for these versions: lockstep mirror",
    "Copy them: lockstep mirror",
)


@pytest.mark.parametrize("release", ["debian_13", "rocky_9"])
def test_check_and_make_are_named(
    release: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (mirror, plan):
        monkeypatch.setattr(command, "load", lambda _: planned_on(release))
    assert main(["plan", "isle.py"]) == 0
    assert main(["mirror", "isle.py", "--lock", "none"]) == 0
    said = capsys.readouterr().out
    assert "PACKAGE" in said
    assert all(one in said for one in HINTS)
