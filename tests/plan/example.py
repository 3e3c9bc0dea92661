"""Plans of the example cluster, changed in one place."""

from collections.abc import Callable
from typing import Any

from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import HardwareClass, load
from tests.spec.example import description


def planned(change: Callable[[dict[str, Any]], object] = lambda wanted: None) -> ClusterPlan:
    wanted = description()
    change(wanted)
    cluster, problems = load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return plan(cluster)


def machine(**fields: object) -> HardwareClass:
    """A hardware class: two sockets, eight cores each, two threads per core, if not said."""
    usual: dict[str, object] = {
        "sockets": 2,
        "cores_per_socket": 8,
        "threads_per_core": 2,
        "numa_nodes": 2,
        "memory_mib": 64000,
    }
    return HardwareClass.model_validate({**usual, **fields})
