"""The domains ``user`` and ``group``: local accounts. NIS, LDAP and the like are not asked."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.leftovers import REMOVED, removed_packages
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import text_of

ALLOCATED = range(100, 1000)
"""Numbers that packages take in the order of their installation (Debian Policy 9.2.2; login.defs(5)
SYS_UID_MIN). Equal nodes give them differently, so users and owners are compared by name."""
BY_ORDER = "allocated (100-999)"
SHADOW = "/etc/shadow"
AGES = ("minimum age", "maximum age", "warning", "inactivity", "expires")
"""Fields 4 to 8 of shadow(5), in days. The third, the day of the last change, is not compared."""

EXCEPTIONS_OF_ACCOUNTS: tuple[Exempt, ...] = ()

Rows = dict[str, list[str]]


def rows(path: str, columns: int) -> Rows:
    """Return the lines of a file by their first word; missing words are empty.

    A name that occurs again is not used by the system, and gets a number.
    """
    found: Rows = {}
    for line in text_of(path, "").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(":")
        words += [""] * (columns - len(words))
        name, number = words[0], 1
        while name in found:
            number += 1
            name = f"{words[0]} #{number}"
        found[name] = words
    return found


def number_of(text: str) -> str:
    """Return a user's or group's number; the same text for all that packages get allocated."""
    return BY_ORDER if text.isdigit() and int(text) in ALLOCATED else text


def add_password(hashed: str, fields: Fields) -> None:
    """Add whether an account has a password (shadow(5)), and its hash as a secret."""
    plain = hashed.lstrip("!")
    if not hashed:
        fields["password"] = "none is needed"  # noqa: S105
    elif plain in ("", "*", "x") or plain.startswith("*"):
        fields["password"] = "none"  # noqa: S105
    else:
        fields["password"] = "locked" if plain != hashed else "set"
        fields["password hash"] = Secret(hashed)


def ranges(path: str, names: dict[str, str]) -> dict[str, str]:
    """Return the ranges of subordinate numbers by user (subuid(5))."""
    found: dict[str, list[str]] = {}
    for line in text_of(path, "").splitlines():
        user, _, rest = line.partition(":")
        if rest and not line.startswith("#"):
            found.setdefault(names.get(user, user), []).append(rest)
    return {user: ", ".join(sorted(given)) for user, given in found.items()}


def read_users(_request: Request, _commands: Commands) -> Iterator[Entry]:
    """Every local user.

    Fields: ``uid``, ``group`` (by name), ``comment``, ``home``, ``shell`` (passwd(5));
    ``password`` and the ages of shadow(5) that are set; ``subuid`` and ``subgid``; ``removed
    package``, of which the account is left.
    """
    users = rows("/etc/passwd", 7)
    if not users:
        raise Unread("/etc/passwd: no user")
    groups = {words[2]: name for name, words in reversed(rows("/etc/group", 4).items())}
    shadow = rows(SHADOW, 9)
    numbers = {words[2]: name for name, words in reversed(users.items())}
    left_by, _ = removed_packages()
    subordinate = {kind: ranges(f"/etc/{kind}", numbers) for kind in ("subuid", "subgid")}
    for name, words in users.items():
        fields: Fields = {
            "uid": number_of(words[2]),
            "group": groups.get(words[3], words[3]),
            "comment": words[4],
            "home": words[5],
            "shell": words[6],
        }
        hidden = shadow.pop(name, None)
        if hidden is not None:
            add_password(hidden[1], fields)
            fields.update({k: v for k, v in zip(AGES, hidden[3:8]) if v})  # noqa: B905
        if name in left_by:
            fields[REMOVED] = left_by[name]
        if words[1] != "x":
            fields["password in passwd"] = "an empty one" if not words[1] else "yes"
        for kind, given in subordinate.items():
            if name in given:
                fields[kind] = given.pop(name)
        yield Entry(name, fields)
    # What a removed user left.
    left = {name: {"uid": "not in /etc/passwd"} for name in shadow}
    for kind, given in subordinate.items():
        for name, value in given.items():
            left.setdefault(name, {"uid": "not in /etc/passwd"})[kind] = value
    for name, fields in left.items():
        yield Entry(name, fields)


def read_groups(_request: Request, _commands: Commands) -> Iterator[Entry]:
    """Every local group.

    Fields: ``gid``, ``members`` (group(5)); ``administrators``, ``members in gshadow`` if they
    differ, ``password`` (gshadow(5)), and ``removed package``.
    """
    groups = rows("/etc/group", 4)
    if not groups:
        raise Unread("/etc/group: no group")
    shadow = rows("/etc/gshadow", 4)
    _, left_by = removed_packages()
    for name, words in groups.items():
        members = listed(words[3])
        fields: Fields = {"gid": number_of(words[2]), "members": members}
        hidden = shadow.pop(name, None)
        if hidden is not None:
            add_password(hidden[1] or "*", fields)
            if hidden[2]:
                fields["administrators"] = listed(hidden[2])
            if listed(hidden[3]) != members:
                fields["members in gshadow"] = listed(hidden[3])
        if name in left_by:
            fields[REMOVED] = left_by[name]
        if words[1] not in ("x", "*", ""):
            fields["password in group"] = "yes"
        yield Entry(name, fields)
    for name in shadow:
        yield Entry(name, {"gid": "not in /etc/group"})


def listed(text: str) -> str:
    """Return the names in a list, sorted."""
    return ", ".join(sorted(set(filter(None, text.split(",")))))


ACCOUNTS: tuple[Domain, ...] = (Domain("user", read_users), Domain("group", read_groups))
