"""Commands that revert differences of files."""

from __future__ import annotations

import re
import shlex

from lockstep.checks.fingerprint.objects import MADE_BY_KERNEL
from lockstep.checks.fingerprint.reverting.case import Case, Steps, command

PACKAGE, SHIPPED, CONTENT = "package", "shipped", "content"
NO_PACKAGE = "none"
OF_CONTENT = frozenset({CONTENT, SHIPPED, PACKAGE, "type"})
ORDER = ("owner", "acl", "default_acl", "mode", "capabilities", "target")
SETTABLE = frozenset({*ORDER, "flags"})
REMOVABLE = frozenset({"file", "link", "pipe", "socket"})
"""Types of files that rm(1) is named for. A device may be lost on the other nodes."""
LOCKED = "ia"
"""Attributes of chattr(1) with which a file cannot be changed or removed."""
OF_SYSTEMD = re.compile(
    r"/(?:etc|run|usr/lib|usr/local/lib)/systemd/"
    r"(?:system|system\.control|transient|system\.conf\.d)/"
)
"""Files that systemd reads again at a daemon-reload: units and settings of the manager."""
GENERATED = re.compile(r"/run/systemd/generator(?:\.early|\.late)?(?:/|$)")
"""Units that generators write at each daemon-reload, such as those of fstab (systemd.generator(7)).
"""
RELOAD = "systemctl daemon-reload"
EXECUTABLE = re.compile(r"(cap_[a-z_]+=[eip]+)(,cap_[a-z_]+=[eip]+)*")
RIGHTS = re.compile(r"(?=.)(?:owner (?P<owner>[\w.-]+:[\w.-]+))?(?:, )?(?:mode (?P<mode>[0-7]+))?")
"""What the package of RPM says where a file has only other rights."""
ENTRIES = re.compile(r"((user|group|mask|other):[\w.-]*:[r-][w-][x-],?)+")


def of_file(case: Case) -> Steps:
    """Return the commands that make a file as on the other nodes."""
    if GENERATED.match(case.name):
        return [RELOAD]
    if case.is_extra:
        removed = _removed(case)
        return [*_without_flags(case), *removed] if removed else []
    shipped = case.should(SHIPPED) == "yes" and case.should(PACKAGE)
    if case.changed & OF_CONTENT and not shipped:
        return []  # only another node has this content
    restored = [restored_from_package(case)] if case.changed & OF_CONTENT else []
    is_there = not case.is_missing and case.was("type") != "absent"
    if is_there and not case.changed <= OF_CONTENT | SETTABLE:
        return []
    fields = [field for field in ORDER if field in case.changed or _is_lost(case, field)]
    attributes = [_attribute(case, field) for field in fields]
    if not all(attributes):
        return []
    steps = [*restored, *(step for steps in attributes for step in steps)]
    return [*_without_flags(case), *steps, *_with_flags(case)]


def of_program(case: Case) -> Steps:
    """Return the commands for a file below /usr, which is no object if it is as shipped.

    RPM installs it again also if it was changed. Without it, dnf may not start.
    """
    owner = case.was(PACKAGE)
    if not case.is_extra:
        return []
    if case.name.startswith("/var/") and not owner and case.was("type") == "folder":
        return [command("chmod", "o-w", case.name)]  # it may have somebody's data
    if owner in ("", NO_PACKAGE):
        return [command("rm", case.name)] if case.was("type") in REMOVABLE else []
    rights = RIGHTS.fullmatch(case.was(SHIPPED))
    if rights is not None:
        right = {**(case.wrong or {}), **{k: v for k, v in rights.groupdict().items() if v}}
        wanted = Case(case.name, case.wrong, right, case.family)
        steps = [_attribute(wanted, field) for field in ("owner", "mode") if rights[field]]
        if rights["owner"] and not rights["mode"]:
            steps.append(_attribute(wanted, "mode"))  # chown(2) clears the setuid bit
        return [step for several in steps for step in several]
    if SHIPPED in (case.wrong or {}) or case.was("type") == "absent":
        if case.family == "rhel":
            return [command("dnf", "reinstall", owner)]
        return [restored_from_package(Case(case.name, None, {PACKAGE: owner}, case.family))]
    return []


