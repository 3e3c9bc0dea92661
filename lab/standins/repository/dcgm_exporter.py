#!/usr/bin/python3 -I
"""Simulates NVIDIA's dcgm-exporter: Prometheus metrics of the simulated GPUs.

Options as in the real program: -f COUNTERS (a CSV file with the metrics), -r HOST:PORT (of the host
engine; the exporter exits if it does not answer), -a ADDRESS, -c MILLISECONDS, -k (names of pods,
which the simulated one leaves out).
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
    """Parse HOST:PORT, [ADDRESS]:PORT or :PORT into (host, port)."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def counters(path: str) -> list[list[str]]:
    """Return metric, kind and help of each line of the counters file."""
    with open(path) as file:
        rows = [line.split(",", 2) for line in file if line.strip() and line[0] != "#"]
    return [[column.strip() for column in row] for row in rows]


def query(what: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Return one row for each GPU, by field."""
    done = subprocess.run(
        [
            "/usr/bin/nvidia-smi",
            f"--query-{what}={','.join(fields)}",
            "--format=csv,noheader,nounits",
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    complete = (row for row in rows if len(row) == len(fields))
    return [{field: row[at] for at, field in enumerate(fields)} for row in complete]


class Exporter:
    """Collects the metrics and caches them."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Store the options."""
        self.counters = [row for row in counters(options.collectors) if row[0] in SOURCES]
        self.interval_s = options.interval / 1000
        self.collected = -1.0
        self.text = ""

    def metrics(self) -> str:
        """Return the text of /metrics, collected once per interval."""
        if self.collected < 0 or time.monotonic() - self.collected >= self.interval_s:
            self.text = self.collect()
            self.collected = time.monotonic()
        return self.text

    def collect(self) -> str:
        """Query all GPUs."""
        wanted = [SOURCES[name] for name, _, _ in self.counters]
        rows = [name for name in wanted if name.startswith("remapped_rows.")]
        values = [name for name in wanted if name not in rows]
        gpus = query("gpu", (*LABELS, *values))
        # Few branches have these among the fields of --query-gpu.
        remapped = {row["gpu_uuid"]: row for row in query("remapped-rows", ("gpu_uuid", *rows))}
        gpus = [{**gpu, **remapped.get(gpu["uuid"], {})} for gpu in gpus]
        lines = []
        for name, kind, what in self.counters:
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            for gpu in gpus:
                index, uuid, bus, model, driver = (gpu[label] for label in LABELS)
                value = gpu.get(SOURCES[name], "[N/A]")
                if value.startswith(("[", "N/A")):
                    continue
                lines.append(
                    f'{name}{{gpu="{index}",UUID="{uuid}",pci_bus_id="{bus}",'
                    f'device="nvidia{index}",modelName="{model}",'
                    f'Hostname="{socket.gethostname()}",'
                    f'DCGM_FI_DRIVER_VERSION="{driver}"}} {float(value):g}'
                )
        return "\n".join(lines) + "\n"


def handler(exporter: Exporter) -> type[http.server.BaseHTTPRequestHandler]:
    """Return the HTTP handler of an exporter."""

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
            """Do not log requests."""

    return Handler


class Server(http.server.ThreadingHTTPServer):
    """A server that uses IPv6 for an IPv6 address or without an address."""

    def __init__(
        self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]
    ) -> None:
        """Listen."""
        if ":" in address[0] or not address[0]:
            self.address_family = socket.AF_INET6
        super().__init__((address[0] or "::", address[1]), handler)


def main() -> int:
    """Serve until a signal arrives."""
    parser = argparse.ArgumentParser(prog="dcgm-exporter")
    parser.add_argument("-f", "--collectors", default="/etc/dcgm-exporter/default-counters.csv")
    parser.add_argument("-r", "--remote-hostengine-info", default="", dest="engine")
    parser.add_argument("-a", "--address", default=":9400")
    parser.add_argument("-c", "--collect-interval", type=int, default=30000, dest="interval")
    parser.add_argument("-k", "--kubernetes", action="store_true")
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
