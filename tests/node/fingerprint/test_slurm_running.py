"""What slurmctld runs with against slurm.conf, from what scontrol of Slurm 24.11 printed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lockstep.node.fingerprint.entry import Fields
from lockstep.node.fingerprint.scheduler import read_running_slurmd, read_slurmd
from lockstep.node.fingerprint.slurm_running import read_running_slurm
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.slurm import read_slurm_nodes
from tests.node.fingerprint.daemon_node import Node, node

__all__ = ["node"]
CAPTURES = Path(__file__).parents[2] / "captures" / "slurm_24_11"
CONF = "/etc/slurm/slurm.conf"
GRES = "/etc/slurm/gres.conf"
COMMANDS = {
    "config": "show config",
    "partition": "-o -a show partition",
    "node": "-o show node",
    "reservation": "-o show reservation",
}


class Head:
    """A node that runs slurmctld, and what scontrol prints on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.texts = {name: recorded(f"{name}.txt") for name in ("config", "partition", "node")}
        self.texts["reservation"] = "No reservations in the system\n"
        node.daemon("slurmctld", 400)
        self.conf = recorded("slurm.conf")
        node.file("/etc/slurm/cgroup.conf", recorded("cgroup.conf"))

    def change(self, name: str, old: str, new: str) -> None:
        """Change what scontrol prints."""
        assert old in self.texts[name]
        self.texts[name] = self.texts[name].replace(old, new)

    def configure(self, old: str, new: str) -> None:
        """Change slurm.conf."""
        assert old in self.conf
        self.conf = self.conf.replace(old, new)

    def write(self) -> None:
        """Write slurm.conf and scontrol; scontrol notes each call."""
        self.node.file(CONF, self.conf)
        log = self.node.bin / "calls"
        log.write_text("")
        cases = []
        for name, words in COMMANDS.items():
            path = self.node.bin / f"{name}.txt"
            path.write_text(self.texts[name])
            cases.append(f'"{words}") cat {path};;')
        script = "\n".join([f'echo "$*" >> {log}', 'case "$*" in', *cases, "*) exit 1;;", "esac"])
        self.node.tool("scontrol", script)

    def read(self) -> dict[str, Fields]:
        """Return what is found."""
        self.write()
        self.node.read("running")  # writes systemctl
        found = list(read_running_slurm({}, Commands()))
        assert len({entry.name for entry in found}) == len(found)
        return dict(found)

    def values(self) -> dict[str, tuple[str, str]]:
        """Return the running and the configured value of each object."""
        return {name: (one["running"], one["configured"]) for name, one in self.read().items()}


def recorded(name: str) -> str:
    return (CAPTURES / name).read_text(encoding="utf-8")


@pytest.fixture
def head(node: Node) -> Head:
    return Head(node)


def test_a_deployed_head_has_no_object(head: Head) -> None:
    assert head.read() == {}


def test_a_node_without_slurmctld_asks_nothing(head: Head) -> None:
    head.node.group("system.slice/slurmctld.service")
    assert head.read() == {}
    assert (head.node.bin / "calls").read_text() == ""


def test_slurmctld_is_asked_once_for_each_kind(head: Head) -> None:
    head.write()
    head.node.tool("slurmctld", "exit 0")
    commands = Commands()
    assert set(read_slurm_nodes({}, commands)["slurm.nodes"]) == {"worker1", "worker2"}
    assert list(read_running_slurm({}, commands)) == []
    asked = (head.node.bin / "calls").read_text().splitlines()
    assert sorted(asked) == sorted(COMMANDS.values())


def test_states_and_jobs_are_no_configuration(head: Head) -> None:
    head.change("node", "State=IDLE", "State=MIXED+DRAIN+NOT_RESPONDING")
    head.change("node", "CPUAlloc=0", "CPUAlloc=1")
    head.change("node", "AveWatts=0", "AveWatts=0  Reason=RMA, Weight=9 [root@2026-01-01T00:00:00]")
    head.change("config", "NEXT_JOB_ID             = 4", "NEXT_JOB_ID             = 900")
    assert head.read() == {}


