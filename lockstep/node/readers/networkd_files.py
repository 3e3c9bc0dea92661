"""The .network file that systemd-networkd uses for an interface: systemd.network(5).

A file applies if everything in its [Match] section fits. What [Match] asks is read here from the
same places as networkd reads it; what cannot be known makes the reading unread, because the file
may apply.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.network import (
    GET_DRIVER,
    GET_PERMANENT_ADDRESS,
    NET,
    ethtool,
)
from lockstep.node.readers.reading import FAILURES, Unread, reason
from lockstep.node.readers.tree import exists, found_by, line_of, text_of

ROOTS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
"""Folders with a folder systemd/network; of files with one name, the first one counts."""
Line = tuple[str, str, str]
"""Section with its place (``Address /etc/x.network 3``), key and value of a line of a file."""
Persisted = dict[str, Any]
"""addresses: with prefix lengths, or words such as ``DHCP``; mtu: None if not set; routers: of the
default route; files: those that configure the interface; elsewhere: files of other programs that
do."""
YES, NO = ("1", "yes", "y", "true", "t", "on"), ("0", "no", "n", "false", "f", "off")
"""Words of systemd.syntax(7), without regard to case."""


def whole(
    addresses: Iterable[str], mtu: str | None, routers: Iterable[str], files: Iterable[str]
) -> Persisted:
    """Return what files give an interface, in the form of the reading."""
    return {
        "addresses": sorted(set(addresses)),
        "mtu": int(mtu) if mtu and mtu.isdigit() else None,
        "routers": sorted(set(routers)),
        "files": list(dict.fromkeys(files)),
    }


class Link:
    """An interface, as [Match] asks about it. Each fact is read when a file asks for it."""

    def __init__(
        self, name: str, commands: Commands, rows: Callable[[], dict[str, dict[str, Any]]]
    ) -> None:
        """Set the interface's name.

        Args:
            name: the name of the interface.
            commands: runs systemd-analyze.
            rows: returns the interfaces as ``ip`` shows them, by name.
        """
        self.name = name
        self.commands = commands
        self._rows = rows

    def names(self) -> Iterator[str]:
        """Yield the interface's name, then its alternative names."""
        yield self.name
        yield from self._rows().get(self.name, {}).get("altnames", ())

    def kind(self) -> str | None:
        """Return the kind of an interface that software makes, such as ``veth``."""
        row = self._rows().get(self.name)
        if row is None:
            raise Unread(f"no interface {self.name}")
        kind: str | None = row.get("linkinfo", {}).get("info_kind")
        return kind

    def type(self) -> str:
        """Return the type: udev's DEVTYPE, or a name of linux/if_arp.h in lower case."""
        number = line_of(f"{NET}/{self.name}/type")
        named = self.properties().get("DEVTYPE") or ARPHRD.get(number)
        if named is None:
            raise Unread(f"{self.name} has a type that Lockstep does not know: {number}")
        return named

    def address(self) -> str:
        """Return the current hardware address, without separators."""
        return plain(line_of(f"{NET}/{self.name}/address"))

    def permanent_address(self) -> str:
        """Return the hardware address of the device, without separators; "" if it has none."""
        most = 32  # MAX_ADDR_LEN of linux/netdevice.h
        answer = ethtool(self.name, GET_PERMANENT_ADDRESS, 8 + most, struct.pack("=I", most))
        size = struct.unpack_from("=I", answer)[0] if answer else 0
        given = answer[4 : 4 + size]
        return given.hex() if any(given) else ""

    def driver(self) -> str | None:
        """Return the name of the driver, from the driver itself or from udev."""
        said = ethtool(self.name, GET_DRIVER, 196)[:32].split(b"\0")[0].decode()
        return said or self.properties().get("ID_NET_DRIVER")

    def properties(self) -> dict[str, str]:
        """Return udev's properties of the interface; in containers, where no udev runs, none."""
        if not exists("/run/udev/control"):
            return {}
        kept = f"/run/udev/data/n{line_of(f'{NET}/{self.name}/ifindex')}"
        if not exists(kept):
            raise Unread(f"udev has no data of {self.name}")
        lines = text_of(f"{NET}/{self.name}/uevent").splitlines()
        lines += [line[2:] for line in text_of(kept).splitlines() if line.startswith("E:")]
        pairs = (line.partition("=") for line in lines)
        return {key: value for key, _, value in pairs}

    def of_wireless(self) -> str | None:
        """Return what only wireless interfaces have: None."""
        if exists(f"{NET}/{self.name}/phy80211"):
            raise Unread(f"{self.name} is a wireless interface")
        return None

    def systemd(self) -> int:
        """Return the release of systemd."""
        return int(self.commands.run("networkctl", "--version").split()[1])

    def holds(self, key: str, value: str) -> bool:
        """Return whether a condition of systemd.unit(5) holds on this node."""
        condition = f"Condition{key}={value}"
        _, out, err = self.commands.outcome("systemd-analyze", "condition", condition)
        for line in (out + err).splitlines():
            if line in ("Conditions succeeded.", "Conditions failed."):
                return line == "Conditions succeeded."
        said = (out + err).strip() or "no answer"
        raise Unread(f"systemd-analyze condition: {said.splitlines()[-1][:200]}")


