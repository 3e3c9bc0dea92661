"""Questions about the packet filter."""

from __future__ import annotations

from lockstep.node.readers.reading import ABSENT
from lockstep.question import Question, Taken


def loaded_rules(kind: str) -> Question[tuple[str, ...]]:
    """Ask for the rules that a program has loaded; empty if it has loaded none.

    Args:
        kind: ``nftables`` or ``firewalld``.
    """

    def answer(taken: Taken) -> tuple[str, ...]:
        found = taken.item("firewall.rules", kind)
        return () if found == ABSENT else tuple(found)

    return Question("packet filter", ("firewall.rules",), answer, {"firewall": (kind,)})


def listens(ports: str) -> Question[bool]:
    """Ask whether something listens on a port.

    Args:
        ports: such as ``tcp/22``.
    """
    return Question(
        "listeners",
        ("listeners",),
        lambda taken: bool(taken.item("listeners", ports)),
        {"listeners": (ports,)},
    )
