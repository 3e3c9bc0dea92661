"""The configuration files of network interfaces: the addresses of the next boot.

One reader per program that keeps interfaces (docs/network.md): ifupdown, systemd-networkd, netplan,
NetworkManager.
"""

from __future__ import annotations

import configparser
import fnmatch
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import below, exists, found_by, rooted, said, text_of

NET = "/sys/class/net"
INTERFACES = "/etc/network/interfaces"
STANZAS = re.compile(r"(iface|mapping|auto|allow-\S+|no-auto-down|no-scripts|source\S*|rename)\s")
SET_MTU = re.compile(r"ip link set dev (?:\S+) mtu (\d+)")
"""The form in which Lockstep sets an MTU: ifupdown's own option does not lower it for IPv6."""
AUTOMATIC = ("dhcp", "auto", "bootp", "v4tunnel", "ppp", "wvdial", "6to4")
"""Methods of interfaces(5) that give an address that the file does not have."""
Persisted = dict[str, Any]
"""addresses: with prefix lengths, or words such as ``DHCP``; mtu: None if not set; files: those
that configure the interface; elsewhere: files of other programs that do."""


def read_persisted(request: Request, commands: Commands) -> Readings:
    """The configuration on disk of each requested interface, such as ``ifupdown fabric0``."""

    def read(what: str) -> Persisted:
        manager, _, name = what.partition(" ")
        whole = of_netplan(name, commands) if manager == "netplan" else READERS[manager](name)
        # netplan writes files for networkd, below /run.
        others = READERS.keys() - {manager, "networkd" if manager == "netplan" else ""}
        elsewhere = [path for other in sorted(others) for path in READERS[other](name)["files"]]
        return {**whole, "elsewhere": elsewhere}

    return {"net.persisted": each(request["interfaces"], read)}


def _whole(addresses: list[str], mtu: str | None, files: list[str]) -> Persisted:
    return {
        "addresses": sorted(set(addresses)),
        "mtu": int(mtu) if mtu and mtu.isdigit() else None,
        "files": list(dict.fromkeys(files)),
    }


# -- ifupdown: interfaces(5)


def of_ifupdown(name: str) -> Persisted:
    """Return what all stanzas give an interface; without ``auto``, it gets nothing at boot."""
    addresses: list[str] = []
    files: list[str] = []
    mtu, starts = None, False
    for path, head, options in _stanzas(INTERFACES, set()):
        words = head.split()
        if words[0] in ("auto", "allow-auto", "allow-hotplug"):
            starts |= any(fnmatch.fnmatchcase(name, word.lstrip("/")) for word in words[1:])
        if words[0] != "iface" or words[1:2] != [name]:
            continue
        files.append(path)
        method = next((word for word in words[3:4]), "manual")
        if method in AUTOMATIC:
            addresses.append(method.upper() if method != "auto" else "SLAAC")
        mask = dict(options).get("netmask", "")
        for key, value in options:
            if key == "address":
                addresses.append(value if "/" in value or not mask else f"{value}/{_length(mask)}")
            elif key == "mtu":
                mtu = value
            elif key in ("pre-up", "up", "post-up") and (found := SET_MTU.search(value)):
                mtu = found.group(1)
    return _whole(addresses if starts else [], mtu if starts else None, files)


def _length(mask: str) -> str:
    if "." not in mask:
        return mask
    return str(sum(bin(int(part)).count("1") for part in mask.split(".")))


