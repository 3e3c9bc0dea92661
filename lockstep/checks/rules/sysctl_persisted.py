"""No other file overrides a declared sysctl at the next boot.

Why      Whoever runs "sysctl --system" brings the other value into force; at boot ours is set last
         (systemd-sysctl.service.d/50-lockstep.conf), so it is a warning.
Blind    A lost file of our own: file.content sees that. A unit that sets keys later.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules.sysctl_running import declared
from lockstep.probe.record import Unread
from lockstep.report import Severity


def _look(view: View) -> Items:
    found = view.items("sysctl.persisted")
    ours = view.context.files_of(view.plan)
    items: Items = {}
    for key, entry in found.items():
        if isinstance(entry, Unread):
            items[key] = entry
        elif not isinstance(entry, dict) or "absent" in entry or entry["file"] in ours:
            items[key] = declared(view).get(key)  # what our own file says is file.content's part
        else:
            items[key] = entry["value"]
    return items


def _winner(view: View, key: str) -> str:
    entry = view.items("sysctl.persisted").get(key)
    return f"set by {entry['file']}" if isinstance(entry, dict) else ""


def _expected(view: View) -> dict[str, JsonValue]:
    return dict(declared(view))


RULE = Rule(
    id="sysctl.persisted",
    title="no other file overrides a declared sysctl",
    reading="sysctl.persisted",
    look=_look,
    expected_each=_expected,
    detail=_winner,
    repair="remove {device} from the file named in the detail, on {node}; no role owns that file",
    severity=Severity.WARNING,
    source="sysctl.d(5)",
)
