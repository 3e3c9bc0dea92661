"""What slurmctld runs with against slurm.conf, read on the node that runs slurmctld.

``scontrol show config`` says whether slurmctld has read slurm.conf as it is now (HASH_VAL). If so,
only what scontrol(1) can change at run time can differ; otherwise all of it may.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote

from lockstep.node.fingerprint import slurm_partitions, slurm_settings
from lockstep.node.fingerprint.daemons import Daemon, daemons_of
from lockstep.node.fingerprint.entry import REPAIR, Entry
from lockstep.node.fingerprint.hostlists import fold
from lockstep.node.fingerprint.slurm_conf import Keys, SlurmConf, read_slurm_conf
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.slurm import nodes_shown
from lockstep.node.readers.tree import exists, found_by, rooted

UNIT = "slurmctld.service"
RECONFIGURE = "scontrol reconfigure"
OLDER = "as of the last scontrol reconfigure"
ABSENT = "none"
PARTITION = "partition "
NAMED = 6
"""At most so many settings are named that slurmctld has not read."""
OF_OTHERS = ("slurm.conf", "slurmdbd.conf")
"""Files in the folder of slurm.conf that HASH_VAL covers, or that slurmctld does not read."""
STARTS_ANEW = (23, 11)
"""Since this version, slurmctld starts anew at ``scontrol reconfigure`` (slurmctld, controller.c,
_attempt_reconfig), so that its start is the last time at which it read its files."""
TICK_S = 0.1
"""Error of a start time, which counts ticks of 10 ms."""
RESERVED = ("Nodes", "Features", "PartitionName", "Licenses", "Flags", "Users", "Groups",
            "Accounts", "StartTime", "EndTime")  # fmt: skip
"""What is shown of a reservation. The rest follows from it or changes with time."""


def read_running_slurm(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield what differs between slurmctld and its configuration, if slurmctld runs here."""
    daemon = next((one for one in daemons_of(commands) if one.unit == UNIT), None)
    if daemon is None:
        return
    try:
        yield from _of_controller(daemon, commands)
    except (Unread, ValueError) as failure:
        # The domain ``running`` has much more; its other objects are compared nevertheless.
        name, repair = f"{UNIT}: configuration", "find the cause, then check again"
        yield _entry(name, f"not read: {failure}", "as slurm.conf says", repair=repair)


def _of_controller(daemon: Daemon, commands: Commands) -> Iterator[Entry]:
    sections = slurm_settings.sections(commands.run("scontrol", "show", "config"))
    running = sections[""]
    path = running.get("SLURM_CONF", "")
    if not exists(path):
        raise Unread(f"scontrol show config names no slurm.conf that exists: {path or 'none'}")
    conf = read_slurm_conf(path)
    if not _is_asked(conf):
        return
    partitions = list(_partitions(commands, conf, running))
    nodes = list(_nodes(commands, conf))
    settings = [
        (f"slurmctld: {name}", now, configured)
        for name, now, configured in slurm_settings.changed_at_run_time(running, conf, daemon)
    ]
    if running.get("HASH_VAL") == "Match":
        for name, now, configured in (*settings, *partitions, *nodes):
            made = name.startswith(PARTITION) and ": " not in name and configured == ABSENT
            remove = f"scontrol delete {quote('PartitionName=' + name[len(PARTITION) :])}"
            yield _entry(name, now, configured, repair=remove if made else RECONFIGURE)
    else:
        # The next reconfiguration changes all of it, so it is one finding.
        older = [f"slurmctld: {name}" for name in slurm_settings.not_loaded(running, conf)]
        names = [*dict.fromkeys([*older, *(name for name, *_ in (*settings, *partitions, *nodes))])]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        changed = f": {', '.join(names[:NAMED])}{more}" if names else ""
        yield _entry("slurmctld: slurm.conf", OLDER, f"changed since{changed}", path)
    yield from _of_cgroups(sections.get("Cgroup Support Configuration", {}), conf)
    yield from _other_files(daemon, conf, running)
    yield from _notes(commands)
    yield from _reservations(commands)


