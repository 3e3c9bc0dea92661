"""A reboot that did not end its reason is not made again: the node keeps that reason."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from lockstep.facts.reboot import IN_VAIN, Conversation, Unanswered
from lockstep.plan.reboot import Pending, Reason


def still(look: Callable[[], Pending], before: Pending) -> tuple[Reason, ...]:
    """Return the reasons of before that a reboot did not end. Raises Unanswered."""
    now = look()
    after = {*now.reasons, *now.in_vain}
    return tuple(reason for reason in before.reasons if reason in after)


def remember(talk: Conversation, reasons: tuple[Reason, ...]) -> None:
    """Keep reasons on the node until its next boot, for whatever cause. Raises Unanswered."""
    if not reasons:
        return
    folder = IN_VAIN.rpartition("/")[0]
    lines = " ".join(shlex.quote(str(reason)) for reason in reasons)
    kept, output = talk.say(f"mkdir -p {folder} && printf '%s\\n' {lines} > {IN_VAIN}")
    if not kept:
        raise Unanswered(f"{IN_VAIN}: {' '.join(output.stderr_lines)[:200]}")
