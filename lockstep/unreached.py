"""Why there is no connection to a node or to a jump host, and the next step.

``faults`` has the same for what a node prints. No text contains the node's address, except in
commands about host keys, so that equal faults of many nodes are shown once.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from socket import gaierror

from paramiko import AuthenticationException, ChannelException, PKey, SSHException
from paramiko.ssh_exception import NoValidConnectionsError

from lockstep.faults import NEXT, of_output


class Unreached(SSHException):
    """Raised if a node or a jump host cannot be reached; the message is complete."""


def of_connecting(error: BaseException, user: str = "", port: int = 22, banner: str = "") -> str:
    """Return why there is no connection to a node, and the next step.

    Args:
        error: what paramiko or the socket raised.
        user: the account of the login; "" if it is not known.
        port: port of the node's sshd.
        banner: what sshd said to the account before the login.
    """
    if isinstance(error, Unreached):
        return str(error)
    account = user or "the account"
    if isinstance(error, gaierror):
        return (
            f"its name cannot be resolved ({error.strerror}){NEXT}correct the name, or the name "
            "service of this machine (getent ahosts NAME)"
        )
    if isinstance(error, AuthenticationException):
        return of_output(banner.splitlines()) or (
            f"sshd refuses the login of {account} ({str(error).rstrip('.')}){NEXT}look for the "
            "reason in sshd's log on the node (journalctl -u ssh -u sshd): a key that is missing "
            "in authorized_keys, an expired account, a login shell that does not exist"
        )
    said = str(error)
    # paramiko goes on after its time limit, and then finds no session.
    if "protocol banner" in said or "No existing session" in said:
        return (
            f"port {port} accepts connections, but no ssh server answers{NEXT}look at the node's "
            "console: sshd hangs or is overloaded (MaxStartups), or another program has the port"
        )
    if isinstance(error, OSError):
        return _of_socket(error, port)
    if isinstance(error, EOFError):
        return _closed(port)
    kind = "" if type(error) is SSHException else f"{type(error).__name__}: "
    return f"ssh: {kind}{said or 'no message'}{NEXT}ssh -v to the node says more"


def _of_socket(error: OSError, port: int) -> str:
    numbers = {error.errno}
    if isinstance(error, NoValidConnectionsError):  # one error for each address of the name
        numbers = {getattr(one, "errno", None) for one in error.errors.values()}
    if errno.ECONNREFUSED in numbers:
        return (
            f"it refuses connections to port {port}{NEXT}start sshd on its console (systemctl "
            "status ssh sshd), or correct access.port in the description"
        )
    if errno.EHOSTUNREACH in numbers:
        return (
            f"it does not answer on its network (no route to host){NEXT}check that it is powered "
            "on and cabled: its BMC, its switch port, ping"
        )
    if errno.ENETUNREACH in numbers:
        return (
            f"this machine has no route to its network{NEXT}check the network of this machine: "
            "ip route get ADDRESS"
        )
    if isinstance(error, TimeoutError):
        return (
            f"it does not answer on port {port}{NEXT}check that it is powered on (its BMC), and "
            "that no packet filter drops connections"
        )
    if numbers & {errno.ECONNRESET, errno.EPIPE}:
        return _closed(port)
    return f"ssh: {error}{NEXT}ssh -v to the node says more"


def _closed(port: int) -> str:
    return (
        f"port {port} closes connections before the login{NEXT}look at sshd's log on the node's "
        "console (journalctl -u ssh -u sshd): MaxStartups, a full disk, missing host keys"
    )


def of_jump(
    error: BaseException, host: str, port: int, user: str = "", whose: str = "the node"
) -> str:
    """Return why there is no connection to a jump host, or from it, and the next step.

    Args:
        error: what paramiko or the socket raised.
        host: name of the jump host.
        port: port of its sshd.
        user: the account of the login there.
        whose: the host to which it connects.
    """
    if isinstance(error, ChannelException):
        return (
            f"the jump host {host} cannot connect to the ssh port of {whose} ({error.text}){NEXT}"
            f"check that {whose} is up, and that {host} allows it (AllowTcpForwarding, "
            "PermitOpen in sshd_config)"
        )
    return f"jump host {host}: {of_connecting(error, user, port)}"


# -- host keys


@dataclass(frozen=True)
class Presented:
    """The host key that a host presents, where it differs from what is known of the host."""

    host: str
    """Name or address, as in the connection."""
    port: int
    key: PKey
    files: tuple[str, ...]
    """The known_hosts files that were read; for a changed key, those that contain another one."""
    whose: str = "the node"
    is_direct: bool = True
    """Whether the connection needs no jump host, so that ssh-keyscan reaches the host."""

    def _type(self, key: PKey | None = None) -> str:
        name = (key or self.key).get_name()
        return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(name, name.split("-")[0])

    @property
    def _entry(self) -> str:
        """The host as known_hosts has it (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
        return self.host if self.port == 22 else f"'[{self.host}]:{self.port}'"

    @property
    def _compare(self) -> str:
        kind = self._type()
        return f"on its console: ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub"

    @property
    def _add(self) -> str:
        if not self.is_direct:
            return f"ssh {self.host}, which asks whether to add it"
        port = "" if self.port == 22 else f"-p {self.port} "
        return f"ssh-keyscan -t {self._type()} {port}{self.host} >> {self.files[0]}"

    @property
    def unknown(self) -> str:
        """What happened with a key that is not known, and the next step."""
        return (
            f"the host key of {self.whose} is unknown: it presents {self._type()} "
            f"{self.key.fingerprint}, and {' and '.join(self.files)} has no key of "
            f"{self._entry}{NEXT}compare this fingerprint with its own ({self._compare}); if they "
            f"are equal: {self._add}"
        )

    def changed(self, known: PKey) -> str:
        """Return what happened with a key that is not the known one, and the next step.

        Args:
            known: the key in known_hosts.
        """
        file = self.files[0]
        return (
            f"the host key of {self.whose} has changed: it presents {self._type()} "
            f"{self.key.fingerprint}, and {file} has {self._type(known)} {known.fingerprint} for "
            f"{self._entry}. It was installed anew, or another machine answers in its place{NEXT}"
            f"compare the first fingerprint with its own ({self._compare}); if they are equal: "
            f"ssh-keygen -f {file} -R {self._entry}; {self._add}"
        )
