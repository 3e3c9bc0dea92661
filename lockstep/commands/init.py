"""``lockstep init DIR``: makes the repository of a site."""

from __future__ import annotations

import argparse
import re
from importlib import metadata
from pathlib import Path

from lockstep.commands import Argument, Command, WrongUse, copy_folder
from lockstep.mirror.wheels import LOCK
from lockstep.render import TEMPLATES
from lockstep.report import ExitStatus

SITE = TEMPLATES / "site"
REQUIREMENTS = "requirements.txt"
LAB_NEEDS = "nvidia-nvml-dev"
"""The package that ``lockstep lab`` needs beside those of Lockstep."""
BLOCK = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
"""One package of the pinned requirements, with its hashes and comments."""


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    try:
        made = make(folder)
    except OSError as error:
        raise WrongUse(f"{error.filename or folder}: {error.strerror}") from error
    print("\n".join(str(folder / name) for name in made))
    print(f"{len(made)} files. Next: read {folder / 'README.md'}")
    return ExitStatus.CONSISTENT


def make(folder: Path) -> list[str]:
    """Write the repository of a site into an empty folder; return the names of the files.

    Raises:
        WrongUse: the folder is not empty, is a file, or cannot be written.
        OSError: a file cannot be written.
    """
    copy_folder(SITE, folder)
    release = folder / REQUIREMENTS
    text = release.read_text(encoding="utf-8")
    release.write_text(text.replace("@VERSION@", metadata.version("lockstep")), encoding="utf-8")
    (folder / "requirements.lock").write_text(dependencies(), encoding="utf-8")
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def dependencies() -> str:
    """Return the part of the pinned requirements that Lockstep and its lab need to run."""
    locked = {
        _normal(one["name"]): one[0] for one in BLOCK.finditer(LOCK.read_text(encoding="utf-8"))
    }
    needed: set[str] = set()
    queue = ["lockstep"]
    needed.add(LAB_NEEDS)
    while queue:
        name = queue.pop()
        for wanted in _required(name):
            if wanted in locked and wanted not in needed:
                needed.add(wanted)
                queue.append(wanted)
    return "".join(text for name, text in locked.items() if name in needed)


def _required(name: str) -> set[str]:
    """Return what a package needs on any system, without its extras."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # needed on another system or Python only
        return set()
    plain = (line for line in lines if not re.search(r"\bextra\s*==", line))
    return {_normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in plain}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


COMMAND = Command(
    run=_run,
    help="make the repository of a site: inventory, deploys, role, rule, tests, CI",
    description=(
        "Writes an example that is complete: lockstep plan and the tests of the new repository "
        "work at once. Its README.md says what to change, and how. Exit status: 0 the files were "
        "written, 3 the folder is not empty."
    ),
    arguments=(Argument("folder", metavar="DIR", help="folder that is empty or does not exist"),),
)
