"""``lockstep describe HOST...``: drafts a description from running nodes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lockstep.commands import Argument, Command, NotRead, WrongUse, require_writable, write
from lockstep.describe import Draft, draft
from lockstep.describe.values import TODO, Value
from lockstep.fleet.gather import gather_hosts
from lockstep.probe.record import only_records
from lockstep.reading import Progress
from lockstep.report import ExitStatus, alike, count
from lockstep.spec.names import expand
from lockstep.when import utc

DAY = len("2026-11-20")
FROM_SSH_CONFIG = {"port": "port", "key": "identityfile", "known_hosts": "userknownhostsfile"}
"""Field of ``access`` -> its key in ssh_config(5), as paramiko has it."""


def _run(arguments: argparse.Namespace) -> int:
    require_writable(arguments, "output")
    hosts, access = _hosts(arguments.hosts), _access(arguments)
    login = _login(access, arguments.ssh_config)
    with _opened(arguments.output) as keep:
        progress = Progress(len(hosts), sys.stderr)
        try:
            reading = gather_hosts(
                {host: {**login, "ssh_hostname": host} for host in hosts}, progress.tell
            )
        finally:
            progress.end()
        if not only_records(reading):
            reasons = alike(hosts, lambda host: getattr(reading[host], "reason", ""))
            raise NotRead(
                "no host could be read, so there is no draft"
                + "".join(f"\n  {', '.join(names)}: {why}" for why, names in reasons.items())
            )
        command = f"lockstep describe {shlex.join(arguments.hosts)}"
        access = {**_configured(hosts, arguments.ssh_config), **access}
        made = draft(reading, access, command, utc(time.time())[:DAY])
        write(arguments.output or "-", made.text)
        keep()
    _tell(made, arguments.output)
    return ExitStatus.DIFFERS if made.lost else ExitStatus.CONSISTENT


def _hosts(words: list[str]) -> list[str]:
    """Return the hosts, each once, with ranges written out."""
    found: list[str] = []
    for word in words:
        if word.startswith("-") or any(not one.isprintable() or one.isspace() for one in word):
            raise WrongUse(f"{word!r}: not a host\n  expected  a host name or an address")
        try:
            found += expand(word) if "[" in word else [word]
        except ValueError as error:
            raise WrongUse(
                f"{word}: {error}\n  expected  a host name, an address, or a range such as "
                "worker[01-16]"
            ) from error
    return list(dict.fromkeys(found))


def _access(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of ``access`` that the options give; files by their absolute paths."""
    for option in ("key", "known_hosts", "ssh_config"):
        path = getattr(arguments, option)
        if path is not None and not os.access(Path(path).expanduser(), os.R_OK):
            name = option.replace("_", "-")
            raise WrongUse(f"--{name} {path}: the file cannot be read\n  expected  a readable file")
    given = {
        "user": arguments.user,
        "port": arguments.port,
        "key": _absolute(arguments.key),
        "known_hosts": _absolute(arguments.known_hosts),
    }
    return {name: value for name, value in given.items() if value is not None}


def _configured(hosts: list[str], ssh_config: str | None) -> dict[str, Value]:
    """Return the fields of ``access`` that the file of ``--ssh-config`` gives all hosts.

    A check of the draft does not read that file.
    """
    if ssh_config is None:
        return {}
    # Imported here: it imports pyinfra, which other commands do not need.
    from lockstep.pyinfra_internals.ssh_client import configured

    found = configured(str(_absolute(ssh_config)), hosts)
    values: dict[str, Any] = {
        name: found[0][key]
        for name, key in FROM_SSH_CONFIG.items()
        if key in found[0] and all(one.get(key) == found[0][key] for one in found)
    }
    if "port" in values:
        values["port"] = int(values["port"])
    if "key" in values:
        values["key"] = _absolute(values["key"][0])
    if "known_hosts" in values:
        values["known_hosts"] = _absolute(values["known_hosts"].split()[0])
    note = f"found in {ssh_config}, which a check does not read"
    return {name: Value(value, note) for name, value in values.items()}


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().resolve())