def _entry(
    name: str, running: str, configured: str, file: str = "", repair: str = RECONFIGURE
) -> Entry:
    fields = {"running": running, "configured": configured, REPAIR: repair}
    return Entry(name, {**fields, "file": file} if file else fields)


def _is_asked(conf: SlurmConf) -> bool:
    """Return whether this is the first of several controllers; they all give the same answers."""
    hosts = [re.sub(r"\(.*", "", host) for host in conf.lists.get("slurmctldhost", ())]
    own = os.uname().nodename
    return not (own in hosts[1:] or own.partition(".")[0] in hosts[1:])


def _partitions(
    commands: Commands, conf: SlurmConf, running: Keys
) -> Iterator[tuple[str, str, str]]:
    seen = set()
    for line in commands.run("scontrol", "-o", "-a", "show", "partition").splitlines():
        found = slurm_partitions.shown(line)
        name = found.get("PartitionName", "")
        if not name:
            continue
        seen.add(name)
        if name not in conf.partitions:
            yield f"{PARTITION}{name}", f"exists, with nodes {found.get('Nodes', ABSENT)}", ABSENT
            continue
        wanted = conf.partitions[name]
        for key, now, configured in slurm_partitions.differences(found, wanted, conf, running):
            yield f"{PARTITION}{name}: {key}", now, configured
    for name in conf.partitions.keys() - seen:
        yield f"{PARTITION}{name}", "does not exist", "exists"


ABOUT = re.compile(
    r"NodeName=(?P<name>\S+) .*?AvailableFeatures=(?P<available>\S*)\s+"
    r"ActiveFeatures=(?P<active>\S*)(?:.*?\sNodeAddr=(?P<address>\S+))?"
    r"(?:.*?\sNodeHostName=(?P<host>\S+))?.*?\sState=(?P<state>\S+).*?\sWeight=(?P<weight>\d+)"
)
"""A line of ``scontrol -o show node``, up to what people write (src/api/node_info.c)."""
BOUND = re.compile(r"NodeName=\S+ (?:Arch=\S+ )?CpuBind=(\S+)")
WRITTEN = re.compile(
    r"\s(Comment|Extra)=(.*?)(?=\s(?:Extra|InstanceId|InstanceType|ReservationName|Topology)=|\s*$)"
)
"""What a person can write down about a node; it comes last in the line."""
ELSEWHERE = ("CLOUD", "DYNAMIC", "FUTURE")
"""Words in the state of nodes whose addresses and features are not those of slurm.conf."""


