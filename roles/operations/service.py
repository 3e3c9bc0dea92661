"""Operations that keep services, and systemd itself, running on the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS

from lockstep.facts.reading import ask
from lockstep.facts.services import MANAGER, loaded_stamp, service_state
from lockstep.roles.operations.operation import operation

DROP_INS = "/etc/systemd/system/"


@operation()
def service(
    unit: str,
    files: tuple[str, ...] = (),
    reload_files: tuple[str, ...] = (),
    essential: bool = True,
) -> Generator[str | FunctionCommand, None, None]:
    """Enable a unit, start it, and restart it when its files are not those it started with.

    Nothing happens to a unit that runs on what is on disk: no daemon-reload, no restart.

    Args:
        unit: the unit's canonical name (an alias would always look stopped).
        files: what the unit reads at its start only: configuration, drop-ins, its program.
        reload_files: what the unit reads again on ``systemctl reload``.
        essential: False: where it does not start, that is said and the deploy goes on.
    """
    state = ask(host, service_state(unit, files, reload_files))
    name = shlex.quote(unit)
    running = state.active in ("active", "reloading")
    starts = not running or state.stale
    has_drop_ins = any(path.startswith(DROP_INS) for path in files)
    # NeedDaemonReload alone misses a first drop-in (seen with systemd 252): its folder is not in
    # the manager's cache of paths.
    reloads = state.needs_daemon_reload or (starts and has_drop_ins)
    steps = []
    if state.enabled == "masked":
        steps.append(f"systemctl unmask {name}")
    if state.enabled != "enabled":
        # enable ends with a daemon-reload of its own, a tenth of a second and more.
        steps.append(f"systemctl enable {'--no-reload ' if reloads else ''}{name}")
    if reloads:
        steps.append("systemctl daemon-reload")
    stamp = loaded_stamp(unit, (*files, *reload_files))
    started = (
        f"{_active(name)} && {stamp}" if essential else f"! ({_active(name)}) || {{ {stamp}; }}"
    )
    if not running:
        # A start that fails is judged by what runs then, with the unit's last words.
        steps.append(f"{{ systemctl reset-failed {name}; systemctl start {name}; {started}; }}")
    elif state.stale:
        steps.append(f"{{ systemctl restart {name}; {started}; }}")
    elif state.reload_due:
        steps.append(f"systemctl reload {name} && {stamp}")
    if not steps:
        host.noop(f"{unit} runs on the files it has")
        return
    yield " && ".join(steps)
    if starts and not essential:
        yield FunctionCommand(_say_if_failed, (name, connector_arguments(host)), {})


@operation()
def units(
    wanted: tuple[tuple[str, tuple[str, ...], tuple[str, ...], bool], ...],
) -> Generator[str | FunctionCommand, None, None]:
    """Keep the units of a role running, as ``service`` does with each.

    One operation for all of them: pyinfra takes an operation's identity from line numbers, so a
    loop of calls would make one operation of different units of different hosts.

    Args:
        wanted: unit, files that it reads at its start, files that it reloads, whether it must run.
    """
    for unit, files, reload_files, essential in wanted:
        yield from service._inner(
            unit=unit, files=files, reload_files=reload_files, essential=essential
        )


def connector_arguments(host: Host) -> dict[str, Any]:
    """Return pyinfra's arguments for the commands (``_sudo``) of the operation that runs now."""
    arguments: Mapping[str, Any] = host.current_op_global_arguments or {}
    return {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments}


def _say_if_failed(state: State, host: Host, name: str, arguments: dict[str, Any]) -> bool:
    """Show the last words of a unit that did not start; it is no failure of the operation."""
    active, output = host.run_shell_command(StringCommand(_active(name)), **arguments)
    if not active:
        host.log_styled(f"{name} failed, the deploy goes on:", fg="red", bold=True)
        for line in output.stderr_lines:
            host.log_styled(f"  {line}", fg="red")
    return True


def _active(name: str) -> str:
    """Return a command that fails, with the unit's last words, when it did not really start.

    This decides, not systemctl's own exit status: that is 0 when a condition of the unit kept it
    from starting.
    """
    return (
        f"{{ systemctl is-active --quiet {name} || "
        f"{{ systemctl status --no-pager --lines=5 {name} >&2; exit 1; }}; }}"
    )


@operation()
def manager_configuration(files: tuple[str, ...]) -> Generator[str, None, None]:
    """Make systemd read its own configuration again (daemon-reexec) when it changed.

    Running services keep going; defaults count for what starts from then on, slices at once.

    Args:
        files: system.conf.d drop-ins and drop-ins of slices.
    """
    state = ask(host, service_state(MANAGER, (), files))
    if not state.reload_due:
        host.noop("systemd runs with the configuration on disk")
        return
    yield f"systemctl daemon-reexec && {loaded_stamp(MANAGER, files)}"
