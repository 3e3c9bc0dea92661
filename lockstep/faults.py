"""The faults that keep a node from being reached or from running commands, and their next steps.

One table for all ways to a node: runs of pyinfra, checks, and the tests over ssh(1). Its texts
contain no addresses, so that equal faults of many nodes are shown once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NEXT = ". Next: "


@dataclass(frozen=True)
class Fault:
    """A fault that a node's output shows."""

    pattern: str
    """Regular expression for a line of the output."""
    what: str
    next: str

    @property
    def text(self) -> str:
        """What happened, and the next step."""
        return f"{self.what}{NEXT}{self.next}"


HANGS = (
    "run a command on the node by hand (ssh): a login script, a home folder on NFS or a disk may "
    "hang there"
)
"""The next step for a node that lets Lockstep in, and then does not answer."""
NOPASSWD = (
    "allow it without a password (NOPASSWD in sudoers(5), for the account that the description "
    "has in access.user)"
)
RUN = (
    Fault(
        r"sudo: (a password is required|a terminal is required to read the password"
        r"|no tty present and no askpass program specified)",
        "sudo asks for a password",
        NOPASSWD,
    ),
    Fault(
        r"is not in the sudoers file",
        "sudo refuses: the account is not in the sudoers file",
        NOPASSWD,
    ),
    Fault(
        r"(^|sudo: )Sorry, user .+ is not allowed to execute|may not run sudo",
        "sudo refuses: sudoers does not allow this account to run all commands as root",
        f"{NOPASSWD}; sudo -l -U ACCOUNT on the node lists what is allowed",
    ),
    Fault(
        r"sudo: sorry, you must have a tty to run sudo",
        "sudo refuses, because it wants a terminal (requiretty)",
        "remove 'Defaults requiretty' from sudoers(5), or add 'Defaults:ACCOUNT !requiretty'",
    ),
    Fault(
        r"sudo: .*(account validation failure|account or password is expired|Account expired"
        r"|PAM account management error|Password expired)",
        "sudo refuses: the account or its password has expired, or is locked",
        "look at chage -l ACCOUNT and passwd -S ACCOUNT on the node",
    ),
    Fault(
        r"(^|\W)sudo: (command )?not found|no sudo in ",
        "sudo is not installed",
        "install it on the node, and allow the account to use it",
    ),
    Fault(
        r"python3: (command )?not found|No such file or directory.*python3"
        r"|python3\W*: No such file or directory",
        "python3 is not installed, or not in the PATH of the account",
        "install python3 (3.9 or newer) on the node",
    ),
    Fault(
        r"No space left on device",
        "a file system is full",
        "free space on the node: df -h and df -i show which one it is",
    ),
    Fault(
        r"Disk quota exceeded",
        "the disk quota of the account is exceeded",
        "free space in its home folder, or raise the quota",
    ),
    Fault(
        # Not of /proc and /sys, which a container may not write.
        r"^(?!.*(/proc/|/sys/|sysctl)).*Read-only file system",
        "a file system is mounted read-only",
        "find out why: after a disk error, the kernel remounts it so (dmesg, findmnt -O ro); "
        "then repair the disk or the file system",
    ),
    Fault(
        r"This account is currently not available",
        "the login shell of the account lets nobody in (nologin)",
        "give it a shell: chsh -s /bin/sh ACCOUNT on the node, or use another access.user",
    ),
    Fault(
        r"System is booting up\.|System is going down\.|pam_nologin\(8\)",
        "logins are not allowed while the node boots or shuts down (/run/nologin)",
        "wait until it is up: systemctl is-system-running on its console",
    ),
    Fault(
        r"Password change required|[Pp]assword has expired"
        r"|required to change your password immediately",
        "the password of the account has expired, and must be changed before any command runs",
        "change it on the node: passwd ACCOUNT, or chage -M -1 ACCOUNT for no expiry",
    ),
    Fault(
        r"[Aa]ccount has expired",
        "the account has expired",
        "extend it on the node: chage -E -1 ACCOUNT, or use another access.user",
    ),
)
"""What a node prints in place of the output of a command. The first match decides."""

SSH = (
    Fault(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .+ has changed",
        "its host key is not the one in known_hosts",
        "compare the key with the node's own (ssh-keygen -lf on its console); if it is right, "
        "remove the old one: ssh-keygen -R ADDRESS, and add it",
    ),
    Fault(
        r"No .* host key is known for|Host key verification failed",
        "its host key is not in known_hosts, or has changed",
        "ssh-keyscan ADDRESS, and compare the key with the node's own (ssh-keygen -lf on its "
        "console) before you add it",
    ),
    Fault(
        r"Could not resolve hostname",
        "its name cannot be resolved",
        "correct the name, or the name service of this machine (getent ahosts NAME)",
    ),
    Fault(
        r"Connection refused",
        "it refuses connections to its ssh port",
        "start sshd on its console (systemctl status ssh sshd), or correct access.port",
    ),
    Fault(
        r"No route to host",
        "it does not answer on its network (no route to host)",
        "check that it is powered on and cabled: its BMC, its switch port, ping",
    ),
    Fault(
        r"Network is unreachable",
        "this machine has no route to its network",
        "check the network of this machine: ip route get ADDRESS",
    ),
    Fault(
        r"timed out during banner exchange|Connection timed out during banner",
        "it accepts connections, but no ssh server answers",
        "look at its console: sshd hangs or is overloaded, or another program has the port",
    ),
    Fault(
        r"[Tt]imed out",
        "it does not answer on its ssh port",
        "check that it is powered on (its BMC), and that no packet filter drops connections",
    ),
    Fault(
        r"Permission denied",
        "sshd refuses the login",
        "look for the reason in sshd's log on the node (journalctl -u ssh -u sshd): a missing "
        "key, an expired account, a login shell that does not exist",
    ),
)
"""What ssh(1) prints if it cannot connect."""


def of_output(lines: Iterable[str]) -> str | None:
    """Return the fault that the output of a command shows, and its next step; None if none.

    Args:
        lines: what the command printed.
    """
    return _first(RUN, lines)


def in_short(lines: Iterable[str]) -> str:
    """Return why a command failed: its last line, or the fault that its output shows.

    Args:
        lines: what the command printed.
    """
    said = [line.strip() for line in lines if line.strip()]
    last = said[-1] if said else ""
    fault = of_output(said)
    # A fault of an earlier line may be a warning, so the last line is shown with it.
    return last if fault is None else of_output([last]) or f"{last}; before that: {fault}"


def of_ssh(lines: Iterable[str]) -> str | None:
    """Return the fault that the output of ssh(1) shows, and its next step; None if none.

    Args:
        lines: what ssh printed on standard error.
    """
    lines = [*lines]
    return _first(RUN, lines) or _first(SSH, lines)


def of_error(error: BaseException) -> str:
    """Return an error as text: its message if that has a next step, and else its type, too."""
    text = str(error)
    return text if NEXT in text else f"{type(error).__name__}: {text}"


def _first(table: tuple[Fault, ...], lines: Iterable[str]) -> str | None:
    lines = [*lines]
    for fault in table:
        if any(re.search(fault.pattern, line) for line in lines):
            return fault.text
    return None