def _nodes(commands: Commands, conf: SlurmConf) -> Iterator[tuple[str, str, str]]:
    """Yield the attributes of nodes that differ, each once for all nodes with the same values.

    The rules ``slurm.node`` and ``slurm.state`` compare CPUs, memory, GPUs and the state.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    plugins = "nodefeaturesplugins" in conf.settings  # they set the features
    seen = set()
    for line in nodes_shown(commands).splitlines():
        found = ABOUT.match(line)
        if found is None:
            continue  # a line of a comment with several lines
        name, state = found["name"], found["state"]
        seen.add(name)
        if name not in conf.nodes or any(word in state for word in ELSEWHERE):
            continue
        keys = conf.nodes[name]
        features = keys.get("features", keys.get("feature", ""))
        host = keys.get("nodehostname", name)
        bound = BOUND.match(line)
        values = [
            ("Weight", found["weight"], keys.get("weight", "1")),
            ("NodeHostName", found["host"] or host, host),
            ("NodeAddr", found["address"] or host, keys.get("nodeaddr", host)),
            ("CpuBind", bound[1] if bound else "none", keys.get("cpubind", "none")),
        ]
        if not plugins:
            values.append(("AvailableFeatures", found["available"], features))
            if found["active"] != found["available"]:
                values.append(("ActiveFeatures", found["active"], features))
        for attribute, running, configured in values:
            if running != configured and _different(attribute, running, configured):
                told = (attribute, running, configured or "none")
                alike.setdefault(told, []).append(name)
    for name in conf.nodes.keys() - seen:
        if "state" not in conf.nodes[name] or "FUTURE" not in conf.nodes[name]["state"].upper():
            alike.setdefault(("", "does not exist", "exists"), []).append(name)
    yield from _folded(alike)


def _different(attribute: str, running: str, configured: str) -> bool:
    if attribute == "CpuBind":
        return running.rstrip("s") != configured.lower().rstrip("s")
    return slurm_settings.plain(running) != slurm_settings.plain(configured)


def _folded(alike: dict[tuple[str, str, str], list[str]]) -> Iterator[tuple[str, str, str]]:
    for (attribute, running, configured), names in sorted(alike.items()):
        kind = "Slurm node" if len(names) == 1 else "Slurm nodes"
        name = f"{kind} {fold(names)}" + (f": {attribute}" if attribute else "")
        yield name, running, configured


def _notes(commands: Commands) -> Iterator[Entry]:
    """Yield what people noted at a node, unless most nodes have such a note: then a program did."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    lines = [line for line in nodes_shown(commands).splitlines() if line.startswith("NodeName=")]
    for line in lines:
        for attribute, text in WRITTEN.findall(line):
            name = line.partition(" ")[0].partition("=")[2]
            alike.setdefault((attribute, text.strip(), "none"), []).append(name)
    for attribute in ("Comment", "Extra"):
        some = {told: names for told, names in alike.items() if told[0] == attribute}
        if 2 * sum(map(len, some.values())) > len(lines):
            continue
        for told, names in some.items():
            for found in _folded({told: names}):
                remove = f"scontrol update {quote(f'NodeName={fold(names)}')} {attribute}="
                yield _entry(*found, repair=remove)


def _reservations(commands: Commands) -> Iterator[Entry]:
    """Yield each reservation: slurm.conf cannot have one, and its nodes refuse other jobs."""
    for line in commands.run("scontrol", "-o", "show", "reservation").splitlines():
        pairs = dict(word.partition("=")[::2] for word in line.split())
        if name := pairs.get("ReservationName"):
            kept = [f"{key}={value}" for key in RESERVED
                    if (value := pairs.get(key, "(null)")) != "(null)"]  # fmt: skip
            remove = f"scontrol delete {quote(f'ReservationName={name}')}"
            yield _entry(f"reservation {name}", " ".join(kept), "none", repair=remove)


def _of_cgroups(running: Keys, conf: SlurmConf) -> Iterator[Entry]:
    path = os.path.join(conf.folder, "cgroup.conf")
    if running and exists(path):
        for name, now, configured in slurm_settings.of_cgroups(running, read_slurm_conf(path)):
            yield _entry(f"slurmctld: cgroup.conf, {name}", now, configured, path)


def _other_files(daemon: Daemon, conf: SlurmConf, running: Keys) -> Iterator[Entry]:
    """Yield the other files in the folder of slurm.conf that changed since slurmctld read them."""
    version = tuple(map(int, re.findall(r"\d+", running.get("SLURM_VERSION", ""))[:2]))
    if version < STARTS_ANEW:
        return
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    started = booted + int(daemon.stat[19]) / os.sysconf("SC_CLK_TCK")
    paths = [path for kind in ("conf", "yaml") for path in found_by(f"{conf.folder}/*.{kind}")]
    for path in paths:
        if path in conf.files or os.path.basename(path) in OF_OTHERS:
            continue
        with suppress(OSError):
            if os.stat(rooted(path)).st_mtime > started + TICK_S:
                yield _entry(f"slurmctld: {os.path.basename(path)}",
                             OLDER, "changed since", path)  # fmt: skip
