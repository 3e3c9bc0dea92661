"""Rules about the NVLink fabric that GPUs join."""

from __future__ import annotations

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import (
    Cause,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    by_hand,
    by_role,
    same,
    same_device,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    both,
    gpus_with,
    has_gpus,
    of_model,
    of_own_model,
    supported,
    switched,
)
from lockstep.checks.rules.driver import FABRIC_MANAGER
from lockstep.node.check.judge import Judgement
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.plan import nvidia
from lockstep.probe.record import MISSING, Unread

CLUSTER, CLIQUE = "gpu.fabric.cluster", "gpu.fabric.clique"
STATE, STATUS = "gpu.fabric.state", "gpu.fabric.status"
JOINED = "Completed, Success"
SILENT = ("volta", "turing", "ampere")
_in_domain = gpus_with(lambda gpu: gpu.multi_node_nvlink)
_silent = of_model(lambda model: model.architecture in SILENT)


_cluster_and_clique = both(CLUSTER, CLIQUE, lambda cluster, clique: f"{cluster}, clique {clique}")
NO_STATE = Unread(unread="nvidia-smi: fabric.state is N/A")


def _fabric_items(view: View) -> Items:
    """Return the fabric state of each GPU.

    A GPU without NVSwitches has none, and a model of an unknown architecture may have none.
    """
    states, statuses = view.items(STATE), view.items(STATUS)
    must_tell = switched(view) and not _silent(view) and not of_own_model(view)

    def joined(device: str, state: Value) -> Value:
        status = statuses.get(device, MISSING)
        if state == NOT_SUPPORTED:
            return NO_STATE if must_tell else JOINED
        if isinstance(state, Unread) or status == NOT_SUPPORTED:
            return state  # while the fabric manager works, there is no status
        return status if isinstance(status, Unread) else f"{state}, {status}"

    return {device: joined(device, state) for device, state in states.items()}


RULES = (
    Rule(
        id="gpu.fabric",
        claim="Every GPU has joined the NVLink fabric of its baseboard or rack.",
        why="CUDA fails (error 802) until the fabric manager has configured the GPU.",
        blind=(
            "Links that are up but have errors. GPUs older than Hopper, which do not report their "
            "fabric state. GPUs that report none, if their class has no NVSwitches or the "
            "architecture of their model is not declared."
        ),
        source="NVIDIA fabric manager user guide, nvidia-smi fabric state",
        reading=STATE,
        look=Look(_fabric_items, devices=DEVICES),
        expected=same(JOINED),
        repair=by_role(
            "nvidia_fabric_manager",
            (
                "on {node}: read journalctl -u nvidia-fabricmanager; when no jobs are running, "
                "restart the fabric manager and reset all GPUs together (nvidia-smi -r); if NVLink "
                "connects nodes, the fabric manager runs on the switch trays of the rack"
            ),
        ),
        applies=has_gpus,
        on_node=OnNode(
            Local.JOBS,
            # What a GPU does not report, the node check does not judge.
            lambda view: [
                Judgement((STATE,), devices=DEVICES, expected="Completed", shown="state {}"),
                Judgement((STATUS,), devices=DEVICES, expected="Success", shown="status {}"),
            ],
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("unit.active", device=nvidia.FABRIC_MANAGER),
            Cause("package.version", tag=FABRIC_MANAGER),
            Cause("driver.module_version"),
        ),
    ),
    Rule(
        id="gpu.fabric_health",
        claim="The NVLink fabric of every GPU is healthy.",
        why="A GPU whose fabric is degraded has less bandwidth, or cannot reach some other GPUs.",
        blind="Drivers before branch 580, and GPUs that do not report the fabric's health.",
        source=(
            "nvidia-smi --help-query-gpu, fabric.health.summary; recorded B200, GB200 and GB300"
        ),
        reading="gpu.fabric.health",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("Healthy"),
        repair=by_hand(
            "drain {node}; nvidia-smi -q shows below Fabric, Health what is wrong; read the log of "
            "the fabric manager, which runs on the node or on the switch trays of the rack"
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.fabric", "gpu.recovery_action")),
    ),
    Rule(
        id="gpu.nvlink_domain",
        claim="All GPUs of an NVLink domain are in the same NVLink cluster and clique.",
        why=(
            "Only GPUs of one cluster and clique share memory. A node that is cabled to another "
            "rack, or that the fabric manager put into another partition, breaks each job of its "
            "domain, and IMEX on its nodes."
        ),
        blind=(
            "Two domains that were exchanged as a whole: no description has the number of a rack's "
            "cluster."
        ),
        source=(
            "NVIDIA IMEX guide, Overview; nvidia-smi --help-query-gpu, fabric.clusterUuid and "
            "fabric.cliqueId; recorded GB200"
        ),
        reading=CLUSTER,
        look=Look(_cluster_and_clique, devices=DEVICES),
        peers=Peers.NVLINK_DOMAIN,
        repair=by_hand(
            peers=(
                "compare the rack of {node} with its NVLink domain in {inventory}; correct the "
                "description, the cables to the NVLink switches, or the partition of the fabric"
            )
        ),
        applies=_in_domain,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.name", "gpu.fabric", "gpu.recovery_action"),
        ),
    ),
)
