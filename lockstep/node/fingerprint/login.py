"""What a login shell and a program of an unprivileged user get.

This domain starts shells, and runs rarely. It starts no session: pam_systemd(8) would start a
service manager for the user, so that PAM's limits are read through ``runuser -u``, whose PAM
configuration has pam_limits(8) but no sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.protected import shown
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import text_of

NOBODY = "nobody"
SHOW = (
    "umask; echo ==; ulimit -aS; echo ==; ulimit -aH; echo ==; alias -p; echo ==; set -o; "
    "echo ==; declare -F; echo ==; env -0"
)
HIDDEN = re.compile(r"_|SHLVL|PWD|OLDPWD|TERM|LS_COLORS|BASH_FUNC_.*|MODULES_\w+_modshare")
MEMORY = re.compile(r"pending signals|max user processes")
"""Limits that the kernel computes from the size of the memory (getrlimit(2))."""
EXCEPTIONS_OF_LOGIN: tuple[Exempt, ...] = ()


def read_login(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield a login shell of root and of an unprivileged user, and the limits that PAM gives."""
    out = commands.run(*_shell("/root"))
    yield Entry("login shell of root", _fields(out))
    if "pam_systemd" in text_of("/etc/pam.d/runuser", "pam_systemd"):
        return
    out = commands.run("runuser", "-u", NOBODY, "--", *_shell("/"))
    yield Entry("login shell of an unprivileged user", _fields(out))


def _shell(home: str) -> tuple[str, ...]:
    return ("env", "-i", f"HOME={home}", "TERM=dumb", "bash", "-l", "-c", SHOW)


def _fields(out: str) -> Fields:
    parts = out.split("==\n")
    if len(parts) < 7:
        raise ValueError(f"a login shell printed {out[:60]!r}")
    # What a profile prints comes before the umask.
    umask = parts[-7].strip().splitlines()
    fields: Fields = {"umask": umask[-1] if umask else ""}
    if umask[:-1]:
        fields["profile prints"] = "\n".join(umask[:-1])
    for kind, part in (("soft", parts[-6]), ("hard", parts[-5])):
        for line in part.splitlines():
            found = re.match(r"(.+?)\s+(?:\([^)]*\))\s+(\S+)$", line)
            if found and not MEMORY.match(found.group(1)):
                fields[f"limit {found.group(1)}, {kind}"] = found.group(2)
    for line in parts[-4].splitlines():
        fields[line.partition("=")[0]] = line.partition("=")[2]
    fields["options"] = " ".join(w[0] for w in map(str.split, parts[-3].splitlines())
                                 if w[1:] == ["on"])  # fmt: skip
    fields["functions"] = "\n".join(sorted(line.split()[-1] for line in parts[-2].splitlines()))
    for text in parts[-1].split("\0"):
        name, sign, value = text.partition("=")
        if sign and not HIDDEN.fullmatch(name):
            fields[f"environment {name}"] = shown(name, value)
    return fields


LOGIN = (Domain("login", read_login),)
