"""Many commands in one execution: a script for the standard input of a shell, and its answers."""

from __future__ import annotations

import binascii
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyinfra.connectors.util import CommandOutput, OutputLine

MOST_LANES = 8
"""Commands that run at a time, where a login may use as many processors; jobs have the others."""


MOST_BYTES = 64 * 2**20
"""Of a batch's output, unpacked: what is behind them counts as cut off."""
_GZIP = zlib.MAX_WBITS | 16
"""zlib's manual, inflateInit2: with a header of gzip."""


@dataclass(frozen=True)
class Answer:
    """What one command said."""

    ok: bool
    output: CommandOutput


def script(commands: Sequence[str], token: str) -> str:
    """Return a script that runs commands side by side, each as if it were alone.

    Args:
        commands: for ``sh``.
        token: separates their outputs; it cannot be guessed.
    """
    # A shell of its own: an exit, or an error of syntax, ends this command only.
    each = "\n".join(
        f"{number}) exec sh -c {shlex.quote(command)};;" for number, command in enumerate(commands)
    )
    most = min(MOST_LANES, len(commands))
    # Each lane has every so-manyth command. Its output waits in a pipe, not in a file, until the
    # lanes below it have ended: a full pipe holds up its own lane only.
    # In braces the shell reads all of it before it starts: half a script runs nothing. It is packed
    # into one line: each line, and each packet, costs both sides CPU.
    return f"""{{
one() {{
case $1 in
{each}
esac
}}
lane() {{
i=$1
while [ "$i" -lt {len(commands)} ]; do
printf '\\n%s %s\\n' {token} "$i"
e=$(one "$i" 2>&1 >&3 3>&-)
printf '\\n%s %s %s\\n%s\\n%s\\n' {token} "$i" $? "$e" {token}
i=$((i + lanes))
done
}} </dev/null 3>&1
lanes_to() {{
if [ "$1" -le 0 ]; then lane 0; else lane "$1" | {{ lanes_to $(($1 - 1)); cat; }}; fi
}}
lanes=$(nproc) || lanes=1
if [ "$lanes" -gt {most} ]; then lanes={most}; fi
printf '\\n%s ' {token}
lanes_to $((lanes - 1)) | gzip -1 | base64 -w 0
}}
"""


def _unpacked(lines: Sequence[str], token: str) -> list[str]:
    """Return the lines that a script packed, as far as they arrived and are text."""
    # A login may print lines of its own first.
    packed = next((line for line in lines if line.startswith(token)), "").partition(" ")[2]
    try:
        whole = binascii.a2b_base64(packed[: len(packed) // 4 * 4])
        printed = zlib.decompressobj(wbits=_GZIP).decompress(whole, MOST_BYTES)
    except (ValueError, zlib.error):
        return []
    try:
        text = printed.decode()
    except UnicodeDecodeError as error:
        text = printed[: error.start].decode()
    return text.split("\n")[:-1]


def answers(output: CommandOutput, token: str) -> Mapping[int, Answer]:
    """Return what the commands said, by their numbers; where it was cut off not all of them."""
    found = {}
    said: list[str] = []
    status: str | None = None
    part: list[str] = []
    for line in _unpacked(output.stdout_lines, token):
        if not line.startswith(token):
            part.append(line)
            continue
        rest = line.split(" ")[1:]
        if len(rest) == 1:  # a command begins; the one before may have been cut off
            status = None
        elif len(rest) == 2:
            # The mark begins on a line of its own: after whole lines that leaves an empty one.
            said = part[:-1] if part[-1:] == [""] else part
            number, status = rest
        elif status is not None:
            complained = [] if part == [""] else part
            lines = [OutputLine("stdout", line) for line in said]
            lines += [OutputLine("stderr", line) for line in complained]
            found[int(number)] = Answer(status == "0", CommandOutput(lines))
            status = None
        part = []
    return found
