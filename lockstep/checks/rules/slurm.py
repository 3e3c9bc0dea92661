"""Rules about Slurm's view of the nodes."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import CONTROLLER, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    DEPLOY,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    Local,
    Look,
    OnNode,
    Rule,
    Text,
    each,
    same,
)
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGSTACK
from lockstep.probe.record import MISSING, Unread
from lockstep.spec import Role, Service


def not_asked(rule: str) -> tuple[Cause, ...]:
    """Return causes of missing data of the controller; ``rule`` is the judging rule."""
    return (
        Cause("node.reachable", at=CONTROLLER, of=UNREAD),
        Cause("unit.active", device="slurmctld.service", at=CONTROLLER, of=UNREAD),
        Cause(rule, at=CONTROLLER, of=UNREAD),
    )


def concerned(view: View) -> bool:
    """Apply to the workers, and to the controller, which is asked about them."""
    return view.plan.spec.scheduler is not None and (
        view.plan.role is Role.WORKER or view.is_controller
    )


def has_pyxis(view: View) -> bool:
    """Apply where Slurm's jobs start in containers."""
    return "pyxis" in view.plan.capabilities


def seen_by_slurm(view: View) -> JsonValue | Unread | None:
    """Return the controller's entry of a worker; None for another node."""
    planned = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    if planned is None or view.plan.role is not Role.WORKER:
        return None
    controller = view.context.controller
    if controller is None:
        return Unread(unread=f"{planned.name}, the controller, gave no record")
    nodes = controller.read("slurm.nodes")
    if isinstance(nodes, Unread):
        return Unread(unread=f"on {planned.name}, the controller: {nodes.unread}")
    entry = controller.record.entry("slurm.nodes", view.plan.name)
    return Unread(unread="the controller does not know the node") if entry is None else entry


def unread_at_controller(view: View) -> Items:
    """Return one unread item on the controller if it did not answer."""
    nodes = view.read("slurm.nodes") if view.is_controller else None
    return {"": nodes} if isinstance(nodes, Unread) else {}


FILE = "/etc/slurm/slurm.conf"


def _conf_expected(view: View) -> str | None:
    controller = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    if controller is None:
        return None
    file = view.context.files_of(controller).get(FILE)
    return None if file is None else file.sha256


KEYS = {
    "CPUs": "cpus",
    "RealMemory": "real_memory",
    "Gres": "gres",
    "CpuSpecList": "cpu_spec_list",
}


def _node_items(view: View) -> Items:
    entry = seen_by_slurm(view)
    if isinstance(entry, Unread):
        return {"": entry}
    if isinstance(entry, dict):
        return {shown: entry.get(key, MISSING) for shown, key in KEYS.items()}
    return unread_at_controller(view)


def _node_expected(view: View) -> dict[str, JsonValue]:
    if view.plan.role is not Role.WORKER or seen_by_slurm(view) is None:
        return {}
    plan = view.plan.hardware.slurm
    return {
        "CPUs": plan.cpus,
        "RealMemory": plan.real_memory_mib,
        "Gres": plan.gres,
        "CpuSpecList": plan.cpu_spec_list,
    }


WORKING = {
    # Base states, then flags: sinfo(1), node state codes.
    "IDLE",
    "MIXED",
    "ALLOCATED",
    "COMPLETING",
    "PLANNED",
    "RESERVED",
    "BLOCKED",  # kept free for a job that asked for a whole part of the topology
    "CLOUD",
    "DYNAMIC_NORM",
}
SILENT_STATES = {"DOWN", "NOT_RESPONDING", "UNKNOWN"}
OUR_MARK = "lockstep:"

SILENT, MEMORY, CPUS, GPUS, OURS = "silent", "memory", "cpus", "gpus", "ours"
OUR_FAMILIES = ("gpu.*", "rdma.*", "driver.*", "hugepages")
"""Rules by which a node drains itself (Rule.on_node), by pattern."""
REASONS = {
    # How Slurm's own reasons begin (slurmctld, node_mgr.c and ping_nodes.c) -> tag.
    "Not responding": SILENT,
    "Node unexpectedly rebooted": SILENT,
    "Low RealMemory": MEMORY,
    "Low socket*core*thread count": CPUS,
    "Low CPUs": CPUS,
    "gres/gpu count": GPUS,
    OUR_MARK: OURS,
}


def _state_items(view: View) -> Items:
    entry = seen_by_slurm(view)
    if isinstance(entry, Unread):
        return {"": entry}
    if not isinstance(entry, dict):
        return unread_at_controller(view)
    state = entry.get("state")
    if not isinstance(state, list):
        return {"": MISSING}
    if state and WORKING.issuperset(map(str, state)):
        return {"": "takes jobs"}
    reason = entry.get("reason")
    shown = "+".join(map(str, state)) or "no state"
    return {"": shown + (f" ({reason})" if reason else "")}


def _state_tags(view: View, device: str) -> frozenset[str]:
    """Return tags for a reason of Slurm or of Lockstep's health check; none for a person's."""
    entry = seen_by_slurm(view)
    if not isinstance(entry, dict):
        return frozenset()
    listed = entry.get("state")
    states = set(map(str, listed)) if isinstance(listed, list) else set[str]()
    reason = str(entry.get("reason") or "")
    if not reason:
        bare = states - WORKING
        return frozenset({SILENT}) if bare and bare <= SILENT_STATES else frozenset()
    # Slurm can give several reasons: "Low socket*core*thread count, Low CPUs".
    parts = [reason] if reason.startswith(OUR_MARK) else reason.split(", ")
    found = set()
    for part in parts:
        known = [tag for start, tag in REASONS.items() if part.startswith(start)]
        if not known:
            return frozenset()
        found.update(known)
    if SILENT in found and not states & SILENT_STATES:
        found.remove(SILENT)
    return frozenset(found)


