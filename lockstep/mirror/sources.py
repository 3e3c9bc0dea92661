"""The sources of apt for a release: the declared repositories, and the distribution's archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lockstep.catalog.os import Release
from lockstep.mirror.apt import ARCHIVE, Source
from lockstep.mirror.needs import Kind
from lockstep.render import render

ETC = Path("/etc")


def declared(kind: Kind) -> tuple[Source, ...]:
    """Return the declared repositories as a node of a kind gets them, one source each."""
    text = render("packages/repositories.sources.j2", plan=kind.plan)
    stanzas = [stanza for stanza in text.split("\n\n") if "\nTypes: " in f"\n{stanza}"]
    repositories = kind.plan.software.repositories
    return tuple(
        Source(one.name, f"{stanza}\n", f"{one.uri} {one.suite}")
        for one, stanza in zip(repositories, stanzas, strict=True)
    )


def archive(path: Path) -> Source:
    """Return the distribution's archive as a file of sources.list(5) lists it.

    Raises:
        OSError: the file cannot be read.
    """
    suffix = ".sources" if path.suffix == ".sources" else ".list"
    return Source(ARCHIVE, path.read_text(encoding="utf-8"), str(path), suffix)


def of_this_machine(release: Release, etc: Path = ETC) -> Path | None:
    """Return the file in which this machine lists the archive of a release.

    Returns None if this machine has another release, or lists no archive.
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
    # Since Debian 13 and Ubuntu 24.04, installers write the first one; before, the second one.
    for name in (f"apt/sources.list.d/{release.id}.sources", "apt/sources.list"):
        path = etc / name
        if path.is_file() and _entries(path.read_text(encoding="utf-8")):
            return path
    return None


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
