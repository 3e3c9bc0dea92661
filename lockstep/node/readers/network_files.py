"""The configuration files of network interfaces: what they have at the next boot.

One reader per program that keeps interfaces (docs/network.md): ifupdown and NetworkManager here,
systemd-networkd and netplan in modules of their own.
"""

from __future__ import annotations

import configparser
import fnmatch
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from lockstep.node.readers import netplan_files
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.networkd_files import (
    GENERATED,
    Link,
    Persisted,
    among,
    applies,
    of_networkd,
    plain,
    whole,
)
from lockstep.node.readers.reading import FAILURES, Readings, Request, Unread, each
from lockstep.node.readers.tree import below, exists, found_by, text_of
from lockstep.node.readers.units import properties_of

T = TypeVar("T")
INTERFACES = "/etc/network/interfaces"
STANZAS = re.compile(r"(iface|mapping|auto|allow-\S+|no-auto-down|no-scripts|source\S*|rename)\s")
SET_MTU = re.compile(r"ip link set dev (?:\S+) mtu (\d+)")
"""The form in which Lockstep sets an MTU: ifupdown's own option does not lower it for IPv6."""
AUTOMATIC = ("dhcp", "auto", "bootp", "v4tunnel", "ppp", "wvdial", "6to4")
"""Methods of interfaces(5) that give an address that the file does not have."""


def read_persisted(request: Request, commands: Commands) -> Readings:
    """The configuration on disk of each requested interface, such as ``ifupdown fabric0``."""
    node = Node(commands)
    programs = {what.partition(" ")[0] for what in request["interfaces"]}

    def elsewhere(own: str, name: str) -> Iterator[str]:
        # netplan writes files for networkd.
        of_networkd = "netplan" if "netplan" in programs else "networkd"
        for program in {"ifupdown", of_networkd, "networkmanager"} - {own}:
            try:
                files = READERS[program](name, node)["files"]
            except FAILURES:
                # A program that does nothing may have files that cannot be read.
                if program in programs or node.acts(program):
                    raise
                continue
            if files and (program in programs or node.acts(program)):
                yield from files

    def read(what: str) -> Persisted:
        own, _, name = what.partition(" ")
        return {**READERS[own](name, node), "elsewhere": sorted(elsewhere(own, name))}

    return {"net.persisted": each(request["interfaces"], read)}


def _once(read: Callable[[], T]) -> Callable[[], T]:
    """Return a function that reads once, and then returns, or raises, the same again."""
    kept: list[T] = []
    failed: list[Exception] = []

    def again() -> T:
        if failed:
            raise failed[0]
        if not kept:
            try:
                kept.append(read())
            except FAILURES as failure:
                failed.append(failure)
                raise
        return kept[0]

    return again


class Node:
    """What readers need besides files; each is read once per record, when a reader asks for it."""

    def __init__(self, commands: Commands) -> None:
        """Set what runs the programs."""
        self.commands = commands
        self.rows = _once(self._rows)
        self.definitions = _once(lambda: netplan_files.definitions(commands))
        self._units = _once(lambda: properties_of(list(UNITS.values()), STATES, commands))

    def _rows(self) -> dict[str, dict[str, Any]]:
        shown = json.loads(self.commands.run("ip", "-d", "-j", "link"))
        return {row["ifname"]: row for row in shown}

    def link(self, name: str) -> Link:
        """Return an interface, as the files of networkd ask about it."""
        return Link(name, self.commands, self.rows)

    def acts(self, program: str) -> bool:
        """Return whether a program configures interfaces, now or at the next boot."""
        if program == "ifupdown":
            # udev starts ifup for interfaces with allow-hotplug, even if networking.service is off.
            return any(exists(f"{folder}/ifup") for folder in ("/usr/sbin", "/sbin"))
        unit = self._units()[UNITS[program]]
        return unit.get("ActiveState") in ("active", "activating", "reloading") or (
            unit.get("LoadState") == "loaded" and unit.get("UnitFileState") not in OFF
        )


UNITS = {"networkd": "systemd-networkd.service", "networkmanager": "NetworkManager.service"}
STATES = ("LoadState", "ActiveState", "UnitFileState")
OFF = ("disabled", "indirect", "masked", "masked-runtime", "bad")
"""States of a unit file in which nothing starts it at boot (systemctl(1), is-enabled)."""


# -- ifupdown: interfaces(5)


def of_ifupdown(name: str, node: Node) -> Persisted:
    """Return what all stanzas give an interface; without ``auto``, it gets nothing at boot."""
    addresses: list[str] = []
    routers: list[str] = []
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
            elif key == "gateway":
                routers.append(value)
            elif key == "mtu":
                mtu = value
            elif key in ("pre-up", "up", "post-up") and (found := SET_MTU.search(value)):
                mtu = found.group(1)
    return whole(addresses, mtu, routers, files) if starts else whole([], None, [], files)


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


