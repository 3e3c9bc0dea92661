"""Passes Ethernet frames between two TAP interfaces, each way half a round trip later.

    python -m benchmarks.speed.relay NAME NAME ROUND_TRIP_MS

Whole frames: handshakes, acknowledgements and their delays see the longer way, as they would see a
longer cable. Makes both interfaces, says ``ready``, and runs until its standard input ends; they go
with it. Who started it moves them to their network namespaces.
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
    """One direction: frames wait here until they are due."""

    source: int
    target: int
    delay_s: float
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """Read every frame that is there."""
        while True:
            try:
                frame = os.read(self.source, LARGEST_FRAME)
            except BlockingIOError:
                return
            self.waiting.append((now + self.delay_s, frame))

    def give(self, now: float) -> float | None:
        """Write the frames that are due; return when the next one is, None with none waiting."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            try:
                os.write(self.target, frame)
            except OSError:
                continue  # lost, as on a cable: the interface is down, or its queue is full
        return self.waiting[0][0] if self.waiting else None


def relay(one: int, other: int, round_trip_s: float, end: int) -> None:
    """Pass frames between two descriptors until a third one can be read."""
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
    """Make a TAP interface; return the descriptor of its frames. It goes when that is closed."""
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