ARPHRD = {"1": "ether", "32": "infiniband", "772": "loopback"}


def plain(address: str) -> str:
    """Return a hardware address without separators, in lower case."""
    return re.sub("[:.-]", "", address).lower()


# -- [Match]

Words = list[tuple[bool, str]]
"""The words of a list, each with whether it is negated."""
CONDITIONS = (
    *("Host", "Virtualization", "KernelCommandLine", "KernelVersion", "Architecture", "Firmware"),
)
"""Keys that mean what Condition... means in a unit: systemd-analyze judges them on the node."""
UNKNOWABLE = {"Credential": "only systemd-networkd has its credentials"}


def among(words: Words, values: Iterable[str | None]) -> bool:
    """Return whether one of the values fits a list; a list of negated words fits all others."""
    wanted = [word for negated, word in words if not negated]

    def fits(value: str | None) -> bool:
        def found(word: str) -> bool:
            return value is not None and fnmatch.fnmatchcase(value, word)

        if any(found(word) for negated, word in words if negated):
            return False
        return any(map(found, wanted)) if wanted else True

    return any(map(fits, values))


def _all_set(link: Link, words: Words) -> bool:
    properties = link.properties()

    def is_set(word: str) -> bool:
        key, _, value = word.partition("=")
        return key in properties and fnmatch.fnmatchcase(properties[key], value)

    return all(negated != is_set(word) for negated, word in words if "=" in word)


def _is_one_of(address: str, words: Words) -> bool:
    return bool(address) and address in [plain(word) for _, word in words]


TESTS: dict[str, Callable[[Link, Words], bool]] = {
    "Name": lambda link, words: among(words, link.names()),
    "Type": lambda link, words: among(words, [link.type()]),
    "MACAddress": lambda link, words: _is_one_of(link.address(), words),
    "Path": lambda link, words: among(words, [link.properties().get("ID_PATH")]),
    "Property": _all_set,
    "PermanentMACAddress": lambda link, words: _is_one_of(link.permanent_address(), words),
    "Driver": lambda link, words: among(words, [link.driver()]),
    "Kind": lambda link, words: among(words, [link.kind()]),
    "WLANInterfaceType": lambda link, words: among(words, [link.of_wireless()]),
    "SSID": lambda link, words: among(words, [link.of_wireless()]),
    "BSSID": lambda link, words: _is_one_of(link.of_wireless() or "", words),
}
"""Key -> whether its list fits an interface; those first that run no program."""


def applies(link: Link, lines: Iterable[Line]) -> bool:
    """Return whether the [Match] section of a file, with its drop-ins, fits an interface.

    A file without a setting there applies to none ("No valid settings found in the [Match]
    section", networkd-network.c of systemd 243 to 257).

    Raises:
        Unread: all that can be known fits, but something else cannot be known.
    """
    given = _given(lines)
    unknown = ""
    # A fact that does not fit decides, whatever the others are. Programs are run last.
    known = [key for key in (*TESTS, *CONDITIONS) if key in given]
    for key in (*known, *(key for key in given if key not in known)):
        try:
            if not _fits(link, key, given[key]):
                return False
        except FAILURES as failure:
            unknown = unknown or f"[Match] {key}=: {reason(failure)}"
    if unknown:
        raise Unread(unknown)
    return bool(given)


def _fits(link: Link, key: str, words: Words) -> bool:
    if key in TESTS:
        return TESTS[key](link, words)
    if key in CONDITIONS:
        return link.holds(key, words[0][1])
    raise Unread(UNKNOWABLE.get(key, "Lockstep does not know this key"))


def _given(lines: Iterable[Line]) -> dict[str, Words]:
    """Return the words of each key of [Match]; an empty value takes earlier ones back."""
    given: dict[str, Words] = {}
    for section, key, value in lines:
        if not section.startswith("Match "):
            continue
        if not value:
            given.pop(key, None)
        elif key in TESTS:
            negated, text = value.startswith("!"), value.lstrip("!")
            words = text.split() if key == "Name" else shlex.split(text)
            given.setdefault(key, []).extend((negated, word) for word in words)
        else:
            given[key] = [(False, value)]
    return given


# -- the settings


