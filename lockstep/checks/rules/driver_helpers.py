"""The same helpers of GPUDirect are loaded on all nodes of a hardware class.

Why      Without nvidia_peermem (or DMA-BUF), gdrdrv and nvidia_fs data goes through the host's
         memory: the slow node is the one where a module was not loaded.
Blind    Whether a program uses them; a class where all lack one.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._gpu import has_gpus

RULE = Rule(
    id="driver.helpers",
    title="one set of GPUDirect modules per hardware class",
    reading="driver.helpers",
    peers=Peers.CLASS,
    applies=has_gpus,
    repair_peers="on {node}: modprobe what its peers have, and name it in /etc/modules-load.d",
    explained_by=(
        Cause("driver.module_version"),
        Cause("package.version", with_grounds=DRIVER),
        Cause("package.present", with_grounds=DRIVER),
        Cause("kernel.release"),
    ),
    source="NVIDIA GPUDirect RDMA guide, nvidia-peermem; gdrcopy; GPUDirect Storage guide",
)
