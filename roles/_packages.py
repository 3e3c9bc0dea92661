"""The operation that installs packages at their locked versions, all of a node in one go."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.packages import Packages

LOCK_TIMEOUT_S = 600
"""How long apt waits for another apt: an interrupted deploy's may still be at work."""

APT_GET = (
    "env DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 "
    f"apt-get -q -y -o DPkg::Lock::Timeout={LOCK_TIMEOUT_S} "
    "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
)


@operation()
def locked_packages(names: tuple[str, ...], versions: dict[str, str]) -> Generator[str, None, None]:
    """Install packages; those with a locked version at exactly that version.

    Args:
        names: packages that must be there.
        versions: package -> locked version; a different installed version is replaced, also by
            an older one.
    """
    state = host.get_fact(Packages, names=names)
    wrong = [
        shlex.quote(f"{name}={versions[name]}" if name in versions else name)
        for name in names
        if name not in state.installed
        or (name in versions and state.installed[name] != versions[name])
    ]
    if state.interrupted:
        # dpkg itself does not wait for the lock, so it is tried until the other one is done.
        yield (
            f"for i in $(seq {LOCK_TIMEOUT_S // 5}); do "
            "DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1 "
            "dpkg --configure -a --force-confdef --force-confold && exit 0; sleep 5; done; exit 1"
        )
        yield f"{APT_GET} --fix-broken install"
    if not wrong:
        if not state.interrupted:
            host.noop("all packages are installed at their versions")
        return
    listed = " ".join(wrong)
    # The lists are refreshed only when they do not know what is wanted: a rerun costs nothing.
    yield (
        f"apt-get -q -y -o DPkg::Lock::Timeout={LOCK_TIMEOUT_S} --simulate --no-install-recommends "
        f"--allow-downgrades install {listed} >/dev/null 2>&1 || {APT_GET} update"
    )
    yield f"{APT_GET} --no-install-recommends --allow-downgrades install {listed}"
