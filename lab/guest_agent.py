"""Runs a command in a machine through its QEMU guest agent; a stand-alone program.

    python guest_agent.py SOCKET -- COMMAND...

Passes on standard input (from a pipe or a file), standard output, standard error and the exit
status. Exits with 255 and a message when the agent does not answer. It uses only the standard
library, so that it starts fast.
"""

import base64
import fcntl
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

NO_ANSWER = 255
# The agent logs every request to the journal, so poll at growing intervals.
FIRST_POLL_S = 0.05
SLOW_POLL_S = 0.5
# For this time a command holds the connection; later it only polls, so that others can run.
KEEPS_LINE_S = 1.0
ANSWER_WITHIN_S = 60.0
INPUT_WITHIN_S = 3.0


class NoAnswerError(Exception):
    """The agent does not answer: it has not started, has stopped, or the machine hangs."""


class RefusedError(Exception):
    """The agent answered with an error."""


class Line:
    """A connection to the agent; QEMU serves one client at a time."""

    def __init__(self, connection: socket.socket) -> None:
        """Use a connected socket."""
        self._connection = connection
        self._received = b""

    def synchronise(self, deadline: float) -> None:
        """Discard requests and answers of an earlier client."""
        number = int.from_bytes(os.urandom(4), "big")
        question = {"execute": "guest-sync-delimited", "arguments": {"id": number}}
        # 0xff resets the agent's parser; the agent starts its answer with 0xff.
        self._connection.sendall(b"\xff" + json.dumps(question).encode() + b"\n")
        while True:
            line = self._read_line(deadline)
            marker, _, answer = line.rpartition(b"\xff")
            if marker or line.startswith(b"\xff"):
                try:
                    if json.loads(answer).get("return") == number:
                        return
                except ValueError:
                    continue  # the rest of an answer to an earlier client

    def call(self, command: str, **arguments: object) -> Any:
        """Send one command to the agent and return its answer."""
        question = {"execute": command, "arguments": arguments}
        self._connection.sendall(json.dumps(question).encode() + b"\n")
        answer = json.loads(self._read_line(time.monotonic() + ANSWER_WITHIN_S))
        if "error" in answer:
            raise RefusedError(f"{command}: {answer['error'].get('desc', answer['error'])}")
        return answer["return"]

    def _read_line(self, deadline: float) -> bytes:
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoAnswerError("the guest agent does not answer")
            self._connection.settimeout(left)
            try:
                part = self._connection.recv(1 << 20)
            except TimeoutError:
                continue
            if not part:
                raise NoAnswerError("QEMU has closed the connection to the guest agent")
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return line


@contextmanager
def talking_to(path: str) -> Iterator[Line]:
    """Connect to the agent at a socket and wait until it answers.

    Raises:
        NoAnswerError: the agent does not answer within ANSWER_WITHIN_S seconds.
    """
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            line = Line(connection)
            line.synchronise(time.monotonic() + ANSWER_WITHIN_S)
            yield line
    except (ConnectionError, FileNotFoundError) as gone:
        raise NoAnswerError(f"{path}: {gone}") from gone
    finally:
        os.close(lock)


def run(path: str, command: Sequence[str], given: bytes | None) -> int:
    """Run a command, write its output, and return its exit status.

    Raises:
        NoAnswerError: the agent did not answer in time, or stopped while the command ran.
        RefusedError: the agent could not start the command.
    """
    arguments: dict[str, object] = {
        "path": command[0],
        "arg": list(command[1:]),
        "capture-output": True,
    }
    if given is not None:
        arguments["input-data"] = base64.b64encode(given).decode()
    with talking_to(path) as line:
        pid = line.call("guest-exec", **arguments)["pid"]
        begun = time.monotonic()
        pause = FIRST_POLL_S
        seen = {"exited": False}
        while not seen["exited"] and time.monotonic() - begun < KEEPS_LINE_S:
            time.sleep(pause)
            pause = min(2 * pause, SLOW_POLL_S)
            seen = line.call("guest-exec-status", pid=pid)
    try:
        while not seen["exited"]:
            time.sleep(SLOW_POLL_S)
            with talking_to(path) as line:
                seen = line.call("guest-exec-status", pid=pid)
    except RefusedError as forgotten:
        raise NoAnswerError(f"the machine went down while the command ran ({forgotten})") from None
    except KeyboardInterrupt:
        with talking_to(path) as line:
            # The command leads its own process group (see ``main``).
            line.call("guest-exec", path="/usr/bin/kill", arg=["-TERM", "--", f"-{pid}"])
        raise
    return _pass_on(seen)


def _pass_on(seen: dict[str, Any]) -> int:
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        stream.flush()
        stream.buffer.write(base64.b64decode(seen.get(f"{name}-data", "")))
        stream.buffer.flush()
        if seen.get(f"{name}-truncated"):
            print("lab: the output was too long and is incomplete", file=sys.stderr)
    if "signal" in seen:
        return 128 + int(seen["signal"])
    return int(seen["exitcode"])


def standard_input() -> bytes | None:
    """Return the content of standard input if it is a file or a pipe, else None."""
    kind = os.fstat(0).st_mode
    if stat.S_ISFIFO(kind):
        # Many callers leave a pipe open but never write to it.
        ready, _, _ = select.select([0], [], [], INPUT_WITHIN_S)
        if not ready:
            print("lab: no data on standard input: running without it", file=sys.stderr)
            return None
    elif not stat.S_ISREG(kind):
        return None
    return sys.stdin.buffer.read()


def _on_ending(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run one command; return 255 when the agent does not answer."""
    # argparse would also drop a "--" inside the command.
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        print("usage: guest_agent.py SOCKET -- COMMAND...", file=sys.stderr)
        return NO_ANSWER
    signal.signal(signal.SIGTERM, _on_ending)
    try:
        given = standard_input()
        return run(sys.argv[1], sys.argv[3:], given)
    except (NoAnswerError, RefusedError) as failure:
        print(f"lab: {failure}", file=sys.stderr)
        return NO_ANSWER
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
