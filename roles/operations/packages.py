"""The operation that installs packages at their locked versions, all of a node in one go."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from pyinfra import host

from lockstep.facts.gpus import LoadedDriver
from lockstep.facts.kernels import Kernels
from lockstep.facts.packages import PackageState, package_state
from lockstep.facts.reading import ask
from lockstep.plan import NodePlan
from lockstep.plan.driver import Driver
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation

LOCK_TIMEOUT_S = 600
"""How long apt waits for another apt: an interrupted deploy's may still be at work."""

OPTIONS = f"-q -y -o DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"
APT_GET = (
    # Each package with a unit reloads systemd, a tenth of a second and more, some twenty times in a
    # fresh deploy: told that systemd is not there, it leaves that to us (systemd's ENVIRONMENT.md).
    "env DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 SYSTEMD_OFFLINE=1 "
    f"apt-get {OPTIONS} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)
INSTALL = "--no-install-recommends --allow-downgrades"


@operation()
def locked_packages(
    names: tuple[str, ...],
    versions: dict[str, str],
    held: tuple[str, ...] = (),
    driver: Driver | None = None,
) -> Generator[str, None, None]:
    """Install packages; those with a locked version at exactly that version.

    Args:
        names: packages that must be there.
        versions: package -> locked version or a pattern (apt_preferences(5)); a different
            installed version is replaced, also by an older one.
        held: packages that no other apt may change.
        driver: its packages are installed where they are missing; their version and flavour are
            changed only while nothing runs on the node (deploys/reboot.py). Beside another driver
            that is loaded, whoever installed it, they are not installed either.
    """
    steady = tuple(driver.packages) if driver else ()
    replaced = driver.replaced if driver else ()
    state = ask(host, package_state((*names, *replaced)))
    differ = wrong(state, names, versions) + there(state, replaced)
    loaded = host.get_fact(LoadedDriver) if driver and set(differ) & {*steady, *replaced} else ""
    other_loaded = driver is not None and loaded not in ("", driver.version)
    # Where the kernel is the machine's own and no module is loaded, nothing can use the driver.
    unused = driver is not None and driver.flavour is not None and not loaded
    waiting = [] if unused else _waiting(state, differ, steady, replaced, other_loaded=other_loaded)
    if waiting and state.interrupted:
        waiting = differ  # apt installs nothing beside packages that it cannot configure
    rest = [name for name in differ if name not in waiting]
    # What the rollout will replace is not worth configuring now.
    interrupted = state.interrupted and bool(rest or not waiting)
    headers = {}
    if driver and driver.flavour:
        kernels = host.get_fact(Kernels)
        # A driver that the rollout brings is only ever loaded by the kernel that boots next.
        headers = driver.header_packages(kernels.next if waiting else kernels.every)
    state = replace(state, interrupted=interrupted)
    commands = tuple(change(state, rest, versions, held, replaced, headers))
    if waiting:
        host.log(
            f"left at their versions until nothing runs here (deploys/reboot.py): "
            f"{', '.join(f'{name} {state.installed.get(name, BROKEN)}' for name in waiting)}"
        )
    if not commands:
        host.noop("all packages are installed at their versions")
    yield from commands


BROKEN = "(not configured)"


def _waiting(
    state: PackageState,
    differ: Collection[str],
    steady: Collection[str],
    replaced: Collection[str],
    *,
    other_loaded: bool,
) -> list[str]:
    """Return what waits for the rollout: of steady packages all or none, they go together.

    None where none is there yet, or where only some are missing and the others are right.
    """
    concerned = [name for name in differ if name in steady or name in replaced]
    other_version = any(name in state.installed for name in concerned)
    half = bool(concerned) and state.interrupted and any(n in state.installed for n in steady)
    return concerned if other_version or half or other_loaded else []


def wrong(state: PackageState, names: Collection[str], versions: Mapping[str, str]) -> list[str]:
    """Return the packages that are missing or not at their version."""
    return [
        name
        for name in names
        if name not in state.installed
        or not fnmatchcase(state.installed[name], versions.get(name, "*"))
    ]


def there(state: PackageState, names: Collection[str]) -> list[str]:
    """Return the packages that are installed, or half so."""
    return [name for name in names if name in state.installed or name in state.unfinished]


def change(
    state: PackageState,
    names: Collection[str],
    versions: Mapping[str, str],
    held: Collection[str],
    replaced: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield the commands that bring packages to their versions, and hold what is to be held.

    Args:
        state: of at least these packages.
        names: packages to install, upgrade or downgrade.
        versions: package -> version or pattern.
        held: packages that are on hold afterwards.
        replaced: packages that are removed where they are among the names.
        headers: package -> kernel, of the headers to install with them.
    """
    headers = headers or {}
    names = (*headers, *names)
    if state.interrupted:
        yield _CONFIGURE
        if not names:
            yield _transaction("--fix-broken install")
    # apt-get forgets a hold that it was allowed to pass, also where it then fails.
    hold = sorted(
        name
        for name in held
        if name in names or (name in state.installed and name not in state.held)
    )
    if not names:
        if hold:
            yield _hold(hold)
        return
    listed = " ".join(
        shlex.quote(f"{name}={versions[name]}" if name in versions else name)
        + ("-" if name in replaced else "")
        for name in names
    )
    # A hold of ours must not keep us out, a person's on anything else must.
    own = set(names) & {*held, *replaced}
    ours = "--allow-change-held-packages " if own & state.held else ""
    install = f"{INSTALL} {ours}install {listed}"
    # The lists are refreshed only when they do not know what is wanted: a rerun costs nothing.
    yield f"apt-get {OPTIONS} --simulate {install} >/dev/null 2>&1 || {APT_GET} update"
    for package, kernel in headers.items():
        yield _refuse_without_headers(package, kernel)
    after = []
    if hold:
        there = [name for name in hold if name in state.installed]
        failed = f"else {_hold(there)}; " if there else ""
        after.append(f'if [ "$status" = 0 ]; then {_hold(hold)}; {failed}fi')
    if own or headers:
        yield _transaction(f"{_JUDGE} {install}", *after, _SAY_FAILED, assigned=_NO_KERNEL)
    else:
        yield _transaction(install, *after)


def _hold(names: Iterable[str]) -> str:
    return f"apt-mark hold {' '.join(map(shlex.quote, names))} >/dev/null"


def _transaction(words: str, *after: str, assigned: str = "") -> str:
    """Return a call of apt-get, with what is due afterwards also where it failed.

    Args:
        words: for apt-get.
        after: commands; ``$status`` is apt-get's.
        assigned: in front of it: a variable of its environment.
    """
    reload = 'systemctl daemon-reload || [ "$status" != 0 ] || status=1'
    steps = (f"{assigned}{APT_GET} {words}", "status=$?", reload, *after, "exit $status")
    return "; ".join(steps)


SAY_UNBUILT = (
    # DKMS leaves the log there until the module is built.
    "for log in /var/lib/dkms/*/*/build/make.log; do "
    'if [ -r "$log" ]; then echo "DKMS did not build '
    """$(sed -n '1s/.* make.log for //p' "$log"): """
    # The compiler's first error, else make's: options of the compiler have the word as well.
    '$(grep -m 1 -E "error: |[*]{3} " "$log"). All of it: $log" >&2; fi; done'
)
"""Command that says which modules DKMS could not build, for which kernel, and why."""
_SAY_FAILED = f'[ "$status" = 0 ] || {{ {SAY_UNBUILT}; }}'

_CONFIGURE = (
    # dpkg itself does not wait for the lock, so it is tried until the other one is done. What
    # cannot be configured is no failure yet: the installation that follows replaces it, or fails.
    f"for i in $(seq {LOCK_TIMEOUT_S // 5}); do "
    "said=$(DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 "
    "dpkg --configure -a --force-confdef --force-confold 2>&1) && exit 0; "
    'case "$said" in *"frontend lock"*|*"locked by another process"*) sleep 5;; '
    '*) echo "$said" >&2; exit 0;; esac; done; '
    'echo "$said" >&2; exit 1'
)

REFUSED = "refused:"
"""How a judgement of ours begins; apt adds lines of its own."""
_JUDGE_SAYS = (
    # Behind apt's own configuration, an empty line, there is a line for each step: package, old
    # version, <, new version, file (or what is done in its place).
    "kernels=$(sed -n -E '1,/^$/d; /[*]{2}CONFIGURE[*]{2}$/d; "
    "s/^(linux-(image|modules)[^ ]*) .*/\\1/p' | sort -u | paste -sd' '); "
    f'[ -z "$kernels" ] || {{ echo "{REFUSED} this would change the kernel: $kernels. '
    'Install or remove it by itself first, or lock another version" >&2; exit 1; }'
)
_NO_KERNEL = f"LOCKSTEP_JUDGE={shlex.quote(_JUDGE_SAYS)} "
_JUDGE = (
    "-o 'DPkg::Pre-Install-Pkgs::=sh -c \"$LOCKSTEP_JUDGE\"' -o DPkg::Tools::Options::sh::Version=2"
)
"""Has apt ask for a judgement before it calls dpkg, and end where that fails (apt.conf(5)): drivers
bring or remove a kernel by dependencies, and the node would boot into what nobody planned."""


def _refuse_without_headers(package: str, kernel: str) -> str:
    """Return a command that fails when no archive has the headers of a kernel of the node."""
    return (
        f"apt-cache show {package} >/dev/null 2>&1 || {{ "
        f'echo "no archive of this node has {package}: no module of the driver can be built for '
        f"kernel {kernel}, which runs or boots next; nothing was installed. Next: install a kernel "
        "that has headers there and boot it (deploys/reboot.py), or declare a repository that "
        'keeps older ones (software.repositories)" >&2; exit 1; }'
    )


def apply(plan: NodePlan) -> None:
    """Install what the roles of the node need."""
    put_files(plan, "packages")
    locked_packages(
        name="Install at locked versions",
        names=plan.packages,
        versions=plan.versions,
        held=plan.held,
        driver=plan.driver,
    )
