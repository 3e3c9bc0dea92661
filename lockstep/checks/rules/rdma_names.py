"""The RDMA devices have the declared names.

Why      NCCL_IB_HCA and UCX_NET_DEVICES name them: a renamed one is not used, and nothing says so.
Blind    Which adapter has which name.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._rdma import FOLLOWS_COUNT, UNREAD_WITH_COUNT, has_rdma
from lockstep.spec.names import expand

NAMING = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"


def _expected(view: View) -> JsonValue:
    return list[JsonValue](sorted(expand(view.plan.hardware.hardware.nics.rdma_devices)))


def _look(view: View) -> Items:
    found = view.read("rdma.names")
    wanted = _expected(view)
    if not isinstance(found, list) or not isinstance(wanted, list):
        return {"": found}
    # Further adapters (storage, management) are nobody's business here.
    return {"": [name for name in found if name in wanted] if set(wanted) <= set(found) else found}


RULE = Rule(
    id="rdma.names",
    title="the RDMA devices have the declared names",
    reading="rdma.names",
    look=_look,
    expected=_expected,
    applies=lambda view: has_rdma(view) and bool(view.plan.hardware.hardware.nics.rdma_devices),
    owner="rdma",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, Cause("file.content", device=NAMING)),
    source="rdma-core, udev/75-rdma-description.rules; rdma(8), dev set name",
)
