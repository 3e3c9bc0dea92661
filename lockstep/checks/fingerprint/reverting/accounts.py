"""Commands that revert differences of users and groups. No command sets a password."""

from __future__ import annotations

import re

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command
from lockstep.node.fingerprint.accounts import BY_ORDER
from lockstep.node.fingerprint.leftovers import REMOVED

NAME = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.IGNORECASE)
"""Names that useradd(8) takes; a name that occurs twice has a number behind it."""
RANGE = re.compile(r"\d+:\d+")
"""A line of subuid(5) without its user: first number and count."""
IN_SHADOW = "members in gshadow"
OF_NEW_GROUP = frozenset({"gid", "members", "password"})
OF_GROUP = OF_NEW_GROUP | {"administrators", IN_SHADOW}
USERMOD = {"uid": "-u", "group": "-g", "comment": "-c", "home": "-d", "shell": "-s"}
CHAGE = {"maximum age": "-M", "inactivity": "-I", "expires": "-E"}
"""Fields whose absence ``-1`` restores (chage(1))."""
GROWING = {"minimum age": "-m", "warning": "-W"}


def of_user(case: Case) -> Steps:
    """Return the commands that make a user as on the other nodes."""
    if not NAME.fullmatch(case.name) or not _has_number(case.was("uid")):
        return []  # it is only in shadow or subuid, or the node lacks it
    if case.is_extra:
        if case.was(REMOVED):
            return [command("apt-get", "purge", case.was(REMOVED))]
        # userdel(8) takes a second user with root's number for one that is logged in.
        forced = ["-f"] if case.was("uid") == "0" else []
        return [command("userdel", *forced, case.name)]
    steps: list[str] = []
    for field in sorted(case.changed - {"password hash"}):
        value = case.should(field)
        if field in USERMOD and (value.isdigit() or field != "uid"):
            steps.append(command("usermod", USERMOD[field], value, case.name))
        elif field in CHAGE or (field in GROWING and value):
            option = {**CHAGE, **GROWING}[field]
            steps.append(command("chage", option, value or "-1", case.name))
        elif field in ("subuid", "subgid"):
            ranges = _ranges(case, field)
            if ranges is None:
                return []
            steps += ranges
        elif field == "password" and value == "none":
            steps.append(command("usermod", "-p", "*", case.name))
        elif field == "password" and {case.was(field), value} == {"set", "locked"}:
            steps.append(command("usermod", "-L" if value == "locked" else "-U", case.name))
        else:
            return []
    return steps


def _has_number(text: str) -> bool:
    """Return whether an account is in passwd(5) or group(5), with any number."""
    return text.isdigit() or text == BY_ORDER


def _ranges(case: Case, field: str) -> list[str] | None:
    """Return the commands that give a user its subordinate numbers; None if they are not known."""
    now, wanted = (
        dict.fromkeys(filter(None, text.split(", ")))
        for text in (case.was(field), case.should(field))
    )
    if not all(RANGE.fullmatch(text) for text in (*now, *wanted)):
        return None
    # usermod(8) refuses to take numbers from a user who is logged in.
    name = re.escape(case.name)
    steps = [
        command("sed", "-i", f"/^{name}:{text}$/d", f"/etc/{field}")
        for text in sorted(now.keys() - wanted)
    ]
    for text in sorted(wanted.keys() - now):
        first, count = map(int, text.split(":"))
        steps.append(
            command("usermod", f"--add-{field}s", f"{first}-{first + count - 1}", case.name)
        )
    return steps


def _list(text: str) -> str:
    return text.replace(", ", ",")


def of_group(case: Case) -> Steps:
    """Return the commands that make a group as on the other nodes."""
    if not NAME.fullmatch(case.name):
        return []
    if case.is_extra:
        if case.was(REMOVED):
            return [command("apt-get", "purge", case.was(REMOVED))]
        return [command("groupdel", case.name)] if _has_number(case.was("gid")) else []
    if not case.changed - {"password hash"} <= OF_GROUP:
        return []
    if case.is_missing and case.right and not case.right.keys() <= OF_NEW_GROUP:
        return []
    gid, steps = case.should("gid"), list[str]()
    if case.is_missing:
        options = ["-g", gid] if gid.isdigit() else ["--system"]
        steps.append(command("groupadd", *options, case.name))
    elif "gid" in case.changed:
        if not gid.isdigit():
            return []
        steps.append(command("groupmod", "-g", gid, case.name))
    if "password" in case.changed and not case.is_missing:
        if case.should("password") != "none":
            return []
        steps.append(command("gpasswd", "-r", case.name))
    if "administrators" in case.changed:
        steps.append(command("gpasswd", "-A", _list(case.should("administrators")), case.name))
    if IN_SHADOW in case.changed:
        if case.should(IN_SHADOW):
            return []
        # It sets the members in both files (gpasswd(1)).
        return [*steps, command("gpasswd", "-M", _list(case.should("members")), case.name)]
    now, wanted = (set(filter(None, text.split(", "))) for text in
                   (case.was("members"), case.should("members")))  # fmt: skip
    steps += [command("gpasswd", "-d", user, case.name) for user in sorted(now - wanted)]
    steps += [command("gpasswd", "-a", user, case.name) for user in sorted(wanted - now)]
    return steps
