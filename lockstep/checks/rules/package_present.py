"""Every package of the plan is installed.

Why      Its services cannot run, and the node is not what the plan says.
Blind    Packages nobody declared: package.version compares their versions only.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._driver import grounds_of_packages
from lockstep.plan import owners
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {"": installed}
    return {
        name: "installed" if name in installed else "not installed" for name in view.plan.packages
    }


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.packages, "installed")


RULE = Rule(
    id="package.present",
    title="planned packages are installed",
    reading="packages",
    look=_look,
    expected_each=_expected,
    grounds=lambda view, device: grounds_of_packages(device, view),
    owner="packages, and the role that needs it",
    roles=lambda view, name: owners.of_package(view.plan, name),
    source="dpkg-query(1)",
)
