"""Connections to jump hosts, which pyinfra opens before the connection to the node itself.

``JumpHost`` is for correctness, not for speed: it is also used with ``LOCKSTEP_FAST=0``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paramiko import MissingHostKeyPolicy
from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

from lockstep.connection import end


class JumpHost(client.SSHClient):
    """A connection that never prompts, and that closes if connecting through it fails."""

    @override
    def set_missing_host_key_policy(self, policy: type[MissingHostKeyPolicy] | Any) -> None:
        """Reject an unknown host key where pyinfra would prompt at the terminal."""
        asks = isinstance(policy, client.AskPolicy)
        super().set_missing_host_key_policy(client.StrictPolicy() if asks else policy)

    @override
    def connect(self, *given: Any, **named: Any) -> None:
        with self._closed_on_error():
            super().connect(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's

    @override
    def gateway(self, *given: Any, **named: Any) -> Any:
        with self._closed_on_error():
            return super().gateway(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # gevent's Timeout is a BaseException
            end(self.get_transport())
            raise


def never_ask() -> None:
    """Make pyinfra use ``JumpHost`` for jump hosts: replace ``SSHClient`` where it is looked up."""
    setattr(client, "SSHClient", JumpHost)  # noqa: B010  # mypy expects the original class
