"""How severe a difference is: data, each row with its reason.

A difference that can break or open a node is an error, one that can slow it a warning, and all
others are notices. The rows refine what ``lockstep.checks.rules.fingerprint`` says for a domain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lockstep.checks.fingerprint.objects import Fields
from lockstep.checks.fingerprint.texts import CONTENT, differing_fields
from lockstep.report import Severity, worst

COMMENTS = "comments"
"""Takes the place of the field ``content`` if only comments and empty lines differ."""
COMMENT = re.compile(r"\s*(?:;.*|#(?!!).*)?")
"""A line without effect in most files of configuration; ``#!`` names an interpreter."""
DIRECTIVES = re.compile(r"/(?:etc|run)/sudoers(?:\.d/.*)?")
"""Files in which ``#`` begins directives, too: ``#include`` and ``#uid`` (sudoers(5))."""
PRESENT = "present"
"""Pseudo-field of an object that only one side has: "yes" if the node has it too much."""


class Row(NamedTuple):
    """The severity of some differences."""

    severity: Severity
    domain: str
    object: str
    """Regular expression that matches the whole name of the object."""
    what: str
    r"""Regular expression, searched in lines of ``FIELD=VALUE``.

    Of a changed object, these are the two values of one differing field, so ``\AFIELD=`` means that
    this field differs. Of an object that one side lacks, they are ``present=yes`` or ``present=no``
    and all fields of the other side.
    """
    reason: str


def _rows(severity: Severity, *rows: tuple[str, str, str, str]) -> tuple[Row, ...]:
    return tuple(Row(severity, *row) for row in rows)


PEOPLE = (
    r"/etc/(motd|issue(\.net)?|update-motd\.d)(/.*)?|/run/motd.*"
    r"|/etc/(vim|nano|emacs|screen|bash_completion\.d)(rc|/.*)?|/etc/(vimrc|inputrc|screenrc)"
    r"|/(root|home/[^/]+)/\.(vimrc|nanorc|emacs|inputrc|screenrc|tmux\.conf|gitconfig|hushlogin)"
    r"|/usr/local/(share/)?(doc|man|info)(/.*)?|(?!.*sudoers)/.+/(README|LICENSE|CHANGELOG)[^/]*"
)
LEFT = r"/.*(~|\.(bak|orig|old|save|swp|dpkg-\w+|ucf-\w+|rpm(save|new|orig)))"
LOGIN = (
    r"/(etc|run)/sudoers(\.d/.*)?|/etc/(ssh|pam\.d|polkit-1|munge)/.*|/etc/pam\.conf"
    r"|/etc/security/(access|time|group|faillock)\.conf|.*/\.ssh/.*|.*/\.[rs]hosts"
    r"|/etc/(ld\.so\.preload|securetty|nsswitch\.conf|krb5\.conf|hosts\.(allow|deny|equiv))"
)
AT_BOOT = r"force(fsck|quotacheck)|fast(boot|check)|\.autorelabel"
"""Files in the top folder that the boot looks for (systemd-fsck@.service(8), selinux(8))."""
ADMINISTRATORS = "root|sudo|wheel|adm|admin|docker|disk|shadow|lxd|libvirt|kmem"
OPENING_SYSCTLS = (
    r"kernel\.(randomize_va_space|yama\.ptrace_scope|[kd]\w+_restrict|unprivileged_\w+|core_pattern"
    r"|perf_event_paranoid|modules_disabled|kexec_load_disabled|sysrq)|fs\.(suid_dumpable"
    r"|protected_\w+)|net\.ipv4\.(ip_forward|tcp_syncookies)"
)

