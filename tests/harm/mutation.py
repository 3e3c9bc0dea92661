"""Changes a description at random places, and says what a changed one does.

A mutation is four numbers, so that hypothesis can choose and shrink it: what is done, where, and
with which value.
"""

from __future__ import annotations

import copy
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.files import OF_SITE, managed
from lockstep.inventory import plan_or_problems
from lockstep.plan import ClusterPlan
from lockstep.spec import Cluster, message, names
from tests.golden.write import FAKE
from tests.harm.descriptions import Base, bases

SLOWEST_S = 10.0
"""The longest that an answer may take, in CPU time."""
MOST_MIB = 1024
"""The most memory that the process may ever have had."""

SYNTAX = (
    *("\n", "\r", "\t", "\x00", "\x1b", "\x85", "\u2028", "\u202e", "\ud800", "\xa0"),
    *("'", '"', "`", ";", "=", "#", "\\", " ", "|", "&", "%", "<", ">", "*", "!", "[", "]"),
    *("$(x)", "${x}", "{{x}}", "{%x%}", "\n[Section]\n", "\nX=y\n", "' 'x", '" "x', "../", " #"),
)
"""Text that ends, begins or comments out something in a file or a shell."""
BEGIN, END = "qzx", "xzq"
"""What an injected text stands between, so that it is found again."""
INJECTED = re.compile(f"{BEGIN}(.*?){END}", re.DOTALL)
HARMLESS = re.compile(r"[A-Za-z0-9._/:@+,%!~\[\]-]*", re.ASCII)
"""Characters of names, ranges, paths, addresses and numbers, which no file has as syntax there."""

ALLOWED = {
    # sysctl.d(5): a value ends with its line, and a comment is a line of its own.
    "/etc/sysctl.d/99-zz-lockstep.conf": re.compile("[ -~\t]*"),
    # A key has lines, and each is indented, as sources.list(5) has it.
    "/etc/apt/sources.list.d/lockstep.sources": re.compile(f"({HARMLESS.pattern}|\n )*", re.ASCII),
    # The value of a kernel argument, which the file quotes if it has a ";".
    "/etc/default/grub.d/50-lockstep.cfg": re.compile(f"({HARMLESS.pattern}|[;=])*", re.ASCII),
}
"""File -> the injected text that is harmless there as well."""

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 64, 65535, 2**31, 2**63, 10**30, -(10**5000)),
    *(0.5, 1e308, -0.0, math.nan, math.inf, -math.inf, 1 + 2j),
    *("", " ", "a", "A", "0", "1", "-1", "None", "nan", "1e9", "\u0661", "\u00e9", "x" * 5000),
    *("localhost", "DEFAULT", "default", "all", "worker1", "Worker01", "head1", "@all", "10"),
    *("::", "::1", "ff02::1", "fe80::1", "fd00::1", "10.0.0.1", "255.255.255.255", "0.0.0.0"),
    *("::/0", "fd00::/8", "fe80::/64", "10.0.0.0/8", "0.0.0.0/0", "224.0.0.0/4", "fd00::/129"),
    *("worker[0-999999]", "worker[1-3]", "worker[1-3", "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]"),
    *("w[0-99999999999999]", "0-99999999999999", "0-3", "0-3,5", "3-0", "0-", "w[1-2]!w1"),
    "w[1/0]",
    *("0d", "1y", "9999999999y", "UNLIMITED", "1-00:00:00", "1.2.3", "v1", "580.95.05", "12.4"),
    *("debian_12", "debian_13", "ubuntu_24_04", "ubuntu_22_04", "rocky_9", "nvidia", "debian"),
    *("/", "//", "/etc/../x", "~", "~nobody/x", "/dev/x[0-7]", "https://x.example/y", "1g.18gb"),
    *([], {}, [[]], [{}], {"a": 1}, {1: 2}, {None: 1}, {True: 1}, {(1,): 2}, (), [None]),
    ["a"] * 99,
    *(b"x", {1}, frozenset(), object, range(9), Path("/x")),
)  # fmt: skip
"""Values of any field, most of which fit nowhere."""


class Mutation(NamedTuple):
    """What is done, where, with which value, and how."""

    kind: int
    place: int
    value: int
    how: int


Place = tuple[Any, Any]
"""A dictionary or list, and a key or an index in it."""


def mutated(base: Base, mutations: Sequence[Mutation]) -> dict[str, Any]:
    """Return the description of a base with some mutations, one after the other."""
    wanted: dict[str, Any] = copy.deepcopy(base.description)
    for one in mutations:
        places = list(_places(wanted))
        if places:
            inside, key = places[one.place % len(places)]
            KINDS[one.kind % len(KINDS)](wanted, inside, key, one)
    return wanted


def _places(value: Any) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


