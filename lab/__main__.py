"""The command ``lockstep lab``: creates test machines and controls them."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, get_args

from typing_extensions import override

from lab import gpus, lifecycle, network, places, setup, state, tables
from lab.commands import tool_environment
from lab.errors import InterruptedUp, LabError, WrongUseError
from lab.kubernetes import prepared
from lab.processes import run_in_machine
from lab.providers import provider_of
from lab.state import Kernel, LabState

EXIT_WRONG_USE = 3
EXIT_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """argparse with exit status 3 for usage errors, as in all commands of this project."""

    @override
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_WRONG_USE, f"{self.prog}: {message}\n")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the lab's command line."""
    parser = _Parser(prog="lockstep lab", description=__doc__)
    parser.add_argument(
        "--name", help=f"lab to use (default: ${places.NAME_VARIABLE} or {places.DEFAULT_NAME!r})"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(
        name: str, action: Callable[[argparse.Namespace], int], text: str, *, node: bool = False
    ) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        if node:
            added.add_argument("node", help="name of a node, as shown by `status`")
        return added

    preparing = verb("setup", _setup, "install missing packages on this host")
    preparing.add_argument(
        "--tests", action="store_true", help="also packages that only the test suites need"
    )
    making = verb("up", _up, "create and boot the missing nodes of the lab")
    making.add_argument("--workers", type=int, help="1 to 50; default: as before, or 2")
    making.add_argument("--heads", type=int, help="1 or 3; default: as before, or 1")
    making.add_argument("--os", dest="os_name", help="debian_13 (default) or debian_12")
    making.add_argument(
        "--description",
        metavar="INVENTORY",
        help="the cluster of an inventory file, such as inventories/prod.py; default: as before, "
        "or the lab's own",
    )
    making.add_argument(
        "--kubernetes",
        metavar="RELEASES",
        help="build the programs, packages and images of these minor releases: 1.34 (or several, "
        "with commas); default: as before, or none",
    )
    preparing.add_argument(
        "--kubernetes", action="store_true", help="also packages that labs with Kubernetes need"
    )
    for command in (preparing, making):
        command.add_argument(
            "--kernel",
            choices=get_args(Kernel),
            help="nodes share the host's kernel (default) or boot their own (QEMU)",
        )
    making.add_argument("--json", action="store_true", help="print JSON instead of a table")
    trying = verb("try", _try, "boot the cluster of an inventory file, deploy it, and check it")
    trying.add_argument("inventory", metavar="INVENTORY", help="inventory file of a site")
    trying.add_argument("--workers", type=int, help="1 to 50; default: as before, or 2")
    verb("down", _down, "remove the lab; keep images and the package cache")
    verb("purge", _purge, "remove all labs, images and caches")
    status = verb("status", _status, "show the nodes; exit status 1 if a node is not up")
    status.add_argument("--json", action="store_true")
    verb("ssh", _ssh, "ssh to a node: ssh NODE [-- COMMAND...]", node=True)
    verb("ssh-config", _ssh_config, "print an ssh_config for all nodes")
    verb(
        "run", _run, "run a command on a node's console as root: run NODE -- COMMAND...", node=True
    )
    verb("power-off", _power_off, "power off a node without a shutdown", node=True)
    verb("power-on", _power_on, "power on a node and wait until it is ready", node=True)
    verb("power-cycle", _power_cycle, "power a node off and on again", node=True)
    verb("cut", _cut, "unplug a node's network", node=True)
    verb("reconnect", _reconnect, "plug a node's network in again", node=True)
    gpu = verb("gpu", _gpu, "change or show the simulated GPUs of a worker", node=True)
    gpu.add_argument("--gpu", metavar="I", help="slot of the GPU, or 'all'")
    gpu.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="assignments"
    )
    what = gpu.add_mutually_exclusive_group()
    what.add_argument("--remove", action="store_true", help="simulate a GPU that fell off the bus")
    what.add_argument("--restore", action="store_true", help="bring the GPU back")
    what.add_argument("--reset", action="store_true", help="restore the initial state of all GPUs")
    what.add_argument("--json", action="store_true", help="print the whole state")
    what.add_argument(
        "--branch",
        metavar="B",
        help=f"run the real nvidia-smi of a driver branch: {', '.join(gpus.BRANCHES)}",
    )
    what.add_argument(
        "--load", metavar="FILE", help="take the GPUs from a state file or a recorded -q -x (.xml)"
    )
    return parser


def _lab(arguments: argparse.Namespace) -> LabState:
    return state.load(arguments.name)


def _setup(arguments: argparse.Namespace) -> int:
    installed = setup.prepare_host(
        arguments.kernel or "shared", tests=arguments.tests, kubernetes=arguments.kubernetes
    )
    print(f"installed: {' '.join(installed)}" if installed else "all packages are installed")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    releases = arguments.kubernetes
    lab = lifecycle.up(
        places.lab_name(arguments.name),
        arguments.workers,
        arguments.os_name,
        arguments.kernel,
        arguments.description,
        prepared.read_series(releases) if releases is not None else None,
        arguments.heads,
    )
    return _show(lab, json=arguments.json)


def _try(arguments: argparse.Namespace) -> int:
    # Imported here: only this verb and `up --description` need Lockstep's plan.
    from lab.description.trial import tried

    setup.require_root()
    return tried(places.lab_name(arguments.name), arguments.inventory, arguments.workers)


