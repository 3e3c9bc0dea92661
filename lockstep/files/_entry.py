"""One line of the list of files, and how systemd judges a drop-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lockstep.plan import NodePlan


@dataclass(frozen=True)
class Entry:
    """One line of the list: a file that nodes with a role have."""

    role: str
    path: str
    template: str = ""
    text: Callable[[NodePlan], str] | None = None
    """The content, where it is not a template's."""
    mode: str = "644"
    owner: str = "root:root"
    secret: bool = False
    own: bool = False
    """The content names the node itself; of the others, nodes alike have the same."""
    validate: str = ""
    wanted: Callable[[NodePlan], bool] = lambda plan: True
    """Says whether the node has the file, beyond having the role."""


def drop_in(unit: str, name: str = "50-lockstep.conf") -> str:
    """Return a command that lets systemd judge a drop-in beside the unit it belongs to."""
    return _judged(unit, f'mkdir "$d/{unit}.d"; cp {{new}} "$d/{unit}.d/{name}"')


def whole_unit(unit: str) -> str:
    """Return a command that lets systemd judge a unit of our own."""
    return _judged(unit, f'cp {{new}} "$d/{unit}"')


def _judged(unit: str, put: str) -> str:
    return (
        'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
        f"{put}; "
        # verify also fails for what other units do: only what it says of our file counts.
        f'said="$(SYSTEMD_UNIT_PATH="$d:" systemd-analyze verify --man=no {unit} 2>&1 || true)"; '
        'case "$said" in *"$d"*) echo "$said" >&2; exit 1;; esac'
    )
