"""A snapshot in a folder: what is there, what is missing, and how a new one replaces it.

Everything new is fetched into ``.incomplete`` and verified there. Only when nothing is missing are
the files renamed into place: packages first, then indexes, then the signed lists that name them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from lockstep.mirror import wheels
from lockstep.mirror.apt import AptRoot, Deb, Index
from lockstep.mirror.sources import folders
from lockstep.mirror.trouble import MirrorError, Trouble, public

LIST = "snapshot.json"
"""The list of the snapshot's content, which is written last."""
INCOMPLETE = ".incomplete"
FORMAT = 1


class Unusable(Exception):
    """Raised when a folder cannot hold the snapshot; the message says why."""


@dataclass(frozen=True)
class Part:
    """The repositories of one release, and the packages that its nodes need."""

    release: str
    root: AptRoot
    debs: tuple[Deb, ...]


@dataclass
class Content:
    """The files of a snapshot: path -> SHA-256, in the order in which they are put in place."""

    debs: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)
    by_hash: dict[str, str] = field(default_factory=dict)
    """Path of a second name of an index -> the path of the index."""
    lists: dict[str, bytes] = field(default_factory=dict)
    """Path of a signed list -> its content."""
    uris: dict[str, str] = field(default_factory=dict)
    """Path of a file to fetch -> its address."""
    names: dict[str, str] = field(default_factory=dict)
    """Path of a file to fetch -> what it is, for messages."""
    document: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """What a run has done."""

    fetched: int
    """Number of files that were fetched."""
    size: int
    """Size of the packages and indexes among them, in bytes."""
    document: Mapping[str, Any]


def content(cluster: str, parts: Sequence[Part]) -> Content:
    """Return the files of a snapshot.

    Args:
        cluster: the name of the cluster.
        parts: the repositories and packages of each release.

    Raises:
        MirrorError: the signed list of a repository does not name its index.
    """
    found = Content()
    uris = {index.uri: index.source for part in parts for index in part.root.indexes}
    places = folders(uris)
    repositories: dict[tuple[str, str, str], dict[str, Any]] = {}
    for part in parts:
        for index in part.root.indexes:
            _add(found, index, places[index.uri])
            entry = repositories.setdefault(
                (part.release, index.uri, index.below),
                {
                    "name": index.source,
                    "release": part.release,
                    "folder": places[index.uri],
                    "uri": public(index.uri),
                    "suite": index.suite or "/",
                    "components": [],
                },
            )
            if index.component:
                components: list[str] = entry["components"]
                components.append(index.component)
        for deb in part.debs:
            path = f"{places[deb.repository]}/{deb.path}"
            found.debs[path] = deb.sha256
            found.uris[path] = deb.uri
            found.names[path] = f"{uris[deb.repository]}: {deb.package} {deb.version}"
    found.document = {
        "format": FORMAT,
        "cluster": cluster,
        "repositories": list(repositories.values()),
        "packages": [
            {
                "release": part.release,
                "name": deb.package,
                "version": deb.version,
                "architecture": deb.architecture,
                "file": f"{places[deb.repository]}/{deb.path}",
                "size": deb.size,
            }
            for part in parts
            for deb in sorted(part.debs, key=lambda one: (one.package, one.version))
        ],
        "wheels": [],
        "images": [],
    }
    return found


def _add(found: Content, index: Index, folder: str) -> None:
    """Add an index and the signed list that names it."""
    below = f"{folder}/{index.below}"
    path, digest = f"{below}{index.file}", index.hashes[index.file]
    found.indexes[path] = digest
    found.uris[path] = f"{index.uri}{index.below}{index.file}"
    found.names[path] = f"{index.source}: the index {index.file}"
    if index.by_hash:
        found.by_hash[str(PurePosixPath(path).parent / "by-hash/SHA256" / digest)] = path
    signature = index.release.with_name(f"{index.release.name}.gpg")
    for file in (index.release, signature):
        if file.exists():
            found.lists[below + file.name.rpartition("_")[2]] = file.read_bytes()


