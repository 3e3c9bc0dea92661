"""Finds the Debian archive for the nodes in the host's apt sources."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.commands import attempt
from lab.errors import LabError, WrongUseError

COMPONENTS = "main contrib non-free non-free-firmware"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = {"debian_12": "bookworm", "debian_13": "trixie"}
FETCH_TIMEOUT_S = 30
SOURCES_FOLDER = Path("/etc/apt")


@dataclass(frozen=True)
class HostSource:
    """One entry of the host's apt sources."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One archive for the nodes: its suites, and its URI as apt in a node requests it."""

    uri: str
    suites: tuple[str, ...]

    def stanza(self) -> str:
        """Entry for a deb822 ``.sources`` file."""
        return (
            f"Types: deb\nURIs: {self.uri}\nSuites: {' '.join(self.suites)}\n"
            f"Components: {COMPONENTS}\nSigned-By: {KEYRING}\n"
        )


def suite_of(os_name: str) -> str:
    """Return the Debian suite of an operating system.

    Raises:
        WrongUseError: the lab has no image of this operating system.
    """
    if os_name not in SUITES:
        raise WrongUseError(
            f"--os {os_name!r} is unknown; expected one of: {', '.join(sorted(SUITES))}",
            "lockstep lab up --os debian_13",
        )
    return SUITES[os_name]


def through_proxy(uri: str) -> str:
    """Return an archive's URI for use with the proxy, which fetches https itself."""
    return re.sub(r"^https://", "http://HTTPS///", uri.rstrip("/"))


def host_sources(folder: Path = SOURCES_FOLDER) -> list[HostSource]:
    """Return the host's sources of binary packages, those of its own release first."""
    lists = folder / "sources.list.d"
    found: list[HostSource] = []
    for path in [folder / "sources.list", *sorted(lists.glob("*.list"))]:
        if path.is_file():
            found.extend(_one_line_entries(path.read_text()))
    for path in sorted(lists.glob("*.sources")):
        found.extend(_deb822_entries(path.read_text()))
    codename = _host_codename()
    usable = [source for source in found if "main" in source.components]
    return sorted(usable, key=lambda source: codename not in source.suites)


def _host_codename() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    return ""


def _one_line_entries(text: str) -> Iterator[HostSource]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(https?://\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            yield HostSource(match[1], (match[2],), tuple(match[3].split()))


def _deb822_entries(text: str) -> Iterator[HostSource]:
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            if line[0].isspace():  # continuation of a field
                fields[key] += " " + line.strip()
            else:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if (
            "deb" not in fields.get("types", "").split()
            or fields.get("enabled", "").lower() == "no"
        ):
            continue
        for uri in fields.get("uris", "").split():
            if uri.startswith(("http://", "https://")):
                yield HostSource(
                    uri,
                    tuple(fields.get("suites", "").split()),
                    tuple(fields.get("components", "").split()),
                )


def fetch(uri: str, proxy_uri: str) -> bytes | None:
    """Fetch a small file from an archive through the proxy; None if it does not exist.

    Raises:
        LabError: the archive cannot be reached.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy_uri}))
    try:
        with opener.open(uri, timeout=FETCH_TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as refused:
        if refused.code in (403, 404):
            return None
        raise LabError(f"{uri}: the proxy answered {refused.code} {refused.reason}") from refused
    except (urllib.error.URLError, TimeoutError, ConnectionError) as unreachable:
        raise LabError(f"{uri}: not reachable through {proxy_uri}: {unreachable}") from unreachable


def _label(in_release: bytes) -> tuple[str, str]:
    """Return Origin and Label of a Release file, which identify Debian's archive."""
    fields = dict(
        line.split(": ", 1)
        for line in in_release.decode(errors="replace").splitlines()[:20]
        if ": " in line
    )
    return fields.get("Origin", ""), fields.get("Label", "")


def find_sources(os_name: str, proxy_uri: str) -> tuple[list[Source], dict[str, bytes]]:
    """Find the archives of an operating system, and the InRelease file of each suite.

    The host's entries are tried in turn; an archive is used when its Release file has Origin and
    Label Debian. If there is none (Ubuntu hosts), the list is empty and mmdebstrap's default is
    used.

    Raises:
        LabError: the host has entries, but none of them can be reached.
    """
    suite = suite_of(os_name)
    sources: list[Source] = []
    releases: dict[str, bytes] = {}
    unreachable: LabError | None = None
    wanted = [
        (("Debian", "Debian"), suite, (f"{suite}-updates",)),
        (("Debian", "Debian-Security"), f"{suite}-security", ()),
    ]
    for label, first, others in wanted:
        for uri in dict.fromkeys(through_proxy(source.uri) for source in host_sources()):
            try:
                found = fetch(f"{uri}/dists/{first}/InRelease", proxy_uri)
            except LabError as failure:
                unreachable = failure
                continue
            if found is None or _label(found) != label:
                continue
            suites = [first]
            releases[f"{uri} {first}"] = found
            for other in others:
                content = fetch(f"{uri}/dists/{other}/InRelease", proxy_uri)
                if content is not None:
                    suites.append(other)
                    releases[f"{uri} {other}"] = content
            sources.append(Source(uri, tuple(suites)))
            break
    if not sources and unreachable is not None:
        raise unreachable
    return sources, releases


def host_acquire_options() -> list[str]:
    """Return the host's apt settings that depend on its archive.

    A host with a frozen copy of an archive disables the expiry checks; nodes that use the same
    archive need the same settings.
    """
    result = attempt(["apt-config", "dump", "--format", '%f "%v";%n'])
    kept = ("Acquire::Check-Valid-Until ", "Acquire::Check-Date ")
    return [line for line in result.stdout.splitlines() if line.startswith(kept)]
