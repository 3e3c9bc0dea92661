"""A simulated control host: a network namespace on the lab's switch.

Programs in it reach the nodes at their own addresses and with their own host keys. Nothing else
uses its interface, so its counters show the traffic of a run. For an added round trip time, a relay
connects the interface with the switch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.speed.errors import BenchmarkError
from lab.network import address_in, switch_namespace
from lab.state import LabState

HOST_PART = 2
"""Host part of the control host's address; 1 is the lab's, nodes begin at 16."""
INTERFACE, PORT = "mgmt0", "m-control"
QUEUE = 10000
"""Frames in the queue of each end of the relay, large enough not to drop bursts."""
COUNTERS = ("rx_bytes", "tx_bytes")


@dataclass(frozen=True)
class Control:
    """A control host for commands."""

    namespace: str
    round_trip_ms: float

    @property
    def prefix(self) -> tuple[str, ...]:
        """Prefix that runs a command on the control host."""
        return ("ip", "netns", "exec", self.namespace)

    def bytes(self) -> int:
        """Return the bytes sent and received so far, including Ethernet headers."""
        files = [f"/sys/class/net/{INTERFACE}/statistics/{counter}" for counter in COUNTERS]
        return sum(map(int, _done(*self.prefix, "cat", *files).split()))


@contextmanager
def control(lab: LabState, round_trip_ms: float) -> Iterator[Control]:
    """Create a control host on the lab's switch with this round trip time.

    Raises:
        BenchmarkError: the creation failed, or this machine has no TAP interfaces.
    """
    namespace, switch = f"lockstep-{lab.name}-control", switch_namespace(lab.name)
    _remove(namespace, switch)
    ip("netns", "add", namespace)
    relay = None
    try:
        ip("-n", namespace, "link", "set", "lo", "up")
        # Duplicate address detection and router advertisements are not needed.
        quiet = "for f in /proc/sys/net/ipv6/conf/default; do echo 0 >$f/accept_dad; done"
        _done("ip", "netns", "exec", namespace, "sh", "-c", quiet)
        if round_trip_ms:
            relay = _relay(namespace, switch, round_trip_ms)
        else:
            ends = ("name", INTERFACE, "netns", namespace)
            ip("-n", switch, "link", "add", PORT, "type", "veth", "peer", *ends)
        ip("-n", switch, "link", "set", PORT, "master", "mgmt", "up")
        ip("-n", namespace, "link", "set", INTERFACE, "up")
        address = address_in(lab.prefix, HOST_PART)
        ip("-n", namespace, "address", "add", f"{address}/64", "dev", INTERFACE, "nodad")
        yield Control(namespace, round_trip_ms)
    finally:
        if relay is not None:
            relay.communicate()
        _remove(namespace, switch)


def _relay(namespace: str, switch: str, round_trip_ms: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "benchmarks.speed.relay", PORT, "bench-control"]
    relay = subprocess.Popen(
        [*words, str(round_trip_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert relay.stdout is not None
    if relay.stdout.readline() != "ready\n":
        relay.communicate()
        raise BenchmarkError("/dev/net/tun is missing on this machine; use --round-trips 0")
    ip("link", "set", PORT, "netns", switch)
    ip("link", "set", "bench-control", "netns", namespace)
    ip("-n", namespace, "link", "set", "bench-control", "name", INTERFACE)
    ip("-n", namespace, "link", "set", INTERFACE, "txqueuelen", str(QUEUE))
    ip("-n", switch, "link", "set", PORT, "txqueuelen", str(QUEUE))
    return relay


def _remove(namespace: str, switch: str) -> None:
    """Remove the namespace and interfaces, including those of a killed run."""
    for words in (("-n", switch, "link", "delete", PORT), ("netns", "delete", namespace)):
        subprocess.run(["ip", *words], capture_output=True, check=False)  # may not exist


def ip(*words: str) -> None:
    """Run ip(8).

    Raises:
        BenchmarkError: it failed.
    """
    _done("ip", *words)


def _done(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
