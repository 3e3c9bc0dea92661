"""``lockstep lab``: test machines with simulated GPUs, to try a change before production."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from lockstep.commands import Argument, Command


def _program(words: Sequence[str]) -> int:
    # Imported only here: no other command needs the lab.
    import_module("lockstep.lab_path")
    status: int = import_module("lab.__main__").main(words)
    return status


def _run(arguments: argparse.Namespace) -> int:
    return _program(arguments.words)


COMMAND = Command(
    run=_run,
    help="boot test machines with simulated GPUs, and try an inventory on them (root)",
    description="lockstep lab --help lists its verbs; `try INVENTORY` deploys and checks.",
    program=_program,
    arguments=(Argument("words", nargs=argparse.REMAINDER, metavar="VERB ..."),),
)