def test_everything_that_scontrol_changed(head: Head) -> None:
    for name in ("config", "partition", "node"):
        head.texts[name] = recorded(f"{name}_changed.txt")
    head.texts["reservation"] = recorded("reservation_made.txt")
    one = "partition batch: "
    worker = "Slurm node worker1: "
    assert head.values() == {
        "slurmctld: DebugFlags": ("Backfill", "(null)"),
        "slurmctld: FairShareDampeningFactor": ("3", "1"),
        "slurmctld: SlurmctldDebug": ("debug2", "info"),
        "slurmctld: SuspendExcNodes": ("worker1", "(null)"),
        one + "AllocNodes": ("worker1", "ALL"),
        one + "AllowAccounts": ("Foo", "ALL"),
        one + "AllowGroups": ("slurm,root", "ALL"),
        one + "Alternate": ("batch", "none"),
        one + "CpuBind": ("cores", "none"),
        one + "DefMemPerCPU": ("100", "DefMemPerNode=UNLIMITED"),
        one + "Default": ("NO", "YES"),
        one + "DefaultTime": ("00:30:00", "NONE"),
        one + "DenyQos": ("normal", "AllowQos=ALL"),
        one + "ExclusiveUser": ("YES", "NO"),
        one + "GraceTime": ("10", "0"),
        one + "Hidden": ("YES", "NO"),
        one + "JobDefaults": ("DefCpuPerGPU=2", "none"),
        one + "LLN": ("YES", "NO"),
        one + "MaxMemPerNode": ("500", "UNLIMITED"),
        one + "MaxNodes": ("1", "UNLIMITED"),
        one + "MaxTime": ("1-00:00:00", "UNLIMITED"),
        one + "Nodes": ("without worker2", "with worker2"),
        one + "OverSubscribe": ("FORCE:2", "NO"),
        one + "OverTimeLimit": ("5", "NONE"),
        one + "PreemptMode": ("REQUEUE", "OFF"),
        one + "PriorityTier": ("5", "1"),
        one + "ReqResv": ("YES", "NO"),
        one + "RootOnly": ("YES", "NO"),
        one + "State": ("DRAIN", "UP"),
        one + "TRESBillingWeights": ("CPU=1.0,Mem=0.25G,GRES/gpu=2.0", "none"),
        "partition extra": ("exists, with nodes worker2", "none"),
        worker + "ActiveFeatures": ("hbm", "none"),
        worker + "AvailableFeatures": ("hbm,ib", "none"),
        worker + "CpuBind": ("sockets", "none"),
        worker + "NodeAddr": ("10.0.0.1", "worker1"),
        worker + "Weight": ("50", "1"),
        worker + "Comment": ("RMA 12 Weight=7 State=DOWN", "none"),
        worker + "Extra": ("a=b c", "none"),
        "reservation maint": (
            "Nodes=worker[1-2] Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES Users=root "
            "StartTime=2026-11-24T04:24:01 EndTime=2027-11-24T04:24:01",
            "none",
        ),
    }


def test_the_commands_that_revert_a_change(head: Head) -> None:
    head.texts["partition"] = recorded("partition_changed.txt")
    head.texts["node"] = recorded("node_changed.txt")
    head.texts["reservation"] = recorded("reservation_made.txt").replace("=maint", "=a;b")
    repairs = {name: fields["repair"] for name, fields in head.read().items()}
    assert repairs["partition batch: State"] == "scontrol reconfigure"
    assert repairs["partition extra"] == "scontrol delete PartitionName=extra"
    assert repairs["Slurm node worker1: Weight"] == "scontrol reconfigure"
    assert repairs["Slurm node worker1: Comment"] == "scontrol update NodeName=worker1 Comment="
    assert repairs["reservation a;b"] == "scontrol delete 'ReservationName=a;b'"


