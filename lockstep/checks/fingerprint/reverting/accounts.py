"""Commands that revert differences of users and groups. No command sets a password."""

from __future__ import annotations

import re

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command

NAME = re.compile(r"[a-z_][a-z0-9_.-]*\$?", re.IGNORECASE)
"""Names that useradd(8) takes; a name that occurs twice has a number behind it."""
USERMOD = {"uid": "-u", "group": "-g", "comment": "-c", "home": "-d", "shell": "-s"}
CHAGE = {"maximum age": "-M", "inactivity": "-I", "expires": "-E"}
"""Fields whose absence ``-1`` restores (chage(1))."""
GROWING = {"minimum age": "-m", "warning": "-W"}


def of_user(case: Case) -> Steps:
    """Return the commands that make a user as on the other nodes."""
    if not NAME.fullmatch(case.name) or not case.was("uid")[:1].isdigit():
        return []  # it is only in shadow or subuid, or the node lacks it
    if case.is_extra:
        return [command("userdel", case.name)]
    steps: list[str] = []
    for field in sorted(case.changed - {"password hash"}):
        value = case.should(field)
        if field in USERMOD and (value.isdigit() or field != "uid"):
            steps.append(command("usermod", USERMOD[field], value, case.name))
        elif field in CHAGE or (field in GROWING and value):
            option = {**CHAGE, **GROWING}[field]
            steps.append(command("chage", option, value or "-1", case.name))
        elif field == "password" and {case.was(field), value} == {"set", "locked"}:
            steps.append(command("usermod", "-L" if value == "locked" else "-U", case.name))
        else:
            return []
    return steps


def of_group(case: Case) -> Steps:
    """Return the commands that make a group as on the other nodes."""
    if not NAME.fullmatch(case.name):
        return []
    if case.is_extra:
        return [command("groupdel", case.name)] if case.was("gid").isdigit() or (
            case.was("gid").startswith("allocated")) else []  # fmt: skip
    if not case.changed - {"password"} <= {"gid", "members"}:
        return []
    gid, steps = case.should("gid"), list[str]()
    if case.is_missing:
        options = ["-g", gid] if gid.isdigit() else ["--system"]
        steps.append(command("groupadd", *options, case.name))
    elif "password" in case.changed:
        return []
    elif "gid" in case.changed:
        if not gid.isdigit():
            return []
        steps.append(command("groupmod", "-g", gid, case.name))
    now, wanted = (set(filter(None, text.split(", "))) for text in
                   (case.was("members"), case.should("members")))  # fmt: skip
    steps += [command("gpasswd", "-d", user, case.name) for user in sorted(now - wanted)]
    steps += [command("gpasswd", "-a", user, case.name) for user in sorted(wanted - now)]
    return steps
