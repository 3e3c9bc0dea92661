"""Each NUMA node has the planned number of huge pages of each size.

Why      A total hides an imbalance: a job then takes memory from the far socket.
Blind    Pages that exist and are already taken.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    sizes = view.read("hugepages")
    if not isinstance(sizes, dict):
        return {"": sizes}
    return {
        f"{size} node{node}": pages
        for size, nodes in sizes.items()
        if isinstance(nodes, dict)
        for node, pages in nodes.items()
    }


def _expected(view: View) -> dict[str, JsonValue]:
    """Return the plan; what is there and was not planned takes memory from the jobs."""
    seen = {device: 0 for device in _look(view) if device}
    return {
        **seen,
        **{
            f"{size} node{node}": pages
            for size, nodes in view.plan.hardware.hugepages.items()
            for node, pages in nodes.items()
        },
    }


def _pending(view: View, device: str) -> bool:
    wanted = view.plan.hardware.hugepage_args
    running, persisted = view.read("kernel.cmdline"), view.read("kernel.cmdline_persisted")
    if not wanted or isinstance(running, Unread) or not isinstance(persisted, list):
        return False
    return (
        all(word in persisted for word in wanted)
        and isinstance(running, list)
        and not all(word in running for word in wanted)
    )


RULE = Rule(
    id="hugepages",
    title="planned huge pages on each NUMA node",
    reading="hugepages",
    look=_look,
    expected_each=_expected,
    show=lambda value: f"{value} pages",
    pending=_pending,
    # Without a kernel of its own a node has the pages of the machine below.
    applies=lambda view: view.plan.hardware.hardware.boot_loader != "none",
    repair="pyinfra -y {inventory} deploys/{role}.py --limit {node}, then reboot {node}",
    owner="hugepages",
    explained_by=(Cause("kernel.args"),),
    source="kernel documentation, admin-guide/mm/hugetlbpage",
)