def make(folder: Path, wanted: Content, parts: Sequence[Part], lock: Path | None) -> Made:
    """Make the folder hold exactly the wanted files; fetch only what is missing.

    Args:
        folder: the folder; it is created.
        wanted: the files.
        parts: the roots of apt that fetch them.
        lock: Lockstep's pinned requirements; None leaves out the Python packages.

    Raises:
        Unusable: the folder has other content, or another run is writing to it.
        MirrorError: a file cannot be fetched. The folder's snapshot is unchanged then.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        old = _existing(folder, wanted.document["cluster"])
        staging = folder / INCOMPLETE
        every = {**wanted.debs, **wanted.indexes}
        missing = {path: d for path, d in every.items() if _digest(folder / path) != d}
        lacking = {path: d for path, d in missing.items() if _digest(staging / path) != d}
        _fetch(staging, lacking, wanted, parts)
        python, pythons = _wheels(folder, staging, lock, old)
        sizes = [(staging / path).stat().st_size for path in lacking]
        listed = {
            **every,
            **{path: every[index] for path, index in wanted.by_hash.items()},
            **{path: hashlib.sha256(text).hexdigest() for path, text in wanted.lists.items()},
            **{f"{wheels.FOLDER}/{name}": digest for name, digest in python.items()},
        }
        document = {
            **wanted.document,
            "wheels": sorted(python),
            "requirements": wheels.key(lock) if lock else None,
            "files": dict(sorted(listed.items())),
        }
        _publish(folder, staging, wanted, listed)
        _write(folder / LIST, (json.dumps(document, indent=2) + "\n").encode())
        _remove(folder, set(old.get("files", ())) - set(listed))
        shutil.rmtree(staging, ignore_errors=True)
    return Made(len(lacking) + pythons, sum(sizes), document)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unusable(
                f"{folder}: another lockstep mirror is writing to it\n  next      wait for it"
            ) from error
        yield
    finally:
        os.close(handle)


def _existing(folder: Path, cluster: str) -> Mapping[str, Any]:
    """Return the list of the snapshot in a folder; empty if the folder is empty."""
    path = folder / LIST
    if not path.exists():
        others = sorted(one.name for one in folder.iterdir() if one.name != INCOMPLETE)
        if others:
            raise Unusable(
                f"{folder}: the folder holds other files ({', '.join(others[:3])})\n"
                "  expected  an empty or new folder, or one with a snapshot of this cluster"
            )
        return {}
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made_for = document["cluster"]
        document["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(
            f"{path}: not a list that Lockstep wrote\n  next      use another folder"
        ) from error
    if made_for != cluster:
        raise Unusable(
            f"{folder}: the folder holds the snapshot of cluster {made_for}, not of {cluster}\n"
            "  next      use another folder: files that this cluster does not need would be removed"
        )
    return document


def _fetch(
    staging: Path, lacking: Mapping[str, str], wanted: Content, parts: Sequence[Part]
) -> None:
    """Fetch files and verify them; each is fetched by apt's root of a release that has it."""
    left = dict(lacking)
    reasons: dict[str, str] = {}
    for part in parts:
        places = {wanted.uris[path]: (staging / path, digest) for path, digest in left.items()}
        if not places:
            break
        failed = part.root.fetch(places)
        reasons = {path: failed[uri] for path in left if (uri := wanted.uris[path]) in failed}
        left = {path: digest for path, digest in left.items() if path in reasons}
    if reasons:
        raise MirrorError(
            *(
                Trouble(
                    wanted.names[path],
                    f"the repository lists it, but it cannot be fetched: {reason}",
                    "run the command again, which fetches what is missing; if it stays so, choose "
                    "another version, or another mirror of the repository",
                )
                for path, reason in reasons.items()
            )
        )


def _wheels(
    folder: Path, staging: Path, lock: Path | None, old: Mapping[str, Any]
) -> tuple[dict[str, str], int]:
    """Return file name -> SHA-256 of Lockstep's Python packages, and how many were fetched."""
    if lock is None:
        return {}, 0
    listed = {name: old["files"].get(f"{wheels.FOLDER}/{name}") for name in old.get("wheels", ())}
    if old.get("requirements") == wheels.key(lock) and all(
        digest is not None and _digest(folder / wheels.FOLDER / name) == digest
        for name, digest in listed.items()
    ):
        return listed, 0
    wheels.fetch(lock, staging / wheels.FOLDER)
    found = wheels.files(staging / wheels.FOLDER, wheels.requirements(lock))
    return found, len(found)


def _publish(folder: Path, staging: Path, wanted: Content, listed: Mapping[str, str]) -> None:
    for path in listed:
        if path in wanted.lists:
            continue
        new, place = staging / wanted.by_hash.get(path, path), folder / path
        if path in wanted.by_hash:
            new = folder / wanted.by_hash[path]
            if _digest(place) != listed[path]:
                _write(place, new.read_bytes())
        elif new.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            new.chmod(0o644)
            os.replace(new, place)
    for path, text in wanted.lists.items():
        _write(folder / path, text)


def _write(path: Path, text: bytes) -> None:
    """Replace a file, unless it has this content."""
    if path.exists() and path.read_bytes() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(text)
    new.chmod(0o644)
    os.replace(new, path)


def _remove(folder: Path, paths: set[str]) -> None:
    """Remove files of an earlier snapshot, and folders that are empty then."""
    for path in sorted(paths):
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()):
            continue
        place.unlink(missing_ok=True)
        for parent in place.parents:
            if parent == folder.resolve() or any(parent.iterdir()):
                break
            parent.rmdir()


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
