"""Settings that slurmctld runs with, compared with slurm.conf and cgroup.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lockstep.node.fingerprint.daemons import Daemon
from lockstep.node.fingerprint.slurm_conf import SlurmConf
from lockstep.node.readers.tree import text_of

NUMBERED = re.compile(r"\[\d+\]$")
UNIT = re.compile(r" (sec|min|ms|usec|percent|nodes/min)$|(?<=\d)(%|MB)$|\(\d+\)$")
"""What scontrol adds to a value (src/common/read_config.c, slurm_ctl_conf_2_key_pairs)."""
NOTHING = {"", "(null)", "none", "n/a"}
WORDS = {"yes": "1", "true": "1", "up": "1", "no": "0", "false": "0", "down": "0",
         "infinite": "unlimited", "-1": "unlimited"}  # fmt: skip
REPEATED = ("slurmctldhost", "prolog", "epilog", "prologslurmctld", "epilogslurmctld")
"""Keys that have all the values of their lines, instead of the last one."""
LEVELS = ("quiet", "fatal", "error", "info", "verbose",
          *("debug", *(f"debug{number}" for number in range(2, 6))))  # fmt: skip
"""Levels of log messages; slurm.conf may have their numbers (src/common/log.c)."""
CHANGEABLE = {
    "SlurmctldDebug": "info",  # scontrol setdebug
    "DebugFlags": "",  # scontrol setdebugflags
    "SlurmSchedLogLevel": "0",  # scontrol schedloglevel
    "FairShareDampeningFactor": "1",  # scontrol fsdampeningfactor
    "SuspendExcNodes": "",
    "SuspendExcParts": "",
    "SuspendExcStates": "",  # scontrol update SuspendExc...
}
"""Settings that scontrol(1) changes in the running slurmctld -> the default (slurm.conf(5)).

All others change only when slurmctld reads slurm.conf."""


def sections(text: str) -> dict[str, dict[str, str]]:
    """Return what ``scontrol show config`` shows, by section; the main section is ""."""
    found: dict[str, dict[str, str]] = {"": {}}
    title = ""
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.startswith("Slurmctld("):
            found[title][name.strip()] = value.strip()
        elif line.endswith(":"):
            title = line[:-1]
            found.setdefault(title, {})
    return found


def level(text: str) -> str:
    """Return the name of a log level that is written as a name or a number."""
    if text.isdigit():
        return LEVELS[min(int(text), len(LEVELS) - 1)]
    return text.lower()


def started_with(daemon: Daemon | None, configured: str) -> str:
    """Return the log level of a daemon: its options ``-v`` replace the configured one."""
    options = text_of(f"{daemon.process}/cmdline").split("\0")[1:] if daemon else []
    more = sum(one.count("v") for one in options if re.fullmatch(r"-[a-zA-Z]+", one))
    more += options.count("--verbose")
    return LEVELS[min(LEVELS.index("info") + more, len(LEVELS) - 1)] if more else configured


def changed_at_run_time(
    running: Mapping[str, str], conf: SlurmConf, daemon: Daemon
) -> Iterable[tuple[str, str, str]]:
    """Yield each setting that scontrol changed, with the running and the configured value.

    Args:
        running: what ``scontrol show config`` shows.
        conf: slurm.conf.
        daemon: slurmctld.
    """
    for name, default in CHANGEABLE.items():
        if name not in running:
            continue  # an older version
        configured = conf.settings.get(name.lower(), default)
        if name == "SlurmctldDebug":
            configured = started_with(daemon, level(configured))
        if plain(running[name]) != plain(configured):
            yield name, running[name], configured or "(null)"


def not_loaded(running: Mapping[str, str], conf: SlurmConf) -> list[str]:
    """Return the names of the settings in slurm.conf whose value is not the running one.

    The names only help to read a finding that slurmctld has an older slurm.conf.
    """
    shown: dict[str, list[str]] = {}
    for name, value in running.items():
        shown.setdefault(NUMBERED.sub("", name).lower(), []).append(value)
    names = []
    for key, values in conf.lists.items():
        seen = plain(",".join(shown.get(key, ())))
        wanted = plain(",".join(values) if key in REPEATED else values[-1])
        # slurmctld adds its own to AccountingStorageTRES, and scontrol does not show all settings.
        is_equal = wanted <= seen if key == "accountingstoragetres" else wanted == seen
        if key in shown and not is_equal:
            names.append(conf.names[key])
    return names


def of_cgroups(running: Mapping[str, str], conf: SlurmConf) -> list[tuple[str, str, str]]:
    """Return each setting of cgroup.conf(5) that differs, with the running and configured value."""
    names = {name.lower(): name for name in running}
    return [
        (names[key], running[names[key]], value)
        for key, value in conf.settings.items()
        if key in names
        and value.lower() not in ("autodetect", "cgroup/autodetect")
        and plain(running[names[key]]) != plain(value)
    ]


def plain(text: str) -> frozenset[str]:
    """Return a value without its unit, as a set: case and order have no meaning."""
    parts = (UNIT.sub("", part.strip()).strip().lower() for part in text.split(","))
    found = (WORDS.get(part, re.sub("^[a-z]+/none$", "", part)) for part in parts)
    return frozenset(_number(part) for part in found if part not in NOTHING)


def _number(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
