"""The domain ``package``: what package managers installed, and what dpkg was told to do otherwise.

Sources are files. Packages of pip, npm and the like are files below /usr/local or in a home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint.dpkg import ADMIN, diversions, has_dpkg, packages, value_of
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import exists, found_by, rooted, text_of

RPM_DATABASES = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
EXTENDED = "/var/lib/apt/extended_states"

EXCEPTIONS_OF_PACKAGES: tuple[Exempt, ...] = (
    Exempt("package", r"gpg-pubkey\.\(none\)", WHOLE,
           "RPM keeps keys that dnf(8) imported at the first use of a repository as packages"),
)  # fmt: skip

EXCEPTIONS_OF_PROGRAMS: tuple[Exempt, ...] = (
    Exempt("program", r"/usr/lib/locale/locale-archive", "content",
           "locale-gen(8) and localedef(1) append in the order of their calls"),
    Exempt("program", r"/usr/share/(mime|applications|icons|glib-2\.0)/.*(cache|compiled)",
           "content", "triggers make it from the files of packages"),
    Exempt("program", r"/usr/share/fonts/.*\.uuid", WHOLE, "fc-cache(1) makes random ones"),
    Exempt("program", r"/usr/lib/modules/[^/]+/updates/dkms/.*\.ko(\.\w+)?", "content",
           "it is built and signed on the node; the modules' versions are readings"),
    Exempt("program", r"/usr/lib/sysimage/(rpm|libdnf5)/.*", "content",
           "databases of RPM and dnf(8); their packages are compared"),
)  # fmt: skip


def of_dpkg() -> Iterator[Entry]:
    """Yield the packages that dpkg knows, also removed ones with files of configuration left."""
    automatic = automatically_installed()
    native = native_architecture()
    for package in packages():
        fields: Fields = {"version": package.version, "status": package.state}
        if package.want != "install":
            fields["selection"] = package.want
        if package.error != "ok":
            fields["error"] = package.error
        if package.state != "config-files":
            # apt(8) marks a package of all architectures with the machine's one.
            architecture = native if package.architecture == "all" else package.architecture
            is_automatic = (package.name, architecture) in automatic
            fields["installed"] = "automatically" if is_automatic else "manually"
        yield Entry(f"{package.name}:{package.architecture}", fields)


def automatically_installed() -> set[tuple[str, str]]:
    """Return the packages that apt installed for others: name and architecture (apt-mark(8))."""
    found = set()
    for paragraph in text_of(EXTENDED, "").split("\n\n"):
        text = f"\n{paragraph}\n"
        if value_of("Auto-Installed", text) == "1":
            found.add((value_of("Package", text), value_of("Architecture", text)))
    return found


def native_architecture() -> str:
    """Return the architecture of dpkg itself."""
    return next((p.architecture for p in packages() if p.name == "dpkg"), "")


def of_administrators() -> Iterator[Entry]:
    """Yield what dpkg-divert(1), dpkg-statoverride(1) and dpkg(1) --add-architecture recorded."""
    for path, target, package in diversions():
        by = "local" if package == ":" else package
        yield Entry(f"diversion of {path}", {"to": target, "by": by})
    for line in text_of(f"{ADMIN}/statoverride", "").splitlines():
        words = line.split(" ", 3)
        if len(words) == 4:
            yield Entry(
                f"statoverride of {words[3]}",
                {"owner": f"{words[0]}:{words[1]}", "mode": words[2]},
            )
    for name in sorted(set(text_of(f"{ADMIN}/arch", "").split())):
        yield Entry(f"architecture {name}", {"used": "yes"})


def has_rpm() -> bool:
    """Return whether RPM has a database on this node."""
    return any(map(exists, RPM_DATABASES)) and installed("rpm")


def of_rpm(commands: Commands) -> Iterator[Entry]:
    """Yield the packages of RPM; several versions of one (kernels) are one object."""
    from lockstep.node.fingerprint.rpm import installed_packages  # most nodes have no RPM

    found = installed_packages(commands).versions
    for name, versions in found.items():
        yield Entry(name, {"version": ", ".join(sorted(versions)), "status": "installed"})


def of_snap() -> Iterator[Entry]:
    """Yield the snaps: the link ``current`` names the revision in use (snap documentation)."""
    for top in ("/snap", "/var/lib/snapd/snap"):
        for path in found_by(f"{top}/*/current"):
            with suppress(OSError):
                name = path.split("/")[-2]
                yield Entry(f"snap {name}", {"revision": os.readlink(rooted(path))})
        if exists(top):
            return


def of_flatpak() -> Iterator[Entry]:
    """Yield the system's flatpaks: the link ``active`` names the commit in use (flatpak(1))."""
    for path in found_by("/var/lib/flatpak/*/*/*/*/active"):
        kind, name, architecture, branch = path.split("/")[4:8]
        if kind in ("app", "runtime"):
            with suppress(OSError):
                commit = os.readlink(rooted(path))
                yield Entry(f"flatpak {name}/{architecture}/{branch}", {"commit": commit})


def read_packages(_request: Request, commands: Commands) -> Iterator[Entry]:
    """Every package of the system.

    Fields of a package: ``version``, ``status`` (dpkg(1)), ``selection`` if not "install", such as
    "hold"; ``error`` if it needs to be installed again; ``installed`` "automatically" or
    "manually". A diversion has ``to`` and ``by``, a statoverride ``owner`` and ``mode``.
    """
    known = False
    if has_dpkg():
        known = True
        yield from of_dpkg()
        yield from of_administrators()
    if has_rpm():
        known = True
        yield from of_rpm(commands)
    if not known:
        raise Unread("neither dpkg nor RPM has a database here")
    yield from of_snap()
    yield from of_flatpak()


PACKAGES: tuple[Domain, ...] = (Domain("package", read_packages, buckets=16),)
