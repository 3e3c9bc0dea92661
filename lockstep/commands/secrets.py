"""``lockstep secrets INVENTORY``: generates the secrets of a cluster that this machine lacks."""

from __future__ import annotations

import argparse

from lockstep.commands import INVENTORY, Command, WrongUse
from lockstep.inventory import load
from lockstep.report import ExitStatus
from lockstep.secrets import TITLES, complete, store


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    name, folder = plan.spec.name, plan.spec.secrets_dir
    if not any(file.secret for node in plan.nodes.values() for _, file in node.system.files):
        print(f"cluster {name} needs no secrets: it has no scheduler")
        return ExitStatus.CONSISTENT
    path = store(name, folder)
    try:
        made = complete(name, folder)
    except OSError as error:
        raise WrongUse(f"{error.filename or path}: {error.strerror}") from error
    print(f"cluster {name}: {path}")
    for verb, names in (
        ("made", made),
        ("existed", tuple(one for one in TITLES if one not in made)),
    ):
        if names:
            print(f"  {verb:<8} {', '.join(TITLES[one] for one in names)}")
    if made:
        print("Keep a copy of this file. Deploys and checks need it on the machine they run on.")
    return ExitStatus.CONSISTENT


COMMAND = Command(
    run=_run,
    help="generate the secrets of a cluster that are missing, before its first deploy",
    description=(
        "Stores them in a file that only its owner can read, and never prints them. Contacts no "
        "node. Exit status: 0 all secrets exist now, 3 usage error or an unsafe file."
    ),
    arguments=(INVENTORY,),
)
