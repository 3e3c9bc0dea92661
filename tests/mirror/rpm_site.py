"""The small cluster on Rocky 9, and repositories of RPMs that have its packages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from lockstep.mirror.needs import kinds
from tests.lab.vendors_rpms import Rpm
from tests.mirror.site import DRIVER, description, plan_of

TOOLS = ("dnf", "createrepo_c", "modifyrepo_c", "rpmbuild", "rpmsign", "rpmkeys", "gpg")
MISSING = [name for name in TOOLS if shutil.which(name) is None]
"""Programs that the tests need and this machine lacks."""
FREE = "1"
"""The version of a package that the description does not lock."""
LIBRARY = Rpm("liblock1", "2.0", lines=("Epoch: 1",))
MUNGE = Rpm("munge", "0.5.16", lines=("Requires: liblock1",))


def on_rocky(repository: str, key: str, driver: str = DRIVER, **changes: Any) -> dict[str, Any]:
    site = {"name": "site", "uri": repository, "suite": "/", "key": key, **changes}
    found = description(
        repositories=[site], nvidia={"driver": driver}, versions={"munge": "0.5.16-1.el9"}
    )
    found["os"]["release"] = "rocky_9"
    return found


def rpms(wanted: dict[str, Any], *more: Rpm) -> list[Rpm]:
    """An RPM for each package that the description needs, at a version that it accepts."""
    found = {}
    for kind in kinds(plan_of(wanted)):
        for one in kind.packages:
            version, _, release = one.version.partition("-")
            found[one.package] = Rpm(
                one.package,
                version.replace("*", "0") if version != "*" else FREE,
                release if release not in ("", "*") else "1.el9",
            )
    return [*{**found, **{one.name: one for one in more}}.values()]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Path -> inode and time of each file: a file that was written again differs."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }
