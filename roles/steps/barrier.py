"""A barrier: a host continues only after every host has finished the operations before it.

pyinfra orders the operations of each host, but not those of different hosts. An operation that all
hosts share makes them wait for each other.
"""

from __future__ import annotations

from pyinfra import host

from lockstep.fast.connector import read_anew
from lockstep.roles.operations.operation import Commands, operation


@operation("all hosts have reached this barrier")
def reached() -> Commands:
    """Make the hosts wait for each other; change nothing."""
    read_anew(host)  # readings from other nodes may be out of date
    yield from ()
