"""The driver's library is of the declared version.

Why      Programs and containers use it: of another version than the module it refuses to work.
Blind    Copies that a container brings along.
"""

from lockstep.checks.rule import Local, Rule
from lockstep.checks.rules._driver import (
    FROM_PACKAGES,
    LIBRARY,
    LOADED,
    came_with_packages,
    has_stack,
    planned_version,
)
from lockstep.node.check.judge import Judgement

NEEDS_ITS_MODULE = Judgement(
    (LOADED,),
    path=("version",),
    device="loaded module",
    reference=LIBRARY,
)
"""The node holds them against each other: a new version in the plan waits for the rollout, and
must not take out every node at once."""

RULE = Rule(
    id="driver.library_version",
    title="the driver's library is of the declared version",
    reading=LIBRARY,
    expected=planned_version,
    show=lambda value: f"libnvidia-ml {value}",
    grounds=lambda view, device: came_with_packages(view, view.read(LIBRARY)),
    applies=has_stack,
    local=Local.HEALTH,
    on_node=lambda view: [NEEDS_ITS_MODULE],
    repair="on {node}: find whose file it is (dpkg -S libnvidia-ml.so), take away what a .run "
    "installer left, then deploy",
    owner="nvidia_driver",
    explained_by=FROM_PACKAGES,
    source="ldconfig(8)",
)
