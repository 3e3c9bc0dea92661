"""The table of faults: real lines of sudo(8), sshd(8), sh(1) and the kernel, and what is said."""

from __future__ import annotations

import pytest

from lockstep.faults import RUN, SSH, in_short, of_output, of_ssh

LINES = {  # a line, as a node prints it -> the beginning of the message
    "sudo: a password is required": "sudo asks for a password",
    "sudo: a terminal is required to read the password; either use the -S option to read from "
    "standard input or configure an askpass helper": "sudo asks for a password",
    "sudo: no tty present and no askpass program specified": "sudo asks for a password",
    "ops is not in the sudoers file.": "sudo refuses: the account is not in the sudoers",
    "ops is not in the sudoers file.  This incident will be reported.": "sudo refuses: the account",
    "Sorry, user ops is not allowed to execute '/usr/bin/sh' as root on gpu1.": "sudo refuses: sud",
    "sudo: sorry, you must have a tty to run sudo": "sudo refuses, because it wants a terminal",
    "sudo: account validation failure, is your account locked?": "sudo refuses: the account or",
    "sudo: PAM account management error: Permission denied": "sudo refuses: the account or",
    "sh: 1: sudo: not found": "sudo is not installed",
    "bash: line 1: sudo: command not found": "sudo is not installed",
    "sh: 1: python3: not found": "python3 is not installed",
    "bash: line 1: python3: command not found": "python3 is not installed",
    "timeout: failed to run command 'python3': No such file or directory": "python3 is not",
    "sudo: python3: command not found": "python3 is not installed",
    "tee: /etc/x: No space left on device": "a file system is full",
    "sh: 1: cannot create /etc/x: Disk quota exceeded": "the disk quota of the account",
    "touch: cannot touch '/etc/x': Read-only file system": "a file system is mounted read-only",
    "This account is currently not available.": "the login shell of the account lets nobody in",
    "System is booting up. Unprivileged users are not permitted to log in yet. Please come back "
    "later. For technical details, see pam_nologin(8).": "logins are not allowed while",
    "Password change required but no TTY available.": "the password of the account has expired",
    "Your account has expired; please contact your system administrator.": "the account has exp",
}
SSH_LINES = {
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @": "its host key is not the one",
    "Host key verification failed.": "its host key is not in known_hosts, or has changed",
    "ssh: Could not resolve hostname gpu1: Name or service not known": "its name cannot be",
    "ssh: connect to host gpu1 port 22: Connection refused": "it refuses connections",
    "ssh: connect to host gpu1 port 22: No route to host": "it does not answer on its network",
    "ssh: connect to host gpu1 port 22: Network is unreachable": "this machine has no route",
    "ssh: connect to host gpu1 port 22: Connection timed out": "it does not answer on its ssh",
    "Connection timed out during banner exchange": "it accepts connections, but no ssh server",
    "ops@gpu1: Permission denied (publickey).": "sshd refuses the login",
}


@pytest.mark.parametrize(("line", "what"), LINES.items())
def test_a_line_has_a_message_with_a_next_step(line: str, what: str) -> None:
    said = of_output(["", line, "exit 1"])
    assert said is not None
    assert said.startswith(what), said
    assert said.count(". Next: ") == 1
    assert of_ssh([line]) == said


@pytest.mark.parametrize(("line", "what"), SSH_LINES.items())
def test_so_has_a_line_of_ssh(line: str, what: str) -> None:
    said = of_ssh([line])
    assert said is not None
    assert said.startswith(what), said
    assert of_output([line]) is None


def test_each_row_of_the_tables_has_a_line() -> None:
    found = {of_output([line]) for line in LINES} | {of_ssh([line]) for line in SSH_LINES}
    assert {fault.text for fault in (*RUN, *SSH)} == found


@pytest.mark.parametrize(
    "line",
    [
        "E: Could not get lock /var/lib/dpkg/lock-frontend",
        "ModuleNotFoundError: No module named 'x'",
        "sudo: unable to resolve host gpu1: Name or service not known",
        "cp: cannot stat 'x': No such file or directory",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert of_output([line]) is None


FULL = "cp: error writing '/x': No space left on device"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], ""),
        (["a", " b ", ""], "b"),
        (["a", FULL], "a file system is full. Next: "),
        # It may have been a warning.
        ([FULL, "E: it broke"], "E: it broke; before that: a file system is full. Next: "),
        (["sysctl: /proc/sys/a: Read-only file system"], "sysctl: /proc/sys/a: Read-only"),
        (["mkdir: /sys/fs/x: Read-only file system"], "mkdir: /sys/fs/x: Read-only"),
    ],
)
def test_the_last_line_of_a_command_is_never_lost(lines: list[str], said: str) -> None:
    assert in_short(lines).startswith(said)
    assert bool(in_short(lines)) == bool(said)
