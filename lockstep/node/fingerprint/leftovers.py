"""Users and groups that a package made which was removed, but not purged.

dpkg(1) keeps the script that runs at the purge (deb-postrm(5)). If it deletes an account, that is
known to be the package's. Nothing says whose an account is after the purge.
"""

from __future__ import annotations

import re

from lockstep.node.fingerprint.dpkg import ADMIN, has_dpkg, packages
from lockstep.node.readers.tree import text_of

REMOVED = "removed package"
"""Field of an account: the package that made it, of which only the configuration is left."""
DELETES = re.compile(
    r"(?:^|[;&|({!]|\b(?:then|do|else|if)\b)[ \t]*(?:/usr)?(?:/s?bin/)?"
    r"(?P<program>deluser|userdel|delgroup|groupdel)[ \t]+(?P<words>[^\n;|&<>)#]*)",
    re.MULTILINE,
)
"""Where a shell expects a command, so that comments and messages do not count."""
NAME = re.compile(r"[\"']?(?P<name>[a-z_][a-z0-9_.-]*\$?)[\"']?", re.IGNORECASE)
WITH_VALUE = frozenset({"--home", "--conf", "--backup-to", "--root", "-R", "--prefix", "-P"})
"""Options with a word of their own (deluser(8), userdel(8))."""


def deleted(script: str) -> tuple[set[str], set[str]]:
    """Return the users and the groups that a script deletes by their names, not by variables.

    ``deluser --group`` and ``deluser USER GROUP`` are about a group, which is left out.
    """
    users: set[str] = set()
    groups: set[str] = set()
    for match in DELETES.finditer(script):
        words = match["words"].split()
        plain = [
            word
            for before, word in zip(["", *words], words)  # noqa: B905 (Python 3.9 has no strict)
            if not word.startswith("-") and before not in WITH_VALUE and not word.isdigit()
        ]
        name = NAME.fullmatch(plain[0]) if len(plain) == 1 and "--group" not in words else None
        if name is not None:
            (users if "user" in match["program"] else groups).add(name["name"])
    return users, groups


def removed_packages() -> tuple[dict[str, str], dict[str, str]]:
    """Return the users and the groups that removed packages left: name -> package.

    deluser(8) and userdel(8) delete the group of a user with it.
    """
    users: dict[str, str] = {}
    groups: dict[str, str] = {}
    for package in packages() if has_dpkg() else ():
        if package.state != "config-files":
            continue
        for name in (package.name, f"{package.name}:{package.architecture}"):
            of_users, of_groups = deleted(text_of(f"{ADMIN}/info/{name}.postrm", ""))
            users.update(dict.fromkeys(of_users, package.name))
            groups.update(dict.fromkeys(of_users | of_groups, package.name))
    return users, groups
