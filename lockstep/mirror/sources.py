"""The repositories of a system: the declared ones, and the distribution's archive."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from lockstep.catalog.os import Release
from lockstep.mirror.needs import Kind
from lockstep.mirror.root import ARCHIVE, Source
from lockstep.render import render

ETC = Path("/etc")


def declared(kind: Kind) -> tuple[Source, ...]:
    """Return the declared repositories as a node of a kind gets them, one source each."""
    repositories = kind.plan.software.repositories
    if kind.release.family == "rhel":
        text = render("packages/yum.repo.j2", plan=kind.plan)
        stanzas = [stanza for stanza in text.split("\n\n") if stanza.startswith("[")]
        return tuple(
            Source(one.name, f"{stanza}\n", f"{one.uri} {one.suite}", ".repo", one.key)
            for one, stanza in zip(repositories, stanzas, strict=True)
        )
    text = render("packages/repositories.sources.j2", plan=kind.plan)
    stanzas = [stanza for stanza in text.split("\n\n") if "\nTypes: " in f"\n{stanza}"]
    return tuple(
        Source(one.name, f"{stanza}\n", f"{one.uri} {one.suite}")
        for one, stanza in zip(repositories, stanzas, strict=True)
    )


def archive(path: Path, release: Release) -> Source:
    """Return the distribution's archive as a file lists it.

    Args:
        path: a file of sources.list(5); in the RHEL family a file of dnf.conf(5), or a folder
            whose files with the suffix .repo are taken.
        release: the release of the archive.

    Raises:
        OSError: the file cannot be read.
    """
    if release.family == "rhel":
        files = _repo_files(path) if path.is_dir() else [path]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        return Source(ARCHIVE, text, str(path), ".repo")
    suffix = ".sources" if path.suffix == ".sources" else ".list"
    return Source(ARCHIVE, path.read_text(encoding="utf-8"), str(path), suffix)


def of_this_machine(
    release: Release, architecture: str = "x86_64", etc: Path = ETC, machine: str = ""
) -> Path | None:
    """Return the file or folder in which this machine lists the archive of a release.

    Returns None if this machine has another release, lists no archive, or lists one that does not
    have the architecture: Ubuntu's has other servers for it.

    Args:
        release: the release.
        architecture: the architecture of the nodes.
        etc: the folder of the machine's configuration.
        machine: the machine's architecture, as ``uname -m`` prints it; empty: this machine's.
    """
    try:
        lines = (etc / "os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    fields = {name: value.strip("\"'") for name, _, value in (one.partition("=") for one in lines)}
    if (fields.get("ID"), release.version_of(fields.get("VERSION_ID", ""))) != (
        release.id,
        release.version_id,
    ):
        return None
    if release.family == "rhel":
        return etc / "yum.repos.d" if _repo_files(etc / "yum.repos.d") else None
    own = "x86_64" if (machine or platform.machine()) == "x86_64" else "arm64"
    if release.id == "ubuntu" and architecture != own:
        return None
    # Since Debian 13 and Ubuntu 24.04, installers write the first one; before, the second one.
    for name in (f"apt/sources.list.d/{release.id}.sources", "apt/sources.list"):
        path = etc / name
        if path.is_file() and _entries(path.read_text(encoding="utf-8")):
            return path
    return None


def _repo_files(folder: Path) -> list[Path]:
    """Return the files of repositories in a folder, without the one that Lockstep writes."""
    return sorted(one for one in folder.glob("*.repo") if one.name != "lockstep.repo")


def _entries(text: str) -> bool:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return any(lines)


def folders(uris: Mapping[str, str]) -> dict[str, str]:
    """Return the address of each repository -> its folder in a snapshot.

    Args:
        uris: address -> the name of its source. The folder of a declared repository has its name;
            that of an archive has the last word of its address (``debian``).
    """
    found: dict[str, str] = {}
    for uri, source in sorted(uris.items(), key=lambda item: item[1] == ARCHIVE):
        name = uri.rstrip("/").rpartition("/")[2] if source == ARCHIVE else source
        used, number, free = set(found.values()), 2, name
        while free in used:
            free, number = f"{name}-{number}", number + 1
        found[uri] = free
    return found
