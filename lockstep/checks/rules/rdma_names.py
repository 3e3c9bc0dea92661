"""The RDMA devices have the declared names.

Why      NCCL_IB_HCA and UCX_NET_DEVICES name them: a renamed one is not used, and nothing says so.
Blind    Which adapter has which name.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._rdma import FOLLOWS_COUNT, UNREAD_WITH_COUNT, has_rdma, named
from lockstep.node.check.judge import Judgement

READING = "rdma.names"
NAMING = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"


def _expected(view: View) -> JsonValue:
    return list[JsonValue](sorted(named(view)))


def _look(view: View) -> Items:
    found = view.read(READING)
    wanted = _expected(view)
    if not isinstance(found, list) or not isinstance(wanted, list):
        return {"": found}
    # Further adapters (storage, management) are nobody's business here.
    return {"": [name for name in found if name in wanted] if set(wanted) <= set(found) else found}


def _on_node(view: View) -> Iterator[Judgement]:
    # Of adapters that are lost beside further ones this says which; their count does not.
    yield Judgement((READING,), all_of=tuple(sorted(named(view))))


RULE = Rule(
    id="rdma.names",
    title="the RDMA devices have the declared names",
    reading=READING,
    look=_look,
    expected=_expected,
    applies=lambda view: has_rdma(view) and bool(named(view)),
    local=Local.JOBS,
    on_node=_on_node,
    owner="rdma",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, Cause("file.content", device=NAMING)),
    source="rdma-core, udev/75-rdma-description.rules; rdma(8), dev set name",
)
