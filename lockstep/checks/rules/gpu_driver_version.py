"""All nodes of a hardware class run the same GPU driver.

Why      Fabric manager, libraries in containers and the driver must fit together on every node.
Blind    An old driver that runs everywhere while a new one is installed everywhere, unless
         software.nvidia declares one (driver.module_version).
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.driver_version",
    title="one running GPU driver per hardware class",
    reading="gpu.driver_version",
    devices=DEVICES,
    peers=Peers.CLASS,
    show=lambda value: f"driver {value}",
    applies=has_gpus,
    repair_peers="install {expected} on {node} and reboot it when it is idle",
    explained_by=(*UNREAD_WITH_COUNT, Cause("driver.module_version")),
    source="nvidia-smi --help-query-gpu, driver_version",
)
