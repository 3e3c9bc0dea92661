"""Rules about munge, and about Slurm's view of the nodes."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View, has_role
from lockstep.checks.rule import (
    CONTROLLER,
    DEPLOY,
    UNREAD,
    Cause,
    Effect,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    by_role,
    each,
    same,
)
from lockstep.checks.slurm_states import (
    AWAITS_REBOOT,
    COMPARE_MARK,
    CPUS,
    GPUS,
    MEMORY,
    OUR_MARK,
    OURS,
    RESERVED,
    SILENT,
    has_mark,
    state_of,
    tags_of,
)
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGSTACK
from lockstep.probe.record import MISSING, Unread, item
from lockstep.spec import Service


def not_asked(rule: str) -> tuple[Cause, ...]:
    """Return the causes that leave ``rule`` without data from the controller."""
    return (
        Cause("node.reachable", at=CONTROLLER, of=UNREAD),
        Cause("unit.active", device="slurmctld.service", at=CONTROLLER, of=UNREAD),
        Cause(rule, at=CONTROLLER, of=UNREAD),
    )


def concerned(view: View) -> bool:
    """Return whether a node is a Slurm worker or the controller.

    The controller's record lists the states of all workers.
    """
    return view.plan.spec.slurm is not None and (view.plan.takes_slurm_jobs or view.is_controller)


def seen_by_slurm(view: View) -> Value | None:
    """Return the controller's entry for a worker; None for other nodes."""
    nodes = view.at_controller("slurm.nodes") if view.plan.takes_slurm_jobs else None
    if not isinstance(nodes, dict):
        return nodes
    unknown = Unread(unread="the controller does not know the node")
    return item(nodes[view.plan.name]) if view.plan.name in nodes else unknown


def _of_entry(shown: Callable[[dict[str, JsonValue]], Items]) -> Look:
    """Return a ``Look`` at the controller's entry for a worker.

    If the controller did not answer, the look has one item that could not be read.
    """

    def look(view: View) -> Items:
        entry = seen_by_slurm(view)
        if isinstance(entry, dict):
            return shown(entry)
        if entry is None and view.is_controller:
            entry = view.read("slurm.nodes")
        return {"": entry} if isinstance(entry, Unread) else {}

    return Look(look)


FILE = "/etc/slurm/slurm.conf"


def _conf_expected(view: View) -> str | None:
    controller = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    file = None if controller is None else view.context.files_of(controller).get(FILE)
    return None if file is None else file.sha256


KEYS = {
    "CPUs": "cpus",
    "RealMemory": "real_memory",
    "Gres": "gres",
    "CpuSpecList": "cpu_spec_list",
}


def _node_expected(view: View) -> dict[str, JsonValue]:
    if not view.plan.takes_slurm_jobs or seen_by_slurm(view) is None:
        return {}
    plan = view.plan.hardware.slurm
    return {
        "CPUs": plan.hardware.cpus,
        "RealMemory": plan.hardware.slurm_memory_mib,
        "Gres": plan.gres,
        "CpuSpecList": plan.cpu_spec_list,
    }


LACKING_GPUS = ("gpu.count", "gpu.lost", "gpu.name", "gpu.mig", "gpu.mig_layout")
"""Rules whose findings leave slurmd with fewer GPUs or MIG devices than planned."""


def _state_tags(view: View, device: str) -> frozenset[str]:
    return tags_of(seen_by_slurm(view))


def _drained_by(view: View, device: str) -> tuple[str, ...]:
    """Return the role that resumes a node which a deploy drained until it has been compared."""
    return ("slurm_worker",) if has_mark(seen_by_slurm(view), COMPARE_MARK) else ()


def _whose(view: View, device: str) -> str:
    if has_mark(seen_by_slurm(view), OUR_MARK):
        return "set by Lockstep's own health check"
    return ""


def _round_trip_items(view: View) -> Items:
    if view.is_controller:
        made = view.read("munge.credential")
        return {"": made if isinstance(made, Unread) else "Success"}
    made_there = view.at_controller("munge.credential")
    if made_there is None:
        return {}
    return {"": made_there if isinstance(made_there, Unread) else view.read("munge.decoded")}


