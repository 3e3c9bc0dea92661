"""dnf, with a root of its own: asks repositories of RPMs and resolves dependencies.

dnf itself reads the repositories, the locks and the module stream that nodes get, through its API
(``dnf_helper``). Nothing of this machine's packages takes part. RPM verifies the signature of each
package that is fetched, as ``gpgcheck=1`` does on a node.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from posixpath import normpath
from typing import Any

from lockstep.mirror.needs import ANY, Kind, headers
from lockstep.mirror.refusals import explained_by_dnf
from lockstep.mirror.root import Listing, PackageFile, Source, by_version
from lockstep.mirror.trouble import MirrorError, Trouble
from lockstep.render import render
from lockstep.report import fold

ARCHITECTURES = {"x86_64": "x86_64", "arm64": "aarch64"}
"""Architecture of a description -> RPM's name of it (rpm(8), rpmrc)."""
INSTALL = (
    "install dnf 4: the packages dnf and dnf-plugins-core (Debian, Ubuntu), or dnf and "
    "python3-dnf-plugin-versionlock (RHEL family)"
)
PER_CALL = 200
"""Packages that one call of rpmkeys verifies."""
REPOMD = "repodata/repomd.xml"
HELPER = Path(__file__).with_name("dnf_helper.py")
_NAMESPACE = "{http://linux.duke.edu/metadata/repo}"


def tools_missing() -> str | None:
    """Return the program that this machine lacks; None if it has all."""
    for program in ("dnf", "rpmkeys"):
        if shutil.which(program) is None:
            return program
    return None if _python() else "the Python modules of dnf 4"


def _python() -> str | None:
    """Return the Python that runs dnf, and so has its modules; None if dnf is no Python program."""
    program = shutil.which("dnf")
    if program is None:
        return None
    with open(program, "rb") as file:
        first = file.readline(200).decode(errors="replace")
    found = re.match(r"#!\s*(/\S*python[\d.]*)\b", first)
    return found[1] if found else None


