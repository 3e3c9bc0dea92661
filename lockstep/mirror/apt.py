"""apt, with a root of its own: asks repositories for versions and resolves dependencies.

apt itself reads the indexes and verifies their signatures, with the sources and the pins that nodes
get. Nothing of this machine's packages takes part: its list of installed packages is not used.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath
from shutil import which
from urllib.parse import unquote

from lockstep.mirror.needs import Kind, headers
from lockstep.mirror.refusals import explained
from lockstep.mirror.root import Listing, PackageFile, Source, by_version
from lockstep.mirror.trouble import MirrorError, Trouble
from lockstep.render import render
from lockstep.report import fold

HELPER = "/usr/lib/apt/apt-helper"
PER_CALL = 50
"""Files that one call of apt-helper fetches."""
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
"""Architecture of a description -> Debian's name of it."""
COMPRESSIONS = (".xz", ".zst", ".bz2", ".lzma", ".gz", ".lz4", "")
"""Suffixes of an index, in the order in which apt prefers them (apt.conf(5), CompressionTypes)."""

_CONFIGURATION = """\
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Log "{root}/log";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{root}/none";
#clear APT::Architectures;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
APT::Get::List-Cleanup "0";
APT::Update::Error-Mode "any";
APT::Install-Recommends "0";
Acquire::Languages "none";
Acquire::PDiffs "0";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear Acquire::IndexTargets;
Acquire::IndexTargets::deb::Packages {{
  MetaKey "$(COMPONENT)/binary-$(ARCHITECTURE)/Packages";
  flatMetaKey "Packages";
  ShortDescription "Packages";
  Description "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Packages";
  flatDescription "$(RELEASE) Packages";
  Optional "0";
}};
"""


