"""No package is half installed.

Why      dpkg was interrupted: the next deploy fails on this node, and on no other.
Blind    A package that is complete and whose files were changed afterwards.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, Cause, Rule
from lockstep.plan import owners


def _roles(view: View, device: str) -> frozenset[str]:
    broken = view.read("packages.broken")
    names = map(str, broken) if isinstance(broken, list) else ()
    return frozenset({"packages"}.union(*(owners.of_package(view.plan, name) for name in names)))


RULE = Rule(
    id="package.broken",
    title="no package is half installed",
    reading="packages.broken",
    expected=lambda view: [],
    owner="packages, and the role that needs it",
    roles=_roles,
    repair=f"{DEPLOY}; where it stays, on {{node}}: dpkg --configure -a says why",
    explained_by=(Cause("package.present", device=""),),
    source="dpkg(1), --audit",
)
