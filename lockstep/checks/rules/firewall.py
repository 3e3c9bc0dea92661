"""Rules about the packet filter, where the description declares one."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import View, has_role
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.rule import Cause, Rule, Text, by_role, each
from lockstep.plan.firewall import FIREWALLD, NFT_FILE, NFTABLES, TABLES, UNITS, ZONE_FILE


def _planned(view: View) -> dict[str, JsonValue]:
    plan = view.plan.firewall
    return {plan.kind: list(plan.rules)} if plan.kind else {}


def _difference(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the rules that are too many and those that are missing, and what is expected."""
    if not isinstance(found, list) or not isinstance(expected, list):
        return "no rules", "the rules of the plan"
    parts = (
        ("additional", [str(one) for one in found if one not in expected]),
        ("missing", [str(one) for one in expected if one not in found]),
    )
    told = "; ".join(f"{word}: {', '.join(rules)}" for word, rules in parts if rules)
    return told or "in another order, or repeated", "the rules of the plan"


RULES = (
    Rule(
        id="firewall.rules",
        claim="The packet filter accepts what the plan has, and nothing else.",
        why=(
            "A node that lost its rules is open to everyone. A rule too many can stop one node's "
            "traffic, and with it every job that runs there."
        ),
        blind=(
            "Other tables, chains and zones, which the fingerprint compares between nodes. "
            "firewalld: changes of the kernel's table by other programs, unless it is gone."
        ),
        source="nft(8); firewall-cmd(1), --list-all",
        reading="firewall.rules",
        expected=each(_planned),
        text=Text(words=_difference),
        repair=by_role("firewall"),
        applies=has_role("firewall"),
        explained_by=(
            *(Cause("unit.active", device=unit) for unit in UNITS.values()),
            Cause("unit.masked"),
            *(Cause("package.present", device=name) for name in (NFTABLES, FIREWALLD)),
            # A file that somebody changed and loaded.
            *(Cause("file.content", device=path) for path in (NFT_FILE, ZONE_FILE)),
        ),
        objects=lambda view, kind: (Object(ObjectKind.PACKET_FILTER, TABLES[kind]),),
    ),
)