def _show(lab: LabState, *, json: bool) -> int:
    views = tables.view(lab)
    print(tables.as_json(lab, views) if json else tables.as_table(lab, views))
    return 0 if all(node.condition == "up" for node in views) else 1


def _down(arguments: argparse.Namespace) -> int:
    name = places.lab_name(arguments.name)
    found = lifecycle.down(name)
    print(f"lab {name!r}: removed" if found else f"lab {name!r}: does not exist")
    return 0


def _purge(arguments: argparse.Namespace) -> int:
    removed = lifecycle.purge()
    print(f"removed all caches and state, and the labs: {', '.join(removed) or 'none'}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    setup.require_root()
    return _show(_lab(arguments), json=arguments.json)


def _ssh(arguments: argparse.Namespace) -> int:
    setup.require_root()  # only root can read the key
    lab = _lab(arguments)
    lab.node(arguments.node)
    argv = ["ssh", "-F", lab.ssh_config, arguments.node]
    if arguments.command:
        argv += ["--", *arguments.command]
    # Keep the terminal and the locale of the user's shell.
    os.execvp(argv[0], argv)


def _ssh_config(arguments: argparse.Namespace) -> int:
    lab = _lab(arguments)
    with open(lab.ssh_config) as file:
        sys.stdout.write(file.read())
    return 0


def _run(arguments: argparse.Namespace) -> int:
    setup.require_root()
    lab = _lab(arguments)
    node = lab.node(arguments.node)
    if not arguments.command:
        raise WrongUseError(
            "run: no command; expected one after '--'",
            f"lockstep lab --name {lab.name} run {node.name} -- uptime",
        )
    argv = provider_of(lab).console(lab.name, node, arguments.command)
    sys.stdout.flush()
    return run_in_machine(argv, tool_environment())


def _power_off(arguments: argparse.Namespace) -> int:
    return _power(arguments, off=True, on=False)


def _power_on(arguments: argparse.Namespace) -> int:
    return _power(arguments, off=False, on=True)


def _power_cycle(arguments: argparse.Namespace) -> int:
    return _power(arguments, off=True, on=True)


def _power(arguments: argparse.Namespace, *, off: bool, on: bool) -> int:
    setup.require_root()
    with places.locked(places.lab_name(arguments.name)):
        lab = _lab(arguments)
        node = lab.node(arguments.node)
        lifecycle.power(lab, node, off=off, on=on)
    print(f"{node.name}: {'up' if on else 'off'}")
    return 0


def _cut(arguments: argparse.Namespace) -> int:
    return _plug(arguments, plugged=False)


def _reconnect(arguments: argparse.Namespace) -> int:
    return _plug(arguments, plugged=True)


def _plug(arguments: argparse.Namespace, *, plugged: bool) -> int:
    setup.require_root()
    with places.locked(places.lab_name(arguments.name)):
        lab = _lab(arguments)
        node = lab.node(arguments.node)
        network.set_link(lab.name, node.name, "up" if plugged else "down")
    print(f"{node.name}: network {'plugged in' if plugged else 'cut'}")
    return 0


def _gpu(arguments: argparse.Namespace) -> int:
    setup.require_root()
    with places.locked(places.lab_name(arguments.name)):
        lab = _lab(arguments)
        node = lab.node(arguments.node)
        provider = provider_of(lab)
        if arguments.json:
            print(gpus.as_json(lab, node, provider), end="")
            return 0
        if arguments.reset:
            gpus.reset(lab, node, provider)
            return 0
        if arguments.branch is not None:
            gpus.choose_branch(lab, node, arguments.branch, provider)
            return 0
        if arguments.load is not None:
            for note in gpus.load(lab, node, Path(arguments.load), provider):
                print(f"note: {note}")
            return 0
        if arguments.gpu is None and not arguments.assignments:
            print(gpus.show(lab, node, provider), end="")
            return 0
        changes = arguments.assignments or arguments.remove or arguments.restore
        if arguments.gpu is None or not changes:
            raise WrongUseError(
                f"gpu {node.name}: expected --gpu I with --set FIELD=VALUE, --remove or --restore, "
                "or --reset, or --json",
                f"lockstep lab --name {lab.name} gpu {node.name} --json",
            )
        if arguments.assignments:
            gpus.change(lab, node, arguments.gpu, arguments.assignments, provider)
        if arguments.remove:
            gpus.remove(lab, node, arguments.gpu, provider)
        if arguments.restore:
            gpus.restore(lab, node, arguments.gpu, provider)
    return 0


def _on_ending(signum: int, frame: FrameType | None) -> None:
    raise InterruptedUp


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status (0 success, 1 failure, 3 usage error)."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Everything after the first "--" is a command for a node and is passed on unchanged.
    split = words.index("--") if "--" in words else len(words)
    arguments = command_parser().parse_args(words[:split])
    arguments.command = words[split + 1 :]
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _on_ending)
    try:
        if arguments.command and arguments.verb not in ("run", "ssh"):
            raise WrongUseError(f"{arguments.verb}: a command after '--' is not allowed")
        status: int = arguments.action(arguments)
    except LabError as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return failure.exit_status
    except (KeyboardInterrupt, InterruptedUp):
        print("lab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return status


if __name__ == "__main__":
    sys.exit(main())
