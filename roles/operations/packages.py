"""The operations that install a node's packages, and create what no package creates."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal

from pyinfra import host

from lockstep.facts.driver import boot_kernels, loaded_driver
from lockstep.facts.files import file_states, folders_to_make
from lockstep.facts.packages import PackageState, package_state
from lockstep.fast import limits
from lockstep.plan import NodePlan, kubernetes
from lockstep.plan.driver import Driver, Kernel, header_packages
from lockstep.plan.folders import SYSUSERS, TMPFILES, Folder, missing_in_packages
from lockstep.plan.kubernetes import DONE
from lockstep.roles.operations import dnf
from lockstep.roles.operations.dry import installs
from lockstep.roles.operations.noted import note
from lockstep.roles.operations.operation import Commands, ask, operation

Family = Literal["debian", "rhel"]
LOCK_TIMEOUT_S = 600
"""Seconds that apt waits for its lock, which an interrupted deploy may still hold."""

OPTIONS = f"-q -y -o DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"
APT_GET = (
    # Each package with a unit reloads systemd, which takes 0.1 s or more, some twenty times in a
    # fresh deploy. SYSTEMD_OFFLINE (systemd's ENVIRONMENT.md) avoids that; one reload follows.
    "env DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 SYSTEMD_OFFLINE=1 "
    f"apt-get {OPTIONS} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)
MANAGERS: Mapping[Family, str] = {"debian": APT_GET, "rhel": dnf.DNF}
"""Family -> the package manager with its options."""
REFRESH: Mapping[Family, str] = {
    "debian": f"{APT_GET} update",
    "rhel": f"{dnf.DNF} --refresh makecache",
}
"""Family -> the command that reads the lists of packages of all repositories again."""
INSTALL = "--no-install-recommends --allow-downgrades"


@operation("all packages are installed at the planned versions", limits.LONG_S)
def locked_packages(
    names: tuple[str, ...],
    versions: dict[str, str],
    held: tuple[str, ...] = (),
    driver: Driver | None = None,
    headers: str = "",
    family: Family = "debian",
    upgraded: tuple[str, ...] = (),
) -> Commands:
    """Install packages, each at exactly its locked version if it has one.

    Args:
        names: packages that must be installed.
        versions: package -> locked version or a pattern (apt_preferences(5)); a different
            installed version is replaced, even by an older one.
        held: packages to put on hold (apt-mark(8)).
        driver: the planned driver. Its missing packages are installed unless a different driver is
            loaded, even one that Lockstep did not install. The version and flavour of installed
            packages change only while nothing is running on the node (deploys/reboot.py).
        headers: name of the package with a kernel's headers, with {release} for the kernel; empty
            if DKMS builds no modules.
        family: the family of the node's release, which decides the package manager.
        upgraded: packages of Kubernetes. Once the node has joined, only deploys/upgrade.py changes
            their version.
    """
    steady = tuple(driver.packages) if driver else ()
    replaced = driver.replaced if driver else ()
    state = ask(package_state((*names, *replaced)))
    differ = wrong(state, names, versions) + there(state, replaced)
    later = [name for name in differ if name in upgraded and name in state.installed]
    if later and ask(file_states((DONE,)))[DONE] is not None:
        differ = [name for name in differ if name not in later]
        versions_now = ", ".join(f"{name} {state.installed[name]}" for name in later)
        host.log(f"not changed while the node runs pods (deploys/upgrade.py): {versions_now}")
    concerns_driver = set(differ) & {*steady, *replaced}
    loaded = ask(loaded_driver()).version if concerns_driver else ""
    other_loaded = driver is not None and loaded not in ("", driver.version)
    # If the machine has a kernel of its own and no module is loaded, nothing can use the driver.
    unused = driver is not None and driver.flavour is not None and not loaded
    waiting = [] if unused else _waiting(state, differ, steady, replaced, other_loaded=other_loaded)
    if waiting and state.interrupted:
        waiting = differ  # apt installs nothing while other packages are not configured
    rest = [name for name in differ if name not in waiting]
    # Packages that the rollout will replace are not configured now.
    interrupted = state.interrupted and bool(rest or not waiting)
    needed = header_packages(headers, _unbuilt(driver, waiting)) if headers else {}
    state = replace(state, interrupted=interrupted)
    if waiting:
        host.log(
            f"not changed while the node is in use (deploys/reboot.py): "
            f"{', '.join(f'{name} {state.installed.get(name, BROKEN)}' for name in waiting)}"
        )
    note(host, rest)
    installs(host, rest)
    yield from change(state, rest, versions, held, replaced, needed, family=family)


def _unbuilt(driver: Driver | None, waiting: Collection[str]) -> tuple[Kernel, ...]:
    """Return the kernels for which DKMS has modules to build.

    Of the driver it is known which kernels lack its modules; others are built for every kernel.
    """
    kernels = ask(boot_kernels())
    # Only the kernel that boots next loads a driver that the rollout installs.
    of = kernels.next if waiting else kernels.every
    return driver.lacking(of) if driver and driver.flavour else of


BROKEN = "(not configured)"


def _waiting(
    state: PackageState,
    differ: Collection[str],
    steady: Collection[str],
    replaced: Collection[str],
    *,
    other_loaded: bool,
) -> list[str]:
    """Return the driver packages that wait for the rollout: all that differ from the plan, or none.

    Unless a different driver is loaded, no package waits if no driver is installed yet, or if some
    packages are missing and the rest are as planned.
    """
    concerned = [name for name in differ if name in steady or name in replaced]
    other_version = any(name in state.installed for name in concerned)
    half = bool(concerned) and state.interrupted and any(n in state.installed for n in steady)
    return concerned if other_version or half or other_loaded else []


def wrong(state: PackageState, names: Collection[str], versions: Mapping[str, str]) -> list[str]:
    """Return the packages that are missing or do not have the locked version."""
    return [
        name
        for name in names
        if name not in state.installed
        or not fnmatchcase(state.installed[name], versions.get(name, "*"))
    ]


def there(state: PackageState, names: Collection[str]) -> list[str]:
    """Return the packages that are installed, completely or in part."""
    return [name for name in names if name in state.installed or name in state.unfinished]


def change(
    state: PackageState,
    names: Collection[str],
    versions: Mapping[str, str],
    held: Collection[str],
    replaced: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    *,
    family: Family = "debian",
) -> Iterator[str]:
    """Yield the commands that install packages at given versions and put some of them on hold.

    Args:
        state: the current state of at least these packages.
        names: packages to install, upgrade or downgrade.
        versions: package -> version or pattern.
        held: packages that are on hold afterwards.
        replaced: packages that are removed, not installed, if ``names`` contains them.
        headers: kernel headers package -> its kernel; these packages are installed as well.
        family: the family of the node's release, which decides the package manager.
    """
    headers = headers or {}
    if family == "rhel":
        yield from dnf.change(state, names, versions, replaced, headers, SAY_UNBUILT, REFUSED)
        return
    names = (*headers, *names)
    if state.interrupted:
        yield _CONFIGURE
        if not names:
            yield _transaction("--fix-broken install")
    # apt-get drops a hold that it was allowed to ignore, even if it then fails.
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
    # Lockstep's own holds must not block this command; an administrator's holds must.
    own = set(names) & {*held, *replaced}
    ours = "--allow-change-held-packages " if own & state.held else ""
    install = f"{INSTALL} {ours}install {listed}"
    # The package lists are refreshed only if they lack a wanted version, to keep reruns fast.
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
    """Return a shell command that runs apt-get and then other commands, even if apt-get fails.

    Args:
        words: the arguments of apt-get.
        after: the other commands; ``$status`` is the exit status of apt-get.
        assigned: a variable assignment before the call, for the environment of apt-get.
    """
    reload = 'systemctl daemon-reload || [ "$status" != 0 ] || status=1'
    steps = (f"{assigned}{APT_GET} {words}", "status=$?", reload, *after, "exit $status")
    return "; ".join(steps)


SAY_UNBUILT = (
    # DKMS leaves the log there until the module is built.
    "for log in /var/lib/dkms/*/*/build/make.log; do "
    'if [ -r "$log" ]; then echo "DKMS did not build '
    """$(sed -n '1s/.* make.log for //p' "$log"): """
    # The first error of the compiler or make; compiler options contain the word "error", too.
    '$(grep -m 1 -E "error: |[*]{3} " "$log"). Full log: $log" >&2; fi; done'
)
"""Command that prints which modules DKMS could not build, for which kernels, and why."""
_SAY_FAILED = f'[ "$status" = 0 ] || {{ {SAY_UNBUILT}; }}'

_CONFIGURE = (
    # dpkg itself does not wait for the lock, so it is retried until the other process is done. A
    # package that cannot be configured is no failure yet: the next installation replaces it or
    # fails.
    f"for i in $(seq {LOCK_TIMEOUT_S // 5}); do "
    "said=$(DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 "
    "dpkg --configure -a --force-confdef --force-confold 2>&1) && exit 0; "
    'case "$said" in *"frontend lock"*|*"locked by another process"*) sleep 5;; '
    '*) echo "$said" >&2; exit 0;; esac; done; '
    'echo "$said" >&2; exit 1'
)

REFUSED = "refused:"
"""Prefix of the line in which Lockstep refuses a change; the other lines are apt's."""
_JUDGE_SAYS = (
    # apt prints its configuration, an empty line, and a line for each step: package, old version,
    # <, new version, file (or an action such as **REMOVE**).
    "kernels=$(sed -n -E '1,/^$/d; /[*]{2}CONFIGURE[*]{2}$/d; "
    "s/^(linux-(image|modules)[^ ]*) .*/\\1/p' | sort -u | paste -sd' '); "
    f'[ -z "$kernels" ] || {{ echo "{REFUSED} this would change the kernel: $kernels. '
    'Next: install or remove this kernel on its own first, or lock other versions" >&2; exit 1; }'
)
_NO_KERNEL = f"LOCKSTEP_JUDGE={shlex.quote(_JUDGE_SAYS)} "
_JUDGE = (
    "-o 'DPkg::Pre-Install-Pkgs::=sh -c \"$LOCKSTEP_JUDGE\"' -o DPkg::Tools::Options::sh::Version=2"
)
"""Options that make apt run a check before it calls dpkg, and stop if that fails (apt.conf(5)).

Otherwise a driver's dependencies might install or remove a kernel; the node would then boot a
kernel that is not planned."""


