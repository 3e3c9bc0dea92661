"""No board is seen on two nodes.

Why      A cloned record, a copied inventory or a board passed through twice.
Blind    Boards that report no identity.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.uuid_unique",
    title="every board is seen once",
    reading="gpu.uuid",
    devices="gpu.name",
    kind=Kind.UNIQUE,
    applies=has_gpus,
    repair="find out which of {node} holds the board: the others report one they do not have",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, uuid",
)
