"""Every file we own has exactly the content that the plan renders.

Why      A change made by hand on one node lasts until the next deploy and confuses until then.
Blind    Files nobody declared. Files with secrets, where this machine does not hold the secrets.
         The munge key has a rule of its own.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule, Skip
from lockstep.plan.slurm import MUNGE_KEY

DIGEST_LENGTH = 64
"""Of a SHA-256 in hex; what else stands in its place says what is there instead of a file."""


def _expected(view: View) -> dict[str, JsonValue]:
    files = view.context.files_of(view.plan)
    return {path: file.sha256 for path, file in files.items() if path != MUNGE_KEY}


def _content(entry: JsonValue) -> JsonValue | Skip:
    if isinstance(entry, dict):
        return "absent" if "absent" in entry else entry.get("other", entry.get("sha256"))
    return entry


def _words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    is_digest = isinstance(seen, str) and len(seen) == DIGEST_LENGTH
    found = f"other content (sha256 {str(seen)[:12]})" if is_digest else str(seen)
    return found, f"content of the plan (sha256 {str(expected)[:12]})"


RULE = Rule(
    id="file.content",
    title="owned files have the planned content",
    reading="files",
    expected_each=_expected,
    pick=_content,
    words=_words,
    detail=lambda view, path: f"owned by role {view.context.files_of(view.plan)[path].role}",
    # The names that are wrong say more than a hash.
    explained_by=(Cause("hosts.entries", of_device="/etc/hosts"),),
    owner="the role named in the detail",
    roles=lambda view, path: (view.context.files_of(view.plan)[path].role,),
    source="lockstep/files.py",
)
