"""The operation that writes managed files: each is checked first and replaced atomically."""

from __future__ import annotations

import base64
import itertools
import shlex

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.files import FileState, file_states
from lockstep.files import ManagedFile
from lockstep.roles.operations.dry import replaces
from lockstep.roles.operations.noted import note
from lockstep.roles.operations.operation import Commands, ask, operation

SELINUX = "/sys/fs/selinux/enforce"
"""Exists while the kernel enforces or logs an SELinux policy (selinux(8))."""


@operation("every file of this role is as planned")
def managed_files(files: tuple[ManagedFile, ...]) -> Commands:
    """Give files their planned content, mode and owner.

    The content is sent on standard input, so that it appears in no process list, no log and no
    temporary file that others can read. The new file is created beside its destination with mode
    0600, gets its owner and mode, is checked by the program that will read it, and is renamed over
    the old file.

    Args:
        files: the planned files, from ``lockstep.files.managed``.
    """
    if not files:
        return
    states = ask(file_states(tuple(file.path for file in files)))
    differing = [
        file
        for file in files
        if states[file.path] != FileState(file.sha256, file.mode, file.user, file.group)
    ]
    if differing:
        note(host, [file.path for file in differing])
        replaces(host, differing)
        yield _put_all(differing)


def _put_all(files: list[ManagedFile]) -> StringCommand:
    """Return one command for all files, because each command costs a round trip to the node."""
    folders = dict.fromkeys(shlex.quote(file.path.rpartition("/")[0]) for file in files)
    steps = [
        "set -e",
        f"file={_named(files)}",
        # The shell's positional parameters are the new files.
        "set --",
        """trap 's=$?; rm -f "$@"; [ "$s" = 0 ] || echo "not replaced: $file" >&2' EXIT""",
        # In a subshell, so that this umask applies only to the folders that mkdir -p creates.
        f"( umask 022; mkdir -p {' '.join(folders)} )",
        "umask 077",
    ]
    for _, together in itertools.groupby(files, _judged_with):
        steps += _put(list(together))
    paths = shlex.join(file.path for file in files)
    # A new file inherits the label of its folder. SELinux's own list may have another one for it.
    steps.append(
        f"[ ! -e {SELINUX} ] || ! command -v restorecon >/dev/null || "
        f"restorecon -- {' '.join(folders)} {paths}"
    )
    contents = "".join(base64.b64encode(file.content).decode("ascii") + "\n" for file in files)
    return StringCommand("; ".join(steps), _stdin=contents)


def _named(files: list[ManagedFile]) -> str:
    """Return the paths of files as one shell word, for error messages."""
    return shlex.quote(" ".join(file.path for file in files))


def _judged_with(file: ManagedFile) -> str:
    """Return a grouping key: one command checks all files that have the same key."""
    return file.validate if "{every_new}" in file.validate else file.path


def _put(files: list[ManagedFile]) -> list[str]:
    """Return the shell commands that write one group of files; most groups have a single file."""
    news = [shlex.quote(f"{file.path}.lockstep-new") for file in files]
    steps = [f"set -- {' '.join(news)}"]
    owners: dict[str, list[str]] = {}
    modes: dict[str, list[str]] = {}
    for file, new in zip(files, news, strict=True):
        steps += [
            f"file={shlex.quote(file.path)}",
            "IFS= read -r content",
            # printf is a builtin, so its arguments appear in no process list.
            f'printf %s "$content" | base64 -d > {new}',
        ]
        owners.setdefault(f"{file.user}:{file.group}", []).append(new)
        modes.setdefault(file.mode, []).append(new)
    steps.append(f"file={_named(files)}")
    steps += [f"chown {owner} {' '.join(theirs)}" for owner, theirs in owners.items()]
    steps += [f"chmod {mode} {' '.join(theirs)}" for mode, theirs in modes.items()]
    # Synced before the rename, so that a power failure leaves either the old or the new file.
    steps.append(f"sync {' '.join(news)}")
    if files[0].validate:
        judge = files[0].validate.format(new=news[0], every_new=" ".join(news))
        # The rest of standard input is the content of the next files.
        steps.append(f"( {judge} ) </dev/null")
    for file, new in zip(files, news, strict=True):
        steps += [f"file={shlex.quote(file.path)}", f'mv -fT {new} "$file"']
    return steps