# -- systemd-networkd and netplan


def _of_networkd(name: str, node: Node) -> Persisted:
    return of_networkd(node.link(name))[0]


def of_netplan(name: str, node: Node) -> Persisted:
    """Return what networkd gets from netplan's files; files: of all definitions that apply."""
    found, link = node.definitions(), node.link(name)
    first, every = of_networkd(link, netplan_files.as_networkd(found))
    of_others = netplan_files.as_networkd(found, netplan_files.NETWORK_MANAGER)
    every += [path for path, lines in of_others.values() if applies(link, lines)]
    generated = [path for path in every if path.startswith(GENERATED)]
    names = [path[len(GENERATED) :].rpartition(".")[0] for path in generated]
    files = [path for path in first["files"] if path not in generated]
    return {**first, "files": [*files, *netplan_files.defining(names)]}


# -- NetworkManager: nm-settings-keyfile(5)

PROFILES = (
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
)


def of_network_manager(name: str, node: Node) -> Persisted:
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
            if _starts(parser, node.link(name)):
                order = int(parser.get("connection", "autoconnect-priority", fallback="0"))
                found.setdefault(os.path.basename(path), (order, path, parser))
    if not found:
        return whole([], None, [], [])
    every = sorted(found.values(), key=lambda one: (-one[0], one[1]))
    parser = every[0][2]
    addresses, routers = [], []
    for family in ("ipv4", "ipv6"):
        keys = _section(parser, family)
        if keys.get("method") == "auto":
            addresses.append("DHCP" if family == "ipv4" else "SLAAC")
        # address1=fd00::5/64,fd00::1 has a router, too.
        given = [value for key, value in keys.items() if re.fullmatch(r"address\d*", key)]
        addresses += [value.split(",")[0] for value in given]
        if keys.get("never-default") not in TRUE:
            routers += [value.split(",")[1] for value in given if "," in value]
            routers += [keys["gateway"]] if keys.get("gateway") else []
        routers += _default_routers(keys)
    mtus = (_section(parser, kind).get("mtu") for kind in (*ETHERNET, "infiniband"))
    files = [path for _, path, _ in every]
    return whole(addresses, next(filter(None, mtus), None), routers, files)


ETHERNET = ("ethernet", "802-3-ethernet")
"""The type of a wired profile and its section; the second word is an older one."""
TRUE, FALSE = ("true", "1"), ("false", "0")


def _section(parser: configparser.ConfigParser, name: str) -> Mapping[str, str]:
    return parser[name] if parser.has_section(name) else {}


def _starts(parser: configparser.ConfigParser, link: Link) -> bool:
    """Return whether NetworkManager may activate a profile on an interface at boot.

    Raises:
        Unread: the profile asks for something that cannot be known.
    """
    about, match = _section(parser, "connection"), _section(parser, "match")
    kind = about.get("type", "")
    if about.get("autoconnect") in FALSE or kind not in (*ETHERNET, "infiniband"):
        return False
    if about.get("interface-name", link.name) != link.name:
        return False
    sections = ETHERNET if kind in ETHERNET else (kind,)
    hardware = {key: one for name in sections for key, one in _section(parser, name).items()}
    wanted = plain(hardware.get("mac-address", ""))
    if wanted and wanted != (link.permanent_address() or link.address()):
        return False
    facts: dict[str, Callable[[], list[str | None]]] = {
        "interface-name": lambda: [link.name],
        "driver": lambda: [link.driver()],
        "path": lambda: [link.properties().get("ID_PATH")],
    }
    for key, value in match.items():
        words = [word for word in value.split(";") if word]
        if key not in facts or any(word[0] in "|&" for word in words):
            raise Unread(f"[match] {key}={value} of a profile: Lockstep does not evaluate it")
        if not among([(word[0] == "!", word.lstrip("!")) for word in words], facts[key]()):
            return False
    if "interface-name" in about:
        return True
    return link.type() == ("infiniband" if kind == "infiniband" else "ether")


def _default_routers(keys: Mapping[str, str]) -> Iterator[str]:
    """Yield the routers of default routes in the main table."""
    for key, value in keys.items():
        if re.fullmatch(r"route\d*", key):
            target, *rest = value.split(",")
            table = re.search(r"\btable=(\d+)", keys.get(f"{key}_options", ""))
            if target in ("0.0.0.0/0", "::/0") and rest and (not table or table[1] == "254"):
                yield rest[0]


READERS: dict[str, Callable[[str, Node], Persisted]] = {
    "ifupdown": of_ifupdown,
    "networkd": _of_networkd,
    "networkmanager": of_network_manager,
    "netplan": of_netplan,
}
"""Program -> what its files give an interface."""
