"""Connections to jump hosts, which pyinfra makes before it has one to the node behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

from lockstep.connection import end


class Hop(client.SSHClient):
    """A connection to a jump host, which it closes itself when the node behind it fails."""

    @override
    def connect(self, *given: Any, **named: Any) -> None:
        with self._ended_where_it_fails():
            super().connect(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's

    @override
    def gateway(self, *given: Any, **named: Any) -> Any:
        with self._ended_where_it_fails():
            return super().gateway(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's

    @contextmanager
    def _ended_where_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # gevent's Timeout is one
            end(self.get_transport())
            raise
