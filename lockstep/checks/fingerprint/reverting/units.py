"""Commands that revert differences of units and of what they run.

``systemctl revert`` is never one of them: it deletes Lockstep's drop-ins, too.
"""

from __future__ import annotations

import re

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command

UNIT = re.compile(r"[\w@.:\\-]+\.(service|socket|target|timer|path|mount|swap|slice)")
OF_BUS = re.compile(r"dbus(-broker)?\.(service|socket)")
"""Services that keep their connections to systemd only until the bus restarts: reboot instead."""
FAILED = ("failed", "failing")
OPTION = re.compile(r"[\w.:/%+-]+(=[\w.:/%+-]+)?")
"""An option of mount(8), other than one that has no opposite (``no sync``)."""
MANAGER = {
    "LogLevel": "log-level",
    "LogTarget": "log-target",
    "ServiceWatchdogs": "service-watchdogs",
}
"""Properties of the manager -> commands of systemctl(1) that set them until the next boot."""
ENVIRONMENT = re.compile(r"environment (?P<name>\w+)")
LINGERS = re.compile(r"user ([\w.-]+)")


def of_unit(case: Case) -> Steps:
    """Return the commands that make the state of a unit as on the other nodes."""
    lingers = LINGERS.fullmatch(case.name)
    if lingers is not None:
        verb = "disable-linger" if case.is_extra else "enable-linger"
        return [command("loginctl", verb, lingers[1])]
    if case.name == "systemd":
        return _of_manager(case)
    if not UNIT.fullmatch(case.name) or OF_BUS.fullmatch(case.name):
        return []
    if not case.is_extra and not case.is_missing and not case.changed <= {"enabled", "active"}:
        return []
    was, should = case.was("enabled"), case.should("enabled") or _usual(case)
    if should == "masked":
        return [_systemctl("mask", case, now=case.was("active") not in ("", "inactive"))]
    steps = [_systemctl("unmask", case)] if was == "masked" else []
    enabled, wanted = was.startswith("by "), should.startswith("by ")
    if enabled and wanted and was != should:
        return []  # other units want it
    start = _started(case)
    if enabled != wanted:
        verb, opposite = ("enable", "start") if wanted else ("disable", "stop")
        now = start == opposite
        return [*steps, _systemctl(verb, case, now=now), *_verb(case, "" if now else start)]
    if was != should and "masked" not in was and not case.is_extra and not case.is_missing:
        return []  # such as static and generated: the files differ
    return [*steps, *_verb(case, start)]


def _of_manager(case: Case) -> Steps:
    """Return the commands for settings of the manager that systemctl(1) changes at run time."""
    steps: list[str] = []
    for field in sorted(case.changed):
        variable, value = ENVIRONMENT.fullmatch(field), case.should(field)
        if variable is not None and not value:
            steps.append(command("systemctl", "unset-environment", variable["name"]))
        elif variable is not None:
            steps.append(command("systemctl", "set-environment", f"{variable['name']}={value}"))
        elif field in MANAGER and value:
            steps.append(command("systemctl", MANAGER[field], value))
        else:
            return []  # files set it, which differ
    return steps


def _usual(case: Case) -> str:
    return "disabled" if case.was("enabled").startswith("by ") else ""


def _verb(case: Case, verb: str) -> Steps:
    return [_systemctl(verb, case)] if verb else []


def _started(case: Case) -> str:
    """Return the verb that brings a unit into its state; "" if it is in it."""
    was, should = case.was("active") or "inactive", case.should("active") or "inactive"
    if should in FAILED or was == should:
        return ""
    if should == "active":
        return "restart" if was in FAILED else "start"
    return "reset-failed" if was == "failed" else "stop"


def _systemctl(verb: str, case: Case, *, now: bool = False) -> str:
    return command("systemctl", verb, *(["--now"] if now else []), case.name)


def of_timer(case: Case) -> Steps:
    """Return the command for a timer that only one side has."""
    if not UNIT.fullmatch(case.name) or not (case.is_extra or case.is_missing):
        return []
    return [command("systemctl", "disable" if case.is_extra else "enable", "--now", case.name)]


def of_process(case: Case) -> Steps:
    """Return the command that makes a service run as its files say, which do not differ."""
    if not UNIT.fullmatch(case.name) or OF_BUS.fullmatch(case.name):
        return []
    verb = "stop" if case.is_extra else "start" if case.is_missing else "restart"
    return [command("systemctl", verb, case.name)]


def of_cgroup(case: Case) -> Steps:
    """Return the command that lets the processes of a frozen unit run."""
    unit = case.name.rpartition("/")[2]
    is_frozen = case.changed == {"cgroup.freeze"} and case.was("cgroup.freeze") == "1"
    return [command("systemctl", "thaw", unit)] if is_frozen and UNIT.fullmatch(unit) else []


def of_running(case: Case) -> Steps:
    """Return the command that applies the configured value; the name says of what."""
    subject, _, attribute = case.name.partition(": ")
    configured = case.should("configured")
    if attribute in MANAGER and subject == "systemd" and configured:
        return [command("systemctl", MANAGER[attribute], configured)]
    if attribute and subject == "systemd":
        verb = {"program": "daemon-reexec"}.get(attribute, "daemon-reload")
        known = attribute == "program" or attribute.startswith("/etc/")
        return [f"systemctl {verb}"] if known else []
    if attribute and UNIT.fullmatch(subject) and not OF_BUS.fullmatch(subject):
        return _of_unit(subject, attribute, case.was("running"), configured)
    kind, _, name = case.name.partition(" ")
    if kind == "sysctl":
        return [command("sysctl", "-w", f"{name}={configured}")]
    if kind == "module" and configured == "loaded":
        return [command("modprobe", name)]
    if kind == "mount" and case.should("file") == "/etc/fstab":
        return _of_mount(name, case.was("running"), configured)
    return []


def _of_unit(unit: str, attribute: str, running: str, configured: str) -> Steps:
    if attribute == "unit files":
        return ["systemctl daemon-reload"]
    verb = "restart"
    if attribute == "state" and running not in FAILED:
        verb = "stop" if running == "active" else "start"
    elif attribute == "state" and configured in ("masked", "disabled"):
        verb = "reset-failed"
    return [command("systemctl", verb, unit)]


def _of_mount(place: str, running: str, configured: str) -> Steps:
    if running == "not mounted":
        return [command("mount", place)]
    if "source " in configured or "type " in configured:
        return [command("umount", place), command("mount", place)]
    options = configured.split(", ")
    if not all(OPTION.fullmatch(option) for option in options):
        return []
    # mount(8) adds the options of fstab to those that are in force, and clears no flag.
    cleared = ["atime"] if "noatime" in running.split(", ") else []
    return [command("mount", "-o", ",".join(["remount", *cleared, *options]), place)]
