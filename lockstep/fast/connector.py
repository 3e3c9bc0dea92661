"""Lockstep's ssh connector for pyinfra: all readings and commands of a run go through it.

Inventories select it with ``@lockstep/worker1``; pyinfra finds it through its entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.ssh import SSHConnector
from typing_extensions import override

from lockstep import fast_path
from lockstep.facts.declared import declared
from lockstep.fast import dry, ssh
from lockstep.fast.record import HostRecord
from lockstep.pyinfra_internals import registry
from lockstep.question import Part

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from pyinfra.connectors.util import CommandOutput


class Operations(BaseStateCallback):
    """Makes every operation on a host use that host's record."""

    @override
    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]  # pyinfra calls it on an instance
        record = record_of(host)
        operation = state.ops[host].get(op_hash)
        if record is not None and operation is not None:
            commands = operation.command_generator
            operation.command_generator = lambda: record.decide(commands)


# The tests also use a connector to the local machine; for mypy both are the ssh connector.
if TYPE_CHECKING:
    _Connector = SSHConnector
else:
    _Connector = BaseConnector


class KeepsRecord(_Connector):
    """A connector that keeps a record of its host."""

    record: HostRecord | None = None

    @override
    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        dry.begins(state)
        if not fast_path.wanted():
            return
        registry.speed_up_deploy()
        # _deploys() is called here and not in connect: a greenlet does not see click's context.
        run = super().run_shell_command
        declares = cache(partial(_declared, host, _deploys()))
        self.record = HostRecord(host, self._read, run, declares)
        # The connector gets only command lines, and cannot tell a fact from a change.
        setattr(host, "get_fact", self.record.get_fact)  # noqa: B010  # for mypy a method
        if not any(isinstance(one, Operations) for one in state.callback_handlers):
            state.add_callback_handler(Operations())  # type: ignore[no-untyped-call]  # pyinfra's

    @ssh.reading()
    def _read(self, *given: Any, **named: Any) -> tuple[bool, CommandOutput]:
        return super().run_shell_command(*given, **named)

    @override
    def connect(self) -> None:
        if self.record is not None:
            self.record.disconnected()
        super().connect()
        if self.record is not None and self.state.current_stage is StateStage.Connect:
            self.record.begin()

    @override
    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        run = super().run_shell_command
        if self.record is None:
            return run(command, print_output, print_input, **arguments)
        run = partial(run, print_output=print_output, print_input=print_input)
        return self.record.execute(command, arguments, run)

    @override
    def put_file(self, *arguments: Any, **named: Any) -> bool:
        if self.record is not None:
            self.record.note_command()
        return super().put_file(*arguments, **named)


class LockstepConnector(KeepsRecord, ssh.FailsAlone):
    """The connector for ``@lockstep/NAME``; with ``LOCKSTEP_FAST=0`` it keeps no record."""

    handles_execution = True

    @staticmethod
    @override
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """Give the host its plain name, which messages and ``--limit`` use."""
        registry.speed_up_deploy()
        yield name, {}, []


def read_anew(host: Host) -> None:
    """Drop all readings of a host after a change to other hosts, so that they are taken again."""
    record = record_of(host)
    if record is not None:
        record.start_again()


def read_anew_after(host: Host, other: str) -> None:
    """Drop all readings of a host if this run may have changed another host.

    Args:
        host: the host with the readings.
        other: the name of the other host, on which the readings depend.
    """
    changed = host.state.inventory.get_host(other, None)
    record = None if changed is None else record_of(changed)
    if record is not None and record.changed:
        read_anew(host)


def record_of(host: Host) -> HostRecord | None:
    """Return the record of a host; None if it has none."""
    connector = host.connector
    return connector.record if isinstance(connector, KeepsRecord) else None


OF_NODE_ROLE = frozenset({"head", "worker"})
"""Deploys named after a node role. Each runs on the nodes with its role and reads no others."""


def _deploys() -> frozenset[str]:
    """Return the names of the deploys on the command line; empty if it names anything else, too."""
    context = click.get_current_context(silent=True)  # the context of the command `pyinfra`
    files = [Path(name) for name in context.params.get("operations", ())] if context else []
    return frozenset(file.stem for file in files if all(one.suffix == ".py" for one in files))


def _declared(host: Host, deploys: frozenset[str]) -> tuple[frozenset[Part], ...]:
    """Return the parts of each question that this run's roles ask a host, in deploy order.

    Args:
        host: a host of the inventory.
        deploys: the names of the deploys of this run.
    """
    plan = host.data.get("plan")
    of_roles = deploys - {"reboot", "remove", "unlock"}
    of_others = of_roles <= OF_NODE_ROLE and plan is not None and plan.role.value not in of_roles
    if not of_roles or of_others:
        return ()
    roles = host.data.get("roles")
    return declared(plan, None if roles is None else frozenset(str(roles).split(",")))
