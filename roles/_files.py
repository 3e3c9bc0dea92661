"""The operation that puts managed files in place: judged first, replaced whole, never half."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand, operation

from lockstep.facts.files import FileState, FileStates
from lockstep.files import ManagedFile


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
    states = host.get_fact(FileStates, paths=tuple(file.path for file in files))
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
    steps = [
        "set -e",
        "file= new=",
        """trap 's=$?; rm -f "$new"; [ "$s" = 0 ] || echo "not replaced: $file" >&2' EXIT""",
    ]
    contents = []
    for file in files:
        steps += _put(file)
        contents.append(base64.b64encode(file.content).decode("ascii"))
    return StringCommand("; ".join(steps), _stdin="".join(f"{content}\n" for content in contents))


def _put(file: ManagedFile) -> list[str]:
    path, new = shlex.quote(file.path), shlex.quote(f"{file.path}.lockstep-new")
    return [
        f"file={path} new={new}",
        # In a shell of its own: the umask counts for every folder that -p makes on the way.
        f"( umask 022; mkdir -p {shlex.quote(file.path.rpartition('/')[0])} )",
        "umask 077",
        "IFS= read -r content",
        # A builtin: what it prints is in no process list.
        'printf %s "$content" | base64 -d > "$new"',
        f'chown {file.user}:{file.group} "$new"',
        f'chmod {file.mode} "$new"',
        # On disk before the rename: a power cut leaves the old file or the new one, whole.
        'sync "$new"',
        # What else is on standard input is the next file's.
        f"( {file.validate.format(new=new)} ) </dev/null" if file.validate else ":",
        'mv -fT "$new" "$file"',
    ]
