"""``lockstep secrets INVENTORY``: generates the secrets of a cluster that this machine lacks."""

from __future__ import annotations

import argparse
from pathlib import Path

from lockstep.commands import INVENTORY, Argument, Command, WrongUse
from lockstep.inventory import load
from lockstep.report import ExitStatus
from lockstep.secrets import AUTHORITIES, EVERY_TITLE, complete, key_of_nodes, store


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    name, folder = plan.spec.name, plan.spec.secrets_dir
    kept = (file for node in plan.nodes.values() for _, file in node.system.files)
    # A munge key is taken before the role munge is managed.
    if arguments.munge_key is None and not any(file.secret for file in kept):
        print(
            f"cluster {name} needs no secrets: it has no scheduler, or the site manages the roles "
            "with secrets itself"
        )
        return ExitStatus.CONSISTENT
    path = store(name, folder)
    given = None if arguments.munge_key is None else key_of_nodes(Path(arguments.munge_key))
    try:
        kubernetes = plan.spec.kubernetes is not None
        made = complete(name, folder, given, kubernetes)
    except OSError as error:
        raise WrongUse(f"{error.filename or path}: {error.strerror}") from error
    print(f"cluster {name}: {path}")
    every = [one for one in EVERY_TITLE if kubernetes or one != AUTHORITIES]
    taken = ("munge_key",) if given and "munge_key" in made else ()
    for verb, names in (
        ("taken", taken),
        ("made", tuple(one for one in made if one not in taken)),
        ("existed", tuple(one for one in every if one not in made)),
    ):
        if names:
            print(f"  {verb:<8} {', '.join(EVERY_TITLE[one] for one in names)}")
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
    arguments=(
        INVENTORY,
        Argument(
            "--munge-key",
            metavar="FILE",
            help="take the munge key of nodes that other tools have set up, instead of a new one: "
            "a copy of /etc/munge/munge.key with mode 0600",
        ),
    ),
)
