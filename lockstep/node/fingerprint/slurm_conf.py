"""Parses slurm.conf as Slurm does (slurm.conf(5); Slurm, src/common/parse_config.c)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from lockstep.node.fingerprint.hostlists import expand
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import text_of

PAIR = re.compile(r'\s*([\w.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
"""parse_config.c, keyvalue_pattern."""
COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*", re.DOTALL)
CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*$")
ESCAPED = re.compile(r"\\(.?)")
DEFAULT = "default"
"""The name of a node or partition whose settings hold for the lines below it."""
NOT_INHERITED = frozenset({
    *("disablerootjobs", "exclusiveuser", "exclusivetopo", "powerdownonidle"),
    *("selecttypeparameters", "suspendtime"),
})  # fmt: skip
"""Keys of a partition that Slurm does not take from ``PartitionName=DEFAULT`` (read_config.c,
_parse_partitionname)."""
ADDRESSES: tuple[str, ...] = ("nodehostname", "nodeaddr")
"""Keys of a node whose value is a list, one for each name of the line."""
DEEPEST = 16
"""Most files that include each other."""

Keys = dict[str, str]
"""Key in lower case -> its value."""


@dataclass
class SlurmConf:
    """The settings in slurm.conf and in the files that it includes."""

    folder: str
    """Where the files are that it includes by name."""
    settings: Keys = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    """Key in lower case -> all its values, in order: a key may appear several times."""
    names: Keys = field(default_factory=dict)
    """Key in lower case -> as it is written."""
    node_lines: list[tuple[str, Keys]] = field(default_factory=list)
    """The hostlist and the keys of each line with nodes."""
    partitions: dict[str, Keys] = field(default_factory=dict)
    sets: dict[str, Keys] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    defaults: dict[str, Keys] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> dict[str, Keys]:
        """The keys of each node.

        Raises:
            Unread: a line has no hostlist.
        """
        return dict(pair for named, keys in self.node_lines for pair in _of_line(named, keys))


def read_slurm_conf(path: str) -> SlurmConf:
    """Return what slurm.conf says.

    Raises:
        Unread: a file cannot be read, or a line has no meaning.
    """
    conf = SlurmConf(os.path.dirname(path))
    _read(path, conf, 0)
    return conf


def _read(path: str, conf: SlurmConf, depth: int) -> None:
    if depth > DEEPEST:
        raise Unread(f"{path}: files of slurm.conf include each other")
    conf.files.append(path)
    for line in _lines(text_of(path)):
        words = line.split(None, 1)
        if words and words[0].lower() == "include" and len(words) == 2:
            name = words[1].split()[0].replace("%c", conf.settings.get("clustername", ""))
            _read(os.path.join(conf.folder, name), conf, depth + 1)
            continue
        pairs = [(key, quoted or plain) for key, quoted, plain in PAIR.findall(line)]
        if pairs:
            _add(conf, pairs)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without comments and escapes; a line that ends with ``\\`` goes on."""
    begun = ""
    for line in text.splitlines():
        line = COMMENT.sub(r"\1", line)
        continued = CONTINUED.search(line)
        if continued:
            begun += line[: continued.start()] + continued.group(1)
            continue
        yield ESCAPED.sub(r"\1", begun + line)
        begun = ""
    if begun:
        yield ESCAPED.sub(r"\1", begun)


def _add(conf: SlurmConf, pairs: list[tuple[str, str]]) -> None:
    (first, named), *others = pairs
    kind = first.lower()
    keys = {key.lower(): value for key, value in others}
    if kind not in ("nodename", "partitionname", "nodeset"):
        for key, value in pairs:
            conf.settings[key.lower()] = value
            conf.lists.setdefault(key.lower(), []).append(value)
            conf.names[key.lower()] = key
        return
    if named.lower() == DEFAULT:
        conf.defaults[kind] = {**conf.defaults.get(kind, {}), **keys}
        return
    inherited = conf.defaults.get(kind, {})
    if kind == "nodeset":
        conf.sets[named] = keys
    elif kind == "partitionname":
        kept = {key: value for key, value in inherited.items() if key not in NOT_INHERITED}
        conf.partitions[named] = {**kept, **keys}
    else:
        conf.node_lines.append((named, {**inherited, **keys}))


def _of_line(named: str, keys: Keys) -> Iterator[tuple[str, Keys]]:
    """Yield each node of a line; its addresses are lists as long as the names."""
    try:
        names = expand(named)
        apart = {key: expand(keys[key]) for key in ADDRESSES if key in keys}
    except ValueError as error:
        raise Unread(f"slurm.conf: NodeName={named}: {error}") from None
    for number, name in enumerate(names):
        own = dict(keys) if apart else keys
        for key, values in apart.items():
            own[key] = values[number] if len(values) == len(names) else keys[key]
        yield name, own
