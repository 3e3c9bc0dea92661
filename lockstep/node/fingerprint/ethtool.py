"""Settings of network drivers, through the ethtool ioctl; none of its commands here sets one."""

from __future__ import annotations

import struct
from contextlib import suppress

from lockstep.node.fingerprint.entry import Fields
from lockstep.node.readers.network import ethtool, words_of
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import exists

DRIVER, WAKE, COALESCE, RINGS, PAUSE, STRINGS = 0x03, 0x05, 0x0E, 0x10, 0x12, 0x1B
PRIVATE, HASH, COUNT, TABLE, FEATURES, CHANNELS = 0x27, 0x29, 0x37, 0x38, 0x3A, 0x3C
ENERGY, LINK, CORRECTION, FLOWS_SET = 0x44, 0x4C, 0x50, 0x2E
"""Commands of linux/ethtool.h: ETHTOOL_GDRVINFO, _GWOL, _GCOALESCE, _GRINGPARAM, _GPAUSEPARAM,
_GSTRINGS, _GPFLAGS, _GRXFH, _GSSET_INFO, _GRXFHINDIR, _GFEATURES, _GCHANNELS, _GEEE,
_GLINKSETTINGS, _GFECPARAM, _GRXCLSRLCNT."""
OF_PRIVATE, OF_FEATURES = 2, 4
"""Sets of texts: ETH_SS_PRIV_FLAGS, ETH_SS_FEATURES."""
NAMES = {
    "pause": (PAUSE, ("autoneg", "rx", "tx")),
    "rings": (RINGS, ("", "", "", "", "rx", "rx_mini", "rx_jumbo", "tx")),
    "channels": (CHANNELS, ("", "", "", "", "rx", "tx", "other", "combined")),
    "coalesce": (
        COALESCE,
        (
            *("rx_usecs", "rx_frames", "rx_usecs_irq", "rx_frames_irq"),
            *("tx_usecs", "tx_frames", "tx_usecs_irq", "tx_frames_irq", "stats_block_usecs"),
            *("adaptive_rx", "adaptive_tx", "pkt_rate_low", "rx_usecs_low", "rx_frames_low"),
            *("tx_usecs_low", "tx_frames_low", "pkt_rate_high", "rx_usecs_high"),
            *("rx_frames_high", "tx_usecs_high", "tx_frames_high", "sample_interval"),
        ),
    ),
    "fec": (CORRECTION, ("", "configured", "")),
    "wake_on_lan": (WAKE, ("", "enabled")),
    "energy_efficient": (ENERGY, ("", "advertised", "", "", "enabled", "lpi", "lpi_timer")),
}
"""Field -> command, and the names of the words of the reply; those without name are not shown:
what the hardware could do, and what it does just now."""
FLOWS = {"tcp4": 0x01, "udp4": 0x02, "tcp6": 0x05, "udp6": 0x06}
names_of_features: list[str] = []
"""The names of the offloads, which are the same for all interfaces of a kernel."""


def settings_of(interface: str) -> Fields:
    """Return the settings of an interface that its driver has."""
    fields: Fields = {}
    for field, (command, names) in NAMES.items():
        with suppress(Unread):
            words = words_of(interface, command, len(names) + 2 * (command in (WAKE, ENERGY)))
            named = {name: words[at] for at, name in enumerate(names) if name and words}
            for way in ("rx", "tx"):
                if named.get(f"adaptive_{way}"):  # then the driver itself sets these
                    named.pop(f"{way}_usecs"), named.pop(f"{way}_frames")
            if named:
                fields[field] = ", ".join(f"{name} {word}" for name, word in named.items())
    for read in (_features, _private, _link, _spread):
        with suppress(Unread):
            fields.update(read(interface))
    return fields


def firmware_of(interface: str) -> Fields:
    """Return the driver of an interface, and the version of its firmware."""
    with suppress(Unread):
        reply = ethtool(interface, DRIVER, 196)
        names = {"driver": 0, "driver_version": 32, "firmware": 64}
        texts = {name: reply[at : at + 32].split(b"\0")[0].decode() for name, at in names.items()}
        return {name: text for name, text in texts.items() if text}
    return {}