RULES = (
    Rule(
        id="munge.key",
        claim="All nodes have the cluster's munge key.",
        why="Jobs can neither be submitted nor run on a node with a different key.",
        blind="Whether munged still uses an older key, which munge.round_trip detects.",
        source="munged(8)",
        reading="munge.key_sha256",
        expected=same(lambda view: view.context.munge_key_sha256),
        peers=Peers.CLUSTER,
        text=Text(
            lambda value: "absent" if value == "absent" else f"a key (sha256 {str(value)[:12]})"
        ),
        repair=by_role("munge"),
        applies=has_role("munge"),
    ),
    Rule(
        id="munge.round_trip",
        claim="Every node can decode a munge credential from the controller.",
        why=(
            "Slurm sends a credential with every message. Decoding a credential tests the key, the "
            "clock and the daemon."
        ),
        blind="Credentials that the node sends to the controller.",
        source="munge(7)",
        reading="munge.decoded",
        look=Look(_round_trip_items),
        expected=same("Success"),
        repair=by_role(
            "munge",
            "on {node}: run systemctl restart munge (needed after the key or the clock changes)",
        ),
        applies=has_role("munge"),
        explained_by=(
            Cause("munge.key"),
            Cause("munge.key", at=CONTROLLER),
            Cause("unit.active", device="munge.service"),
            Cause("unit.active", device="chrony.service"),
            Cause("time.*"),
            Cause("node.reachable", at=CONTROLLER, of=UNREAD),
            Cause("munge.round_trip", at=CONTROLLER, of=UNREAD),
        ),
    ),
    Rule(
        id="slurm.conf",
        claim="Every slurmd uses the slurm.conf that is planned for the controller.",
        why=(
            "A slurmd with an old configuration disagrees with the controller about nodes and "
            "limits."
        ),
        blind=(
            "gres.conf and cgroup.conf, which slurmd also fetches. slurm.node checks their effect."
        ),
        source="slurm.conf(5), configless",
        reading="slurm.conf_sha256",
        expected=same(_conf_expected),
        text=Text(lambda value: f"slurm.conf (sha256 {str(value)[:12]})"),
        repair=by_role(
            "slurm_worker",
            f"{DEPLOY}; if slurmctld uses an older file, run scontrol reconfigure on the "
            "controller",
        ),
        # On a worker with its own files, file.content checks them.
        applies=lambda view: view.plan.takes_slurm_jobs and view.plan.cluster.configless,
        explained_by=(
            Cause("file.content", device=FILE, at=CONTROLLER),
            # slurmctld has not read its file again, and hands out the one that it has read.
            Cause("fingerprint.running", device="slurmctld: slurm.conf", at=CONTROLLER),
            Cause("unit.active", device="slurmd.service"),
        ),
    ),
    Rule(
        id="slurm.container_image",
        claim="srun has the --container-image option.",
        why=(
            "On a node without this option, a job submitted with --container-image from another "
            "node runs outside its container, without an error message."
        ),
        blind="Whether a container starts, because the rule runs neither enroot nor its hooks.",
        source="srun(1); spank(8)",
        reading="slurm.srun_options",
        expected=same(True),
        repair=by_role(
            "pyxis",
            "restart slurmd on {node} to make it fetch plugstack.conf, then deploy again",
        ),
        applies=has_role("pyxis"),
        on_node=OnNode(Local.HEALTH),
        explained_by=(
            Cause("slurm.pyxis"),
            Cause("package.present", device=PYXIS_PACKAGE),
            Cause("file.content", device=PYXIS_PLUGSTACK),
            Cause("file.content", device="/etc/slurm/plugstack.conf"),
            Cause("file.content", device="/etc/slurm/plugstack.conf", at=CONTROLLER),
            Cause("unit.active", device="slurmd.service", of=UNREAD),
            Cause("slurm.conf", of=UNREAD),
        ),
    ),
    Rule(
        id="slurm.node",
        claim="The controller's entry for each worker has the planned CPUs, memory and GPUs.",
        why=(
            "If Slurm thinks that a node is smaller than it is, part of the node stays idle. If "
            "it thinks that the node is larger, jobs fail."
        ),
        blind=(
            "Other settings of nodes, and a slurm.conf that has changed since the controller read "
            "it: fingerprint.running names them."
        ),
        source="scontrol(1), show node",
        reading="slurm.nodes",
        look=_of_entry(
            lambda entry: {shown: entry.get(key, MISSING) for shown, key in KEYS.items()}
        ),
        expected=each(_node_expected),
        repair=by_role(
            "slurm_controller",
            "run pyinfra -y {inventory} deploys/head.py, then run scontrol reconfigure on the "
            "controller",
        ),
        applies=concerned,
        explained_by=(
            *not_asked("slurm.node"),
            Cause("file.content", device="/etc/slurm/slurm.conf", at=CONTROLLER),
            Cause("file.content", device="/etc/slurm/gres.conf", at=CONTROLLER),
            # The controller shows the GPUs with which slurmd registered.
            *(Cause(rule, of=Effect(device="Gres")) for rule in LACKING_GPUS),
        ),
    ),
    Rule(
        id="slurm.pyxis",
        claim="The pyxis plugin was built for the planned Slurm version.",
        why=(
            "Slurm loads only SPANK plugins that were built for its own release series. Without a "
            "required plugin, every job fails on the worker."
        ),
        blind="The version of Slurm itself, which package.version checks.",
        source="slurm/spank.h, plugin_version; Slurm, src/common/plugin.c",
        reading="slurm.spank_plugins",
        expected=same(lambda view: view.plan.job_containers.slurm_series),
        text=Text(lambda value: f"built for Slurm {value}"),
        repair=by_role("pyxis"),
        applies=has_role("pyxis"),
        on_node=OnNode(Local.HEALTH),
        explained_by=(Cause("package.present", device=PYXIS_PACKAGE, of=UNREAD),),
    ),
    Rule(
        id="slurm.state",
        claim="Slurm can start jobs on every worker.",
        why=(
            "A drained node costs as much as a working one. If another finding explains the state "
            "(a stopped slurmd, missing GPUs or CPUs, a drain by Lockstep), the state is reported "
            "as part of that finding. Drains by a person, or by Slurm for other reasons (Kill task "
            "failed, Prolog error, Epilog error), are always reported."
        ),
        blind=(
            "Nodes that accept jobs and then fail them. Partitions that a person set to DOWN: "
            "fingerprint.running names them."
        ),
        source="scontrol(1), show node; sinfo(1), node state codes",
        reading="slurm.nodes",
        look=_of_entry(state_of),
        expected=same("takes jobs"),
        text=Text(detail=_whose),
        repair=by_role(
            "the role that resumes a node, if a deploy drained it",
            roles=_drained_by,
            no_role=(
                "fix the cause that Slurm reports, then run: scontrol update NodeName={node} "
                "State=RESUME"
            ),
        ),
        tags=_state_tags,
        applies=concerned,
        explained_by=(
            *not_asked("slurm.state"),
            # Slurm gives this state only to nodes of a reservation for maintenance.
            Cause("fingerprint.running", tag=RESERVED, at=CONTROLLER, of=Effect(tag=RESERVED)),
            Cause("slurm.conf", of=Effect(tag=SILENT)),
            Cause("unit.active", device="slurmd.service", of=Effect(tag=SILENT)),
            Cause("unit.active", device="munge.service", of=Effect(tag=SILENT)),
            Cause("munge.*", of=Effect(tag=SILENT)),  # and their causes, such as the clock
            Cause("os.hostname", of=Effect(tag=SILENT)),
            Cause("gpu.count", of=Effect(tag=SILENT)),
            *(Cause(rule, of=Effect(tag=GPUS)) for rule in LACKING_GPUS),
            # A node drains itself if it fails these rules (Rule.on_node).
            *(
                Cause(rules, of=Effect(tag=OURS))
                for rules in ("gpu.*", "rdma.*", "driver.*", "hugepages")
            ),
            *(
                Cause(rule, of=Effect(tag=OURS))
                for rule in ("memory.at_least", "slurm.pyxis", "slurm.container_image")
            ),
            # The rolling reboot resumes a node that a deploy has left to it.
            *(
                Cause(rules, of=Effect(found=AWAITS_REBOOT))
                for rules in ("kernel.args", "kernel.newest", "package.version")
            ),
            Cause("cpu.count", of=Effect(tag=CPUS)),
            Cause("memory.at_least", of=Effect(tag=MEMORY)),
            *(Cause("slurm.node", of=Effect(tag=tag)) for tag in (GPUS, CPUS, MEMORY)),
        ),
    ),
)
