"""Reads databases of bbolt, which Docker and containerd write (go.etcd.io/bbolt, page.go)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = 0xED0CDAED
PAGE = struct.Struct("<QHHI")
"""Header of a page: number, flags, count of elements, pages that follow."""
META = struct.Struct("<IIIIQQQQQQ")
"""magic, version, page size, flags, root page, root sequence, free list, end, transaction, sum."""
BRANCH, LEAF = 0x01, 0x02
BUCKET = 0x01
"""Flag of an element whose value is a bucket."""


class Bolt:
    """A database as its file is at the moment. Pages are written before the root changes."""

    def __init__(self, data: bytes) -> None:
        """Find the newest root."""
        metas = []
        size = 4096
        for at in (0, size):
            if len(data) < at + PAGE.size + META.size:
                break
            values = META.unpack_from(data, at + PAGE.size)
            if values[0] == MAGIC:
                metas.append(values)
        if not metas:
            raise ValueError("no bbolt database")
        newest = max(metas, key=lambda values: values[8])
        self.data, self.size, self.root = data, newest[2], newest[4]

    def pairs(self) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
        """Yield the path of buckets with the key, and the value of each pair."""
        try:
            yield from self._page(self.root * self.size, ())
        except struct.error as error:
            raise ValueError(f"a bbolt database ends early: {error}") from None

    def _page(
        self, at: int, path: tuple[bytes, ...], deep: int = 0
    ) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
        if deep > 20:
            raise ValueError("a bbolt database is too deep")
        _, flags, count, _ = PAGE.unpack_from(self.data, at)
        for number in range(count):
            element = at + PAGE.size + 16 * number
            if flags & BRANCH:
                page = struct.unpack_from("<IIQ", self.data, element)[2]
                yield from self._page(page * self.size, path, deep + 1)
            elif flags & LEAF:
                kind, position, long, wide = struct.unpack_from("<IIII", self.data, element)
                start = element + position
                key = self.data[start : start + long]
                value = start + long
                if not kind & BUCKET:
                    yield (*path, key), self.data[value : value + wide]
                    continue
                root = struct.unpack_from("<Q", self.data, value)[0]
                # A small bucket lies within its parent's page, after root and sequence.
                inner = root * self.size if root else value + 16
                yield from self._page(inner, (*path, key), deep + 1)
