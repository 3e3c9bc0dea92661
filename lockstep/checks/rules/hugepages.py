"""Each NUMA node has the planned number of huge pages of each size.

Why      A total hides an imbalance: a job then takes memory from the far socket.
Pending  The running kernel was started without the arguments that reserve them. One that has
         the arguments lost its pages later: the deploy asks it for them again.
Blind    Pages that exist and are already taken.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Local, Rule
from lockstep.checks.rules._boot import STARTED_SO, key, own_kernel, started_otherwise, waits
from lockstep.node.check.judge import Judgement

KEYS = ("hugepages", "hugepagesz", "default_hugepagesz")


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


def _on_node(view: View) -> Iterator[Judgement]:
    """Yield the planned pools; what the kernel was not started with waits for a reboot."""
    hardware = view.plan.hardware
    words = tuple(word for word in view.plan.kernel_args if key(word) in KEYS)
    for size, nodes in hardware.hugepages.items():
        for node, pages in nodes.items():
            yield Judgement(
                ("hugepages",),
                path=(size, str(node)),
                device=f"{size} node{node}",
                expected=pages,
                shown="{} pages",
                started_with=words,
            )


RULE = Rule(
    id="hugepages",
    title="planned huge pages on each NUMA node",
    reading="hugepages",
    look=_look,
    expected_each=_expected,
    show=lambda value: f"{value} pages",
    pending=lambda view, device: waits(view, *KEYS),
    grounds=lambda view, device: started_otherwise(view, *KEYS),
    # Without a kernel of its own a node has the pages of the machine below.
    applies=own_kernel,
    local=Local.HEALTH,
    on_node=_on_node,
    owner="hugepages",
    explained_by=STARTED_SO,
    source="kernel documentation, admin-guide/mm/hugetlbpage",
)