@dataclass(frozen=True)
class Index:
    """The list of packages of one component of a suite, or of a flat repository."""

    source: str
    uri: str
    """The address of the repository, with a final slash."""
    suite: str
    component: str
    below: str
    """The path of the suite below the address: ``dists/trixie/``; empty for a flat repository."""
    name: str
    """The path of the index below the suite, without the suffix of a compression."""
    release: Path
    """The signed list of the suite's files, as apt has verified it."""

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Path of each file below the suite -> its SHA-256."""
        text = self.release.read_text(encoding="utf-8", errors="replace")
        block = re.search(r"^SHA256:[ \t]*\n((?:[ \t]+\S.*\n)+)", text, re.MULTILINE)
        lines = block[1].splitlines() if block else []
        return {path: digest for digest, _, path in (line.split() for line in lines)}

    @property
    def file(self) -> str:
        """The path, below the suite, of the compressed index that apt prefers.

        Raises:
            MirrorError: the signed list does not name the index.
        """
        for end in COMPRESSIONS:
            if self.name + end in self.hashes:
                return self.name + end
        raise MirrorError(
            Trouble(
                f"{self.source} ({self.uri})",
                f"its signed list of files has no SHA-256 of {self.name}",
                "ask the owner of the repository for a list with SHA256",
            )
        )

    @property
    def listing(self) -> Listing:
        """The signed list and the index, for a snapshot.

        Raises:
            MirrorError: the signed list does not name the index.
        """
        path, digest = self.below + self.file, self.hashes[self.file]
        text = self.release.read_text(encoding="utf-8", errors="replace")
        second = str(PurePosixPath(path).parent / "by-hash/SHA256" / digest)
        # Clients ask for indexes by their hashes then.
        by_hash = re.search(r"^Acquire-By-Hash: yes", text, re.MULTILINE)
        signature = self.release.with_name(f"{self.release.name}.gpg")
        return Listing(
            *(self.source, self.uri, self.suite or "/", self.component),
            indexes={path: digest},
            by_hash={second: path} if by_hash else {},
            lists={
                self.below + file.name.rpartition("_")[2]: file.read_bytes()
                for file in (self.release, signature)
                if file.exists()
            },
        )


def tools_missing() -> str | None:
    """Return the program of apt that this machine lacks; None if it has all."""
    for program in ("apt-get", "apt-cache", HELPER):
        if which(program) is None:
            return program
    return None


class AptRoot:
    """A root of apt for one system, in a folder that later runs use again."""

    def __init__(
        self, folder: Path, sources: Sequence[Source], architecture: str = "x86_64"
    ) -> None:
        """Write apt's configuration and sources into the folder.

        Args:
            folder: where roots are kept.
            sources: the files of sources.list.d.
            architecture: the architecture of the nodes, as the description has it.

        Raises:
            OSError: the folder cannot be written.
        """
        self.sources = tuple(sources)
        own = ARCHITECTURES[architecture]
        digest = hashlib.sha256(repr((self.sources, own)).encode()).hexdigest()[:16]
        self.root = folder / digest
        for name in ("state/lists/partial", "cache/archives/partial", "log", "none", "sources"):
            (self.root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.root / "status").write_bytes(b"")
        self._configuration = self.root / "apt.conf"
        text = _CONFIGURATION.format(root=self.root, architecture=own)
        self._configuration.write_text(text, encoding="utf-8")
        for one in self.sources:
            (self.root / "alone" / one.name).mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in ("sources", f"alone/{one.name}"):
                path = self.root / place / f"{one.name}{one.suffix}"
                path.write_text(one.text, encoding="utf-8")

    def update(self) -> None:
        """Fetch the indexes of every source, and verify their signatures.

        Raises:
            MirrorError: an index cannot be fetched, or its signature is not that of the key.
        """
        troubles = []
        for one in self.sources:
            alone = f"Dir::Etc::sourceparts={self.root / 'alone' / one.name}"
            done = self._run("apt-get", "-q", "-o", alone, "update")
            if done.returncode:
                problem, then = explained(done.stderr)
                troubles.append(Trouble(f"{one.name} ({one.where})", problem, then))
        if troubles:
            raise MirrorError(*troubles)

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes of all sources."""
        words = ("REPO_URI", "RELEASE", "COMPONENT", "METAKEY", "FILENAME", "URI", "SOURCESENTRY")
        line = "\t".join(f"$({word})" for word in words)
        found = []
        for text in self._output("apt-get", "indextargets", "--format", line).splitlines():
            uri, suite, component, name, path, whole, entry = text.split("\t")
            start = path.rindex(name.replace("/", "_"))
            files = [Path(path[:start] + end) for end in ("InRelease", "Release")]
            found.append(
                Index(
                    source=Path(entry.rpartition(":")[0]).stem,
                    uri=uri,
                    suite="" if suite.startswith("$(") else suite,
                    component="" if component.startswith("$(") else component,
                    below=whole.removeprefix(uri).removesuffix(name),
                    name=name,
                    release=next((file for file in files if file.exists()), files[0]),
                )
            )
        return tuple(found)

    @property
    def listings(self) -> tuple[Listing, ...]:
        """The lists of all repositories.

        Raises:
            MirrorError: a signed list does not name its index.
        """
        return tuple(one.listing for one in self.indexes)

    def streams(self) -> dict[str, tuple[str, ...]]:
        """Return nothing: apt has no module streams."""
        return {}

    def available(self, packages: Iterable[str]) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return package -> version -> the names of the sources that have it, newest first."""
        lines = self._output("apt-cache", "madison", *packages).splitlines()
        shown = ((word.strip() for word in line.split("|", 2)) for line in lines)
        return by_version(
            (package, version, self._source_of(where.split()[0]))
            for package, version, where in shown
        )

    def names(self, prefix: str) -> tuple[str, ...]:
        """Return the packages whose names begin with a text."""
        return tuple(sorted(self._output("apt-cache", "pkgnames", prefix).split()))

    def resolve(self, kind: Kind, kernels: Sequence[str] = ()) -> tuple[PackageFile, ...]:
        """Return the files of a kind's packages, with everything that they depend on.

        Args:
            kind: the kind of node.
            kernels: kernels whose headers are included, if the kind builds modules.

        Raises:
            MirrorError: a package does not exist, or the dependencies have no solution.
        """
        more = headers(kind, kernels).values()
        pins = self.root / "preferences"
        pins.write_text(render("packages/preferences.j2", plan=kind.plan), encoding="utf-8")
        words = [
            one.package if one.version == "*" else f"{one.package}={one.version}"
            for one in kind.packages
        ]
        pinned = ("-o", f"Dir::Etc::preferences={pins}", "--no-install-recommends")
        done = self._run("apt-get", "-q", "-y", *pinned, "--print-uris", "install", *words, *more)
        if done.returncode:
            unmet = done.stdout.partition("unmet dependencies:")[2]
            reason = " ".join(f"{unmet}\n{done.stderr}".split())
            raise MirrorError(
                Trouble(
                    ", ".join(f"{one.name} ({one.where})" for one in self.sources),
                    f"apt cannot install the packages of {fold(kind.nodes)}: {reason}",
                    "declare a repository that has the missing dependencies "
                    "(software.repositories), or other versions",
                )
            )
        return tuple(self._debs(done.stdout))

    def fetch(self, wanted: Mapping[str, tuple[Path, str]]) -> dict[str, str]:
        """Fetch files and verify them.

        Args:
            wanted: address -> where to put the file, and its SHA-256.

        Returns:
            Address -> reason, for each file that was not fetched.
        """
        failed: dict[str, str] = {}
        entries = list(wanted.items())
        for start in range(0, len(entries), PER_CALL):
            words: list[str] = []
            for uri, (path, digest) in entries[start : start + PER_CALL]:
                path.parent.mkdir(parents=True, exist_ok=True)
                # With file:, apt would make a link instead of a copy.
                words += [re.sub("^file:", "copy:", uri), str(path), f"SHA256:{digest}"]
            done = self._run(HELPER, "-q", "download-file", *words)
            if done.returncode == 0:
                continue
            said = dict(re.findall(r"^E: Failed to fetch (\S+)\s+(.*)$", done.stderr, re.MULTILINE))
            for uri, (path, _) in entries[start : start + PER_CALL]:
                reason = said.get(re.sub("^file:", "copy:", uri))
                if reason or not path.exists():
                    failed[uri] = reason or done.stderr.strip()
        return failed

    def _debs(self, listed: str) -> Iterator[PackageFile]:
        lines = re.findall(r"^'(\S+)' (\S+)_(\S+)_(\S+)\.deb (\d+)", listed, re.MULTILINE)
        digests = self._digests([f"{name}={unquote(version)}" for _, name, version, *_ in lines])
        for uri, name, quoted, architecture, size in lines:
            version = unquote(quoted)
            repository = self._repository_of(uri)
            path = normpath(unquote(uri.removeprefix(repository)))
            files = digests.get((name, version), {})
            if path not in files:
                raise MirrorError(
                    Trouble(
                        f"{name} {version}",
                        f"the index has no SHA-256 of {uri}",
                        "ask the owner of the repository for an index with SHA256",
                    )
                )
            yield PackageFile(
                *(name, version, architecture, uri, repository, path, int(size), files[path])
            )

    def _digests(self, words: Sequence[str]) -> dict[tuple[str, str], dict[str, str]]:
        """Return (package, version) -> path of the file -> its SHA-256."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        if not words:
            return found
        for stanza in self._output("apt-cache", "show", *words).split("\n\n"):
            fields = dict(re.findall(r"^(\S+): (.*)$", stanza, re.MULTILINE))
            if "SHA256" in fields:
                files = found.setdefault((fields["Package"], fields["Version"]), {})
                files[normpath(fields["Filename"])] = fields["SHA256"]
        return found

    def _repository_of(self, uri: str) -> str:
        return max((one.uri for one in self.indexes if uri.startswith(one.uri)), key=len)

    def _source_of(self, uri: str) -> str:
        # apt-cache madison prints "ADDRESS SUITE/COMPONENT", without a final slash.
        fits = [one for one in self.indexes if f"{uri.rstrip('/')}/".startswith(one.uri)]
        return max(fits, key=lambda one: len(one.uri)).source if fits else uri

    def _output(self, *words: str) -> str:
        done = self._run(*words)
        if done.returncode:
            raise MirrorError(
                Trouble(
                    ", ".join(f"{one.name} ({one.where})" for one in self.sources),
                    f"{words[0]} {words[1]} failed: {' '.join(done.stderr.split())}",
                    "see apt's message",
                )
            )
        return done.stdout

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-c", str(self._configuration), *words],
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