def _refuse_without_headers(package: str, kernel: str) -> str:
    """Return a command that fails if no repository has the headers for a kernel of the node."""
    return (
        f"apt-cache show {package} >/dev/null 2>&1 || {{ "
        f'echo "no repository of this node has {package}: DKMS cannot build the driver for '
        f"kernel {kernel}, which runs or boots next; nothing was installed. Next: install a kernel "
        "whose headers are available and boot it (deploys/reboot.py), or declare a repository that "
        'keeps older headers (software.repositories)" >&2; exit 1; }'
    )


@operation("the account and the folders that no package creates are there")
def account_and_folders(
    folders: dict[str, Folder | None], sysusers: str = "", tmpfiles: str = ""
) -> Commands:
    """Create the account and the folders that no package of the RHEL family creates.

    Only these two files are applied: others of the node may have lines for the boot only.

    Args:
        folders: path -> rights.
        sysusers: the file that declares the account (sysusers.d(5)); empty if there is none.
        tmpfiles: the file that declares the folders (tmpfiles.d(5)); empty if there is none.
    """
    if tmpfiles and ask(folders_to_make(folders)):
        account = f"systemd-sysusers {sysusers} && " if sysusers else ""
        yield f"{account}systemd-tmpfiles --create {tmpfiles}"


def afterwards(plan: NodePlan) -> None:
    """Create accounts and folders, then install the packages of the node's roles."""
    paths = plan.system.paths("packages")
    account_and_folders(
        name="Account and folders",
        folders=dict(missing_in_packages(plan)) if TMPFILES in paths else {},
        sysusers=SYSUSERS if SYSUSERS in paths else "",
        tmpfiles=TMPFILES if TMPFILES in paths else "",
    )
    locked_packages(
        name="Install at locked versions",
        names=plan.software.packages,
        versions=plan.software.versions,
        held=plan.software.held,
        driver=plan.software.driver,
        headers=plan.software.headers,
        family=plan.release.family,
        upgraded=tuple(kubernetes.packages(plan)),
    )
