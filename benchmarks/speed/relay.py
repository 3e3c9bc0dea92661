"""Relays Ethernet frames between two TAP interfaces with half a round trip of delay each way.

    python -m benchmarks.speed.relay NAME NAME ROUND_TRIP_MS

It delays whole frames, so handshakes and acknowledgements are affected as by a longer cable. It
creates both interfaces, prints ``ready`` and runs until its standard input ends, which removes the
interfaces. The caller moves them to their network namespaces.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LARGEST_FRAME = 65536


@dataclass
class Way:
    """Queue of delayed frames for one direction."""

    source: int
    target: int
    delay_s: float
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """Read all available frames."""
        while True:
            try:
                frame = os.read(self.source, LARGEST_FRAME)
            except BlockingIOError:
                return
            self.waiting.append((now + self.delay_s, frame))

    def give(self, now: float) -> float | None:
        """Write the frames that are due; return when the next one is due, None without frames."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            try:
                os.write(self.target, frame)
            except OSError:
                continue  # drop the frame: the interface is down, or its queue is full
        return self.waiting[0][0] if self.waiting else None


def relay(one: int, other: int, round_trip_s: float, end: int) -> None:
    """Relay frames between two descriptors until a third one becomes readable."""
    ways = (Way(one, other, round_trip_s / 2), Way(other, one, round_trip_s / 2))
    for descriptor in (one, other):
        os.set_blocking(descriptor, False)
    while True:
        due = [at for way in ways if (at := way.give(time.monotonic())) is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select([one, other, end], [], [], wait_s)
        if end in readable:
            return
        now = time.monotonic()
        for way in ways:
            if way.source in readable:
                way.take(now)


def tap(name: str) -> int:
    """Create a TAP interface; return its descriptor. Closing it removes the interface."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def main(words: list[str]) -> int:
    """Run until standard input ends; return the exit status."""
    one, other = tap(words[0]), tap(words[1])
    print("ready", flush=True)
    relay(one, other, float(words[2]) / 1000, sys.stdin.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