ROWS: tuple[Row, ...] = (
    *_rows(
        Severity.ERROR,
        *((domain, ".*", r"^mode=[4-7][0-7]{3}$", "It runs as its owner, often root (setuid).")
          for domain in ("file", "program")),
        *((domain, ".*", r"^mode=[0246]?[0-7]{2}[2367]$", "Everybody can change or replace it.")
          for domain in ("file", "program")),
        ("file", ".*", r"^(capabilities|acl|default_acl)=", "It gives rights beyond the mode."),
        ("file", ".*", r"\Aowner=", "Its owner can change it."),
    ),
    *_rows(
        Severity.NOTICE,
        ("running", "reservation .*", "", "A person reserved nodes; it ends by itself."),
        ("running", r"Slurm nodes? .*: (Comment|Extra)", "", "Only people and scripts read it."),
        ("running", r"slurmctld: (SlurmctldDebug|DebugFlags)|slurmd\.service: SlurmdDebug", "",
         "It changes what is logged."),
        ("file", ".*", rf"\A{COMMENTS}=", "Programs skip comments."),
        ("file", PEOPLE, "", "Only people read it, or their editors and terminals."),
        ("file", LEFT, "", "Editors and package managers leave it; programs skip such names."),
        ("file", ".*", rf"\A{PRESENT}=yes\n(.*\n)*type=folder$", "An empty folder has no effect."),
        ("file", rf"(?!/({AT_BOOT})$)/(var/(opt/)?)?[^/]+", rf"\A{PRESENT}=yes\n(.*\n)*type=file$",
         "Programs take no settings from there."),
        ("package", r".*-(doc|docs|man)[:.].*|fonts-.*", "", "It has only texts or fonts."),
        ("package", ".*", r"\Ainstalled=", "Only apt autoremove uses the mark (apt-mark(8))."),
        ("package", ".*", rf"\A{PRESENT}=(.*\n)*status=config-files$",
         "Only files of configuration are left, which are objects of their own."),
        ("user", ".*", r"\Acomment=", "Only people read it."),
        ("process", ".*", r"\A(folder|core dump filter)=", "It matters when the daemon crashes."),
        ("interface", ".*", r"\A(ifalias|altnames)=", "It is a further name of the interface."),
        ("engine", r"(docker|podman) image .*", rf"\A{PRESENT}=",
         "A missing image is pulled when it is used; one too many takes space."),
    ),
    *_rows(
        Severity.ERROR,
        ("file", LOGIN, "", "It decides who may log in or become root."),
        ("user", ".*", r"^uid=0$|^password=(set|none is needed)$|\Apassword|^password in passwd",
         "Somebody else can log in, or is root."),
        ("group", ADMINISTRATORS, rf"\A(members.*|{PRESENT})=", "Its members can become root."),
        ("unit", ".*", r"^active=fail|^loaded=|\Aactive=", "A service does not run, or fails."),
        ("process", ".*", r"\A(user|group|groups|capabilities .*|no new privileges|seccomp"
         r"|security label|own namespaces|root folder)=", "The daemon has other rights."),
        ("process", ".*", r"^stopped=", "The daemon does not answer."),
        ("sysctl", OPENING_SYSCTLS, "", "It protects the kernel or the network."),
        ("sysctl", r"net\.ipv[46]\.conf\..*",
         r"^(\w*forwarding|\w+_redirects|accept_source_route|rp_filter|proxy_arp)=",
         "It decides which packets of others the node takes or forwards."),
        ("kernel", r".*/(vulnerabilities/.*|selinux/enforce|security/(lsm|lockdown))|AppArmor.*",
         "", "It protects the kernel."),
        ("interface", ".*", r"\Aflags=", "The interface is up or down, or listens to others."),
    ),
    *_rows(
        Severity.WARNING,
        ("listener", r"unix .*|\w+ (127\.|\[::1\]).*", "", "Only the node itself reaches it."),
        ("mount", ".*", r"\A(propagation|super_options)=", "It is mounted with the same rights."),
    ),
)  # fmt: skip
"""The first row that matches counts."""


def severity_of(
    usual: Severity,
    domain: str,
    name: str,
    wrong: Fields | None,
    right: Fields | None,
) -> Severity:
    """Return how severe a difference is: as its worst part.

    Args:
        usual: the severity of the domain.
        domain: the domain of the object.
        name: the object.
        wrong: its fields on the node that differs, or None if the node lacks it.
        right: its fields on the other nodes, or None if they lack it.
    """
    found = [_first(usual, domain, name, lines) for lines in _parts(name, wrong, right)]
    return worst(found or [usual])


def _first(usual: Severity, domain: str, name: str, lines: str) -> Severity:
    for row in ROWS:
        of_object = row.domain == domain and re.fullmatch(row.object, name)
        if of_object and re.search(row.what, lines, re.MULTILINE):
            return row.severity
    return usual


def _parts(name: str, wrong: Fields | None, right: Fields | None) -> Iterator[str]:
    if wrong is None or right is None:
        found = {PRESENT: "no" if wrong is None else "yes", **(wrong or right or {})}
        yield "\n".join(_line(field, value) for field, value in found.items())
        return
    for field in differing_fields(wrong, right):
        one, other = wrong.get(field), right.get(field)
        if field == CONTENT and _is_comment(name, one or "", other or ""):
            yield f"{COMMENTS}="
        else:
            yield "\n".join(_line(field, value) for value in (one, other) if value is not None)


def _line(field: str, value: str) -> str:
    return f"{field}={' '.join(value.split())}"


def _is_comment(name: str, one: str, other: str) -> bool:
    """Return whether two contents differ only in comments and empty lines."""
    if DIRECTIVES.fullmatch(name):
        return False
    kept = (
        [line for line in text.splitlines() if not COMMENT.fullmatch(line)] for text in (one, other)
    )
    return next(kept) == next(kept)
