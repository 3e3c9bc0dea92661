"""Packages that must not change under a job are on hold.

Why      A pin steers apt; only a hold stops an upgrade that a person starts.
Blind    Holds that nobody planned; a hold that somebody overrides (--allow-change-held-packages).
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    held = view.read("packages.held")
    if not isinstance(held, list):
        return {
            "": held if isinstance(held, Unread) else Unread(unread=f"not a list: {held!r:.60}")
        }
    return {name: "on hold" if name in held else "not on hold" for name in view.plan.held}


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.held, "on hold")


RULE = Rule(
    id="package.held",
    title="packages of the driver stack are on hold",
    reading="packages.held",
    look=_look,
    expected_each=_expected,
    applies=lambda view: bool(view.plan.held),
    owner="packages",
    explained_by=(Cause("package.present", same_device=True), Cause("package.present", device="")),
    source="apt-mark(8), dpkg(1)",
)
