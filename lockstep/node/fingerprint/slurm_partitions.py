"""What a partition of Slurm has according to slurm.conf, as ``scontrol show partition`` says it.

The defaults are those of slurm.conf(5), PARTITION CONFIGURATION; the texts those of
src/api/partition_info.c, of Slurm 22.05 to 26.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lockstep.node.fingerprint.hostlists import expand, fold
from lockstep.node.fingerprint.slurm_conf import Keys, SlurmConf

UNLIMITED = "UNLIMITED"
ENDLESS = {"unlimited", "infinite", "-1"}
YES = {"yes", "up", "true", "1"}
"""parse_config.c, _handle_boolean."""
NONE = {"", "(null)", "none", "n/a"}

FLAGS = (
    *("Default", "ExclusiveTopo", "ExclusiveUser", "Hidden", "LLN", "PowerDownOnIdle"),
    *("ReqResv", "RootOnly"),
)
"""Attributes that are YES or NO; the default is NO."""
NUMBERS = {
    "GraceTime": "0", "MaxCPUsPerNode": UNLIMITED, "MaxCPUsPerSocket": UNLIMITED,
    "MaxNodes": UNLIMITED, "MinNodes": "0", "OverTimeLimit": "NONE", "PriorityJobFactor": "1",
    "PriorityTier": "1", "ResumeTimeout": "GLOBAL", "SuspendTime": "GLOBAL",
    "SuspendTimeout": "GLOBAL",
}  # fmt: skip
"""Attributes that are numbers -> the default."""
TIMES = {"DefaultTime": "NONE", "MaxTime": UNLIMITED}
WORDS = ("Alternate", "CpuBind", "QoS", "Topology", "TRESBillingWeights")
"""Attributes whose default is nothing."""
BINDS = {"socket": "sockets", "ldom": "ldoms", "core": "cores", "thread": "threads"}
"""CpuBind as it may be written -> as Slurm shows it."""
SHARED = {"yes": "YES:4", "force": "FORCE:4", "yes:1": "NO", "no": "NO"}
"""OverSubscribe as it may be written -> as Slurm shows it."""


def shown(line: str) -> Keys:
    """Return the attributes in a line of ``scontrol -o show partition``."""
    pairs = (word.partition("=") for word in line.split() if "=" in word)
    return {name: value for name, _, value in pairs}


def differences(
    found: Keys, wanted: Keys, conf: SlurmConf, running: Mapping[str, str]
) -> Iterable[tuple[str, str, str]]:
    """Yield each attribute of a partition that is otherwise than configured, and both values.

    Args:
        found: what ``scontrol show partition`` shows.
        wanted: the keys of the partition in slurm.conf.
        conf: slurm.conf.
        running: the settings that slurmctld runs with, some of which are defaults of partitions.
    """
    expected = {**_plain(wanted), **_choices(wanted, running), **_exclusive(found, wanted)}
    if expected["Default"] == "YES" and wanted is not _default(conf):
        expected["Default"] = "NO"
    for name, value in expected.items():
        # Older versions lack an attribute, and some are shown only if they are set.
        seen = found.get(name, "")
        is_shown = name in found or (name in WORDS and value)
        if is_shown and _same(seen) != _same(value):
            yield name, seen or "none", value or "none"
    yield from _lists(found, wanted)
    yield from _memory(found, wanted)
    yield from _nodes(found, wanted, conf)


def _default(conf: SlurmConf) -> Keys | None:
    """Return the default partition: the last one that says so."""
    chosen = [keys for keys in conf.partitions.values() if _flag(keys.get("default", "")) == "YES"]
    return chosen[-1] if chosen else None


def minutes(text: str) -> str:
    """Return a time limit in minutes, rounded up; slurm.conf(5), MaxTime, has the forms."""
    if text.lower() in ENDLESS:
        return UNLIMITED
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (*parts, days or "0")):
        return text.upper()
    numbers = list(map(int, parts))
    if dash:
        hours, mins, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, mins, seconds = numbers
    else:
        hours, (mins, seconds) = 0, [*numbers, 0][:2]
    total = ((int(days or 0) * 24 + hours) * 60 + mins) * 60 + seconds
    return str(-(-total // 60))


def _same(text: str) -> str:
    return "" if text.lower() in NONE else text.lower()


def _flag(text: str) -> str:
    return "YES" if text.lower() in YES else "NO"


def _number(text: str) -> str:
    if text.lower() in ENDLESS:
        return UNLIMITED
    return str(int(text)) if text.isdigit() else text


def _plain(wanted: Keys) -> Keys:
    """Return the attributes whose value is the one of their key, or a constant."""
    expected = {name: _flag(wanted.get(name.lower(), "no")) for name in FLAGS}
    both = wanted.get("priority")  # an old name for two keys
    for name, default in NUMBERS.items():
        value = wanted.get(name.lower(), both if both and name.startswith("Priority") else None)
        expected[name] = default if value is None else _number(value)
    for name in WORDS:
        value = wanted.get(name.lower(), "")
        expected[name] = BINDS.get(value.lower(), value) if name == "CpuBind" else value
    state = wanted.get("state", "UP").upper()
    # Slurm looks only at the beginning of the word.
    expected["State"] = next(
        (one for one in ("DOWN", "UP", "DRAIN", "INACTIVE") if state.startswith(one)), state
    )
    expected["SelectTypeParameters"] = wanted.get("selecttypeparameters", "NONE").upper()
    return expected


def _choices(wanted: Keys, running: Mapping[str, str]) -> Keys:
    """Return the attributes whose default is a setting of the whole cluster."""
    root = wanted.get("disablerootjobs", running.get("DisableRootJobs", "no"))
    mode = wanted.get("preemptmode", running.get("PreemptMode", "OFF"))
    return {"DisableRootJobs": _flag(root), "PreemptMode": mode.upper()}


def _exclusive(found: Keys, wanted: Keys) -> Keys:
    """Return OverSubscribe, and Exclusive, which shows a part of it since Slurm 26.05."""
    share = wanted.get("oversubscribe", wanted.get("shared", "NO")).lower()
    shared = SHARED.get(share, share.upper())
    if "Exclusive" not in found:
        return {"OverSubscribe": shared}
    only = wanted.get("exclusive", "NO").upper().replace("NONE", "NO")
    if _flag(wanted.get("exclusivetopo", "no")) == "YES":
        only = "TOPO"
    elif shared == "EXCLUSIVE" and only == "NO":
        only = "NODE"
    elif _flag(wanted.get("exclusiveuser", "no")) == "YES" and only == "NO":
        only = "USER"
    return {"Exclusive": only, "OverSubscribe": "NO" if only in ("NODE", "TOPO") else shared}


def _lists(found: Keys, wanted: Keys) -> Iterable[tuple[str, str, str]]:
    """Yield differences of lists, in which the order does not matter, and of times."""
    for name in ("Groups", "Accounts", "Qos"):
        key = name.lower()
        deny = f"allow{key}" not in wanted and f"deny{key}" in wanted
        kind = "Deny" if deny else "Allow"
        value = wanted.get(f"{kind}{name}".lower(), "ALL")
        seen_kind = "Deny" if f"Deny{name}" in found else "Allow"
        seen = found.get(f"{seen_kind}{name}", "ALL")
        if (seen_kind, _set(seen, name)) != (kind, _set(value, name)):
            yield (
                f"{seen_kind}{name}",
                seen,
                value if kind == seen_kind else f"{kind}{name}={value}",
            )
    jobs = {
        f"{name}={wanted[name.lower()]}"
        for name in ("DefCpuPerGPU", "DefMemPerGPU")
        if name.lower() in wanted
    }
    seen = found.get("JobDefaults", "(null)")
    if _set(seen, "") - {"(null)"} != _set(",".join(jobs), ""):
        yield "JobDefaults", seen, ",".join(sorted(jobs)) or "none"
    nodes, allowed = found.get("AllocNodes", "ALL"), wanted.get("allocnodes", "ALL")
    if _names(nodes) != _names(allowed):
        yield "AllocNodes", nodes, allowed
    longest = minutes(wanted.get("maxtime", UNLIMITED))
    for name, default in TIMES.items():
        value = wanted.get(name.lower(), default)
        wished = minutes(value)
        if name == "DefaultTime" and _beyond(wished, longest):
            value = wished = "NONE"  # as slurmctld does
        if name in found and minutes(found[name]) != wished:
            yield name, found[name], value


def _beyond(one: str, other: str) -> bool:
    if not other.isdigit():
        return False
    return one == UNLIMITED or (one.isdigit() and int(one) > int(other))


def _set(text: str, name: str) -> set[str]:
    """Return the elements of a list; only names of groups have capital letters."""
    lower = text.lower()
    words = text if name == "Groups" and lower != "all" else lower
    return {word for word in words.split(",") if word}


def _names(text: str) -> set[str]:
    if text.lower() == "all":
        return {"all"}
    try:
        return set(expand(text))
    except ValueError:
        return {text}


def _memory(found: Keys, wanted: Keys) -> Iterable[tuple[str, str, str]]:
    """Yield differences of limits that hold for a node or for a CPU: Slurm shows one of them."""
    for limit in ("DefMemPer", "MaxMemPer"):
        kind = next((k for k in ("Node", "CPU") if f"{limit}{k}".lower() in wanted), "Node")
        value = wanted.get(f"{limit}{kind}".lower(), UNLIMITED)
        value = UNLIMITED if value == "0" else _number(value)
        seen_kind = "CPU" if f"{limit}CPU" in found else "Node"
        seen = found.get(f"{limit}{seen_kind}", UNLIMITED)
        if value != seen or (kind != seen_kind and value != UNLIMITED):
            yield (
                f"{limit}{seen_kind}",
                seen,
                value if kind == seen_kind else f"{limit}{kind}={value}",
            )


def nodes_of(wanted: Keys, conf: SlurmConf) -> set[str] | None:
    """Return the nodes of a partition; None if a set chooses them by their features."""
    names: set[str] = set()
    for name in expand(wanted.get("nodes", "").replace(" ", ",")):
        if name.lower() == "all":
            names.update(conf.nodes)
        elif name in conf.sets:
            keys = conf.sets[name]
            if "feature" in keys:
                return None
            names.update(nodes_of(keys, conf) or ())
        else:
            names.add(name)
    return names


def _nodes(found: Keys, wanted: Keys, conf: SlurmConf) -> Iterable[tuple[str, str, str]]:
    expected = nodes_of(wanted, conf)
    if expected is None:
        return
    text = found.get("Nodes", "")
    seen = set() if text.lower() in NONE else set(expand(text))
    less, more = expected - seen, seen - expected
    if "all" in wanted.get("nodes", "").lower().split(","):
        more -= more - conf.nodes.keys()  # nodes that were made at run time belong to ALL
    if less or more:
        yield "Nodes", _but(less, more), _but(more, less)


def _but(less: set[str], more: set[str]) -> str:
    """Return what is missing and what is there, without the nodes on which both agree."""
    parts = (("without", less), ("with", more))
    return ", ".join(f"{word} {fold(names)}" for word, names in parts if names)
