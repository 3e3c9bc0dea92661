"""Certificates that name this node, and their keys: each node has its own.

The name is looked for in the certificate's bytes, as a string of ASN.1 (X.690 8.23): in the common
name of the subject, or in an alternative name (RFC 5280 4.1.2.6 and 4.2.1.6). So the certificate of
another node still differs, and all else in the file is compared, such as the certificate of an
authority or settings. Whether a key fits its certificate is not known here.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from contextlib import suppress

from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import bytes_of

CERTIFICATE = re.compile(
    rb"(?:^Certificate:\r?\n(?: {4}.*\n)+)?"
    rb"-----BEGIN CERTIFICATE-----([\w+/=\s]+)-----END CERTIFICATE-----",
    re.MULTILINE,
)
"""With the same in words, which openssl-ca(1) writes before it (option -notext)."""
KEY = re.compile(rb"-----BEGIN ((?:\w+ )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
BEGIN_KEY = re.compile(rb"-----BEGIN (?:\w+ )?PRIVATE KEY-----")
STRINGS = rb"[\x0c\x13\x16\x82]"
"""Tags of UTF8String, PrintableString and IA5String, and of dNSName."""
LARGEST = 16 << 10
"""Bytes; a file with more is a collection of certificates."""
OWN_CERTIFICATE, OWN_KEY = "<certificate of this node>", "<key of a certificate of this node>"
ENDINGS = (".crt", ".pem", ".cert")
FOLDERS = (".", "../certs")
"""Where the certificate of a key is: beside it, or as in /etc/ssl and /etc/pki/tls."""


class Certificates:
    """Recognises certificates and keys of this node."""

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare to look for the node's names in the plan."""
        self._names = [name.encode() for name in names]

    def shared(self, path: str, data: bytes) -> bytes:
        """Return the content of a file; certificates and keys of this node become what they are."""
        if len(data) > LARGEST or b"-----BEGIN " not in data:
            return data
        if BEGIN_KEY.search(data):
            if not self._has_certificate(path):
                return data
            data = KEY.sub(OWN_KEY.encode(), data)
        return CERTIFICATE.sub(
            lambda found: OWN_CERTIFICATE.encode() if self._is_own(found) else found.group(), data
        )

    def _is_own(self, found: re.Match[bytes]) -> bool:
        with suppress(ValueError):
            binary = base64.b64decode(found.group(1))
            return any(name in binary and self._has(binary, name) for name in self._names)
        return False

    def _names_node(self, data: bytes) -> bool:
        """Return whether a file has a certificate of this node, and no key."""
        return not BEGIN_KEY.search(data) and any(map(self._is_own, CERTIFICATE.finditer(data)))

    def _has(self, binary: bytes, name: bytes) -> bool:
        """Return whether a string is a name, alone or with a domain."""
        for found in re.finditer(STRINGS + rb"(.)" + re.escape(name), binary, re.DOTALL):
            length = found.group(1)[0]
            if length == len(name) or binary[found.end() : found.end() + 1] == b".":
                return length >= len(name)
        return False

    def _has_certificate(self, path: str) -> bool:
        folder, name = os.path.split(path)
        stem = os.path.splitext(name)[0]
        for place in FOLDERS:
            for ending in ENDINGS:
                other = os.path.normpath(f"{folder}/{place}/{stem}{ending}")
                with suppress(Unread):
                    if other != path and self._names_node(bytes_of(other, LARGEST)):
                        return True
        return False
