"""What netplan's files give an interface: netplan(5).

``netplan get`` merges all files. For systemd-networkd, each definition becomes a .network file, of
which the first one that applies counts (networkd.c of netplan 0.106 and 1.1.2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.networkd_files import GENERATED, Line
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import found_by, rooted, text_of

FOLDERS = ("/usr/lib/netplan", "/etc/netplan", "/run/netplan")
NETWORKD, NETWORK_MANAGER = "networkd", "NetworkManager"


def definitions(commands: Commands) -> dict[str, dict[str, Any]]:
    """Return the definitions of physical Ethernet and InfiniBand interfaces, by their IDs.

    Each has a ``renderer``: the one of the file, or netplan's default.
    """
    status, shown, complaint = commands.outcome("netplan", "get", "--root-dir", rooted("/"))
    if status:
        # netplan shows where it was in its own program before it says what is wrong.
        errors = [line for line in complaint.splitlines() if "rror" in line] or [complaint.strip()]
        raise Unread(f"netplan: exit {status}: {errors[-1][:200]}")
    network = parsed(shown).get("network") or {}
    usual = network.get("renderer", NETWORKD)
    return {
        name: {"renderer": usual, **(one or {})}
        for name, one in (network.get("ethernets") or {}).items()
    }


def as_networkd(
    found: dict[str, dict[str, Any]], renderer: str = NETWORKD
) -> dict[str, tuple[str, list[Line]]]:
    """Return definitions as .network files: name -> path and lines.

    Args:
        found: the definitions, by their IDs.
        renderer: the program whose definitions are wanted; netplan generates only networkd's.
    """
    every = {}
    for name, one in found.items():
        if one["renderer"] == renderer:
            path = f"{GENERATED}{name}.network"
            every[path.rpartition("/")[2]] = (path, list(_lines(name, one)))
    return every


def _lines(name: str, one: dict[str, Any]) -> Iterator[Line]:
    match = one.get("match")
    drivers = _list((match or {}).get("driver"))
    called = one.get("set-name") or (name if match is None else match.get("name"))
    matched = {
        "Driver": " ".join(drivers),
        "PermanentMACAddress": (match or {}).get("macaddress"),
        "Name": called,
    }
    yield from (("Match ", key, value) for key, value in matched.items() if value)
    if one.get("mtu"):
        yield "Link ", "MTUBytes", one["mtu"]
    for address in _list(one.get("addresses")):
        yield "Network ", "Address", next(iter(address)) if isinstance(address, dict) else address
    if "true" in (one.get("dhcp4"), one.get("dhcp6")):
        yield "Network ", "DHCP", "yes"
    if one.get("accept-ra") == "true":
        yield "Network ", "IPv6AcceptRA", "yes"
    for key in ("gateway4", "gateway6"):
        if one.get(key):
            yield "Network ", "Gateway", one[key]
    for number, route in enumerate(_list(one.get("routes"))):
        named = {"Destination": "to", "Gateway": "via", "Table": "table", "Type": "type"}
        for key, own in named.items():
            if route.get(own):
                yield f"Route {number}", key, route[own]


def _list(value: Any) -> list[Any]:
    """Return a list: netplan shows one driver as a scalar, and nothing where there is nothing."""
    return value if isinstance(value, list) else [value] if value else []


def defining(names: Iterable[str]) -> list[str]:
    """Return netplan's files that define one of some IDs."""
    every = [path for folder in FOLDERS for path in found_by(f"{folder}/*.yaml")]
    found = []
    for name in names:
        word = re.compile(rf"^[^#\n]*['\"]?\b{re.escape(name)}['\"]?\s*:", re.MULTILINE)
        found += [path for path in every if word.search(text_of(path))]
    return list(dict.fromkeys(found))


# -- the YAML that netplan prints: blocks of maps and lists

ENTRY = re.compile(
    r"(?P<key>\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\"'\s].*?):(?:\s+(?P<value>.*))?$"
)


def parsed(text: str) -> dict[str, Any]:
    """Return a map from YAML as netplan prints it; all scalars are text.

    Raises:
        Unread: the text has something that netplan does not print.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines or lines == ["{}"]:
        return {}
    value, rest = _block(lines)
    if rest or not isinstance(value, dict):
        raise Unread(f"netplan get: a line that Lockstep does not understand: {rest[:1]}")
    return value


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _block(lines: list[str]) -> tuple[Any, list[str]]:
    """Return the value of the block at the beginning of some lines, and the other lines."""
    here = _indent(lines[0])
    if lines[0].lstrip().startswith("- "):
        return _items(lines, here)
    found: dict[str, Any] = {}
    while lines and _indent(lines[0]) == here and not lines[0].lstrip().startswith("- "):
        entry = ENTRY.match(lines[0].strip())
        if entry is None:
            break
        key, given, lines = _scalar(entry["key"]), entry["value"], lines[1:]
        if given:
            value, lines = _folded(given, lines, here)
        elif lines and _begins_value(lines[0], here):
            value, lines = _block(lines)
        else:
            value = None
        found[key] = value
    return found, lines


def _begins_value(line: str, here: int) -> bool:
    """Return whether a line belongs to the key before it; lists may not be indented."""
    return _indent(line) > here or (_indent(line) == here and line.lstrip().startswith("- "))


def _items(lines: list[str], here: int) -> tuple[list[Any], list[str]]:
    found: list[Any] = []
    while lines and _indent(lines[0]) == here and lines[0].lstrip().startswith("- "):
        inner = lines[0].replace("- ", "  ", 1)
        if ENTRY.match(inner.strip()):
            value, lines = _block([inner, *lines[1:]])
        else:
            value, lines = _folded(inner.strip(), lines[1:], here)
        found.append(value)
    return found, lines


def _folded(given: str, lines: list[str], here: int) -> tuple[Any, list[str]]:
    """Return a scalar, whose further lines are indented, and the other lines."""
    while lines and _indent(lines[0]) > here:
        given, lines = f"{given} {lines[0].strip()}", lines[1:]
    return _scalar(given), lines


def _scalar(text: str) -> Any:
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if text.startswith('"'):
        return str(json.loads(text))
    return text[1:-1].replace("''", "'") if text.startswith("'") else text
