"""What a login shell gets: environment, umask, aliases, options and functions.

It starts no session: pam_systemd(8) would start a service manager for the user. ``runuser -u``
changes the user, and its PAM configuration sets variables (pam_env(8)). Limits are left out: they
are those of the ssh session or job step in which the probe runs, unless limits.conf(5) sets them,
which is a file.
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
SHOW = "umask; echo ==; alias -p; echo ==; set -o; echo ==; declare -F; echo ==; env -0"
HIDDEN = re.compile(r"_|SHLVL|PWD|OLDPWD|TERM|LS_COLORS|BASH_FUNC_.*|MODULES_\w+_modshare")
EXCEPTIONS_OF_LOGIN: tuple[Exempt, ...] = ()


def read_login(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield a login shell of root and of an unprivileged user."""
    out = commands.run(*_shell("/root"))
    yield Entry("login shell of root", _fields(out))
    if "pam_systemd" in text_of("/etc/pam.d/runuser", "pam_systemd"):
        return
    out = commands.run("runuser", "-u", NOBODY, "--", *_shell("/"))
    yield Entry("login shell of an unprivileged user", _fields(out))


def _shell(home: str) -> tuple[str, ...]:
    # The umask, too, would be that of the session.
    return ("sh", "-c", 'umask 022; exec "$0" "$@"', "env", "-i", f"HOME={home}", "TERM=dumb",
            "bash", "-l", "-c", SHOW)  # fmt: skip


def _fields(out: str) -> Fields:
    parts = out.split("==\n")
    if len(parts) < 5:
        raise ValueError(f"a login shell printed {out[:60]!r}")
    # What a profile prints comes before the umask.
    umask = parts[-5].strip().splitlines()
    fields: Fields = {"umask": umask[-1] if umask else ""}
    if umask[:-1]:
        fields["profile prints"] = "\n".join(umask[:-1])
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
