"""Plan a GPU cluster, check that its nodes are equal, and repair them."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any, NoReturn

from typing_extensions import override

from lockstep import commands, fast_path
from lockstep.nearest import did_you_mean
from lockstep.report import ExitStatus


class _Parser(argparse.ArgumentParser):
    """Exits with status 3 after a usage error; status 2 means that something could not be read."""

    @override
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(ExitStatus.WRONG_USE, f"{self.prog}: error: {message}\n")

    @override
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse itself suggests only since Python 3.14, and lists all commands without an order.
        known = [str(one) for one in action.choices or ()]
        if known and value not in known:
            expected = did_you_mean(str(value), known, f"expected {', '.join(known)}")
            raise argparse.ArgumentError(action, f"unknown: {value}; {expected}")

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """Exit because of words that belong to no argument; suggest similar options."""
        known = [name for name in self._option_string_actions if name.startswith("--")]
        hint = did_you_mean(words[0].partition("=")[0], known)
        said = f"unrecognized arguments: {' '.join(words)}"
        self.error(f"{said}; {hint}" if hint else said)


@cache
def all_commands() -> dict[str, commands.Command]:
    """Return name -> command, sorted by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    return {name: importlib.import_module(f"{commands.__name__}.{name}").COMMAND for name in names}


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="lockstep", description=__doc__)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {metadata.version('lockstep')}"
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in all_commands().items():
        own = subparsers.add_parser(
            name, help=command.help, description=command.description, usage=command.usage
        )
        command.add_to(own)
        own.set_defaults(run=command, parser=own)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    fast_path.collect_seldom()
    words = list(sys.argv[1:] if argv is None else argv)
    command = all_commands().get(words[0]) if words else None
    if command is not None and command.program is not None:
        return command.program(words[1:])
    arguments, unknown = command_parser().parse_known_args(words)
    if unknown:
        arguments.parser.refuse_unknown(unknown)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again at exit and would report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE  # as a shell reports it, for example after ``| head``
    except KeyboardInterrupt:
        # A new line after the terminal's ^C.
        print(f"\nInterrupted: {arguments.run.interrupted}.", file=sys.stderr)
        return 128 + signal.SIGINT  # as a shell reports it
    return status


if __name__ == "__main__":
    raise SystemExit(main())
