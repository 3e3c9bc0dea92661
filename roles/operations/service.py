"""Operations that keep services, and systemd itself, running with the current files."""

from __future__ import annotations

import shlex
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand

from lockstep.facts.reading import connector_arguments
from lockstep.facts.services import MANAGER, loaded_stamp, not_applied, service_state
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation

RUNNING = ("active", "reloading")
"""Unit states that count as running; see systemctl(1), is-active."""
DROP_INS = "/etc/systemd/system/"


@operation()
def service(
    unit: str,
    files: tuple[str, ...] = (),
    reload_files: tuple[str, ...] = (),
    essential: bool = True,
    wait: bool = True,
) -> CommandsOrReason:
    """Enable a unit, start it, and restart it if its files changed since it started.

    If a unit is already running with the files on disk, there is no daemon-reload and no restart.

    Args:
        unit: the unit's canonical name (an alias would always look stopped).
        files: files that the unit reads only when it starts: configuration, drop-ins, its program.
        reload_files: files that the unit reads again on ``systemctl reload``.
        essential: if False and the unit does not start, the deploy reports that and goes on.
        wait: whether to wait until the unit has started. If False, it may still be starting, for
            example because it waits for another host.
    """
    state = ask(service_state(unit, files, reload_files))
    name = shlex.quote(unit)
    running = state.active in (RUNNING if wait else (*RUNNING, "activating"))
    starts = not running or state.stale
    has_drop_ins = any(path.startswith(DROP_INS) for path in files)
    # NeedDaemonReload alone misses a unit's first drop-in (seen with systemd 252): systemd's path
    # cache does not contain the folder.
    reloads = state.needs_daemon_reload or (starts and has_drop_ins)
    steps = []
    if state.enabled == "masked":
        steps.append(f"systemctl unmask {name}")
    if state.enabled != "enabled":
        # enable ends with its own daemon-reload, which takes 0.1 s or more.
        steps.append(f"systemctl enable {'--no-reload ' if reloads else ''}{name}")
    if reloads:
        steps.append("systemctl daemon-reload")
    stamp = loaded_stamp(unit, (*files, *reload_files))
    now = "" if wait else "--no-block "
    started = (
        stamp
        if not wait
        else f"{_active(name)} && {stamp}"
        if essential
        else f"! ({_active(name)}) || {{ {stamp}; }}"
    )
    if not running:
        # The state afterwards decides, not the exit status; a failure shows the last log lines.
        steps.append(
            f"{{ systemctl reset-failed {name}; systemctl start {now}{name}; {started}; }}"
        )
    elif state.stale:
        steps.append(f"{{ systemctl restart {now}{name}; {started}; }}")
    elif state.reload_due:
        steps.append(f"systemctl reload {name} && {stamp}")
    if steps:
        yield " && ".join(steps)
    if starts and not essential:
        after = ask(service_state(unit, files, reload_files))
        if after.active not in RUNNING:
            yield FunctionCommand(_say_if_failed, (name, connector_arguments(host)), {})
    return f"{unit} runs with the current files"


@operation()
def units(
    wanted: tuple[tuple[str, tuple[str, ...], tuple[str, ...], bool], ...],
) -> Commands:
    """Keep the units of a role running, as ``service`` does for a single unit.

    This is one operation for all units: pyinfra derives an operation's identity from line numbers,
    so calls in a loop would merge different units of different hosts into one operation.

    Args:
        wanted: for each unit its name, the files that it reads only when it starts, the files that
            it reads again on reload, and whether it must run.
    """
    for unit, files, reload_files, essential in wanted:
        yield from service._inner(
            unit=unit, files=files, reload_files=reload_files, essential=essential
        )


def _say_if_failed(state: State, host: Host, name: str, arguments: dict[str, Any]) -> bool:
    """Show the last log lines of a unit that did not start; the operation does not fail."""
    active, output = host.run_shell_command(StringCommand(_active(name)), **arguments)
    if not active:
        host.log_styled(f"{name} failed; the deploy goes on:", fg="red", bold=True)
        for line in output.stderr_lines:
            host.log_styled(f"  {line}", fg="red")
    return True


def _active(name: str) -> str:
    """Return a command that fails, with the unit's last log lines, if the unit is not active.

    systemctl's own exit status does not show this: it is 0 even if an unmet condition kept the
    unit from starting.
    """
    return (
        f"{{ systemctl is-active --quiet {name} || "
        f"{{ systemctl status --no-pager --lines=5 {name} >&2; exit 1; }}; }}"
    )


@operation("systemd runs with the configuration on disk")
def manager_configuration(files: tuple[str, ...]) -> Commands:
    """Make systemd read its own configuration again (daemon-reexec) if it changed.

    Services keep running. New defaults apply to services that start later; new slice limits apply
    immediately.

    Args:
        files: system.conf.d drop-ins and drop-ins of slices.
    """
    if ask(service_state(MANAGER, (), files)).reload_due:
        yield f"systemctl daemon-reexec && {loaded_stamp(MANAGER, files)}"


@operation("services run with the configured limits")
def limits_applied() -> Commands:
    """Give running services the limits of their units, which otherwise apply at the next start.

    Without it, daemons that started before the deploy, such as sshd, keep lower limits until the
    next boot, and pass them on to their children.
    """
    steps = [
        _of_main_process(unit, _prlimit(" ".join(_limit(*one) for one in own.items())))
        for unit, own in ask(not_applied()).limits.items()
    ]
    if steps:
        yield " && ".join(steps)


def _prlimit(options: str) -> str:
    """Return a command that sets limits of the process ``$p``, as root or as its own user.

    Without CAP_SYS_RESOURCE, as in many containers, root may not change limits of another user's
    process, and that user may, up to the hard limit (prlimit(2)).
    """
    own = f'prlimit --pid "$p" {options}'
    user = "$(stat --format='--reuid=%u --regid=%g' \"/proc/$p\")"
    return f"{{ {own} 2>/dev/null || setpriv {user} --clear-groups {own}; }}"


def _limit(resource: str, values: tuple[str, str]) -> str:
    """Return an option of prlimit(1), whose names are those of systemd.exec(5) in lower case."""
    return f"--{resource.lower()}={':'.join(values)}"


@operation("services run on the configured CPUs")
def cpus_applied() -> Commands:
    """Give running services the CPUs of their units, which otherwise apply at the next start."""
    steps = [
        _of_main_process(unit, f'taskset -apc {shlex.quote(cpus)} "$p" >/dev/null')
        for unit, cpus in ask(not_applied()).cpus.items()
    ]
    if steps:
        yield " && ".join(steps)


def _of_main_process(unit: str, command: str) -> str:
    """Return a command for the main process of a service, ``$p``; a service may end meanwhile."""
    return (
        f"p=$(systemctl show --property=MainPID --value {shlex.quote(unit)}) && "
        f'if test "$p" -gt 0; then {command}; fi'
    )


@operation("enabled sockets listen")
def sockets_listen() -> Commands:
    """Start sockets that a package has enabled; without this, they listen after the next boot."""
    waiting = ask(not_applied()).sockets
    if waiting:
        yield f"systemctl start {shlex.join(waiting)}"