CONFIGURED = (
    "AllocNodes=worker1 AllowAccounts=foo AllowGroups=root,slurm Alternate=batch CpuBind=core "
    "DefMemPerCPU=100 DefaultTime=0-0:30 DenyQos=Normal ExclusiveUser=yes GraceTime=10 Hidden=TRUE "
    "DefCPUPerGPU=2 LLN=1 MaxMemPerNode=500 MaxNodes=1 MaxTime=1440 Shared=force:2 OverTimeLimit=5 "
    "PreemptMode=requeue PriorityTier=5 ReqResv=Yes RootOnly=up State=drained "
    "TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0"
)
"""What the recorded partition has, written in other forms that slurm.conf(5) allows."""


def test_values_that_slurm_writes_otherwise(head: Head) -> None:
    head.texts["partition"] = recorded("partition_changed.txt")
    head.configure(
        "PartitionName=batch Nodes=worker[1-2] Default=YES MaxTime=UNLIMITED State=UP",
        f"PartitionName=DEFAULT {CONFIGURED}\npartitionname=batch \\\n  NODES=worker1 # one\n"
        "PartitionName=DEFAULT AllowAccounts=ALL\nNodeSet=rest Nodes=worker2\n"
        "PartitionName=extra Nodes=rest",
    )
    names = set(head.read())
    # Slurm does not take this key from the line DEFAULT.
    assert {name for name in names if name.startswith("partition batch")} == {
        "partition batch: ExclusiveUser"
    }
    assert "partition extra: State" in names


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("MaxTime=30:30", "MaxTime=00:31:00"),
        ("MaxTime=2-12", "MaxTime=2-12:00:00"),
        ("MaxTime=-1", "MaxTime=UNLIMITED"),
        ("MaxTime=60 DefaultTime=120", "MaxTime=01:00:00"),  # slurmctld drops DefaultTime
        ("OverSubscribe=YES", "OverSubscribe=YES:4"),
        ("OverSubscribe=EXCLUSIVE", "OverSubscribe=EXCLUSIVE"),
        ("Priority=7", "PriorityJobFactor=7 PriorityTier=7"),
        ("MaxNodes=INFINITE MinNodes=02", "MinNodes=2"),
        ("DefMemPerNode=0", "DefMemPerNode=UNLIMITED"),
        ("AllowGroups=all", "AllowGroups=ALL"),
        ("SelectTypeParameters=CR_Core", "SelectTypeParameters=CR_CORE"),
        ("QOS=Fast", "QoS=Fast"),
    ],
)
def test_forms_of_a_partitions_values(head: Head, line: str, shown: str) -> None:
    head.configure("MaxTime=UNLIMITED State=UP", line)
    is_recorded = all(word in head.texts["partition"].split() for word in shown.split())
    assert (head.read() == {}) == is_recorded
    for word in shown.split():
        key = word.partition("=")[0]
        now = next(one for one in head.texts["partition"].split() if one.startswith(f"{key}="))
        head.change("partition", f" {now}", f" {word}")
    assert head.read() == {}


def test_a_partition_of_slurm_26_05(head: Head) -> None:
    head.change("partition", "ExclusiveUser=NO ExclusiveTopo=NO", "Exclusive=NODE")
    assert head.values() == {"partition batch: Exclusive": ("NODE", "NO")}
    head.configure("State=UP", "State=UP OverSubscribe=EXCLUSIVE")
    assert head.read() == {}


def test_defaults_of_partitions_that_the_whole_cluster_has(head: Head) -> None:
    head.change("config", "PreemptMode             = OFF", "PreemptMode             = GANG,SUSPEND")
    head.change("config", "DisableRootJobs         = no", "DisableRootJobs         = yes")
    head.change("partition", "PreemptMode=OFF", "PreemptMode=GANG,SUSPEND")
    head.change("partition", "DisableRootJobs=NO", "DisableRootJobs=YES")
    assert head.read() == {}


def test_nodes_of_a_set_by_features_are_not_compared(head: Head) -> None:
    head.configure("Nodes=worker[1-2] Default", "Nodes=fast Default")
    head.configure("PartitionName=", "NodeSet=fast Feature=hbm\nPartitionName=")
    assert head.read() == {}


