#!/usr/bin/python3 -I
"""Stands in for NVIDIA's dcgm-exporter: metrics of the stand-in boards, as Prometheus' text.

Options of the real one: -f COUNTERS (its CSV says which metrics), -r HOST:PORT (of the host engine;
it ends when that does not answer), -a ADDRESS, -c MILLISECONDS.
"""

import argparse
import http.server
import socket
import subprocess
import sys
import time

VERSION = "@VERSION@"
SOURCES = {
    "DCGM_FI_DEV_SM_CLOCK": "clocks.current.sm",
    "DCGM_FI_DEV_MEM_CLOCK": "clocks.current.memory",
    "DCGM_FI_DEV_MEMORY_TEMP": "temperature.memory",
    "DCGM_FI_DEV_GPU_TEMP": "temperature.gpu",
    "DCGM_FI_DEV_POWER_USAGE": "power.draw",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "enforced.power.limit",
    "DCGM_FI_DEV_GPU_UTIL": "utilization.gpu",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "utilization.memory",
    "DCGM_FI_DEV_FB_FREE": "memory.free",
    "DCGM_FI_DEV_FB_USED": "memory.used",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "remapped_rows.uncorrectable",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "remapped_rows.correctable",
}
LABELS = ("index", "uuid", "pci.bus_id", "name", "driver_version")


def endpoint(text: str) -> tuple[str, int]:
    """HOST:PORT, [ADDRESS]:PORT or :PORT as (host, port)."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def counters(path: str) -> list[list[str]]:
    """Metric, kind and help of each line of the counters' file."""
    with open(path) as file:
        rows = [line.split(",", 2) for line in file if line.strip() and line[0] != "#"]
    return [[column.strip() for column in row] for row in rows]


class Exporter:
    """What is collected, and when."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Keep the options; nothing is collected yet."""
        self.counters = [row for row in counters(options.collectors) if row[0] in SOURCES]
        self.interval_s = options.interval / 1000
        self.collected = -1.0
        self.text = ""

    def metrics(self) -> str:
        """The text of /metrics, collected anew once per interval."""
        if self.collected < 0 or time.monotonic() - self.collected >= self.interval_s:
            self.text = self.collect()
            self.collected = time.monotonic()
        return self.text

    def collect(self) -> str:
        """Ask all boards."""
        fields = [*LABELS, *(SOURCES[name] for name, _, _ in self.counters)]
        done = subprocess.run(
            [
                "/usr/bin/nvidia-smi",
                f"--query-gpu={','.join(fields)}",
                "--format=csv,noheader,nounits",
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        boards = [line.split(", ") for line in done.stdout.splitlines()]
        boards = [board for board in boards if len(board) == len(fields)]
        lines = []
        for place, (name, kind, what) in enumerate(self.counters, len(LABELS)):
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            for board in boards:
                index, uuid, bus, model, driver = board[: len(LABELS)]
                if board[place].startswith("["):
                    continue
                lines.append(
                    f'{name}{{gpu="{index}",UUID="{uuid}",pci_bus_id="{bus}",'
                    f'device="nvidia{index}",modelName="{model}",'
                    f'Hostname="{socket.gethostname()}",'
                    f'DCGM_FI_DRIVER_VERSION="{driver}"}} {float(board[place]):g}'
                )
        return "\n".join(lines) + "\n"


def handler(exporter: Exporter) -> type[http.server.BaseHTTPRequestHandler]:
    """The HTTP handler of an exporter."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer /metrics and /health."""
            found = self.path in ("/metrics", "/health")
            text = exporter.metrics() if self.path == "/metrics" else "OK" if found else "not found"
            body = text.encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # type: ignore[explicit-override]
            """Say nothing of each request."""

    return Handler


class Server(http.server.ThreadingHTTPServer):
    """On IPv6, where the address is one or none is given."""

    def __init__(
        self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]
    ) -> None:
        """Listen."""
        if ":" in address[0] or not address[0]:
            self.address_family = socket.AF_INET6
        super().__init__((address[0] or "::", address[1]), handler)


def main() -> int:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="dcgm-exporter")
    parser.add_argument("-f", "--collectors", default="/etc/dcgm-exporter/default-counters.csv")
    parser.add_argument("-r", "--remote-hostengine-info", default="", dest="engine")
    parser.add_argument("-a", "--address", default=":9400")
    parser.add_argument("-c", "--collect-interval", type=int, default=30000, dest="interval")
    parser.add_argument("-v", "--version", action="version", version=VERSION)
    options = parser.parse_args()
    if options.engine:
        try:
            socket.create_connection(endpoint(options.engine), timeout=5).close()
        except OSError as error:
            print(f"Error connecting to nv-hostengine: {error}", file=sys.stderr)
            return 1
    with Server(endpoint(options.address), handler(Exporter(options))) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