def _odd(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    inside[key] = copy.deepcopy(ODD[one.value % len(ODD)])


def _other(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A value of another place of the same description."""
    places = list(_places(wanted))
    other, at = places[one.value % len(places)]
    inside[key] = copy.deepcopy(other[at])


def _graft(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A value of the same key in another description, which often fits."""
    found = [
        other[at]
        for base in bases()
        for other, at in _places(base.description)
        if at == key and type(other[at]) is type(inside[key])
    ]
    if found:
        inside[key] = copy.deepcopy(found[one.value % len(found)])


def _removed(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    del inside[key]


def _doubled(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """An item again, or a value with another key."""
    item = copy.deepcopy(inside[key])
    if isinstance(inside, list):
        inside.insert(one.value % (len(inside) + 1), item)
    else:
        inside[KEYS[one.value % len(KEYS)]] = item


def _added(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A field, with a value of the same field elsewhere or an odd one."""
    if isinstance(inside, dict):
        name = KEYS[one.value % len(KEYS)]
        inside[name] = copy.deepcopy(ODD[one.how % len(ODD)])
        _graft(wanted, inside, name, one)


def _injected(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A text with syntax in it, or a key with syntax in it."""
    text = f"{BEGIN}{SYNTAX[one.value % len(SYNTAX)]}{END}"
    if isinstance(inside[key], str):
        at = one.how % (len(inside[key]) + 1)
        inside[key] = (text, inside[key] + text, inside[key][:at] + text + inside[key][at:])[
            one.how % 3
        ]
    elif isinstance(inside, dict) and isinstance(key, str):
        inside[key + text] = inside.pop(key)


def _one_letter(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A text with one character less, more or changed."""
    text = inside[key]
    if isinstance(text, str):
        at = one.how % (len(text) + 1)
        letter = ("", *SYNTAX, "0", "9", "a", "Z", ".", ":", "-")[one.value % (len(SYNTAX) + 8)]
        inside[key] = text[:at] + letter + text[at + one.how % 2 :]


def _number(wanted: Any, inside: Any, key: Any, one: Mutation) -> None:
    """A number, changed a little or a lot."""
    number = inside[key]
    if isinstance(number, int | float):
        changes: tuple[Any, ...] = (
            *(number + 1, number - 1, number * 2, -number, number // 2, number * 1000),
            *(number * 10**9, float(number), str(number), bool(number), [number], 1, 8),
        )
        inside[key] = changes[one.value % len(changes)]


KINDS: tuple[Callable[[Any, Any, Any, Mutation], None], ...] = (
    *(_odd, _other, _graft, _graft, _removed, _doubled, _added, _injected, _injected, _one_letter),
    _number,
)


def _keys() -> tuple[str, ...]:
    """Every key of every description, and the names of all fields of the model."""
    found = {
        key for base in bases() for _, key in _places(base.description) if isinstance(key, str)
    }
    return tuple(sorted(found | {*Cluster.model_fields, "x", "", "None"}))


KEYS = _keys()


def harm(description: object, file: str) -> tuple[bool, str]:
    """Return whether a description was accepted, and the harm that it does; "" if it does none.

    An error that ends in a traceback is raised as it is.
    """
    started = time.process_time()
    made, problems = plan_or_problems(description, file)  # type: ignore[arg-type]
    if made is None:
        text = message(problems, file)
        wrong = "" if text.replace("\n", "").isprintable() else f"the message {text!r}"
        wrong = wrong or ("" if problems else "refused without a problem")
    else:
        wrong = next(_of_plan(made), "")
    took = time.process_time() - started
    names.expand.cache_clear()
    return made is not None, wrong or (f"{took:.1f} s" if took > SLOWEST_S else "")


def _of_plan(made: ClusterPlan) -> Iterator[str]:
    """Yield the harm that a plan does in files of nodes, one node of each kind."""
    json.dumps(made.to_json(), allow_nan=False)
    for node in {one.kind: one for one in made.nodes.values()}.values():
        json.dumps(node.to_json(), allow_nan=False)
        json.dumps(made.login(node.name))
        for file in managed(node, FAKE):
            site = node.site_files.get(file.path)
            if site is not None and site.content is not None:
                continue
            if file.path.endswith((".py", ".der")):
                continue  # a copy of Lockstep's own source, or a certificate
            # What a site gives as lines of a file is syntax there; other fields are not.
            text = file.content.decode("utf-8").partition(OF_SITE)[0]
            odd = [c for c in text if not c.isprintable() and c not in "\n\t"]
            if odd:
                yield f"{file.path}: {odd[0]!r}"
            for found in INJECTED.finditer(text):
                if not ALLOWED.get(file.path, HARMLESS).fullmatch(found[1]):
                    yield f"{file.path}: {found[0]!r} in {_line(text, found.start())!r}"


def _line(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0][:200]
