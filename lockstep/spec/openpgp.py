"""Reads the fingerprints of ASCII-armored OpenPGP public keys (RFC 9580), without gpg."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_BLOCK = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[^\n]+: [^\n]*\n)*[ \t]*\n?(.*?)"
    r"-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)
_PUBLIC_KEY = 6
"""Tag of a packet with a primary key (RFC 9580, 5.5.1.1); subkeys have another tag."""


class NotAKey(Exception):
    """Raised when a text is not one or more complete public keys of version 4."""


def fingerprints(armored: str) -> tuple[str, ...]:
    """Return the fingerprint of each primary key in a text, as 40 hexadecimal digits.

    Raises:
        NotAKey: the text is damaged, contains no key of version 4, or has an armored block that
            this function does not read, but that gpg may read.
    """
    found = []
    blocks, begun = _BLOCK.findall(armored), armored.count("-----BEGIN")
    if blocks and begun != len(blocks):
        public = "1 is a public key" if len(blocks) == 1 else f"{len(blocks)} are public keys"
        raise NotAKey(f"{begun} armored blocks, of which {public}")
    for block in blocks:
        lines = [line.strip() for line in block.splitlines()]
        # A line that begins with "=" is the optional checksum (6.1).
        text = "".join(line for line in lines if not line.startswith("="))
        try:
            packets = list(_packets(base64.b64decode(text, validate=True)))
        except (binascii.Error, IndexError, ValueError) as error:
            raise NotAKey("the key is damaged") from error
        for tag, body in packets:
            if tag == _PUBLIC_KEY:
                found.append(_fingerprint(body))
    if not found:
        raise NotAKey("no public key")
    return tuple(found)


def _fingerprint(body: bytes) -> str:
    """Return the fingerprint of a public-key packet (RFC 9580, 5.5.4.2)."""
    if not body or body[0] != 4:
        raise NotAKey(f"a key of version {body[0] if body else 'unknown'}")
    if len(body) > 0xFFFF:
        raise NotAKey(f"a key of {len(body)} bytes; at most 65535 are possible")
    framed = b"\x99" + len(body).to_bytes(2, "big") + body
    # SHA-1 is what a fingerprint of version 4 is made of; finding a second key with the same
    # fingerprint is not possible with the known attacks, which are collisions.
    return hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper()


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the body of each packet (RFC 9580, 4.2)."""
    at = 0
    while at < len(data):
        header = data[at]
        if not header & 0x80:
            raise ValueError("not the beginning of a packet")
        if header & 0x40:
            tag, first = header & 0x3F, data[at + 1]
            if first < 192:
                length, start = first, at + 2
            elif first < 224:
                length, start = ((first - 192) << 8) + data[at + 2] + 192, at + 3
            elif first == 255:
                length, start = int.from_bytes(data[at + 2 : at + 6], "big"), at + 6
            else:
                raise ValueError("a packet in parts, which keys do not have")
        else:
            tag, kind = (header >> 2) & 0x0F, header & 0x03
            if kind == 3:
                raise ValueError("a packet of unknown length, which keys do not have")
            start = at + 1 + (1 << kind)
            length = int.from_bytes(data[at + 1 : start], "big")
        if start + length > len(data):
            raise ValueError("the last packet is not complete")
        yield tag, data[start : start + length]
        at = start + length
