"""Every declared setting below /sys and /proc is in force.

Why      Huge pages, clocks and interrupts of one node that are set otherwise make it slow, and no
         tool shows it. A machine that does not have the setting at all is a finding as well.
Blind    A setting that changes and changes back between two checks; what nobody declared.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.plan.running import GOVERNOR, NEW_INTERRUPTS, THP, UNBOUND_WORK, KernelFile
from lockstep.probe.record import Unread, item
from lockstep.report import fold

READING = "kernel.files"
NOT_THERE = "no such file: this kernel or machine does not have it"
AT_BOOT = {
    # What sets it at boot -> what it sets.
    "/etc/tmpfiles.d/50-lockstep-cpus.conf": (UNBOUND_WORK, NEW_INTERRUPTS),
    "/etc/tmpfiles.d/50-lockstep-kernel.conf": (f"{THP}/enabled", f"{THP}/defrag", GOVERNOR),
}


def _files(view: View) -> dict[str, KernelFile]:
    hardware = view.plan.hardware
    return {file.path: file for file in (*hardware.cpu_files, *hardware.kernel_files)}


def _values(view: View, file: KernelFile) -> dict[str, str | Unread] | Unread | None:
    """Return path -> value of the files that a pattern covers; None when nobody asked."""
    found = view.record.entry(READING, file.path)
    if found is None or isinstance(found, Unread):
        return found
    if not isinstance(found, dict):
        return Unread(unread=f"not a map: {found!r:.60}")
    return {
        path: value if isinstance(value := item(shown), Unread) else file.read(str(value))
        for path, shown in found.items()
    }


def _look(view: View) -> Items:
    whole = view.read(READING)
    if isinstance(whole, Unread):
        return {"": whole}
    items: Items = {}
    for path, file in _files(view).items():
        values = _values(view, file)
        if isinstance(values, dict):
            items[path] = _folded(file, values)
        elif values is not None:
            items[path] = values
    return items


def _folded(file: KernelFile, values: dict[str, str | Unread]) -> JsonValue | Unread:
    """Return one value for all files of a pattern: the planned one, or what differs from it."""
    if not values:
        return NOT_THERE
    wrong = [v for v in values.values() if not isinstance(v, Unread) and v != file.value]
    if not wrong:
        unread = [value for value in values.values() if isinstance(value, Unread)]
        return unread[0] if unread else file.value
    if len(set(wrong)) == 1 and len(wrong) == len(values):
        return wrong[0]
    counts = {value: wrong.count(value) for value in sorted(set(wrong))}
    return ", ".join(f"{value} on {count} of {len(values)}" for value, count in counts.items())


def _which(view: View, path: str) -> str:
    """Return which files of a pattern differ, by the part that the star stands for."""
    file = _files(view)[path]
    values = _values(view, file)
    if "*" not in path or not isinstance(values, dict):
        return ""
    part = next(number for number, text in enumerate(path.split("/")) if "*" in text)
    wrong = [
        name.split("/")[part]
        for name, value in values.items()
        if not isinstance(value, Unread) and value != file.value
    ]
    return fold(wrong) if wrong and len(wrong) < len(values) else ""


def _roles(view: View, path: str) -> tuple[str]:
    of_cpus = path in [file.path for file in view.plan.hardware.cpu_files]
    return ("cpu_sets" if of_cpus else "kernel",)


RULE = Rule(
    id="kernel.setting",
    title="declared settings of the kernel are in force",
    reading=READING,
    look=_look,
    expected_each=lambda view: {path: file.value for path, file in _files(view).items()},
    detail=_which,
    applies=lambda view: bool(_files(view)),
    owner="kernel, cpu_sets",
    roles=_roles,
    explained_by=tuple(
        Cause("file.content", device=file, of_device=path)
        for file, paths in AT_BOOT.items()
        for path in paths
    ),
    source="kernel documentation: admin-guide/mm/transhuge, admin-guide/pm/cpufreq, "
    "core-api/workqueue, core-api/irq/irq-affinity",
)
