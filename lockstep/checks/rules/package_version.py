"""Packages have the locked version; those that are not locked, the version of their peers.

Why      Two versions of one library on two nodes of a job give errors nobody can repeat.
Blind    Software outside the package manager. A package that only one node has. A package that
         is planned and missing: package.present.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    installed = view.record.items("packages")
    return {"": installed} if isinstance(installed, Unread) else installed


def _locked(view: View) -> dict[str, JsonValue]:
    return dict(view.plan.versions)


RULE = Rule(
    id="package.version",
    title="one version of each package",
    reading="packages",
    kind=Kind.SLOTS,
    look=_look,
    expected_some=_locked,
    peers=Peers.OS,
    repair_peers="apt-get install {device}={expected} on {node}, or lock it in software.versions",
    owner="packages",
    explained_by=(Cause("package.present", same_device=True), Cause("package.present", device="")),
    source="apt_preferences(5)",
)
