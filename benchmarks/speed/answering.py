"""Answers as many nodes as there are addresses, by one real ssh server, from recorded records.

    PYTHON answering.py FOLDER

PYTHON has asyncssh; the folder has ``host_key``, ``authorized_keys`` and ``records``, in which a
file is named by the address of its node. Whatever command comes is answered at once by that record:
nothing is run. Says ``ready`` when it listens, on port 22 of every address.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import asyncssh

WAITING = 4096
"""Connections that may wait for the server to take them."""


def split(record: bytes) -> list[bytes]:
    """Return what stands around its time: a clock that stands still is a finding."""
    return re.split(rb'(?<="taken_at":)[^,]+', record, maxsplit=1)


async def serve(folder: Path) -> None:
    """Answer until the process is ended."""
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
