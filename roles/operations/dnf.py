"""The commands that change packages on the RHEL family, with dnf(8)."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping

from lockstep.facts.packages import PackageState

DNF = "env LC_ALL=C dnf -y --setopt=install_weak_deps=False"
"""dnf waits by itself while another process has its lock."""
KERNELS = "kernel,kernel-core,kernel-modules,kernel-modules-core,kernel-modules-extra"
"""Packages that contain a kernel, which a driver's dependencies must not change."""


def change(
    state: PackageState,
    names: Collection[str],
    versions: Mapping[str, str],
    replaced: Collection[str],
    headers: Mapping[str, str],
    say_unbuilt: str,
    refused: str,
) -> Iterator[str]:
    """Yield the commands that install packages at given versions.

    dnf installs the version that is named, no matter which one is installed. The locks are the
    lines of a file (role ``packages``), so that no command puts packages on hold.

    Args:
        state: the current state of at least these packages.
        names: packages to install, upgrade or downgrade.
        versions: package -> version or pattern, without an epoch.
        replaced: packages that are removed, not installed, if ``names`` contains them.
        headers: kernel headers package -> its kernel; these packages are installed as well.
        say_unbuilt: command that prints which modules DKMS could not build.
        refused: prefix of the line in which Lockstep refuses a change.
    """
    if state.interrupted:
        # An interrupted transaction leaves the old and the new version of a package.
        yield f"{DNF} remove --duplicates"
    for package, kernel in headers.items():
        yield _refuse_without_headers(package, kernel)
    gone = [name for name in names if name in replaced]
    wanted = [
        f"{name}-{versions[name]}" if name in versions else name
        for name in (*headers, *names)
        if name not in replaced
    ]
    if wanted:
        locked = {one: versions[one] for one in names if one in versions and one not in replaced}
        # A package of the other flavour conflicts with the new one, and leaves with it.
        erasing = "--allowerasing " if gone else ""
        install = f"--exclude={KERNELS} {erasing}install {shlex.join(wanted)}"
        yield "; ".join(
            (
                f'said="$({DNF} {install} 2>&1)"',
                "status=$?",
                # The lists of packages may be older than the wanted version.
                f'case "$status $said" in 0*) ;; *"o match for arg"*|*"find a match"*) '
                f'said="$({DNF} --refresh {install} 2>&1)"; status=$?;; esac',
                'echo "$said"',
                '[ "$status" != 0 ] || exit 0',
                *_say_lacking(locked, refused),
                f'case "$said" in *"package kernel"*"filtered out by exclude filtering"*) '
                f'echo "{refused} this would change the kernel. Next: install this kernel on its '
                'own first, or lock other versions" >&2;; esac',
                say_unbuilt,
                "exit $status",
            )
        )
    if gone:
        there = shlex.join(gone)
        yield (
            f"left=$(rpm -q --qf '%{{NAME}} ' {there} | grep -o '^[^ ]* ' || :); "
            f'[ -z "$left" ] || {DNF} remove --noautoremove $left'
        )


def _say_lacking(locked: Mapping[str, str], refused: str) -> Iterator[str]:
    """Yield a command that names the locked versions that no repository has, and what they have.

    dnf refuses them before its transaction begins; ``$said`` is what it has said.
    """
    if not locked:
        return
    calls = "; ".join(
        f"lacks {shlex.quote(name)} {shlex.quote(version)}" for name, version in locked.items()
    )
    # Of every module stream: dnf itself says that a package is in another one.
    query = f"{DNF} -q repoquery --available --disable-modular-filtering"
    yield (
        'case "$said" in *"find a match"*) '
        f"have=\"$({query} --qf '%{{name}} %{{version}}-%{{release}}' {shlex.join(locked)} "
        '2>/dev/null | sort -u)"; '
        'lacks() { echo "$have" | { all=; while read -r name version; do '
        '[ "$name" = "$1" ] || continue; case "$version" in $2) exit 0;; esac; '
        'all="$all $version"; done; '
        f'echo "{refused} no repository of this node has $1 $2; available:${{all:- no version}}. '
        "Next: lock an available version, or declare a repository that has this one; before a "
        'deploy, lockstep mirror --check asks for all of them" >&2; }; }; '
        f"{calls};; esac"
    )


def _refuse_without_headers(package: str, kernel: str) -> str:
    """Return a command that fails if no repository has the headers for a kernel of the node."""
    return (
        f'[ -n "$(LC_ALL=C dnf -q repoquery {package})" ] || {{ '
        f'echo "no repository of this node has {package}: DKMS cannot build the driver for '
        f"kernel {kernel}, which runs or boots next; nothing was installed. Next: install a kernel "
        "whose headers are available and boot it (deploys/reboot.py), or declare a repository that "
        'keeps older headers (software.repositories)" >&2; exit 1; }'
    )
