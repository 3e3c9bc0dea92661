"""Packages have the locked version; those that are not locked, the version of their peers.

Why      Two versions of one library on two nodes of a job give errors nobody can repeat.
Pending  Packages of the GPU driver: they change on a drained node only, before its reboot.
Blind    Software outside the package manager. A package that only one node has. A package that
         is planned and missing: package.present. Revisions of one version that all nodes share.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._driver import grounds_of_packages, other_packages, upstream
from lockstep.plan import owners
from lockstep.plan.job_containers import PYXIS_PACKAGE
from lockstep.probe.record import Unread


def _together(view: View) -> dict[str, tuple[str, ...]]:
    """Return what differs: packages that came in one version and should in another are one item."""
    alike: dict[tuple[str, str, bool], list[str]] = {}
    stack = view.plan.nvidia
    for name, installed in other_packages(view).items():
        of_stack = stack is not None and name in stack.versions
        of_driver = stack is not None and name in stack.driver_packages
        found = upstream(installed) if of_stack else name
        alike.setdefault((view.plan.versions[name], found, of_driver), []).append(name)
    return {", ".join(names): tuple(names) for names in alike.values()}


def _look(view: View) -> Items:
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {"": installed}
    items = dict(installed)
    for device, names in _together(view).items():
        found = sorted({str(items.pop(name)) for name in names})
        items[device] = ", ".join(found)
    return items


def _locked(view: View) -> dict[str, JsonValue]:
    """Return the locked versions. One that fits its pattern is compared with the peers."""
    locked = view.plan.versions
    wanted: dict[str, JsonValue] = {
        name: version for name, version in locked.items() if "*" not in version
    }
    return wanted | {device: locked[names[0]] for device, names in _together(view).items()}


def _of_driver(view: View, device: str) -> bool:
    stack = view.plan.nvidia
    return stack is not None and device.split(", ")[0] in stack.driver_packages


def _grounds(view: View, device: str) -> frozenset[str]:
    return frozenset().union(*(grounds_of_packages(name, view) for name in device.split(", ")))


def _roles(view: View, device: str) -> frozenset[str]:
    names = device.split(", ")
    return frozenset().union(*(owners.of_package(view.plan, name) for name in names))


RULE = Rule(
    id="package.version",
    title="one version of each package",
    reading="packages",
    kind=Kind.SLOTS,
    look=_look,
    expected_some=_locked,
    peers=Peers.OS,
    pending=_of_driver,
    grounds=_grounds,
    repair_peers="apt-get install {device}={expected} on {node}, or lock it in software.versions",
    owner="packages, and the role that needs it",
    roles=_roles,
    explained_by=(
        Cause("package.present", same_device=True),
        Cause("package.present", device=""),
        # Builds for several versions of Slurm are revisions of one version.
        Cause("slurm.pyxis", of_device=PYXIS_PACKAGE),
    ),
    source="apt_preferences(5)",
)
