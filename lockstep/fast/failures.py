"""The hosts of a run that failed, and why: listed at the end of the run, equal reasons once.

pyinfra shows a fault when it happens, hundreds of lines before the end. With ``--no-wait`` it shows
a traceback besides, and ends with 0. Here, a run in which a host failed ends with 1.
"""

from __future__ import annotations

import re
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pyinfra
from gevent import get_hub
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.output import echo
from pyinfra.api.state import BaseStateCallback
from typing_extensions import override

if TYPE_CHECKING:
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

UNKNOWN = "see its error above"
THEN = ". Next: repair the node, then run this again"
ADDRESS = re.compile(r"[0-9a-fA-F:.]*[0-9a-fA-F][0-9a-fA-F:.]*")
"""Matches every address, and other words; ``ip_address`` decides."""


class Failures(BaseStateCallback):
    """Keeps why each host failed, and lists them when pyinfra's command ends."""

    def __init__(self, state: State) -> None:
        """Begin to watch a run; outside of pyinfra's command, nothing is listed.

        Args:
            state: pyinfra's state.
        """
        self._state = state
        self._said: dict[Host, str] = {}
        """The last error of each host, even if the host goes on."""
        self._why: dict[Host, str] = {}
        """Why a host failed."""
        self._running: dict[Host, str] = {}
        """The operation that has begun on each host and not ended."""
        context = None
        if pyinfra.is_cli:
            import click  # only pyinfra's command needs it

            context = click.get_current_context(silent=True)
        if context is not None:
            context.call_on_close(self._close)
            if context.params.get("no_wait"):
                # Its greenlets end with this error, which the host's own lines explain.
                hub = get_hub()
                hub.NOT_ERROR = (*hub.NOT_ERROR, PyinfraError)

    def note(self, host: Host, error: str) -> None:
        """Note an error of a host; it counts if the host fails next."""
        if error.strip():
            said = error.strip().removeprefix(f"{host.name} failed: ")
            self._said[host] = said if "Next: " in said else said.rstrip(".") + THEN

    def said(self, host: Host) -> str:
        """Return the last error of a host, without the next step.

        Args:
            host: a host whose operation has just failed.
        """
        return self._said.get(host, "its error is above").partition(". Next: ")[0]

    @override
    def host_connect_error(self, state: State, host: Host, error: Exception) -> None:  # type: ignore[override]  # pyinfra calls all of them on an instance
        self.note(host, str(error))

    @override
    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        if host.executing_op_hash is None and op_hash in state.ops[host]:
            self._running[host] = op_hash
            self._said.pop(host, None)

    @override
    def operation_host_success(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0
    ) -> None:
        self._ended(host, op_hash)

    @override
    def operation_host_error(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        of_host = self._ended(host, op_hash)
        if of_host and not state.ops[host][op_hash].global_arguments["_ignore_errors"]:
            names = ", ".join(state.get_op_meta(op_hash).names)
            said = self._said.get(host, UNKNOWN + THEN)
            self._why[host] = said if names in said else f"{names}: {said}"
            state.failed_hosts.add(host)  # with --no-wait, pyinfra does not

    def _ended(self, host: Host, op_hash: str) -> bool:
        """Note that an operation has ended; return False if another operation called it."""
        if self._running.get(host) != op_hash:
            return False
        del self._running[host]
        return True

    def _close(self) -> None:
        """List the failed hosts; end the run with 1 if pyinfra would end it with 0."""
        for host, op_hash in self._running.items():
            names = ", ".join(self._state.get_op_meta(op_hash).names)
            self._why.setdefault(host, f"{names}: it was not finished. Next: run this again")
        failed = {*self._state.failed_hosts, *self._running}
        if not failed:
            return
        why = {
            one.name: self._why.get(one) or self._said.get(one, UNKNOWN + THEN) for one in failed
        }
        echo("\n".join(("", *listed(why))), err=True)
        ending = sys.exc_info()[1]
        if ending is None or (isinstance(ending, SystemExit) and not ending.code):
            raise SystemExit(1)


def failures_of(state: State) -> Failures:
    """Return what keeps the failures of a run."""
    for one in state.callback_handlers:
        if isinstance(one, Failures):
            return one
    made = Failures(state)
    state.add_callback_handler(made)  # type: ignore[no-untyped-call]  # pyinfra's
    return made


def listed(why: dict[str, str]) -> list[str]:
    """Return the lines that name all failed nodes; nodes with the same reason share a line.

    Reasons are the same if they differ only in the node's own name and in addresses.

    Args:
        why: node -> the reason.
    """
    from lockstep.report import alike, count, fold  # its import would delay every run

    lines = [f"--> {count(len(why), 'node')} failed:"]
    for same in alike(sorted(why), lambda name: anonymous(why[name], name)).values():
        first = same[0]
        if len(same) == 1:
            lines.append(f"    {first}: {why[first]}")
        else:
            each = {why[name].replace(name, first) for name in same}
            example = "" if len(each) == 1 else f" (as {first} says)"
            lines.append(f"    {len(same)} nodes, {fold(same)}: {why[first]}{example}")
    return lines


def anonymous(text: str, node: str) -> str:
    """Return a text with placeholders for a node's name and for all addresses."""
    text = re.sub(rf"(?<![\w-]){re.escape(node)}(?![\w-])", "NODE", text)
    return ADDRESS.sub(_address, text)


def _address(word: re.Match[str]) -> str:
    candidate = word[0].rstrip(".:")
    try:
        ip_address(candidate)
    except ValueError:
        return word[0]
    return word[0].replace(candidate, "ADDRESS", 1)
