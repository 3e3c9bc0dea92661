"""``lockstep deploys``: where Lockstep's deploys are, for pyinfra's command line."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

from lockstep.commands import Argument, Command, WrongUse
from lockstep.inventory import OWN_DEPLOYS
from lockstep.report import ExitStatus


def _run(arguments: argparse.Namespace) -> int:
    paths = {path.stem: path for path in sorted(OWN_DEPLOYS.resolve().glob("[!_]*.py"))}
    name = arguments.name
    if name is None:
        print("\n".join(f"{path}\n    {_title(path)}" for path in paths.values()))
    elif name in paths:
        print(paths[name])
    else:
        raise WrongUse(f"unknown deploy {name!r}\n  expected  {', '.join(paths)}")
    return ExitStatus.CONSISTENT


def _title(path: Path) -> str:
    documented = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return documented.partition("\n")[0]


COMMAND = Command(
    run=_run,
    help="print the paths of Lockstep's deploys, for pyinfra",
    description=(
        "pyinfra takes a deploy as the path of a file. With a name, prints only that path: "
        'pyinfra INVENTORY "$(lockstep deploys worker)". A site\'s own repository has files that '
        "call them (lockstep init)."
    ),
    arguments=(Argument("name", nargs="?", metavar="NAME", help="cluster, head, worker, ..."),),
)
