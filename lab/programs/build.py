"""Builds families of Go programs once per machine, into the lab's cache, by content.

A family is one folder here, with go.mod and go.sum; the ``tool`` lines of go.mod name its programs
(go.dev/ref/mod, "tool directive"), so that one go.mod pins one release with all that it needs.

Programs with cgo use the C library of this machine. Debian's and Ubuntu's are the only ones that
the lab runs on, and a program runs with the same C library or a newer one: built on Debian 12, it
runs in nodes of Debian 12 and 13 (the toolkit's programs need glibc 2.34; Debian 12 has 2.36).
"""

import hashlib
import os
import re
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from lab import places
from lab.commands import MESSAGE_LINES, attempt, run
from lab.errors import LabError
from lab.programs import toolchain
from lab.programs.toolchain import Go
from lab.removal import remove_tree

# Increase this when a change below changes the result: it is part of the cache key.
RECIPE = "1"
# Kubernetes takes 7 minutes on two busy cores.
TIMEOUT_S = 1800
KEPT_S = 14 * 24 * 3600
"""How long an unused build stays: other checkouts on this machine may have other versions."""


@dataclass(frozen=True)
class Family:
    """The programs of one go.mod."""

    folder: Path
    module: str
    """The Go module of the programs; its version in go.mod is that of the family."""
    linker: str = ""
    """More options of go's -ldflags: ``{version}``, ``{major}`` and ``{minor}`` are the family's,
    ``{path/of/a/module}`` is the version of another module of go.mod."""
    cgo: bool = False
    sources: tuple[str, ...] = ()
    """Folders and files of the module that packages need as well: units, package scripts."""

    @property
    def version(self) -> str:
        """Return the module's version, without "v".

        Raises:
            LabError: go.mod does not require the module.
        """
        return self.version_of(self.module)

    def version_of(self, module: str) -> str:
        """Return the version of a module that go.mod requires, without "v".

        Raises:
            LabError: go.mod does not require the module.
        """
        path = self.folder / "go.mod"
        found = re.search(rf"^\s(?:require )?{re.escape(module)} v(\S+)", path.read_text(), re.M)
        if found is None:
            raise LabError(f"{path}: has no version of {module}")
        return found.group(1)

    @property
    def linker_options(self) -> str:
        """Return ``linker`` with its versions."""
        major, minor = (*self.version.split("."), "")[:2]
        named = {"version": self.version, "major": major, "minor": minor}
        return re.sub(
            r"\{([^}]+)\}",
            lambda found: named.get(found[1]) or self.version_of(found[1]),
            self.linker,
        )

    @property
    def go(self) -> toolchain.Version:
        """Return the oldest Go that builds it."""
        found = re.search(r"^go (\S+)$", (self.folder / "go.mod").read_text(), re.M)
        return toolchain.read_version(found.group(1)) if found else ()


@dataclass(frozen=True)
class Built:
    """A family that was built."""

    folder: Path

    def programs(self) -> dict[str, Path]:
        """Return name -> file of each program."""
        return {path.name: path for path in sorted((self.folder / "bin").iterdir())}

    def source(self, path: str) -> Path:
        """Return a file of the module."""
        return self.folder / "source" / path


def ensure(family: Family) -> Built:
    """Return the programs of a family; build them if they do not exist.

    Raises:
        LabError: the build failed.
    """
    with places.locked(".programs"):
        go = toolchain.find(family.go)
    cache = places.cache_folder() / "programs"
    folder = cache / f"{family.folder.name}_{_digest(family, go)}"
    # One lock for each family: a build takes minutes, and other labs need other programs.
    with places.locked(f".programs-{family.folder.name}"):
        if not folder.is_dir():
            unfinished = cache / f".unfinished-{family.folder.name}"
            remove_tree(unfinished)
            unfinished.mkdir(parents=True)
            _build(family, go, unfinished)
            os.replace(unfinished, folder)
        os.utime(folder)
        _delete_outdated(family, cache)
    return Built(folder)


def _options(family: Family) -> list[str]:
    linker = f"-s -w {family.linker_options}".strip()
    # No paths of this machine and no state of this repository in the programs.
    return ["-trimpath", "-buildvcs=false", "-ldflags", linker]


def _environment(family: Family) -> dict[str, str]:
    return {
        **toolchain.environment(),
        "CGO_ENABLED": "1" if family.cgo else "0",
        # Hundreds of warnings about old names of a library would hide an error.
        "CGO_CFLAGS": "-O2 -Wno-deprecated-declarations",
    }


def _digest(family: Family, go: Go) -> str:
    key = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        path = family.folder / file
        key.update((path.read_bytes() if path.exists() else b"") + b"\0")
    for text in (RECIPE, go.name, *_options(family), str(_environment(family)["CGO_ENABLED"])):
        key.update(text.encode() + b"\0")
    key.update("\0".join(family.sources).encode())
    return key.hexdigest()[:12]


def _build(family: Family, go: Go, folder: Path) -> None:
    named = f"{family.folder.name} {family.version}"
    print(f"building {named} with {go.name}", end=" ", flush=True)
    began = time.monotonic()
    programs = folder / "bin"
    programs.mkdir()
    command = [go.program, "-C", str(family.folder), "build", *_options(family)]
    command += ["-o", f"{programs}/", "tool"]
    environment = _environment(family)
    done = attempt(command, timeout=TIMEOUT_S, environment=environment)
    if done.returncode != 0:
        print("... failed", flush=True)
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-MESSAGE_LINES:]
        raise LabError(
            f"building {named} with {go.name}: go exited with status {done.returncode}"
            + "".join(f"\n    {line}" for line in lines),
            "go needs a module proxy (go env GOPROXY) and, for C, gcc and libc6-dev; by hand: "
            f"CGO_ENABLED={environment['CGO_ENABLED']} "
            + shlex.join([go.program, "-C", str(family.folder), "build", "-o", "/tmp/", "tool"]),
        )
    if family.sources:
        _copy_sources(family, go, folder / "source")
    print(f"... {time.monotonic() - began:.0f} s", flush=True)


def _copy_sources(family: Family, go: Go, folder: Path) -> None:
    """Copy files of the module, which go keeps below GOMODCACHE."""
    module = run(
        [go.program, "-C", str(family.folder), "list", "-m", "-f", "{{.Dir}}", family.module],
        what=f"finding the files of {family.module}",
        environment=_environment(family),
    ).strip()
    for name in family.sources:
        path = Path(module) / name
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Go's copy is read-only, and the cache must stay deletable.
        if path.is_dir():
            shutil.copytree(path, target, copy_function=shutil.copyfile)
            for inside in (target, *(found for found in target.rglob("*") if found.is_dir())):
                inside.chmod(0o755)
        else:
            shutil.copyfile(path, target)


def _delete_outdated(family: Family, cache: Path) -> None:
    oldest = time.time() - KEPT_S
    for folder in cache.glob(f"{family.folder.name}_*"):
        if folder.stat().st_mtime < oldest:
            remove_tree(folder)
