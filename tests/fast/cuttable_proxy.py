"""A port before another one, that can be cut: then nothing passes, and nothing is closed.

Takes the port and the path of a file: the cable is cut while there is one. Prints its own port.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path


async def main(to: int, cut: Path) -> None:
    """Pass what arrives, until it is killed."""

    async def one_way(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        while data := await read.read(65536):
            if cut.exists():
                return
            write.write(data)
        write.close()

    async def accepted(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(one_way(read, there[1]), one_way(there[0], write))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
