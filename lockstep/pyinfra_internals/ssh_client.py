"""The clients with which pyinfra connects: to nodes, and before that to their jump hosts.

They are for correctness, not for speed, and are also used with ``LOCKSTEP_FAST=0``: they never ask
at the terminal, and say of a host key that is unknown or has changed what is to be done.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from paramiko import BadHostKeyException, HostKeys, MissingHostKeyPolicy, PKey, SSHException
from paramiko.config import SSH_PORT
from pyinfra.connectors import ssh
from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

from lockstep.connection import end
from lockstep.unreached import Presented, Unreached, of_jump

FAULTS = (OSError, EOFError, SSHException)
ORIGINAL = client.SSHClient
ASKS = (client.AskPolicy, client.StrictPolicy)


def configured(ssh_config: str, hosts: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return what an ssh_config(5) says about each host, as pyinfra reads it when it connects."""
    config: Any = client.get_ssh_config(ssh_config)
    return [config.lookup(host) for host in hosts]


class Unknown(MissingHostKeyPolicy):
    """Rejects unknown host keys, where pyinfra would ask at the terminal or only name the host."""

    @override
    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:
        assert isinstance(client, NodeClient)
        raise Unreached(client.presented(key))


class NodeClient(ORIGINAL):
    """A connection that never asks, and that closes if connecting fails."""

    _host, _port = "", 22
    """Name or address of the host, after ssh_config(5), and the port."""
    _is_direct = True
    _files: tuple[str, ...] = ("known_hosts",)
    _given = ""

    @override
    def set_missing_host_key_policy(self, policy: type[MissingHostKeyPolicy] | Any) -> None:
        super().set_missing_host_key_policy(Unknown() if isinstance(policy, ASKS) else policy)

    @override
    def parse_config(self, *given: Any, **named: Any) -> Any:
        found = super().parse_config(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's
        self._host, config, _, _, files, *_ = found
        # pyinfra then lets its own arguments win over ssh_config(5).
        own = (given[1] if len(given) > 1 else named.get("initial_cfg")) or {}
        self._port = int(own.get("port") or config["port"])
        self._is_direct = config.get("sock") is None
        self._files = (os.path.expanduser(self._given),) if self._given else files or self._files
        return found

    @override
    def connect(self, *given: Any, **named: Any) -> None:
        self._given = named.get("_pyinfra_ssh_known_hosts_file") or ""
        with self._closed_on_error():
            try:
                super().connect(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's
            except BadHostKeyException as error:
                raise Unreached(self.presented(error.key, error.expected_key)) from error

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # gevent's Timeout is a BaseException
            end(self.get_transport())
            raise

    @property
    def whose(self) -> str:
        """What messages call the host."""
        return "the node"

    @property
    def port(self) -> int:
        """Port of the host's sshd, as in the connection."""
        return self._port

    def presented(self, key: PKey, known: PKey | None = None) -> str:
        """Return what an error says of a host key that is not the expected one.

        Args:
            key: the key that the host presents.
            known: the key in known_hosts; None if there is none.
        """
        host, port = self._host, self._port
        files = self._files
        if known is not None:
            name = host if port == SSH_PORT else f"[{host}]:{port}"
            files = tuple(file for file in files if _has(file, name, known)) or files
        one = Presented(host, port, key, files, self.whose, self._is_direct)
        return one.unknown if known is None else one.changed(known)


class JumpHost(NodeClient):
    """The connection to a jump host; its errors name the jump host."""

    @property
    @override
    def whose(self) -> str:
        return f"the jump host {self._host}"

    @override
    def connect(self, *given: Any, **named: Any) -> None:
        try:
            super().connect(*given, **named)
        except Unreached:
            raise
        except FAULTS as error:
            user = named.get("username") or ""
            raise Unreached(
                of_jump(error, self._host or str(given[0]), self._port, user)
            ) from error

    @override
    def gateway(self, *given: Any, **named: Any) -> Any:
        with self._closed_on_error():
            try:
                return super().gateway(*given, **named)  # type: ignore[no-untyped-call]  # pyinfra's
            except FAULTS as error:
                node, _, target = given[:3]
                whose = "the node" if target == node else f"the jump host {target}"
                raise Unreached(of_jump(error, self._host, self._port, whose=whose)) from error


def banner(client: Any) -> str:
    """Return what sshd said before the login; "" if nothing. A closed connection keeps it."""
    transport = None if client is None else client.get_transport()
    said = getattr(getattr(transport, "auth_handler", None), "banner", None)
    return said.decode(errors="replace") if isinstance(said, bytes) else ""


@cache
def never_ask() -> None:
    """Make pyinfra use these clients: replace ``SSHClient`` where it is looked up.

    Later calls have no effect.
    """
    setattr(client, "SSHClient", JumpHost)  # noqa: B010  # mypy expects the original class
    setattr(ssh, "SSHClient", NodeClient)  # noqa: B010
    # Without a handler, Python prints paramiko's log of errors, with tracebacks.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())


def _has(file: str, name: str, key: PKey) -> bool:
    try:
        return HostKeys(file).check(name, key)
    except (OSError, SSHException):
        return False
