"""Changes of the running Slurm that an operator makes with scontrol(1) on the head and forgets."""

from __future__ import annotations

from tests.lab.changes import Change

HEAD = "head"
CONF = "/etc/slurm/slurm.conf"
RECONFIGURE = "scontrol reconfigure; sleep 3"


def ran(name: str, script: str, found: str, undo: str = RECONFIGURE) -> Change:
    """Return a change that the head alone shows."""
    return Change(name, script, undo, "running", found, alone=True, node=HEAD)


def partition(name: str, key: str, value: str, shown: str = "") -> Change:
    """Return a change of the partition ``batch``; ``shown``: the key as scontrol shows it."""
    script = f"scontrol update PartitionName=batch {key}={value}"
    return ran(name, script, f"partition batch: {shown or key}")


def of_node(name: str, key: str, value: str, shown: str = "") -> Change:
    """Return a change of Slurm's entry for worker1."""
    script = f"scontrol update NodeName=worker1 {key}={value}"
    return ran(name, script, f"Slurm node worker1: {shown or key}")


CHANGES = (
    partition("Slurm: the partition takes no jobs", "State", "DOWN"),
    partition("Slurm: the partition is drained", "State", "DRAIN"),
    partition("Slurm: a time limit", "MaxTime", "1-00:00:00"),
    partition("Slurm: a default time", "DefaultTime", "30"),
    partition("Slurm: only for a group", "AllowGroups", "root"),
    partition("Slurm: only for an account", "AllowAccounts", "research"),
    partition("Slurm: not for a QOS", "DenyQos", "normal"),
    partition("Slurm: submitted on one node only", "AllocNodes", "worker1"),
    partition("Slurm: fewer nodes in the partition", "Nodes", "worker1"),
    partition("Slurm: at most one node for a job", "MaxNodes", "1"),
    partition("Slurm: nodes are shared", "OverSubscribe", "FORCE:2"),
    partition("Slurm: jobs of others are preempted", "PriorityTier", "10"),
    partition("Slurm: memory of jobs", "DefMemPerCPU", "100"),
    partition("Slurm: no default partition", "Default", "NO"),
    partition("Slurm: for root only", "RootOnly", "YES"),
    partition("Slurm: a hidden partition", "Hidden", "YES"),
    partition("Slurm: billing", "TRESBillingWeights", "CPU=2.0"),
    ran("Slurm: another partition", "scontrol create PartitionName=test Nodes=worker1",
        "partition test", "scontrol delete PartitionName=test"),
    of_node("Slurm: the weight of a node", "Weight", "50"),
    of_node("Slurm: a feature of a node", "AvailableFeatures", "hbm"),
    of_node("Slurm: the address of a node", "NodeAddr", "127.0.0.9"),
    of_node("Slurm: binding to processors", "CpuBind", "socket"),
    ran("Slurm: a note at a node", "scontrol update NodeName=worker1 Comment='RMA 12'",
        "Slurm node worker1: Comment", "scontrol update NodeName=worker1 Comment="),
    ran("Slurm: extra data of a node", "scontrol update NodeName=worker1 Extra=a=b",
        "Slurm node worker1: Extra", "scontrol update NodeName=worker1 Extra="),
    ran("Slurm: a reservation", "scontrol create reservation ReservationName=course StartTime=now "
        "Duration=60 Nodes=worker1 Users=root", "reservation course",
        "scontrol delete ReservationName=course"),
    ran("Slurm: more messages of slurmctld", "scontrol setdebug debug2",
        "slurmctld: SlurmctldDebug"),
    ran("Slurm: debug flags", "scontrol setdebugflags +backfill", "slurmctld: DebugFlags"),
    ran("Slurm: the fair share", "scontrol fsdampeningfactor 3",
        "slurmctld: FairShareDampeningFactor"),
    ran("Slurm: a node that is not suspended", "scontrol update SuspendExcNodes=worker1",
        "slurmctld: SuspendExcNodes"),
    ran("Slurm: cgroup.conf of a reconfiguration that was undone in the file",
        "cp -p /etc/slurm/cgroup.conf /run/keep && sed -i "
        "s/ConstrainDevices=yes/ConstrainDevices=no/ /etc/slurm/cgroup.conf && scontrol reconfigure"
        " && sleep 3 && cp -p /run/keep /etc/slurm/cgroup.conf",
        "slurmctld: cgroup.conf, ConstrainDevices"),
    ran("Slurm: slurm.conf of a reconfiguration that was undone in the file",
        f"cp -p {CONF} /run/keep && sed -i s/KillWait=60/KillWait=90/ {CONF} && "
        f"scontrol reconfigure && sleep 3 && cp -p /run/keep {CONF}", "slurmctld: slurm.conf"),
    Change("Slurm: more messages of one slurmd", "scontrol setdebug debug2 nodes=$(hostname -s)",
           "scontrol setdebug info nodes=$(hostname -s)", "running",
           "slurmd.service: SlurmdDebug", alone=True),
)  # fmt: skip