def _whose(view: View, device: str) -> str:
    entry = seen_by_slurm(view)
    reason: JsonValue = entry.get("reason") if isinstance(entry, dict) else ""
    return "set by Lockstep's own health check" if str(reason).startswith(OUR_MARK) else ""


RULES = (
    Rule(
        id="slurm.conf",
        claim="Every slurmd uses the controller's planned slurm.conf.",
        why=(
            "A slurmd with an old configuration disagrees with the controller about nodes and "
            "limits."
        ),
        blind=(
            "gres.conf and cgroup.conf, which slurmd fetches too: slurm.node judges their effect."
        ),
        source="slurm.conf(5), configless",
        reading="slurm.conf_sha256",
        expected=same(_conf_expected),
        text=Text(lambda value: f"slurm.conf (sha256 {str(value)[:12]})"),
        repair=by_role(
            "slurm_worker",
            f"{DEPLOY}; where the controller itself has another one: scontrol reconfigure there",
        ),
        # file.content judges a worker with files of its own.
        applies=lambda view: (
            view.plan.spec.scheduler is not None
            and view.plan.role is Role.WORKER
            and view.plan.cluster.configless
        ),
        explained_by=(
            Cause("file.content", device=FILE, at=CONTROLLER),
            Cause("unit.active", device="slurmd.service"),
        ),
    ),
    Rule(
        id="slurm.container_image",
        claim="srun has the option --container-image.",
        why=(
            "Without it a node runs a command outside of its container, without a message, if "
            "srun on another node has the option."
        ),
        blind="Whether a container starts: the rule does not run enroot and its hooks.",
        source="srun(1); spank(8)",
        reading="slurm.srun_options",
        expected=same(True),
        repair=by_role(
            "pyxis",
            "on {node}: systemctl restart slurmd, which fetches plugstack.conf, then deploy",
        ),
        applies=has_pyxis,
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
        claim="Slurm knows each worker as the plan describes it.",
        why=(
            "Part of a node that Slurm thinks smaller stays idle. Jobs fail on one that it "
            "thinks larger."
        ),
        blind="Changes that the controller reads only at its next start.",
        source="scontrol(1), show node",
        reading="slurm.nodes",
        look=Look(_node_items),
        expected=each(_node_expected),
        repair=by_role(
            "slurm_controller",
            "pyinfra -y {inventory} deploys/head.py, then scontrol reconfigure on the controller",
        ),
        applies=concerned,
        explained_by=(
            *not_asked("slurm.node"),
            Cause("file.content", device="/etc/slurm/slurm.conf", at=CONTROLLER),
            Cause("file.content", device="/etc/slurm/gres.conf", at=CONTROLLER),
        ),
    ),
    Rule(
        id="slurm.pyxis",
        claim="The pyxis plugin was built for the planned Slurm.",
        why=(
            "Slurm loads SPANK plugins of its own series only. Without a required plugin a "
            "worker fails each job."
        ),
        blind="Whether Slurm itself is of that series: package.version judges that.",
        source="slurm/spank.h, plugin_version; Slurm, src/common/plugin.c",
        reading="slurm.spank_plugins",
        expected=same(lambda view: view.plan.job_containers.slurm_series),
        text=Text(lambda value: f"for Slurm {value}"),
        repair=by_role("pyxis"),
        applies=has_pyxis,
        on_node=OnNode(Local.HEALTH),
        explained_by=(Cause("package.present", device=PYXIS_PACKAGE, of=UNREAD),),
    ),
    Rule(
        id="slurm.state",
        claim="Slurm gives jobs to each worker.",
        why="A drained node costs as much as a working one.",
        blind=(
            "A node that takes jobs and ruins them. A partition that a person set down. A "
            "state with a known cause is part of that cause's finding: a stopped slurmd, "
            "missing GPUs or CPUs, or Lockstep's own drain. Drains by a person, and by Slurm "
            "for other reasons (Kill task failed, Prolog error, Epilog error), are always "
            "reported."
        ),
        source="scontrol(1), show node; sinfo(1), node state codes",
        reading="slurm.nodes",
        look=Look(_state_items),
        expected=same("takes jobs"),
        text=Text(detail=_whose),
        repair=by_hand(
            "remove the cause that Slurm names, then: scontrol update NodeName={node} State=RESUME"
        ),
        tags=_state_tags,
        applies=concerned,
        explained_by=(
            *not_asked("slurm.state"),
            Cause("slurm.conf", of=Effect(tag=SILENT)),
            Cause("unit.active", device="slurmd.service", of=Effect(tag=SILENT)),
            Cause("unit.active", device="munge.service", of=Effect(tag=SILENT)),
            Cause("munge.*", of=Effect(tag=SILENT)),  # and what explains those, such as the clock
            Cause("os.hostname", of=Effect(tag=SILENT)),
            Cause("gpu.count", of=Effect(tag=SILENT)),
            Cause("gpu.count", of=Effect(tag=GPUS)),
            *(Cause(family, of=Effect(tag=OURS)) for family in OUR_FAMILIES),
            Cause("memory.at_least", of=Effect(tag=OURS)),
            Cause("slurm.pyxis", of=Effect(tag=OURS)),
            Cause("slurm.container_image", of=Effect(tag=OURS)),
            Cause("cpu.count", of=Effect(tag=CPUS)),
            Cause("memory.at_least", of=Effect(tag=MEMORY)),
            *(Cause("slurm.node", of=Effect(tag=tag)) for tag in (GPUS, CPUS, MEMORY)),
        ),
    ),
)
