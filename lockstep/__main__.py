"""``lockstep``: plan a cluster, and check that its nodes are equal."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

from typing_extensions import override

from lockstep import commands, garbage
from lockstep.report import ExitStatus

INTERRUPTED = 128 + signal.SIGINT
"""Exit status that a shell shows for a program ended by Ctrl-C."""
BROKEN_PIPE = 128 + signal.SIGPIPE
"""Exit status that a shell shows for a program killed by SIGPIPE, for example by ``| head``."""


class _Parser(argparse.ArgumentParser):
    """Exits with 3 on wrong usage: 2 already means "something could not be read"."""

    @override
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(ExitStatus.WRONG_USE, f"{self.prog}: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    garbage.seldom()
    parser = _Parser(prog="lockstep", description=__doc__)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {metadata.version('lockstep')}"
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    modules = sorted(m.name for m in pkgutil.iter_modules(commands.__path__))
    for module in (name for name in modules if not name.startswith("_")):
        importlib.import_module(f"{commands.__name__}.{module}").add_parser(subparsers)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again at exit and would report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)  # a new line after the terminal's ^C
        return INTERRUPTED
    return status


if __name__ == "__main__":
    raise SystemExit(main())
