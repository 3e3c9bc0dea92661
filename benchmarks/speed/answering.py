"""Simulates many nodes with one ssh server that answers on many addresses with saved records.

    PYTHON answering.py FOLDER

PYTHON needs asyncssh; the folder contains ``host_key``, ``authorized_keys`` and ``records``, whose
files are named after the addresses of their nodes. The server answers every command with this
record and runs nothing. It prints ``ready`` when it listens on port 22 of every address.

With a folder ``fingerprints`` beside ``records``, a command that asks for the fingerprint is
answered with the file there. A further question about a fingerprint is not: its program runs here,
with the node's own /etc (``simulated_node.sh``). Each question is a line of the file ``questions``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import asyncssh

WAITING = 4096
"""Maximum number of pending connections."""
NODE = Path(__file__).with_name("simulated_node.sh")
READS = "sys.stdin.buffer.readline()"
"""In a command whose program and request travel on standard input."""


def split(record: bytes) -> list[bytes]:
    """Return the parts before and after the record's time, which must advance between readings."""
    return re.split(rb'(?<="taken_at":)[^,]+', record, maxsplit=1)


def loaded(folder: Path) -> dict[str, list[bytes]]:
    """Return the records in a folder: address -> the parts of the record."""
    if not folder.is_dir():
        return {}
    return {path.name: split(path.read_bytes()) for path in folder.iterdir()}


async def shown(folder: Path, address: str, request: dict[str, Any], lines: bytes) -> bytes:
    """Run the program that a further question brought, as the node that is asked."""
    name = dict(request["own"])["name"]
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(folder / "trees"), name, address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(lines)
    return output


async def serve(folder: Path) -> None:
    """Answer until the process is killed."""
    records, fingerprints = loaded(folder / "records"), loaded(folder / "fingerprints")
    questions = (folder / "questions").open("w")

    async def answer(process: asyncssh.SSHServerProcess[bytes]) -> None:
        address = process.get_extra_info("sockname")[0]
        found, kind = records, "record"
        if fingerprints and READS in (process.command or ""):
            lines = [await process.stdin.readline() for _ in range(2)]
            request = json.loads(lines[1])
            found, kind = fingerprints, "further" if request["asked"] else "fingerprint"
        print(kind, address, file=questions, flush=True)
        if kind == "further":
            process.stdout.write(await shown(folder, address, request, b"".join(lines)))
        else:
            before, after = found[address]
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
