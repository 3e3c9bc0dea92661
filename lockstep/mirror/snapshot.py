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
from pathlib import Path
from typing import Any

from lockstep.mirror import wheels
from lockstep.mirror.root import Listing, PackageFile, Root
from lockstep.mirror.sources import folders
from lockstep.mirror.trouble import MirrorError, Trouble, Unusable, public

LIST = "snapshot.json"
"""The list of the snapshot's content, which is written last."""
INCOMPLETE = ".incomplete"
FORMAT = 1


@dataclass(frozen=True)
class Part:
    """The repositories of one system, and the packages that its nodes need."""

    release: str
    architecture: str
    root: Root
    packages: tuple[PackageFile, ...]


@dataclass
class Content:
    """The files of a snapshot: path -> SHA-256, in the order in which they are put in place."""

    packages: dict[str, str] = field(default_factory=dict)
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
        MirrorError: the signed list of a repository does not name its index, or was replaced
            between two systems that use it.
    """
    found = Content()
    listed = [(part, one) for part in parts for one in part.root.listings]
    uris = {one.uri: one.source for _, one in listed}
    places = folders(uris)
    repositories: dict[tuple[str, str, str], dict[str, Any]] = {}
    for part, one in listed:
        _add(found, one, places[one.uri])
        entry = repositories.setdefault(
            (part.release, one.uri, one.suite),
            {
                "name": one.source,
                "release": part.release,
                "folder": places[one.uri],
                "uri": public(one.uri),
                "suite": one.suite,
                "components": [],
                "architectures": [],
            },
        )
        for name, value in (
            ("components", one.component),
            ("architectures", part.architecture),
        ):
            if value and value not in entry[name]:
                entry[name].append(value)
    for part in parts:
        for file in part.packages:
            path = f"{places[file.repository]}/{file.path}"
            found.packages[path] = file.sha256
            found.uris[path] = file.uri
            found.names[path] = f"{uris[file.repository]}: {file.package} {file.version}"
    found.document = {
        "format": FORMAT,
        "cluster": cluster,
        "repositories": list(repositories.values()),
        "packages": [
            {
                "release": part.release,
                "name": file.package,
                "version": file.version,
                "architecture": file.architecture,
                "file": f"{places[file.repository]}/{file.path}",
                "size": file.size,
            }
            for part in parts
            for file in sorted(part.packages, key=lambda file: (file.package, file.version))
        ],
        "wheels": [],
        "images": [],
    }
    return found


def _add(found: Content, one: Listing, folder: str) -> None:
    """Add the indexes of a repository, and the signed list that names them."""
    for below, digest in one.indexes.items():
        path = f"{folder}/{below}"
        found.indexes[path] = digest
        found.uris[path] = one.uri + below
        found.names[path] = f"{one.source}: the index {below.rpartition('/')[2]}"
    found.by_hash |= {f"{folder}/{new}": f"{folder}/{old}" for new, old in one.by_hash.items()}
    for below, text in one.lists.items():
        path = f"{folder}/{below}"
        if found.lists.setdefault(path, text) != text:
            raise MirrorError(
                Trouble(
                    f"{one.source} ({one.uri})",
                    f"its list {below} was replaced while it was being read",
                    "run the command again",
                )
            )


def make(folder: Path, wanted: Content, parts: Sequence[Part], lock: Path | None) -> Made:
    """Make the folder hold exactly the wanted files; fetch only what is missing.

    Args:
        folder: the folder; it is created.
        wanted: the files.
        parts: the roots that fetch them.
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
        every = {**wanted.packages, **wanted.indexes}
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
    """Fetch files and verify them; each is fetched by a root of a system that has it."""
    left = dict(lacking)
    reasons: dict[str, str] = {}
    for part in parts:
        addresses = tuple(one.uri for one in part.root.listings)
        own = {path for path in left if wanted.uris[path].startswith(addresses)}
        if not own:
            continue
        failed = part.root.fetch({wanted.uris[path]: (staging / path, left[path]) for path in own})
        for path in own:
            if wanted.uris[path] in failed:
                reasons[path] = failed[wanted.uris[path]]
            else:
                reasons.pop(path, None)
                left.pop(path)
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
