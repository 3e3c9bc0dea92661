"""Huge pages per NUMA node: reserved at boot, and at once where the kernel still has the memory.

Owns     the huge page kernel arguments; nr_hugepages of the running kernel.
Reboot   what the running kernel could not give waits for one; the check says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pyinfra import host
from pyinfra.api import deploy, operation

from lockstep.facts.boot import HUGEPAGES_TRIED, REACHED, SIZES, Hugepages
from lockstep.files import managed
from lockstep.plan import NodePlan
from roles._boot_loader import boot_loader
from roles._files import managed_files


@operation()
def running_hugepages(wanted: Mapping[str, Mapping[int, int]]) -> Generator[str, None, None]:
    """Ask the running kernel for huge pages, once per boot and plan.

    Args:
        wanted: page size -> NUMA node -> pages.
    """
    state = host.get_fact(Hugepages)
    plan = {(size, node): pages for size, split in wanted.items() for node, pages in split.items()}
    asked = ",".join(f"{size}:{node}:{pages}" for (size, node), pages in sorted(plan.items()))
    wrong = {key: pages for key, pages in plan.items() if state.counts.get(key) != pages}
    if not wrong:
        host.noop("the kernel has the huge pages")
        return
    if state.tried == f"{asked} reached {state.reached}":
        host.noop("this boot's kernel could not give the huge pages: pending reboot")
        return
    for (size, node), pages in sorted(wrong.items()):
        folder = f"/sys/devices/system/node/node{node}/hugepages/{SIZES[size]}"
        # A kernel that refuses (read-only, or no such size yet) is not a failure: a reboot is due.
        yield f"echo {pages} > {folder}/nr_hugepages || echo 'refused: pending reboot'"
    # What was reached is kept beside what was asked: pages lost later are asked for again.
    yield (f'mkdir -p /run/lockstep && echo "{asked} reached $({REACHED})" > {HUGEPAGES_TRIED}')


@deploy("Huge pages")
def apply(plan: NodePlan) -> None:
    """Write the boot arguments, then try the running kernel."""
    files = managed(plan, None, "hugepages")
    managed_files(name="Files", files=files)
    boot_loader(name="Boot loader", files=tuple(f.path for f in files))
    running_hugepages(name="Running kernel", wanted=plan.hardware.hugepages)
