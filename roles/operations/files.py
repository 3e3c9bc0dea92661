"""The operation that puts managed files in place: judged first, replaced whole, never half."""

from __future__ import annotations

import base64
import itertools
import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.files import FileState, file_states
from lockstep.facts.reading import ask
from lockstep.files import ManagedFile
from lockstep.roles.operations.operation import operation


@operation()
def managed_files(files: tuple[ManagedFile, ...]) -> Generator[StringCommand, None, None]:
    """Bring files to their content, mode and owner.

    The content travels on standard input: not in a process list, not in a log, and not through
    a temporary file that others can read. The candidate is written beside its destination with
    mode 0600, judged by the program that will read it, and renamed over the old file.

    Args:
        files: what is to be there, from ``lockstep.files.managed``.
    """
    if not files:
        host.noop("no files of this role on this node")
        return
    states = ask(host, file_states(tuple(file.path for file in files)))
    differing = []
    for file in files:
        state = states.get(file.path)
        if state == FileState(file.sha256, file.mode, file.user, file.group):
            host.noop(f"{file.path} is as planned")
        else:
            differing.append(file)
    if differing:
        yield _put_all(differing)


def _put_all(files: list[ManagedFile]) -> StringCommand:
    """Return one command: a round trip for each of many small files is most of a fresh deploy."""
    folders = dict.fromkeys(shlex.quote(file.path.rpartition("/")[0]) for file in files)
    steps = [
        "set -e",
        f"file={_named(files)}",
        # Its parameters are the candidates.
        "set --",
        """trap 's=$?; rm -f "$@"; [ "$s" = 0 ] || echo "not replaced: $file" >&2' EXIT""",
        # In a shell of its own: the umask counts for every folder that -p makes on the way.
        f"( umask 022; mkdir -p {' '.join(folders)} )",
        "umask 077",
    ]
    for _, together in itertools.groupby(files, _judged_with):
        steps += _put(list(together))
    contents = "".join(base64.b64encode(file.content).decode("ascii") + "\n" for file in files)
    return StringCommand("; ".join(steps), _stdin=contents)


def _named(files: list[ManagedFile]) -> str:
    """Return how the shell is told which files it has to do with."""
    return shlex.quote(" ".join(file.path for file in files))


def _judged_with(file: ManagedFile) -> str:
    """Return what neighbours that are judged by one call of their program have in common."""
    return file.validate if "{every_new}" in file.validate else file.path


def _put(files: list[ManagedFile]) -> list[str]:
    """Return the steps for files that are judged together, mostly one."""
    news = [shlex.quote(f"{file.path}.lockstep-new") for file in files]
    steps = [f"set -- {' '.join(news)}"]
    owners: dict[str, list[str]] = {}
    modes: dict[str, list[str]] = {}
    for file, new in zip(files, news, strict=True):
        steps += [
            f"file={shlex.quote(file.path)}",
            "IFS= read -r content",
            # A builtin: what it prints is in no process list.
            f'printf %s "$content" | base64 -d > {new}',
        ]
        owners.setdefault(f"{file.user}:{file.group}", []).append(new)
        modes.setdefault(file.mode, []).append(new)
    steps.append(f"file={_named(files)}")
    steps += [f"chown {owner} {' '.join(theirs)}" for owner, theirs in owners.items()]
    steps += [f"chmod {mode} {' '.join(theirs)}" for mode, theirs in modes.items()]
    # On disk before the rename: a power cut leaves the old file or the new one, whole.
    steps.append(f"sync {' '.join(news)}")
    if files[0].validate:
        judge = files[0].validate.format(new=news[0], every_new=" ".join(news))
        # What else is on standard input is the next file's.
        steps.append(f"( {judge} ) </dev/null")
    for file, new in zip(files, news, strict=True):
        steps += [f"file={shlex.quote(file.path)}", f'mv -fT {new} "$file"']
    return steps
