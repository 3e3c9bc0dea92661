"""All nodes run the release that the spec names.

Why      Every package name, version and default in the plan belongs to one release.
Blind    Point updates inside a release: package.version sees those.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    name, version = view.read("os.id"), view.read("os.version_id")
    for part in (name, version):
        if isinstance(part, Unread):
            return {"": part}
    return {"": f"{name} {view.plan.cluster.release.version_of(str(version))}"}


RULE = Rule(
    id="os.release",
    title="the operating system is the declared release",
    reading="os.version_id",
    look=_look,
    expected=lambda view: f"{view.plan.cluster.release.id} {view.plan.cluster.release.version_id}",
    repair="install {node} anew with {expected}; no role upgrades a release",
    source="os-release(5)",
)
