"""Decides which leftover items to remove from a node, and how; runs no commands itself."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from lockstep.manifest import LeftOver
from lockstep.plan import NodePlan

SYSTEMD = "/etc/systemd/"
ACCOUNTS = {"users": "userdel", "groups": "groupdel"}
OF_KUBERNETES = "kubernetes_"
"""Beginning of the names of Kubernetes' roles."""
WHEN_NAMED = ("packages", *ACCOUNTS)
"""Sections whose entries are removed only if the user names them."""


@dataclass(frozen=True)
class Removal:
    """What to do with everything that is left over on a node."""

    taken: tuple[LeftOver, ...] = ()
    """Items to remove now."""
    gone: tuple[LeftOver, ...] = ()
    """Items that are no longer on the node; only their manifest entries are removed."""
    stays: tuple[tuple[LeftOver, str], ...] = ()
    """Items that stay, each with the reason."""


def decide(
    plan: NodePlan,
    left: Collection[LeftOver],
    named: Collection[str] = (),
    busy: str = "",
    *,
    member: bool = False,
) -> Removal:
    """Return what to remove from a node and what to keep.

    Args:
        plan: the plan of the node.
        left: all leftover items on the node.
        named: packages, users and groups that may be removed.
        busy: why the node is busy; "" if no jobs are running there.
        member: whether the node must leave Kubernetes, which needs all of Kubernetes' own roles.
    """
    jobs_use = {role.name: role.jobs_use for role in plan.cluster.roles}
    taken, gone, stays = [], [], []
    for one in left:
        # A role that no longer exists declares nothing, so jobs may use what it installed.
        waits = one.section in WHEN_NAMED or jobs_use.get(one.role, True)
        waits |= member and one.role.startswith(OF_KUBERNETES)
        option = "packages" if one.section == "packages" else "users"
        reasons = (
            (
                one.section == "sysctl",
                f"keeps the value {one.state} until the next boot",
            ),
            (one.changed, f"{one.state}, so it is not removed; keep it, or delete it by hand"),
            (
                one.section in WHEN_NAMED and one.name not in named,
                f"is removed only if named: --data {option}={one.name}",
            ),
            (busy and waits, f"waits: {busy}"),
        )
        why = next((reason for holds, reason in reasons if holds), "")
        if not one.state:
            gone.append(one)
        elif why:
            stays.append((one, why))
        else:
            taken.append(one)
    return Removal(tuple(taken), tuple(gone), tuple(stays))


def commands(taken: Collection[LeftOver], manager: str, family: str) -> Iterator[str]:
    """Yield the removal commands in an order in which each of them succeeds.

    Args:
        taken: the items to remove from one node.
        manager: the command apt-get or dnf, with its options.
        family: the family of the node's release.
    """
    restored, uninstalled = (
        (_restored_by_dnf, _uninstalled_by_dnf) if family == "rhel" else (_restored, _uninstalled)
    )
    units, masked, packages = (
        shlex.join(one.name for one in taken if one.section == section)
        for section in ("units", "masked", "packages")
    )
    # Files that no package ships come first.
    files = sorted((one for one in taken if one.section == "files"), key=attrgetter("package"))
    if units:
        yield f"systemctl disable --no-reload -- {units} && systemctl stop -- {units}"
    if masked:
        yield f"systemctl unmask --no-reload -- {masked}"
    for package, group in groupby(files, key=attrgetter("package")):
        shipped = list(group)
        yield restored(package, shipped, manager) if package else _removed(shipped)
    if packages:
        yield uninstalled(packages, manager)
    for section, program in ACCOUNTS.items():
        for one in taken:
            if one.section == section:
                yield f"{program} -- {shlex.quote(one.name)}"
    reload = any(one.package or one.name.startswith(SYSTEMD) for one in files)
    if reload or units or masked or packages:
        yield "systemctl daemon-reload"