def _is_lost(case: Case, field: str) -> bool:
    """Return whether other commands change a field that does not differ, and that must be set.

    A file is put back with the owner and mode of its package. chown(2) clears the setuid bit and
    capabilities, and ``setfacl -b`` leaves the mask as the rights of the group.
    """
    restored = bool(case.changed & OF_CONTENT)
    lost = {
        "owner": restored,
        "mode": restored or bool(case.changed & {"owner", "acl"}),
        "capabilities": "owner" in case.changed,
    }
    return bool(case.should(field)) and lost.get(field, False)


def restored_from_package(case: Case) -> str:
    """Return the command that puts a file of configuration of its package back, and no other.

    ``apt-get install --reinstall`` keeps a changed conffile, or with options of dpkg(1) replaces
    all changed ones of the package. RPM installs a missing one again, and keeps changed ones. The
    file is removed when the package is there: a repository may not have the version any more, and
    dnf(8) keeps what ``--downloadonly`` brought until the next transaction.
    """
    package, path = shlex.quote(case.should(PACKAGE)), shlex.quote(case.name)
    if case.family == "rhel":
        again = f"dnf reinstall {package}"
        return f"dnf reinstall --downloadonly {package} && rm -f {path} && {again}"
    return (
        f'(d=$(mktemp -d) && trap \'rm -r "$d"\' EXIT && cd "$d" && apt-get download {package}='
        f"\"$(dpkg-query -W -f '${{Version}}' {package})\" && dpkg-deb --fsys-tarfile ./*.deb | "
        f"tar -xpf - -C / {shlex.quote(f'.{case.name}')})"
    )


def _removed(case: Case) -> Steps:
    if case.was(PACKAGE) or MADE_BY_KERNEL.match(case.name):
        return []
    if case.was("type") == "folder":
        return [command("rmdir", case.name)]
    if case.was("type") not in REMOVABLE:
        return []
    reload = [RELOAD] if OF_SYSTEMD.match(case.name) else []
    return [command("rm", case.name), *reload]


def _attribute(case: Case, field: str) -> Steps:
    """Return the command that sets a field; none if no command is known."""
    value, path = case.should(field), case.name
    if field == "mode" and value:
        # chmod(1) keeps the setuid and setgid bits of a folder unless the mode has five digits.
        mode = value.zfill(5) if case.should("type") == "folder" else value
        return [command("chmod", mode, path)]
    if field == "owner" and value:
        return [command("chown", "-h", value, path)]
    if field == "target" and value:
        return [command("ln", "-sfn", value, path)]
    if field == "capabilities":
        if not value:
            return [command("setcap", "-r", path)]
        text = value.replace(",", " ")
        return [command("setcap", text, path)] if EXECUTABLE.fullmatch(value) else []
    if field not in ("acl", "default_acl"):
        return []
    if not value:
        both = field == "acl" and case.should("default_acl")  # -b removes the default ACL, too
        return [] if both else [command("setfacl", "-b" if field == "acl" else "-k", path)]
    default = ["-d"] if field == "default_acl" else []
    known = ENTRIES.fullmatch(value)
    return [command("setfacl", *default, "--set", value, path)] if known else []


def _without_flags(case: Case) -> Steps:
    """Return the command that removes attributes: those too many, and those that lock the file."""
    wanted = "" if case.changed != {"flags"} else case.should("flags")
    letters = [
        letter
        for letter in case.was("flags")
        if (letter in LOCKED and letter not in wanted)
        or (letter not in case.should("flags") and not case.is_extra)
    ]
    return [command("chattr", f"-{''.join(letters)}", case.name)] if letters else []


def _with_flags(case: Case) -> Steps:
    """Return the command that sets attributes: those missing, and those that were removed."""
    removed = LOCKED if case.changed != {"flags"} else ""
    letters = [
        letter
        for letter in case.should("flags")
        if letter not in case.was("flags") or letter in removed
    ]
    return [command("chattr", f"+{''.join(letters)}", case.name)] if letters else []