def _strings(interface: str, kind: int) -> list[str]:
    """Return the names in a set of texts. The mask tells which sets the kernel knows."""
    reply = _with_head(interface, COUNT, struct.pack("=IQ", 0, 1 << kind), 4)
    mask, number = struct.unpack("=QI", reply[4:16]) if reply else (0, 0)
    if not mask or not number:
        return []
    reply = _with_head(interface, STRINGS, struct.pack("=II", kind, number), 32 * number)
    texts = [reply[8 + at * 32 : 40 + at * 32] for at in range(number)]
    return [text.split(b"\0")[0].decode("ascii", "replace") for text in texts]


def _with_head(interface: str, command: int, head: bytes, size: int) -> bytes:
    return ethtool(interface, command, 4 + len(head) + size, head)


def _chosen(names: list[str], words: tuple[int, ...]) -> str:
    """Return the names whose bits are set, sorted."""
    found = (name for at, name in enumerate(names) if name and words[at // 32] >> at % 32 & 1)
    return ", ".join(sorted(found))


def _features(interface: str) -> Fields:
    """Return the offloads that are on, and those that were asked for.

    Those of a bridge or bond also depend on its ports, so only what was asked for is shown.
    """
    if not names_of_features:
        names_of_features.extend(_strings(interface, OF_FEATURES))
    blocks = (len(names_of_features) + 31) // 32
    if not blocks:
        return {}
    head = struct.pack("=I", blocks)
    reply = _with_head(interface, FEATURES, head, 16 * blocks)[4:]
    if not reply:
        return {}
    words = struct.unpack(f"={4 * blocks}I", reply)  # available, requested, active, never changed
    fields = {"features_requested": _chosen(names_of_features, words[1::4])}
    if exists(f"/sys/class/net/{interface}/device"):
        fields["features"] = _chosen(names_of_features, words[2::4])
    return fields


def _private(interface: str) -> Fields:
    """Return the private flags of the driver that are on."""
    flags = words_of(interface, PRIVATE, 1)
    names = _strings(interface, OF_PRIVATE) if flags else []
    return {"private_flags": _chosen(names, flags)} if names else {}


def _link(interface: str) -> Fields:
    """Return what the link negotiates; a forced speed is shown, a negotiated one is a state."""
    reply = ethtool(interface, LINK, 48)
    if len(reply) < 44:
        return {}
    speed, duplex, port, _, autoneg = struct.unpack("=IBBBB", reply[:8])
    words = -struct.unpack("=b", reply[11:12])[0]
    if words <= 0:
        return {}
    # The first reply says how many words a bit map has; the second one contains the maps.
    fields = {"autoneg": "on" if autoneg else "off", "port": str(port)}
    request = bytes(11) + struct.pack("=b", words)
    maps = ethtool(interface, LINK, 48 + 12 * words, request)[44:]
    if maps:
        fields["advertised"] = maps[4 * words : 8 * words][::-1].hex().lstrip("0") or "0"
    if not autoneg and 0 < speed < 0xFFFFFFFF:
        fields["forced_speed"] = f"{speed} Mb/s {'full' if duplex else 'half'}"
    return fields


def _spread(interface: str) -> Fields:
    """Return how packets are spread over queues; the key is random."""
    fields: Fields = {}
    sizes = words_of(interface, TABLE, 1)
    if sizes and 0 < sizes[0] <= 4096:
        reply = _with_head(interface, TABLE, struct.pack("=I", sizes[0]), 4 * sizes[0])[4:]
        queues = struct.unpack(f"={len(reply) // 4}I", reply)
        even = queues == tuple(at % (max(queues) + 1) for at in range(len(queues)))
        shown = f"evenly over {max(queues) + 1}" if even else " ".join(map(str, queues))
        fields["spread"] = shown
    # struct ethtool_rxnfc ends with the number of rules, and each rule has its own place.
    reply = ethtool(interface, FLOWS_SET, 192)
    if len(reply) >= 188:
        fields["flow_rules"] = str(struct.unpack("=I", reply[184:188])[0])
    return fields


def hashes_of(interface: str) -> Fields:
    """Return the packet fields that choose the queue, by kind of flow."""
    fields: Fields = {}
    with suppress(Unread):
        for flow, number in FLOWS.items():
            reply = _with_head(interface, HASH, struct.pack("=I", number), 184)
            if len(reply) >= 12:
                fields[f"hash_{flow}"] = hex(struct.unpack("=Q", reply[4:12])[0])
    return fields
