"""Reads certificates (RFC 5280) with which kernel modules are signed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property


class NotACertificate(ValueError):
    """Raised when a text is not one certificate."""


@dataclass(frozen=True)
class Certificate:
    """A certificate, and what modinfo(8) shows of it in a module that was signed with its key."""

    der: bytes = field(repr=False)
    """The certificate in binary form, as mokutil(1) reads it."""
    signer: str
    """The common name of the issuer (``modinfo -F signer``); empty if the issuer has none."""
    serial: str
    """The serial number (``modinfo -F sig_key``): upper-case hexadecimal digits, two per byte."""

    @cached_property
    def sha256(self) -> str:
        """The hash of ``der``: hexadecimal digits, as openssl x509 -fingerprint -sha256."""
        return hashlib.sha256(self.der).hexdigest()


@cache
def read(pem: str) -> Certificate:
    """Return a certificate in PEM format.

    Raises:
        NotACertificate: the text is not exactly one certificate.
    """
    # Few descriptions have a certificate, and the import takes as long as all others together.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    if pem.count("-----BEGIN") != 1:
        raise NotACertificate(f"{pem.count('-----BEGIN')} PEM blocks")
    try:
        found = x509.load_pem_x509_certificate(pem.encode("utf-8"))
        names = found.issuer.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        serial = f"{found.serial_number:X}"
    except (ValueError, x509.InvalidVersion) as error:
        raise NotACertificate("damaged, or not a certificate") from error
    return Certificate(
        der=found.public_bytes(Encoding.DER),
        signer=str(names[0].value) if names else "",
        serial=serial.zfill(len(serial) + len(serial) % 2),
    )
