"""/etc/hosts maps every node's name to its management address.

Why      Slurm and MPI connect by name; one wrong line sends a rank's traffic elsewhere.
Blind    What a name server answers for other names.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View, shared
from lockstep.checks.rule import Cause, Rule, anything
from lockstep.report import fold


@shared("hosts.entries")
def _look(view: View) -> Items:
    seen = view.read("hosts.entries")
    if not isinstance(seen, dict):
        return {"": seen}
    wrong: dict[str, JsonValue] = {
        name: [seen.get(name, []), addresses]
        for name, addresses in view.context.hosts.items()
        if seen.get(name) != addresses
    }
    return {fold(wrong) if wrong else "": wrong}


def _words(wrong: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return what one name leads to; of several, that they are wrong."""
    pairs = list(wrong.values()) if isinstance(wrong, dict) else []
    seen = {anything(pair[0]) if isinstance(pair, list) else "" for pair in pairs}
    wanted = {anything(pair[1]) if isinstance(pair, list) else "" for pair in pairs}
    found = "missing" if seen == {"none"} else ", ".join(sorted(seen))
    return found, wanted.pop() if len(wanted) == 1 else "their management addresses"


RULE = Rule(
    id="hosts.entries",
    title="names lead to the management addresses",
    reading="hosts.entries",
    look=_look,
    expected=lambda view: {},
    words=_words,
    owner="os_settings",
    explained_by=(Cause("file.content", device="/etc/hosts", only_unread=True),),
    source="hosts(5)",
)
