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
    for file in files:
        state = states.get(file.path)
        if state == FileState(file.sha256, file.mode, file.user, file.group):
            host.noop(f"{file.path} is as planned")
        else:
            yield _put(file)


def _put(file: ManagedFile) -> StringCommand:
    new = f"{file.path}.lockstep-new"
    steps = [
        "set -e",
        # In a shell of its own: the umask counts for every folder that -p makes on the way.
        f"( umask 022; mkdir -p {shlex.quote(file.path.rpartition('/')[0])} )",
        "umask 077",
        f"trap 'rm -f {new}' EXIT",
        f"base64 -d > {new}",
        f"chown {file.user}:{file.group} {new}",
        f"chmod {file.mode} {new}",
        # On disk before the rename: a power cut leaves the old file or the new one, whole.
        f"sync {new}",
        f"( {file.validate.format(new=new)} )" if file.validate else ":",
        f"mv -fT {new} {shlex.quote(file.path)}",
    ]
    content = base64.b64encode(file.content).decode("ascii")
    return StringCommand("; ".join(steps), _stdin=content)
