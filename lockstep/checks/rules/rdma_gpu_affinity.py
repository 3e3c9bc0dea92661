"""Each RDMA device is next to the same GPUs.

Why      NCCL pairs a GPU with the adapter at the same PCIe switch; elsewhere data takes the long
         way.
Blind    Machines on which no adapter shares a switch with a board.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules._peers import OTHER_MACHINE
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.nearest_gpus"

RULE = Rule(
    id="rdma.gpu_affinity",
    title="RDMA devices are next to the same GPUs",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=lambda view: has_rdma(view) and has_gpus(view),
    repair="in {node}: put {device} into the slot that its peers have it in",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("gpu.count"),
        Cause("rdma.numa", same_device=True),
        *OTHER_MACHINE,
    ),
    source="PCI addresses below /sys/devices; NVIDIA, GPUDirect RDMA, supported systems",
)
