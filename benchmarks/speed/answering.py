"""Simulates many nodes with one ssh server that answers on many addresses with saved records.

    PYTHON answering.py FOLDER

PYTHON needs asyncssh; the folder contains ``host_key``, ``authorized_keys`` and ``records``, whose
files are named after the addresses of their nodes. The server answers every command with this
record and runs nothing. It prints ``ready`` when it listens on port 22 of every address.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import asyncssh

WAITING = 4096
"""Maximum number of pending connections."""


def split(record: bytes) -> list[bytes]:
    """Return the parts before and after the record's time, which must advance between readings."""
    return re.split(rb'(?<="taken_at":)[^,]+', record, maxsplit=1)


async def serve(folder: Path) -> None:
    """Answer until the process is killed."""
    records = {path.name: split(path.read_bytes()) for path in (folder / "records").iterdir()}

    def answer(process: asyncssh.SSHServerProcess[bytes]) -> None:
        before, after = records[process.get_extra_info("sockname")[0]]
        process.stdout.write(b"%s%.3f%s" % (before, time.time(), after))
        process.exit(0)

    server = await asyncssh.listen(
        "::",
        22,
        server_host_keys=[str(folder / "host_key")],
        authorized_client_keys=str(folder / "authorized_keys"),
        process_factory=answer,
        encoding=None,
        backlog=WAITING,
    )
    print("ready", flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
