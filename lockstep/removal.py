"""What a removal does to a node: decided here, from what is left over. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from lockstep.manifest import LeftOver
from lockstep.plan import NodePlan

SYSTEMD = "/etc/systemd/"
ACCOUNTS = {"users": "userdel", "groups": "groupdel"}
WHEN_NAMED = ("packages", *ACCOUNTS)
"""Sections of which only what is named is removed."""


@dataclass(frozen=True)
class Removal:
    """What becomes of everything that is left over on a node."""

    taken: tuple[LeftOver, ...] = ()
    """It is removed now."""
    gone: tuple[LeftOver, ...] = ()
    """Nothing of it is on the node any more: the manifest forgets it."""
    stays: tuple[tuple[LeftOver, str], ...] = ()
    """It stays, and why."""


def decide(
    plan: NodePlan,
    left: Collection[LeftOver],
    named: Collection[str] = (),
    busy: str = "",
) -> Removal:
    """Return what is removed.

    Args:
        plan: of the node.
        left: what is left over there.
        named: packages, users and groups that may be removed.
        busy: why the node counts as busy; "" when no job runs there.
    """
    jobs_use = {role.name: role.jobs_use for role in plan.cluster.roles}
    taken, gone, stays = [], [], []
    for one in left:
        # It is unknown what jobs use of a role that is not declared any more.
        waits = one.section in WHEN_NAMED or jobs_use.get(one.role, True)
        if not one.state:
            gone.append(one)
        elif one.section == "sysctl":
            stays.append((one, f"is {one.state} until the next boot: the kernel keeps it"))
        elif one.changed:
            stays.append((one, f"{one.state}: not as Lockstep wrote it, so a person decides"))
        elif one.section in WHEN_NAMED and one.name not in named:
            option = "packages" if one.section == "packages" else "users"
            stays.append((one, f"is removed only when named: --data {option}={one.name}"))
        elif busy and waits:
            stays.append((one, f"waits: {busy}"))
        else:
            taken.append(one)
    return Removal(tuple(taken), tuple(gone), tuple(stays))


def commands(taken: Collection[LeftOver], apt_get: str) -> Iterator[str]:
    """Yield the commands that remove things, in an order in which each can.

    Args:
        taken: things on one node.
        apt_get: how apt-get is called, with its options.
    """
    of = {
        section: [one for one in taken if one.section == section]
        for section in ("units", "masked", "files", "packages", *ACCOUNTS)
    }
    if of["units"]:
        names = _names(of["units"])
        yield f"systemctl disable --no-reload -- {names} && systemctl stop -- {names}"
    if of["masked"]:
        yield f"systemctl unmask --no-reload -- {_names(of['masked'])}"
    own = [one for one in of["files"] if not one.package]
    if own:
        yield _removed(own)
    shipped = sorted((one for one in of["files"] if one.package), key=lambda one: one.package)
    for package, files in groupby(shipped, key=lambda one: one.package):
        yield _restored(package, list(files), apt_get)
    if of["packages"]:
        yield _uninstalled(_names(of["packages"]), apt_get)
    for section, program in ACCOUNTS.items():
        for one in of[section]:
            yield f"{program} -- {shlex.quote(one.name)}"
    systemd = any(one.name.startswith(SYSTEMD) for one in of["files"])
    if systemd or shipped or of["units"] or of["masked"] or of["packages"]:
        yield "systemctl daemon-reload"


def _names(several: Collection[LeftOver]) -> str:
    return " ".join(shlex.quote(one.name) for one in several)


def _unchanged(file: LeftOver) -> str:
    """Return a condition that fails where somebody changed the file since it was read."""
    path = shlex.quote(file.name)
    return (
        f'[ ! -L {path} ] && [ "$(sha256sum <{path} | cut -d" " -f1)" = {file.sha256} ] || '
        f"{{ echo not removed, it was changed just now: {path} >&2; exit 1; }}"
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
    """Return a command that puts a package's own files in the place of Lockstep's.

    dpkg brings a configuration file back only when it is missing and told to (dpkg(1),
    --force-confmiss); ucf(1) has a variable for the same. Where the package cannot be had, the
    files stay as they are.
    """
    name = shlex.quote(package)
    paths = shlex.join(one.name for one in files)
    # apt-get forgets a hold that it was allowed to pass.
    hold = f'if [ -n "$held" ]; then apt-mark hold {name} >/dev/null; fi'
    back = (
        f'for f in {paths}; do if [ -e "$f" ]; then rm -f -- "$f.lockstep-old"; '
        'else mv -fT -- "$f.lockstep-old" "$f"; '
        'echo "not replaced, the package did not bring it: $f" >&2; status=1; fi; done'
    )
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
            back,
            hold,
            "exit $status",
        )
    )


def _uninstalled(names: str, apt_get: str) -> str:
    """Return a command that removes packages, where no other package would go with them."""
    remove = f"--allow-change-held-packages remove {names}"
    return "; ".join(
        (
            "set -e",
            f"removed=$({apt_get} --simulate {remove} | sed -n 's/^Remv \\([^ ]*\\) .*/\\1/p')",
            "others=",
            f'for p in $removed; do case " {names} " in *" $p "*) ;; '
            '*) others="$others $p";; esac; done',
            '[ -z "$others" ] || { echo "not removed: these packages would go as well:$others. '
            'Name them too, or keep all of them" >&2; exit 1; }',
            f"{apt_get} {remove}",
        )
    )
