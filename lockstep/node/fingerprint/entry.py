"""What a domain yields: objects with their fields, as text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request

LARGEST_TEXT = 16384
"""Bytes of a content that is shown; of a larger one, and of a binary one, only the hash is."""


REPAIR = "repair"
"""Field of what runs otherwise than configured: the command that applies what is configured."""


class Secret(str):
    """A value that is never shown. It is hashed with a key of the cluster."""

    __slots__ = ()


Fields = dict[str, str]
"""Name of a field -> its value. A value may contain the node's own name and addresses."""


class Entry(NamedTuple):
    """One object of a domain."""

    name: str
    """The name is unique within the domain, and the same on all nodes that have the object."""
    fields: Fields


class Domain(NamedTuple):
    """One kind of configuration."""

    name: str
    read: Callable[[Request, Commands], Iterator[Entry]]
    """Yields the objects, in any order.

    Raises:
        Unread: the domain cannot be read; it is not compared then, and the report says so.
    """
    buckets: int = 1
    """Number of hashes in the first answer. The further question asks for whole buckets, so that
    a domain with many or large objects has many."""


def content(data: bytes) -> str:
    """Return the content of a file as the value of a field: text, or size and hash."""
    if len(data) <= LARGEST_TEXT and b"\0" not in data:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return f"{len(data)} bytes, BLAKE2b {hashlib.blake2b(data, digest_size=16).hexdigest()}"