def _login(access: dict[str, Any], ssh_config: str | None) -> dict[str, Any]:
    """Return the data that pyinfra needs to connect: as a plan does, host keys are checked."""
    named = {"user": "ssh_user", "port": "ssh_port", "key": "ssh_key"}
    named["known_hosts"] = "ssh_known_hosts_file"
    given = {named[name]: value for name, value in access.items()}
    if ssh_config is not None:
        given["ssh_config_file"] = _absolute(ssh_config)
    return {**given, "ssh_strict_host_key_checking": "yes", "_sudo": access.get("user") != "root"}


@contextmanager
def _opened(path: str | None) -> Iterator[Any]:
    """Make the output file before any host is read; remove it again if there is no draft.

    Yields:
        A function to call when the file is complete.

    Raises:
        WrongUse: the file exists, or cannot be made.
    """
    kept: list[bool] = []
    if path is None:
        yield lambda: None
        return
    try:
        Path(path).open("x").close()
    except FileExistsError:
        raise WrongUse(
            f"--output {path}: the file exists, and a draft never replaces one\n"
            f"  next      choose another name, or remove it: rm {shlex.quote(path)}"
        ) from None
    except OSError as error:
        raise WrongUse(f"--output {path}: {error.strerror}\n  expected  a new file") from error
    try:
        yield lambda: kept.append(True)
    finally:
        if not kept:
            Path(path).unlink(missing_ok=True)


def _tell(made: Draft, path: str | None) -> None:
    """Print what the draft has, and the next step."""
    for reason, hosts in alike(made.lost, made.lost.__getitem__).items():
        print(f"{', '.join(hosts)}: not in the draft: {reason}", file=sys.stderr)
    print(
        f"{count(made.nodes, 'node')}: {made.classes} hardware "
        f"{'class' if made.classes == 1 else 'classes'}, {count(made.groups, 'node group')}, "
        f"{count(made.todos, TODO)}",
        file=sys.stderr,
    )
    for one in made.problems:
        print(f"Lockstep refuses, as it was found: {one}", file=sys.stderr)
    print(
        "Next: compare each value with what you configured"
        + (", fill in each TODO" if made.todos else "")
        + f", then run lockstep plan {path or 'INVENTORY'}",
        file=sys.stderr,
    )


COMMAND = Command(
    run=_run,
    help="draft a description from running nodes that Lockstep did not set up",
    description="Reads the hosts over ssh and prints an inventory. Each value has a comment with "
    "the nodes that it was found on; each value that was not found is a TODO. A person must "
    "confirm it (docs/existing-clusters.md). No host is changed. The options of ssh hold for all "
    "hosts; a jump host is taken from ssh's configuration (ProxyJump). Host keys are checked. "
    "Exit status: 0 all hosts are in the draft, 1 some are not, 2 no host could be read, 3 usage "
    "error.",
    arguments=(
        Argument(
            "hosts",
            metavar="HOST",
            nargs="+",
            help="host name, address, or a range such as worker[01-16]; name the heads, too",
        ),
        Argument(
            "-o",
            "--output",
            metavar="FILE",
            help="write the inventory to this new file instead of standard output",
        ),
        Argument(
            "--user",
            metavar="NAME",
            help="account on the hosts; it may use sudo without a password (default: as ssh)",
        ),
        Argument("--port", metavar="NUMBER", type=int, help="TCP port of sshd (default: 22)"),
        Argument("--key", metavar="FILE", help="private key; by default the agent's and ssh's own"),
        Argument("--known-hosts", metavar="FILE", help="known_hosts file; by default your own"),
        Argument(
            "--ssh-config",
            metavar="FILE",
            help="ssh's configuration, for example with a ProxyJump; by default ~/.ssh/config",
        ),
    ),
)
