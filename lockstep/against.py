"""Compares what this Lockstep would put on nodes with what another release would put there.

The other release runs in its own virtual environment. It gets a program that uses only functions
that every release since 0.1.0 has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lockstep.report import alike, fold

WITHIN_S = 600.0
"""Seconds for the plan and the files of a large cluster."""
PROGRAM = """\
import json, sys
from importlib import metadata
from lockstep.files import managed
from lockstep.inventory import load
plan = load(sys.argv[1])
contents, nodes = {}, {}
for name, node in plan.nodes.items():
    files = {}
    for one in managed(node, None):
        contents[one.sha256] = one.content.decode("utf-8", "backslashreplace")
        files[one.path] = [one.sha256, one.mode, f"{one.user}:{one.group}"]
    nodes[name] = {"files": files, "values": node.to_json()}
print(json.dumps({"release": metadata.version("lockstep"), "contents": contents, "nodes": nodes}))
"""
"""Prints what a release would put on the nodes; secret files are left out."""
ABSENT = "-"


class OtherRelease(Exception):
    """Raised if the other release cannot be asked; the message says why, and what to do next."""


@dataclass(frozen=True)
class Difference:
    """One thing that this release would change on some nodes."""

    nodes: str
    """Their names, folded."""
    what: str
    """``file PATH``, or the name of a value as ``lockstep plan INVENTORY NODE`` shows it."""
    before: str
    """The value of the other release; of a file its mode and owner."""
    after: str
    diff: tuple[str, ...] = ()
    """Of a file, the lines that differ (diff(1), unified)."""


def answer(python: Path | str, inventory: str) -> dict[str, Any]:
    """Return what a release would put on the nodes of an inventory.

    Args:
        python: the Python of the virtual environment with the release.
        inventory: the path of the inventory file.

    Raises:
        OtherRelease: the release cannot be started, or refuses the description.
    """
    # -P: a checkout in the current folder must not take the place of the release.
    words = [str(python), "-P", "-c", PROGRAM, inventory]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    except OSError as error:
        raise OtherRelease(
            f"{python}: {error.strerror}\n  expected  a virtual environment with another release\n"
            "  next      python3 -m venv DIR, then DIR/bin/pip install that release"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise OtherRelease(f"{python}: no answer within {WITHIN_S:.0f} s") from error
    if done.returncode:
        raise OtherRelease(
            f"the release of {python} cannot plan {inventory}:\n{done.stderr.strip()[-2000:]}"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def python_of(environment: str) -> Path:
    """Return the path of the Python of a virtual environment."""
    return Path(environment, "bin", "python")


def differences(other: Mapping[str, Any], this: Mapping[str, Any]) -> list[Difference]:
    """Return what differs, equal differences of several nodes as one.

    Args:
        other: the answer of the other release.
        this: the answer of this release.
    """
    found = [
        (name, one)
        for name in dict.fromkeys((*other["nodes"], *this["nodes"]))
        for one in _of_node(other["nodes"].get(name), this["nodes"].get(name))
    ]
    contents = {**other["contents"], **this["contents"]}
    result = []
    for (what, before, after), same in alike(found, lambda item: item[1]).items():
        nodes = fold(name for name, _ in same)
        if what.startswith("file "):
            old, new = (contents.get(one[0], "").splitlines() for one in (before, after))
            lines = tuple(unified_diff(old, new, n=1, lineterm=""))[2:]
            result.append(Difference(nodes, what, _rights(before), _rights(after), lines))
        else:
            result.append(Difference(nodes, what, str(before[0]), str(after[0])))
    return result


Side = tuple[str, ...]


def _of_node(
    other: Mapping[str, Any] | None, this: Mapping[str, Any] | None
) -> Iterator[tuple[str, Side, Side]]:
    sides = [
        {
            **{f"file {path}": tuple(about) for path, about in node["files"].items()},
            **{name: (text,) for name, text in entries("", node["values"])},
        }
        if node
        else {}
        for node in (other, this)
    ]
    for what in dict.fromkeys((*sides[0], *sides[1])):
        before, after = (side.get(what, (ABSENT,)) for side in sides)
        if before != after:
            yield what, before, after


def entries(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each value in a document; dots join nested names."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from entries(f"{name}.{key}".lstrip("."), inner)
    elif isinstance(value, list):
        yield name, " ".join(map(str, value)) or "-"
    else:
        yield name, "-" if value in (None, "", {}) else str(value)


def _rights(side: Side) -> str:
    return " ".join(side[1:]) or ABSENT


def this_release(inventory: str) -> dict[str, Any]:
    """Return what this release would put on the nodes of an inventory.

    It runs as the other one does: the same program, in a process of its own.

    Raises:
        OtherRelease: as in ``answer``.
    """
    return answer(sys.executable, inventory)