def test_a_partition_and_nodes_that_are_missing(head: Head) -> None:
    head.configure("PartitionName=batch", "NodeName=new[1-2,4] CPUs=2\nPartitionName=batch")
    head.configure("State=UP", "State=UP\nPartitionName=big Nodes=ALL")
    assert head.values() == {
        "partition big": ("does not exist", "exists"),
        "Slurm nodes new[1-2,4]": ("does not exist", "exists"),
    }
    head.configure("new[1-2,4] CPUs=2", "new[1-2,4] CPUs=2 State=FUTURE")
    assert set(head.read()) == {"partition big"}


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        ("Weight=3", "Weight=1", "Weight=3"),
        ("Features=ib,hbm", "Features=(null)", "Features=hbm,ib"),
        ("NodeAddr=10.0.0.[1-2]", "NodeAddr=worker", "NodeAddr=10.0.0."),
        ("NodeHostname=n[1-2]", "NodeAddr=worker", "NodeAddr=n"),
        ("CpuBind=core", "CoresPerSocket=2", "CpuBind=cores CoresPerSocket=2"),
    ],
)
def test_attributes_of_nodes(head: Head, line: str, old: str, new: str) -> None:
    before = head.texts["node"]
    head.configure("Gres=gpu:h200:8", f"Gres=gpu:h200:8 {line}")
    assert head.read()
    head.change("node", old, new)
    if "Hostname" in line:
        head.change("node", "NodeHostName=worker", "NodeHostName=n")
    assert head.read() == {}
    head.texts["node"] = before
    head.change("node", "State=IDLE", "State=IDLE+CLOUD")
    assert head.read() == {}


def test_nodes_with_the_same_values_are_one_object(head: Head) -> None:
    head.change("node", "Weight=1", "Weight=9")
    assert head.values() == {"Slurm nodes worker[1-2]: Weight": ("9", "1")}


def test_features_that_a_plugin_sets(head: Head) -> None:
    head.change("node", "ActiveFeatures=(null)", "ActiveFeatures=flat")
    assert set(head.read()) == {"Slurm nodes worker[1-2]: ActiveFeatures"}
    head.configure("ReturnToService=1", "ReturnToService=1\nNodeFeaturesPlugins=node_features/x")
    assert head.read() == {}


def test_notes_at_most_nodes_are_from_a_program(head: Head) -> None:
    head.change("node", "AveWatts=0", "AveWatts=0  Comment=rack 7 Extra=")
    assert head.read() == {}


def test_a_slurm_conf_that_slurmctld_has_not_read(head: Head) -> None:
    head.change("config", "= Match", "= Different Ours=0x6dc2f582 Slurmctld=0x41a275a")
    found = head.read()["slurmctld: slurm.conf"]
    assert found["configured"] == "changed since"
    assert found["file"] == CONF
    assert found["repair"] == "scontrol reconfigure"
    head.configure("KillWait=60", "KillWait=90")
    head.configure("State=UP", "State=DOWN")
    head.configure("Gres=gpu:h200:8", "Gres=gpu:h200:8 Weight=2")
    head.change("config", "SlurmctldDebug          = info", "SlurmctldDebug          = debug")
    assert head.values() == {
        "slurmctld: slurm.conf": (
            "as of the last scontrol reconfigure",
            "changed since: slurmctld: KillWait, slurmctld: SlurmctldDebug, "
            "partition batch: State, Slurm nodes worker[1-2]: Weight",
        )
    }


@pytest.mark.parametrize(
    ("configured", "shown"),
    [("6", "debug2"), ("DEBUG2", "debug2"), ("3", "info"), ("99", "debug5")],
)
def test_forms_of_a_log_level(head: Head, configured: str, shown: str) -> None:
    head.configure("SlurmUser=slurm", f"SlurmUser=slurm\nSlurmctldDebug={configured}")
    head.change("config", "SlurmctldDebug          = info", f"SlurmctldDebug          = {shown}")
    assert head.read() == {}