class DnfRoot:
    """A root of dnf for one system, in a folder that later runs use again."""

    def __init__(
        self, folder: Path, sources: Sequence[Source], version: str, architecture: str
    ) -> None:
        """Write dnf's repositories into the folder.

        Args:
            folder: where roots are kept.
            sources: the repositories, each of dnf.conf(5).
            version: the release's version, such as 9.
            architecture: the architecture of the nodes, as the description has it.

        Raises:
            OSError: the folder cannot be written.
        """
        self.sources = tuple(sources)
        self._version, self._architecture = version, ARCHITECTURES[architecture]
        digest = hashlib.sha256(repr((self.sources, version, architecture)).encode())
        self.root = folder / digest.hexdigest()[:16]
        self._plugins = self.root / "installroot/etc/dnf/plugins"
        self._streams = self.root / "installroot/etc/dnf/modules.d/nvidia-driver.module"
        folders = [self.root / name for name in ("sources", "keys", "signatures", "logdir")]
        for path in (self._plugins, self._streams.parent, *folders):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        locks = self._plugins / "versionlock.list"
        (self._plugins / "versionlock.conf").write_text(
            f"[main]\nenabled = 1\nlocklist = {locks}\n", encoding="utf-8"
        )
        locks.write_text("", encoding="utf-8")
        self._streams.unlink(missing_ok=True)
        for one in self.sources:
            text, key = one.text, self.root / "keys" / f"{one.name}.asc"
            if one.key:
                key.write_text(one.key, encoding="utf-8")
                text = re.sub(r"(?m)^gpgkey=.*$", lambda _: f"gpgkey={key.as_uri()}", text)  # noqa: B023  # called at once
            path = self.root / "sources" / f"{one.name}.repo"
            path.write_text(text, encoding="utf-8")
        self._repositories: list[dict[str, Any]] = []
        self._modules: list[tuple[str, str]] = []

    def update(self) -> None:
        """Read the lists of every repository.

        Raises:
            MirrorError: a list or a key cannot be read.
        """
        self._repositories = self._ask("update")["repositories"]
        self._modules = []
        self.__dict__.pop("listings", None)
        troubles = []
        for one in self._repositories:
            if "error" in one:
                problem, then = explained_by_dnf(one["error"])
                troubles.append(Trouble(self._where(one), problem, then))
            elif not one["keys"]:
                troubles.append(
                    Trouble(
                        self._where(one),
                        "no gpgkey: the signatures of its packages cannot be verified",
                        "add gpgkey= with the key of the distribution to the file of --archive",
                    )
                )
        there = {one["source"] for one in self._repositories}
        troubles += [
            Trouble(
                f"{one.name} ({one.where})",
                "dnf found no enabled repository in it",
                "compare it with dnf.conf(5)",
            )
            for one in self.sources
            if one.name not in there
        ]
        if troubles:
            raise MirrorError(*troubles)

    @cached_property
    def listings(self) -> tuple[Listing, ...]:
        """The lists of all repositories, as the last ``update`` has read them.

        Raises:
            MirrorError: the list of a repository has no SHA-256 of an index.
        """
        return tuple(map(self._listing, self._repositories))

    def available(self, packages: Iterable[str]) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return package -> version -> the names of the sources that have it, newest first."""
        answer = self._ask("available", packages=list(packages))
        self._modules = answer["streams"]
        return by_version(
            (one["name"], one["version"], self._source_of(one["repository"]))
            for one in answer["packages"]
        )

    def names(self, prefix: str) -> tuple[str, ...]:
        """Return the versions of a package, each as ``NAME-VERSION-RELEASE.ARCHITECTURE``."""
        asked = self._ask("available", packages=[prefix.rstrip("-")])["packages"]
        return tuple(f"{prefix}{one['version']}.{one['architecture']}" for one in asked)

    def streams(self) -> dict[str, tuple[str, ...]]:
        """Return module stream (``nvidia-driver:580-open``) -> the sources that have it."""
        found: dict[str, dict[str, None]] = {}
        modules = self._modules or self._ask("available", packages=[])["streams"]
        for stream, repository in modules:
            found.setdefault(stream, {})[self._source_of(repository)] = None
        return {stream: tuple(sources) for stream, sources in found.items()}

    def resolve(self, kind: Kind, kernels: Sequence[str] = ()) -> tuple[PackageFile, ...]:
        """Return the files of a kind's packages, with everything that they depend on.

        The packages of a kernel are those of ``kernels`` only, one kernel after the other: on a
        node, dkms needs the headers and the kernel in the same version.

        Raises:
            MirrorError: dnf finds no solution, or the index of a repository lacks a hash.
        """
        text = render("packages/versionlock.list.j2", plan=kind.plan)
        (self._plugins / "versionlock.list").write_text(text, encoding="utf-8")
        self._streams.unlink(missing_ok=True)
        if kind.plan.nvidia is not None:
            text = render("packages/nvidia-driver.module.j2", plan=kind.plan)
            self._streams.write_text(text, encoding="utf-8")
        words = [
            one.package if one.version == ANY else f"{one.package}-{one.version}"
            for one in kind.packages
        ]
        found: dict[PackageFile, None] = {}
        own = headers(kind, kernels)
        for kernel, more in own.items() if own else [("", "")]:
            wanted = [*words, more] if more else words
            answer = self._ask("resolve", words=wanted, kernel=kernel)
            if "problem" in answer:
                raise MirrorError(
                    Trouble(
                        ", ".join(f"{one.name} ({one.where})" for one in self.sources),
                        f"dnf cannot install the packages of {fold(kind.nodes)}: "
                        f"{' '.join(answer['problem'].split())}",
                        "declare a repository that has the missing dependencies "
                        "(software.repositories), or other versions",
                    )
                )
            found |= dict.fromkeys(map(self._file, answer["packages"]))
        return tuple(found)

    def fetch(self, wanted: Mapping[str, tuple[Path, str]]) -> dict[str, str]:
        """Fetch files, and verify their SHA-256 and the signatures of packages.

        Returns:
            Address -> reason, for each file that was not fetched.
        """
        files = []
        for uri, (path, _) in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            fits = [one for one in self._repositories if uri.startswith(one["uri"])]
            owner = max(fits, key=lambda one: len(one["uri"]), default=None)
            if owner is not None:
                files.append((owner["id"], uri, str(path)))
        failed: dict[str, str] = self._ask("fetch", files=files)["failed"]
        failed |= dict.fromkeys(set(wanted) - {uri for _, uri, _ in files}, "no such repository")
        for uri, (path, digest) in wanted.items():
            if uri not in failed:
                with path.open("rb") as file:
                    seen = hashlib.file_digest(file, "sha256").hexdigest()
                if seen != digest:
                    failed[uri] = f"its SHA-256 is {seen}, its index names {digest}"
        packages = {path: uri for uri, (path, _) in wanted.items() if path.suffix == ".rpm"}
        unsigned = self._unsigned([path for path, uri in packages.items() if uri not in failed])
        failed |= {packages[path]: reason for path, reason in unsigned.items()}
        for uri in failed:
            if uri in wanted:
                wanted[uri][0].unlink(missing_ok=True)
        return failed

    def _unsigned(self, paths: Sequence[Path]) -> dict[Path, str]:
        """Return package file -> reason, for each that no declared key has signed."""
        if not paths:
            return {}
        keyring = self.root / "keyring"
        shutil.rmtree(keyring, ignore_errors=True)
        keyring.mkdir(mode=0o700)
        texts = dict.fromkeys(text for one in self._repositories for text in one["keys"])
        for number, text in enumerate(texts):
            key = keyring / f"{number}.asc"
            key.write_text(text, encoding="utf-8")
            done = self._run("rpmkeys", "--dbpath", keyring, "--import", key)
            if done.returncode:
                reason = f"rpmkeys does not accept a key: {' '.join(done.stderr.split())}"
                return dict.fromkeys(paths, reason)
        # Without this level, rpmkeys accepts packages without a signature.
        verify = ("rpmkeys", "--dbpath", keyring, "-D", "_pkgverify_level signature", "--checksig")
        found = {}
        for start in range(0, len(paths), PER_CALL):
            some = paths[start : start + PER_CALL]
            if self._run(*verify, *some).returncode == 0:
                continue
            for path in some:
                done = self._run(*verify, "-v", path)
                if done.returncode:
                    said = " ".join(f"{done.stdout}\n{done.stderr}".split())
                    own = said.replace(str(path), path.name)
                    found[path] = f"none of the declared keys has signed it. rpmkeys says: {own}"
        return found

    def _listing(self, one: Mapping[str, Any]) -> Listing:
        content = Path(one["repomd"]).read_bytes()
        lists = {
            f"repodata/{name}": Path(one[name]).read_bytes()
            for name in ("repomd.xml.key", "repomd.xml.asc")
            if name in one
        }
        name = self._source_of(one["id"])
        indexes = dict(self._indexes(self._where(one), content))
        return Listing(name, one["uri"], indexes=indexes, lists={**lists, REPOMD: content})

    def _indexes(self, where: str, repomd: bytes) -> Iterator[tuple[str, str]]:
        """Yield path and SHA-256 of each file that a repomd.xml names."""
        # dnf has parsed this file already; expat limits how far entities may grow.
        every = ET.fromstring(repomd).iter(f"{_NAMESPACE}data")  # noqa: S314
        for data in every:
            place, checksum = data.find(f"{_NAMESPACE}location"), data.find(f"{_NAMESPACE}checksum")
            path = normpath(place.get("href", "")) if place is not None else ""
            if checksum is None or checksum.get("type") != "sha256" or not checksum.text:
                raise MirrorError(_without_hash(where, path))
            if not path.startswith("repodata/"):
                raise MirrorError(_outside(where, path))
            yield path, checksum.text.strip()

    def _file(self, one: Mapping[str, Any]) -> PackageFile:
        uris = {each["id"]: each["uri"] for each in self._repositories}
        repository, path = uris[one["repository"]], normpath(one["path"])
        where = f"{one['name']} {one['version']}"
        algorithm, digest = one["digest"]
        if algorithm != "sha256":
            raise MirrorError(_without_hash(where, path))
        if one["elsewhere"] or path.startswith(("/", "..")):
            raise MirrorError(_outside(where, f"{one['elsewhere']} {path}".strip()))
        return PackageFile(
            *(one["name"], one["version"], one["architecture"]),
            uri=repository + path,
            repository=repository,
            path=path,
            size=one["size"],
            sha256=digest,
        )

    def _source_of(self, identity: str) -> str:
        """Return the name of a declared repository; that of one of the archive is dnf's own."""
        return identity.removeprefix("lockstep-")

    def _where(self, one: Mapping[str, Any]) -> str:
        known = {f"lockstep-{source.name}": source.where for source in self.sources}
        return f"{self._source_of(one['id'])} ({known.get(one['id'], one['where'])})"

    def _ask(self, question: str, **words: Any) -> dict[str, Any]:
        asked = {
            "question": question,
            "root": str(self.root),
            "architecture": self._architecture,
            "releasever": self._version,
            # dnf.conf(5), module_platform_id: as PLATFORM_ID of os-release(5) has it.
            "platform": f"platform:el{self._version}",
            **words,
        }
        # -I: neither this folder nor the user's own packages are among Python's modules.
        command = (_python() or "python3", "-I", HELPER)
        done = self._run(*command, text=json.dumps(asked))
        problem = "" if done.returncode == 0 else f"it ended with status {done.returncode}"
        answer: dict[str, Any] = {} if problem else json.loads(done.stdout)
        if answer.get("unanswered") == "plugin":
            raise MirrorError(
                Trouble("dnf", "its plugin versionlock is not on this machine", INSTALL)
            )
        if problem or "error" in answer:
            said = " ".join((answer.get("error") or done.stderr).split())
            raise MirrorError(
                Trouble(
                    ", ".join(f"{one.name} ({one.where})" for one in self.sources),
                    f"dnf failed{' (' + problem + ')' if problem else ''}. It says: {said}",
                    "see dnf's message",
                )
            )
        return answer

    def _run(self, *words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env={**os.environ, "LC_ALL": "C"},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )


def _without_hash(where: str, path: str) -> Trouble:
    return Trouble(
        where,
        f"its index has no SHA-256 of {path}",
        "ask the owner of the repository for an index with SHA-256 (createrepo_c's default)",
    )


def _outside(where: str, path: str) -> Trouble:
    return Trouble(
        where,
        f"the file is not below the address of its repository: {path}",
        "declare a repository that has its own files",
    )
