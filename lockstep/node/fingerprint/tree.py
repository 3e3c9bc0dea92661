"""Hashes objects, and sums them up by domain.

Objects that contain an identity of the node are *touched*. They have two hashes, of the fields as
they are and with the identities replaced; two nodes agree if either is equal. All other objects
are only summed: the sum of a bucket is the exclusive or of its objects' hashes, so an object that
is touched on some nodes only can be added to it later.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.exempt import Exempt, by_domain, without_exceptions
from lockstep.node.fingerprint.own import Own
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import FAILURES, Request, reason

FORMAT = 3
"""Version of what ``answer`` returns, and of what the domains read: another Lockstep's hashes
mean something else."""
BYTES = 8
"""Length of a hash. Two of a million objects have equal ones with a probability of 1 in 10^7."""
PROTECTED = "!"
"""Ends the name under which the secret values of a domain are summed. They cannot be compared
between nodes with different keys, and everything else can."""
Branch = list[Fields]
"""The fields of an object, and those that contain an identity, with it replaced."""
Hashes = list[str]
"""Hash as it is, hash with identities replaced, and bucket of the name as it is."""


def bucket_of(name: str, buckets: int) -> int:
    """Return the bucket of an object."""
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) % buckets


def text_of(domain: str, name: str, fields: Mapping[str, str]) -> str:
    """Return the text of an object that is hashed."""
    parts = [domain, name]
    for field in sorted(fields):
        parts += (field, fields[field])
    return "\0".join(parts)


def hash_of(text: str) -> int:
    """Return the hash of an object's text."""
    data = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=BYTES).digest(), "big")


def hexadecimal(number: int) -> str:
    """Return a hash as text."""
    return f"{number:0{2 * BYTES}x}"


class Sums:
    """The sums of one domain, and its touched objects."""

    def __init__(self, domain: str, buckets: int) -> None:
        """Begin with no object."""
        self.domain = domain
        self.sums = [0] * buckets
        self.touched: dict[str, Hashes] = {}
        self.count = 0

    def add(self, name: str, called: str, fields: Fields, changed: Fields) -> tuple[str, int]:
        """Add an object; return its name with identities replaced, and its bucket.

        Args:
            name: its name.
            called: its name with identities replaced.
            fields: its fields.
            changed: the fields that contain an identity, with it replaced.
        """
        text = text_of(self.domain, name, fields)
        if called is name and not changed:
            return name, self.add_untouched(name, text)
        self.count += 1
        bucket = bucket_of(name, len(self.sums))
        # Objects that get the same name, such as routes to two own addresses, are numbered.
        unique, number = called, 1
        while unique in self.touched:
            number += 1
            unique = f"{called} #{number}"
        replaced = text_of(self.domain, unique, {**fields, **changed})
        hashes = map(hexadecimal, map(hash_of, (text, replaced)))
        self.touched[unique] = [*hashes, str(bucket)]
        return unique, bucket

    def add_untouched(self, name: str, text: str) -> int:
        """Add an object without identities; return its bucket."""
        self.count += 1
        bucket = bucket_of(name, len(self.sums))
        self.sums[bucket] ^= hash_of(text)
        return bucket


class Fingerprint:
    """All sums of a node."""

    def __init__(
        self,
        own: Own,
        key: bytes,
        asked: Mapping[str, Iterable[str]],
        exceptions: Iterable[Exempt] = (),
    ) -> None:
        """Begin with no domain.

        Args:
            own: the identities of the node.
            key: key of the cluster, for secret values; at most 64 bytes.
            asked: domain -> buckets and touched objects whose fields are wanted: ``#3``, or a name.
            exceptions: what is not compared.
        """
        self.own, self.key, self.exceptions = own, key, by_domain(exceptions)
        self.asked = {domain: frozenset(names) for domain, names in asked.items()}
        self.sums: dict[str, Sums] = {}
        self.unread: dict[str, str] = {}
        self.slow: dict[str, float] = {}
        """Slow domain -> Unix time at which it was read."""
        self.branches: dict[str, dict[str, dict[str, Branch]]] = {
            domain: {name: {} for name in names} for domain, names in self.asked.items()
        }
        """Domain -> what was asked for -> object -> its fields."""

    def read(self, domain: Domain, request: Request, commands: Commands) -> None:
        """Read one domain."""
        try:
            for entry in domain.read(request, commands):
                self._add(domain, entry)
        except FAILURES as failure:
            self.unread[domain.name] = reason(failure)
            for name in (domain.name, domain.name + PROTECTED):
                self.sums.pop(name, None)
                self.branches.pop(name, None)

    def _add(self, domain: Domain, entry: Entry) -> None:
        fields = without_exceptions(domain.name, entry, self.exceptions)
        if fields is None:
            return
        # isinstance() takes three times as long.
        secret = {k for k, v in fields.items() if v.__class__ is Secret}
        text = text_of(domain.name, entry.name, fields)
        if not secret and not self.own.occur_in(text):
            # Nearly all objects are of this kind.
            bucket = self._sums_of(domain.name, domain.buckets).add_untouched(entry.name, text)
            self._show(domain.name, entry.name, bucket, [fields, {}])
            return
        called, replaced = self.own.replaced(entry.name), self.own.replaced
        changed = {k: new for k, v in fields.items() if (new := replaced(v)) is not v}
        shown = fields
        if secret:
            hidden, own = ({k: self._keyed(every[k]) for k in secret & every.keys()}
                           for every in (fields, changed))  # fmt: skip
            self._sum(domain.name + PROTECTED, domain.buckets, entry.name, called, hidden, own)
            shown = {k: v for k, v in fields.items() if k not in secret}
            changed = {k: v for k, v in changed.items() if k not in secret}
        self._sum(domain.name, domain.buckets, entry.name, called, shown, changed)

    def _sum(
        self, domain: str, buckets: int, name: str, called: str, fields: Fields, changed: Fields
    ) -> None:
        unique, bucket = self._sums_of(domain, buckets).add(name, called, fields, changed)
        self._show(domain, unique, bucket, [fields, changed])

    def _sums_of(self, domain: str, buckets: int) -> Sums:
        if domain not in self.sums:
            self.sums[domain] = Sums(domain, buckets)
        return self.sums[domain]

    def _show(self, domain: str, name: str, bucket: int, branch: Branch) -> None:
        asked = self.asked.get(domain)
        if asked:
            for place in asked & {name, f"#{bucket}"}:
                self.branches[domain][place][name] = branch

    def _keyed(self, value: str) -> str:
        data = value.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(data, digest_size=BYTES, key=self.key).hexdigest()

    def answer(self) -> dict[str, Any]:
        """Return the sums, as they travel.

        ``sums``: domain -> the hashes of its buckets, one text. ``count``: domain -> its objects.
        ``touched``: domain -> object -> ``Hashes``. ``unread``: domain -> reason. ``slow``: slow
        domain -> Unix time of its reading. ``key``: says whether two nodes have the same key.
        """
        return {
            "format": FORMAT,
            "sums": {
                name: "".join(map(hexadecimal, sums.sums))
                for name, sums in sorted(self.sums.items())
            },
            "count": {name: sums.count for name, sums in sorted(self.sums.items())},
            "touched": {
                name: dict(sorted(sums.touched.items()))
                for name, sums in sorted(self.sums.items())
                if sums.touched
            },
            "unread": dict(sorted(self.unread.items())),
            "slow": dict(sorted(self.slow.items())),
            "key": hashlib.blake2b(b"id", digest_size=4, key=self.key).hexdigest(),
        }
