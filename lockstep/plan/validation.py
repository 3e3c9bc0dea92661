"""Shell commands by which the program that reads a file judges it before it is put in place."""

from __future__ import annotations

SHELL = "sh -n {new}"

TMPFILES = (
    # In an empty tree there is nothing to write to: only the syntax is judged.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; systemd-tmpfiles --create --root="$d" {new}'
)


def drop_in(unit: str, name: str = "50-lockstep.conf") -> str:
    """Return a command that lets systemd judge a drop-in beside the unit it belongs to."""
    return _judged(unit, f'mkdir "$d/{unit}.d"; cp {{new}} "$d/{unit}.d/{name}"')


def whole_unit(unit: str) -> str:
    """Return a command that lets systemd judge a whole unit."""
    return _judged(unit, f'cp {{new}} "$d/{unit}"')


def _judged(unit: str, put: str) -> str:
    return (
        'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
        f"{put}; "
        # verify also fails for what other units do: only its words about this file count.
        f'said="$(SYSTEMD_UNIT_PATH="$d:" systemd-analyze verify --man=no {unit} 2>&1 || true)"; '
        'case "$said" in *"$d"*) echo "$said" >&2; exit 1;; esac'
    )