def _unchanged(file: LeftOver) -> str:
    """Return a shell test that fails if the file has changed since it was read."""
    path = shlex.quote(file.name)
    return (
        f'[ ! -L {path} ] && [ "$(sha256sum <{path} | cut -d" " -f1)" = {file.sha256} ] || '
        f"{{ echo not removed, its content has just changed: {path} >&2; exit 1; }}"
    )


def _removed(files: Collection[LeftOver]) -> str:
    steps = ["set -e"]
    for one in files:
        steps += [_unchanged(one), f"rm -- {shlex.quote(one.name)}"]
    folders = {one.name.rpartition("/")[0] for one in files}
    drop_ins = sorted(one for one in folders if SYSTEMD in f"{one}/" and one.endswith(".d"))
    if drop_ins:
        steps.append(f"rmdir --ignore-fail-on-non-empty -- {shlex.join(drop_ins)}")
    return "; ".join(steps)


def _restored(package: str, files: Collection[LeftOver], apt_get: str) -> str:
    """Return a command that replaces Lockstep's files with the original files from the package.

    dpkg restores a configuration file only if it is missing, and only with --force-confmiss
    (dpkg(1)); ucf(1) needs the variable UCF_FORCE_CONFFMISS. If the package is not available,
    Lockstep's files stay.
    """
    name = shlex.quote(package)
    paths = shlex.join(one.name for one in files)
    return "; ".join(
        (
            "set -e",
            *map(_unchanged, files),
            f"version=$(dpkg-query -W -f '${{Version}}' {name})",
            f"held=$(apt-mark showhold {name})",
            f'for f in {paths}; do mv -fT -- "$f" "$f.lockstep-old"; done',
            "status=0",
            f"UCF_FORCE_CONFFMISS=1 {apt_get} -o Dpkg::Options::=--force-confmiss "
            f'--allow-change-held-packages --reinstall install {name}="$version" || status=$?',
            _back(paths),
            # With --allow-change-held-packages, apt-get removes the hold.
            f'if [ -n "$held" ]; then apt-mark hold {name} >/dev/null; fi',
            "exit $status",
        )
    )


def _back(paths: str) -> str:
    """Return a command that puts Lockstep's files back where the package installed none."""
    return (
        f'for f in {paths}; do if [ -e "$f" ]; then rm -f -- "$f.lockstep-old"; '
        'else mv -fT -- "$f.lockstep-old" "$f"; '
        'echo "not replaced, the package did not install it: $f" >&2; status=1; fi; done'
    )


def _restored_by_dnf(package: str, files: Collection[LeftOver], dnf: str) -> str:
    """As ``_restored``. RPM installs a file of configuration again if it is missing."""
    paths = shlex.join(one.name for one in files)
    return "; ".join(
        (
            "set -e",
            *map(_unchanged, files),
            f'for f in {paths}; do mv -fT -- "$f" "$f.lockstep-old"; done',
            "status=0",
            f"{dnf} reinstall {shlex.quote(package)} || status=$?",
            _back(paths),
            "exit $status",
        )
    )


def _uninstalled_by_dnf(names: str, dnf: str) -> str:
    """As ``_uninstalled``: rpm fails if another package needs one of these."""
    return (
        f'said="$(rpm -e --test {names} 2>&1)" || {{ echo "not removed: $said. Name these packages '
        f'as well, or keep all of them" >&2; exit 1; }}; {dnf} remove --noautoremove {names}'
    )


def _uninstalled(names: str, apt_get: str) -> str:
    """Return a command that removes packages, unless apt would remove other packages as well."""
    remove = f"--allow-change-held-packages remove {names}"
    return "; ".join(
        (
            "set -e",
            f"removed=$({apt_get} --simulate {remove} | sed -n 's/^Remv \\([^ ]*\\) .*/\\1/p')",
            "others=",
            f'for p in $removed; do case " {names} " in *" $p "*) ;; '
            '*) others="$others $p";; esac; done',
            '[ -z "$others" ] || { echo "not removed: apt would also remove$others. '
            'Name these packages as well, or keep all of them" >&2; exit 1; }',
            f"{apt_get} {remove}",
        )
    )
