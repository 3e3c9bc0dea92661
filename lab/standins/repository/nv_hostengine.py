#!/usr/bin/python3 -IS
"""Simulates DCGM's host engine: it listens on localhost:5555, the real program's default."""

import socket
import sys

VERSION = "@VERSION@"


def main() -> int:
    """Listen until a signal arrives; it always runs in the foreground (-n)."""
    arguments = sys.argv[1:]
    if "--version" in arguments:
        print(f"Version : {VERSION}")
        return 0
    port = int(arguments[arguments.index("-p") + 1]) if "-p" in arguments else 5555
    with socket.create_server(("127.0.0.1", port)) as server:
        print(f"Host engine listening on port {port}", flush=True)
        while True:
            connection, _ = server.accept()
            connection.close()


if __name__ == "__main__":
    sys.exit(main())
