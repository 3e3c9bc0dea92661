"""Every file we own has the planned mode and owner.

Why      A key that others can read is no secret; a script that cannot run does nothing.
Blind    Access lists, attributes and the folders above.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule, Skip


def _expected(view: View) -> dict[str, JsonValue]:
    files = view.context.files_of(view.plan)
    return {path: f"{file.mode} {file.user}:{file.group}" for path, file in files.items()}


def _mode(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict) or "sha256" not in entry:
        return Skip.SKIP  # file.content or munge.key says so
    return f"{entry['mode']} {entry['user']}:{entry['group']}"


RULE = Rule(
    id="file.mode",
    title="owned files have the planned mode and owner",
    reading="files",
    expected_each=_expected,
    pick=_mode,
    detail=lambda view, path: f"owned by role {view.context.files_of(view.plan)[path].role}",
    owner="the role named in the detail",
    roles=lambda view, path: (view.context.files_of(view.plan)[path].role,),
    # One finding per path: the same deploy repairs both.
    explained_by=(Cause("file.content", same_device=True),),
    source="lockstep/files.py",
)