def test_options_of_slurmctld_replace_the_log_level(head: Head) -> None:
    head.node.process(400, "/usr/sbin/slurmctld", "--systemd", "-vv")
    assert head.values() == {"slurmctld: SlurmctldDebug": ("info", "debug")}


def test_flags_in_another_order(head: Head) -> None:
    head.configure("SlurmUser=slurm", "SlurmUser=slurm\nDebugFlags=gres,Backfill")
    head.change("config", "DebugFlags              = (null)", "DebugFlags = Backfill,Gres")
    assert head.read() == {}


def test_a_setting_of_cgroup_conf(head: Head) -> None:
    head.change("config", "ConstrainDevices        = yes", "ConstrainDevices        = no")
    found = head.read()["slurmctld: cgroup.conf, ConstrainDevices"]
    assert (found["running"], found["configured"]) == ("no", "yes")
    assert found["file"] == "/etc/slurm/cgroup.conf"


def test_another_file_that_changed_since_the_last_reconfiguration(head: Head) -> None:
    started = time.clock_gettime(time.CLOCK_BOOTTIME) - 50
    head.node.process(
        400, "/usr/sbin/slurmctld", start=int(started * os.sysconf("SC_CLK_TCK"))
    )  # fmt: skip
    old = time.time() - 100
    for path in (CONF, GRES, "/etc/slurm/cgroup.conf"):
        os.utime(head.node.file(path, "#\n" if path == GRES else ""), (old, old))
    head.node.file("/etc/slurm/cgroup.conf", recorded("cgroup.conf"))
    os.utime(head.node.root / "etc/slurm/cgroup.conf", (old, old))
    head.node.file("/etc/slurm/slurmdbd.conf")
    assert head.read() == {}
    head.node.touch(GRES)
    assert head.values() == {
        "slurmctld: gres.conf": ("as of the last scontrol reconfigure", "changed since")
    }
    head.change("config", "= 24.11.5", "= 23.02.7")  # it does not start anew
    assert head.read() == {}


def test_included_files_are_part_of_slurm_conf(head: Head) -> None:
    line = next(line for line in head.conf.splitlines() if line.startswith("PartitionName"))
    head.configure(line, "include %c-parts.conf")
    head.node.file("/etc/slurm/slurm-parts.conf", line)
    assert head.read() == {}


def test_only_the_first_controller_is_asked(head: Head) -> None:
    head.change("node", "Weight=1", "Weight=9")
    hosts = f"SlurmctldHost=head\nSlurmctldHost={os.uname().nodename}(::1)"
    head.configure("SlurmctldHost=head", hosts)
    assert head.read() == {}


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo 'slurm_load_ctl_conf error: refused' >&2; exit 1", "refused"),
     ("echo SLURM_CONF = /nowhere", "/nowhere")],
)  # fmt: skip
def test_a_slurmctld_that_does_not_answer_is_one_object(head: Head, script: str, said: str) -> None:
    head.read()
    head.node.tool("scontrol", script)
    # An exception would take all other objects of the domain away.
    ((name, fields),) = read_running_slurm({}, Commands())
    assert name == "slurmctld.service: configuration"
    assert said in fields["running"]


def test_the_log_level_of_slurmd(node: Node) -> None:
    node.daemon("slurmd", 500)
    node.file("/run/slurm/conf/slurm.conf", "SlurmdDebug=verbose\n")

    def read(level: int) -> dict[str, Fields]:
        node.tool("scontrol", f"echo 'Slurmd Debug             = {level}'")
        node.read("running")
        return dict(read_running_slurmd({}, Commands()))

    assert read(4) == {}
    found = read(6)["slurmd.service: SlurmdDebug"]
    assert (found["running"], found["configured"]) == ("debug2", "verbose")
    node.tool("scontrol", "exit 1")
    assert list(read_running_slurmd({}, Commands())) == []  # the domain slurmd reports it
    with pytest.raises(Unread):
        list(read_slurmd({}, Commands()))
