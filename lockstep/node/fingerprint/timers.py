"""What starts by itself at a time: timers of systemd and jobs of at(1).

Tables of cron(8) are files, and belong to their domain.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.protected import shown_line
from lockstep.node.fingerprint.unitfiles import Files, files_of, last, words
from lockstep.node.fingerprint.units import RANDOM, states
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import below, rooted, text_of

AT = ("/var/spool/cron/atjobs", "/var/spool/at")
"""Folders of atd(8): Debian's, and that of Red Hat's distributions."""
WHEN = ("OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec",
        "OnCalendar", "AccuracySec", "RandomizedDelaySec", "Persistent", "OnClockChange",
        "OnTimezoneChange", "WakeSystem")  # fmt: skip
"""systemd.timer(5)."""
EXCEPTIONS_OF_TIMERS: tuple[Exempt, ...] = ()


def read_timers(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield the timers that wait, and the jobs of at."""
    files = files_of(commands)
    random: dict[str, int] = {}
    for unit, state in states(commands).items():
        if unit.endswith(".timer") and state.active == "active":
            fields = _timer(unit, files)
            name = unit
            if RANDOM.fullmatch(unit):
                name = f"systemd-run: {fields['command'].partition(' ')[0]}"
                random[name] = random.get(name, 0) + 1
                name += f" #{random[name]}" if random[name] > 1 else ""
            yield Entry(name, fields)
    yield from _at()


def _timer(unit: str, files: Files) -> Fields:
    settings = files.settings(unit)
    started = last(settings, "Timer.Unit", unit.rpartition(".")[0] + ".service")
    fields = {
        name: "\n".join(sorted(settings[f"Timer.{name}"]))
        for name in WHEN
        if settings.get(f"Timer.{name}")
    }
    started_with = files.settings(started).get("Service.ExecStart", ())
    fields["command"] = shown_line("\n".join(started_with))
    if RANDOM.fullmatch(unit):
        line = " ".join(words(files.settings(started), "Service.ExecStart"))
        fields["command"] = shown_line(line)
        # systemd-run(1) computes the time from now.
        for name in ("OnActiveSec", "OnBootSec", "OnStartupSec"):
            fields.pop(name, None)
    else:
        fields["unit"] = started
    return fields


def _at() -> Iterator[Entry]:
    """Yield the jobs of at, without their times; their environment is that of a login."""
    jobs: list[tuple[str, str]] = []
    for folder in AT:
        for name in below(folder):
            path = f"{folder}/{name}"
            if name.startswith(".") or not os.path.isfile(rooted(path)):
                continue
            script = text_of(path)
            # at(1) writes variables, the folder, and the commands after that.
            _, mark, commands = script.partition("Execution directory inaccessible")
            _, _, commands = commands.partition("}\n") if mark else ("", "", script)
            jobs.append((_user(path), commands.strip()))
    for number, (user, commands) in enumerate(sorted(jobs), 1):
        yield Entry(f"at job {number}", {"user": user, "commands": Secret(commands)})


def _user(path: str) -> str:
    uid = os.stat(rooted(path)).st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


TIMERS = (Domain("timer", read_timers),)