def _stanzas(path: str, seen: set[str]) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield the file, the first line and the options of each stanza, with sourced files."""
    if path in seen or not exists(path):
        return
    seen.add(path)
    head, options = "", []
    for raw in re.sub(r"\\\n", " ", text_of(path)).splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if not STANZAS.match(f"{line} "):
            key, _, value = line.partition(" ")
            options.append((key.strip(), value.strip()))
            continue
        if head:
            yield path, head, options
        head, options = line, []
        if line.startswith("source"):
            for further in _sourced(path, line):
                yield from _stanzas(further, seen)
            head = ""
    if head:
        yield path, head, options


def _sourced(path: str, line: str) -> Iterator[str]:
    word, _, rest = line.partition(" ")
    for pattern in shlex.split(rest):
        whole = os.path.join(os.path.dirname(path), pattern)
        if word == "source":
            yield from found_by(whole)
            continue
        for folder in found_by(whole):
            names = (name for name in below(folder) if re.fullmatch(r"[A-Za-z0-9_-]+", name))
            yield from (f"{folder}/{name}" for name in names)


# -- systemd-networkd: systemd.network(5)

NETWORKD = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
"""Folders with a folder systemd/network; of files with one name, the first one counts."""
Lines = list[tuple[str, str, str]]
"""Section, key and value of each line of a unit file."""


def of_networkd(name: str, roots: tuple[str, ...] = NETWORKD) -> Persisted:
    """Return what the first .network file that matches an interface gives it."""
    found: dict[str, str] = {}
    for root in roots:
        for path in found_by(f"{root}/systemd/network/*.network"):
            found.setdefault(os.path.basename(path), path)
    for base in sorted(found):
        lines = _lines(text_of(found[base]))
        if lines and _matches(name, lines):
            return _given(found[base], lines, roots)
    return _whole([], None, [])


def _given(path: str, lines: Lines, roots: tuple[str, ...]) -> Persisted:
    drop_ins: dict[str, str] = {}
    for root in roots:
        for more in found_by(f"{root}/systemd/network/{os.path.basename(path)}.d/*.conf"):
            drop_ins.setdefault(os.path.basename(more), more)
    files = [path, *(drop_ins[one] for one in sorted(drop_ins))]
    for more in files[1:]:
        lines += _lines(text_of(more))
    addresses, mtu = [], None
    for section, key, value in lines:
        if section in ("Network", "Address") and key == "Address":
            addresses.append(value)
        elif (section, key) == ("Network", "DHCP") and value not in ("no", "false", "0", "none"):
            addresses.append("DHCP")
        elif (section, key) == ("Link", "MTUBytes"):
            mtu = value
    return _whole(addresses, mtu, files)


def _lines(text: str) -> Lines:
    section, lines = "", []
    for line in map(str.strip, re.sub(r"\\\n", " ", text).splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and line[0] not in "#;":
            key, _, value = line.partition("=")
            lines.append((section, key.strip(), value.strip()))
    return lines


def _matches(name: str, lines: Lines) -> bool:
    """Return whether [Match] fits an interface, as far as its name, address and type tell.

    Files of interfaces that software makes (Kind=, Virtualization=, WLAN) do not fit.
    """
    given = [(key, value) for section, key, value in lines if section == "Match" and value]
    tests = {
        "Name": lambda words: _fits(name, words),
        "MACAddress": lambda words: said(f"{NET}/{name}/address").lower() in words.lower().split(),
        "PermanentMACAddress": lambda words: (
            said(f"{NET}/{name}/address").lower() in words.lower().split()
        ),
        "Type": lambda words: _fits(_type(name), words),
    }
    return bool(given) and all(key in tests and tests[key](value) for key, value in given)


def _fits(name: str, words: str) -> bool:
    negated, patterns = words.startswith("!"), words.lstrip("!").split()
    return negated != any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _type(name: str) -> str:
    """Return an interface's type in networkd's words (ARPHRD_ETHER, ARPHRD_INFINIBAND)."""
    return {"1": "ether", "32": "infiniband"}.get(said(f"{NET}/{name}/type"), "")


# -- netplan: netplan-get(8)


def of_netplan(name: str, commands: Commands) -> Persisted:
    """Return what netplan's files give an interface, merged by netplan itself."""
    key = name.replace(".", "\\.")
    status, shown, complaint = commands.outcome(
        "netplan", "get", "--root-dir", rooted("/"), f"ethernets.{key}"
    )
    if status:
        # netplan shows where it was in its own program before it says what is wrong.
        errors = [line for line in complaint.splitlines() if "rror" in line] or [complaint.strip()]
        raise Unread(f"netplan: exit {status}: {errors[-1][:200]}")
    addresses, mtu, at = [], None, ""
    for line in shown.splitlines():
        if line.startswith("- ") and at == "addresses":
            addresses.append(line[2:].rstrip(":").strip("\"' "))
        elif not line.startswith((" ", "-")):
            at, _, value = line.partition(":")
            if at in ("dhcp4", "dhcp6") and value.strip() == "true":
                addresses.append("DHCP")
            elif at == "mtu":
                mtu = value.strip()
    word = re.compile(rf"^\s*['\"]?{re.escape(name)}['\"]?\s*:", re.MULTILINE)
    every = [one for place in NETPLAN for one in found_by(f"{place}/*.yaml")]
    return _whole(addresses, mtu, [path for path in every if word.search(text_of(path))])


NETPLAN = ("/usr/lib/netplan", "/etc/netplan", "/run/netplan")


# -- NetworkManager: nm-settings-keyfile(5)

PROFILES = (
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
)


def of_network_manager(name: str) -> Persisted:
    """Return what the profile of an interface gives it that NetworkManager activates at boot.

    Of several, that is the one with the highest priority. All are named.
    """
    found: dict[str, tuple[int, str, configparser.ConfigParser]] = {}
    for folder in PROFILES:
        for path in found_by(f"{folder}/*.nmconnection"):
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            try:
                parser.read_string(text_of(path))
            except configparser.Error as error:
                raise Unread(f"{path}: {str(error).splitlines()[0]}") from None
            about = parser["connection"] if parser.has_section("connection") else {}
            if about.get("interface-name") == name and about.get("autoconnect") != "false":
                order = int(about.get("autoconnect-priority", "0"))
                found.setdefault(os.path.basename(path), (order, path, parser))
    if not found:
        return _whole([], None, [])
    every = sorted(found.values(), key=lambda one: (-one[0], one[1]))
    parser = every[0][2]
    addresses = []
    for family in ("ipv4", "ipv6"):
        keys = parser[family] if parser.has_section(family) else {}
        if keys.get("method") == "auto":
            addresses.append("DHCP" if family == "ipv4" else "SLAAC")
        addresses += [
            value.split(",")[0] for key, value in keys.items() if re.fullmatch(r"address\d*", key)
        ]
    mtus = (parser.get(kind, "mtu", fallback=None) for kind in ("ethernet", "infiniband"))
    return _whole(addresses, next(filter(None, mtus), None), [path for _, path, _ in every])


READERS = {
    "ifupdown": of_ifupdown,
    "networkd": of_networkd,
    "networkmanager": of_network_manager,
}
"""Program -> what its files give an interface, except netplan's."""
