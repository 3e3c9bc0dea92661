"""A point that every host passes: what stands below it starts after all above is done everywhere.

pyinfra orders the operations of each host, not of hosts against each other: chains that share no
operation are interleaved. One operation that all hosts share ties them together.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.fast.connector import read_anew
from lockstep.roles.operations.operation import operation


@operation()
def reached() -> Generator[str, None, None]:
    """Do nothing, on every host."""
    read_anew(host)  # what a node was asked about another one
    host.noop("all hosts are here")
    yield from ()
