"""Generates docs/rules.md: every rule with its reasons, as in ``lockstep rules --markdown``."""

from lockstep.checks.catalogue import all_rules
from lockstep.commands.rules import page


def files() -> dict[str, bytes]:
    """Return docs/rules.md."""
    return {"docs/rules.md": page(all_rules()).encode("utf-8")}
