"""The systems of a plan, and the options of ``lockstep mirror`` that name one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.mirror import apt, dnf, sources
from lockstep.mirror.needs import Kind
from lockstep.mirror.root import ARCHIVE, Root
from lockstep.mirror.trouble import Unusable
from lockstep.report import alike

NONE = "none"
"""Value of an option that leaves something out."""


@dataclass(frozen=True)
class System:
    """A release on one architecture, with its kinds of nodes and the root that asks for them."""

    name: str
    """The release, with the architecture if it is not x86_64: ``ubuntu_24_04/arm64``."""
    kinds: tuple[Kind, ...]
    root: Root
    kernels: tuple[str, ...]
    """Kernels of the nodes, whose headers are included."""

    @property
    def release(self) -> str:
        """The name of the release."""
        return self.kinds[0].release.name

    @property
    def architecture(self) -> str:
        """The architecture of the nodes."""
        return self.kinds[0].architecture

    @property
    def lacks_archive(self) -> bool:
        """Whether the distribution's own archive is not asked."""
        return all(one.name != ARCHIVE for one in self.root.sources)

    @property
    def archive_file(self) -> str:
        """The kind of file that lists the archive."""
        rhel = self.kinds[0].release.family == "rhel"
        return "dnf.conf(5) (.repo), or a folder of such files," if rhel else "sources.list(5)"


def systems(
    kinds: Sequence[Kind], archive: Sequence[str], kernel: Sequence[str], cache: Path
) -> tuple[System, ...]:
    """Return the systems of a plan.

    Args:
        kinds: the kinds of nodes.
        archive: values of ``--archive``.
        kernel: values of ``--kernel``.
        cache: the folder for the roots of the package managers.

    Raises:
        Unusable: an option is wrong, or this machine lacks a program.
        OSError: a file cannot be read, or a root cannot be written.
    """
    every = alike(kinds, lambda kind: kind.system)
    first = {name: own[0] for name, own in every.items()}
    archives, kernels = _archives(archive, first), _kernels(kernel, first)
    return tuple(
        System(
            name,
            tuple(own),
            _root(own[0], archives.get(name), cache),
            tuple(kernels.get(name, ())),
        )
        for name, own in every.items()
    )


def _root(kind: Kind, archive: Path | None, cache: Path) -> Root:
    release = kind.release
    listed = (sources.archive(archive, release),) if archive else ()
    declared = (*sources.declared(kind), *listed)
    if release.family == "rhel":
        if missing := dnf.tools_missing():
            raise Unusable(f"{missing}: not on this machine\n  next      {dnf.INSTALL}")
        return dnf.DnfRoot(cache / "dnf", declared, release.version_id, kind.architecture)
    if missing := apt.tools_missing():
        raise Unusable(
            f"{missing}: not on this machine\n"
            f"  next      run this command on a machine with apt: Debian or Ubuntu ({release.name})"
        )
    return apt.AptRoot(cache / "apt", declared, kind.architecture)


def _archives(options: Sequence[str], first: Mapping[str, Kind]) -> dict[str, Path]:
    """Return system -> the file that lists its archive; without options, that of this machine."""
    if not options:
        found = {
            name: sources.of_this_machine(kind.release, kind.architecture)
            for name, kind in first.items()
        }
        return {name: path for name, path in found.items() if path is not None}
    chosen = {}
    for text in options:
        if text == NONE:
            continue
        name, file = _of_system("archive", text, first, "FILE", ", or none")
        if file != NONE:
            rhel = first[name].release.family == "rhel"
            path = Path(file)
            _require_archive(text, path, rhel=rhel)
            chosen[name] = path
    return chosen


def _require_archive(text: str, path: Path, *, rhel: bool) -> None:
    if rhel:
        expected = "a file of dnf.conf(5), such as rocky.repo, a folder with such files"
        there = path.is_file() or (path.is_dir() and any(path.glob("*.repo")))
    else:
        expected = "a file of sources.list(5), such as debian.sources"
        there = path.is_file()
    if not there:
        raise Unusable(f"--archive {text}: no such file\n  expected  {expected}, or none")
    for file in path.glob("*.repo") if path.is_dir() else [path]:
        try:
            file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise Unusable(
                f"--archive {file}: not a text file\n"
                f"  expected  {expected.replace(', ', ' in UTF-8, ', 1)}"
            ) from error


def _kernels(options: Sequence[str], names: Collection[str]) -> dict[str, list[str]]:
    """Return system -> the kernels of its nodes."""
    chosen: dict[str, list[str]] = {}
    for text in options:
        name, kernel = _of_system("kernel", text, names, "KERNEL")
        chosen.setdefault(name, []).append(kernel)
    return chosen


def _of_system(
    option: str, text: str, names: Collection[str], value: str, others: str = ""
) -> tuple[str, str]:
    """Split [RELEASE=]VALUE; a cluster with one system need not name it."""
    name, equals, rest = text.rpartition("=")
    if not equals and len(names) == 1:
        name = next(iter(names))
    if name not in names:
        raise Unusable(
            f"--{option} {text}\n  expected  RELEASE={value}{others}, where RELEASE is one of "
            f"{', '.join(sorted(names))}"
        )
    return name, rest