def of_networkd(
    link: Link, more: dict[str, tuple[str, list[Line]]] | None = None
) -> tuple[Persisted, list[str]]:
    """Return what the first .network file that applies gives an interface, and all that apply.

    Args:
        link: the interface.
        more: name -> path and lines of files that netplan would generate, in place of those that
            it has generated.
    """
    found: dict[str, tuple[str, list[Line]]] = {}
    for root in ROOTS:
        for path in found_by(f"{root}/systemd/network/*.network"):
            name = os.path.basename(path)
            is_old = more is not None and path.startswith(GENERATED)
            if name not in found and not is_old:
                found[name] = (path, lines_of(path))
    found |= more or {}
    first: Persisted | None = None
    every: list[str] = []
    for name, (path, lines) in sorted(found.items()):
        if not lines:
            continue  # empty: masked
        drop_ins = _drop_ins(name)
        for drop_in in drop_ins:
            lines = lines + lines_of(drop_in)
        try:
            fits = applies(link, lines)
        except Unread as why:
            if first is not None:
                continue  # an earlier file decides
            raise Unread(f"{path} may apply to {link.name}: {why}") from None
        if fits:
            every.append(path)
            first = first or settings(link, lines, [path, *drop_ins])
    return first or whole([], None, [], []), every


GENERATED = "/run/systemd/network/10-netplan-"


def _drop_ins(name: str) -> list[str]:
    found: dict[str, str] = {}
    for root in ROOTS:
        for path in found_by(f"{root}/systemd/network/{name}.d/*.conf"):
            found.setdefault(os.path.basename(path), path)
    return [found[one] for one in sorted(found)]


def lines_of(path: str) -> list[Line]:
    """Return the lines of a unit file."""
    section, number, lines = "", 0, []
    for line in map(str.strip, re.sub(r"\\\n", " ", text_of(path)).splitlines()):
        if line.startswith("["):
            number += 1
            section = f"{line.strip('[]')} {path} {number}"
        elif "=" in line and line[0] not in "#;":
            key, _, value = line.partition("=")
            lines.append((section, key.strip(), value.strip()))
    return lines


EMPTY_ADDRESS_SINCE = 256
"""Release of systemd from which an empty Address= in [Network] takes back all earlier addresses,
those of [Address], too (systemd's pull request 30541); 252 ignores it, as the test shows."""


def settings(link: Link, lines: Iterable[Line], files: Iterable[str]) -> Persisted:
    """Return what the lines of a .network file and its drop-ins give an interface."""
    addresses: list[str] = []
    routers: list[str] = []
    sections: dict[str, dict[str, str]] = {}
    dhcp = accepts_ra = mtu = ""
    for section, key, value in lines:
        what = section.partition(" ")[0]
        if (what, key) == ("Network", "Address") and value:
            addresses.append(value)
        elif (what, key) == ("Network", "Address"):
            if link.systemd() >= EMPTY_ADDRESS_SINCE:
                addresses = []
                sections = {name: one for name, one in sections.items() if "Address" not in one}
        elif (what, key) == ("Network", "Gateway"):
            routers = [*routers, value] if value else []
            if not value:
                sections = {name: one for name, one in sections.items() if "Gateway" not in one}
        elif (what, key) == ("Network", "DHCP"):
            dhcp = value.lower() if value.lower() in DHCP else dhcp
        elif (what, key) == ("Network", "IPv6AcceptRA"):
            accepts_ra = value.lower()
        elif (what, key) == ("Link", "MTUBytes"):
            mtu = _bytes(value)
        elif what in ("Address", "Route"):
            sections.setdefault(section, {})[key] = value
    for one in sections.values():
        if one.get("Address"):
            addresses.append(one["Address"])
        if one.get("Gateway") and _is_default(one):
            routers.append(one["Gateway"])
    if DHCP.get(dhcp):
        addresses.append("DHCP")
    if accepts_ra in YES:
        addresses.append("SLAAC")
    return whole(addresses, mtu or None, routers, files)


DHCP = {
    **dict.fromkeys((*YES, "both", "ipv4", "ipv6", "v4", "v6"), True),
    **dict.fromkeys((*NO, "none"), False),
}
"""Values of DHCP=, with the old names (networkd-dhcp-common.c); others are ignored."""


def _is_default(route: dict[str, str]) -> bool:
    """Return whether a [Route] is a default route in the main table."""
    return (
        route.get("Destination", "") in ("", "default", "0.0.0.0/0", "::/0")
        and route.get("Table", "") in ("", "main", "254")
        and route.get("Type", "unicast") == "unicast"
    )


def _bytes(value: str) -> str:
    """Return a size such as ``9K`` in bytes; suffixes are to the base of 1024."""
    found = re.fullmatch(r"(\d+)\s*([KMG]?)B?", value)
    return str(int(found[1]) << 10 * " KMG".index(found[2] or " ")) if found else ""
