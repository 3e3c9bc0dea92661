"""pyinfra's ssh connector, through which all facts and commands of a run go.

Inventories name it (``@lockstep/worker1``); pyinfra finds it by its entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pyinfra import logger
from pyinfra.api.output import echo
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.ssh import SSHConnector
from typing_extensions import override

from lockstep import fast
from lockstep.facts.ahead import wanted
from lockstep.facts.reading import Part
from lockstep.fast import leaner, ssh, transport
from lockstep.fast.memory import Memory
from lockstep.state import folder

if TYPE_CHECKING:
    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from pyinfra.connectors.util import CommandOutput


class Operations(BaseStateCallback):
    """Has each operation of a host decide through the host's memory."""

    @override
    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]  # pyinfra calls it on what it is given
        memory = memory_of(host)
        operation = state.ops[host].get(op_hash)
        if memory is not None and operation is not None:
            commands = operation.command_generator
            operation.command_generator = lambda: memory.decide(commands)


# Beside ssh the tests have a connector to this machine; to mypy both are the ssh one.
if TYPE_CHECKING:
    _Connector = SSHConnector
else:
    _Connector = BaseConnector


class ReadsAhead(_Connector):
    """Any connector, with facts read ahead."""

    memory: Memory | None = None

    @override
    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        if not fast.wanted():
            return
        leaner.patch()
        # Here, and not when it connects: a greenlet does not see the context of the command.
        runs_roles = {Path(name).stem for name in _deploys()} - {"reboot"}
        ahead = partial(_wanted, host, runs_roles) if runs_roles else frozenset
        self.memory = Memory(host, self._read, _file(host), ahead)
        # Roles ask by this name; the connector itself is shown command lines only.
        setattr(host, "get_fact", self.memory.get_fact)  # noqa: B010  # a method to mypy
        if not any(isinstance(one, Operations) for one in state.callback_handlers):
            state.add_callback_handler(Operations())  # type: ignore[no-untyped-call]  # pyinfra's

    def _read(self, *given: Any, **named: Any) -> tuple[bool, CommandOutput]:
        with ssh.reading():
            return super().run_shell_command(*given, **named)

    @override
    def connect(self) -> None:
        if self.memory is not None:
            self.memory.renew()
        super().connect()
        if self.memory is not None and self.state.current_stage is StateStage.Connect:
            self.memory.begin()

    @override
    def disconnect(self) -> None:
        super().disconnect()
        if self.memory is not None:
            try:
                self.memory.save()
            except OSError as error:
                logger.warning("The next run will read facts one by one: %s", error)

    @override
    def run_shell_command(
        self,
        command: StringCommand,  # text, where a fact says it so
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        if self.memory is None:
            return super().run_shell_command(command, print_output, print_input, **arguments)
        output = self.memory.answer(command, arguments)
        if output is None:
            with self.memory.untouched():
                return super().run_shell_command(command, print_output, print_input, **arguments)
        if print_input:
            echo(f"{self.host.print_prefix}>>> (read ahead) {command}", err=True)
        if print_output:
            for line in output.output_lines:
                echo(f"{self.host.print_prefix}{line}", err=True)
        return True, output

    @override
    def put_file(self, *arguments: Any, **named: Any) -> bool:
        if self.memory is not None:
            self.memory.forget()
        return super().put_file(*arguments, **named)


class LockstepConnector(ReadsAhead, ssh.FailsAlone):
    """What ``@lockstep/NAME`` is connected with; with ``LOCKSTEP_FAST=0`` nothing is read ahead."""

    handles_execution = True

    @staticmethod
    @override
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """Give the host its plain name: the one of messages and of ``--limit``."""
        if fast.wanted():
            leaner.patch()
        yield name, {}, []

    @override
    def make_paramiko_kwargs(self) -> dict[str, Any]:
        arguments = super().make_paramiko_kwargs()
        return {**arguments, "transport_factory": transport.prompt} if self.memory else arguments


def read_anew(host: Host) -> None:
    """Have the next fact of a host read, and all after it: other hosts were changed."""
    memory = memory_of(host)
    if memory is not None:
        memory.renew()


def read_anew_after(host: Host, other: str) -> None:
    """Do so where this run may have changed another host, which a fact tells of."""
    changed = host.state.inventory.get_host(other, None)
    memory = None if changed is None else memory_of(changed)
    if memory is not None and memory.changed:
        read_anew(host)


def memory_of(host: Host) -> Memory | None:
    """Return what was read of a host; None where facts are not read ahead."""
    connector = host.connector
    return connector.memory if isinstance(connector, ReadsAhead) else None


OF_NODE_ROLE = frozenset({"head", "worker"})
"""Deploys for nodes of one node role; nothing is asked of the others."""


def _wanted(host: Host, deploys: set[str]) -> frozenset[Part]:
    """Return what the roles of this run will ask of a host.

    Args:
        host: of the inventory.
        deploys: names of the deploys that pyinfra was given, without their folder.
    """
    plan = host.data.get("plan")
    if deploys <= OF_NODE_ROLE and plan is not None and plan.role.value not in deploys:
        return frozenset()
    roles = host.data.get("roles")
    chosen = None if roles is None else frozenset(str(roles).split(","))
    return wanted(plan, chosen)


def _deploys() -> tuple[str, ...]:
    """Return the deploys that pyinfra was given; none where it was given something else."""
    context = click.get_current_context(silent=True)  # of the command `pyinfra`
    names = tuple(context.params.get("operations", ())) if context else ()
    return names if all(name.endswith(".py") for name in names) else ()


def _file(host: Host) -> Path | None:
    """Return where the facts of this deploy and host are kept; None where there is no deploy."""
    plan = host.data.get("plan")
    deploys = _deploys()
    if plan is None or not deploys:
        return None
    if host.data.get("roles") is not None:
        return None  # a run of some roles would leave a short list to the next whole one
    deploy = "+".join(Path(name).stem for name in deploys)
    return folder(plan.spec.name) / "facts" / deploy / f"{host.name}.json"
