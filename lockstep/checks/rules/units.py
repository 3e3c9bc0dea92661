"""Rules about systemd units, cron jobs, limits and listeners."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.catalog.os import of_debian
from lockstep.checks.context import Items, View
from lockstep.checks.looks import of_map, where, whole
from lockstep.checks.peer_settings import only_difference, size, worker
from lockstep.checks.rule import (
    CONTROLLER,
    DEPLOY,
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules.boot import own_kernel
from lockstep.checks.rules.driver import DRIVER, FABRIC_MANAGER
from lockstep.plan import nvidia, owners
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.probe.record import Unread
from lockstep.spec import NodeRole


def _not_planned(view: View, units: JsonValue) -> JsonValue:
    plan = view.plan
    masked = plan.system.masked_units if plan.manages("os_settings") else ()
    planned = {*plan.system.units, *masked, *plan.system.forbidden_units}
    return [unit for unit in units if unit not in planned] if isinstance(units, list) else units


SLURMD = "slurmd.service"


def _wanted(view: View) -> str:
    memlock = view.plan.spec.os.memlock
    return "unlimited" if memlock == "unlimited" else str(memlock * 1024)


def _limit(limit: dict[str, JsonValue]) -> JsonValue:
    soft, hard = limit.get("soft"), limit.get("hard")
    return soft if soft == hard else f"{soft} (at most {hard})"


CONFIGURED_BY = {
    # Unit -> files with its listen address.
    "ssh.service": (),
    "chrony.service": ("/etc/chrony/chrony.conf", "/etc/default/chrony"),
    "prometheus-node-exporter.service": ("/etc/default/prometheus-node-exporter",),
    "nvidia-dcgm-exporter.service": (
        "/etc/systemd/system/nvidia-dcgm-exporter.service.d/50-lockstep.conf",
    ),
    "prometheus.service": ("/etc/default/prometheus",),
    "slurmdbd.service": ("/etc/slurm/slurmdbd.conf",),
    "slurmctld.service": ("/etc/slurm/slurm.conf",),
    "slurmd.service": ("/etc/slurm/slurm.conf", "/etc/default/slurmd"),
    "kubelet.service": ("/etc/default/kubelet",),
}


def _units(view: View) -> dict[str, str]:
    return {f"{one.protocol}/{one.port}": one.unit for one in view.plan.system.listeners}


def _reached_by(view: View) -> tuple[str, ...]:
    """Return the listen addresses at which a service is reachable from the management network."""
    # A socket on :: accepts IPv4 as well, unless IPV6_V6ONLY is set (ipv6(7)).
    every = ("::",) if view.plan.address_family == "ipv6" else ("0.0.0.0", "::")
    return (*every, view.plan.address)


def _family_items(view: View) -> Items:
    planned, reaching = _units(view), _reached_by(view)
    items: Items = {}
    for port, found in view.items("listeners").items():
        addresses = [str(address) for address in found] if isinstance(found, list) else []
        reached = port in planned and not set(reaching).isdisjoint(addresses)
        here = " or ".join(reaching) if reached else ", ".join(addresses)
        items[port] = found if isinstance(found, Unread) else here or "not listening"
    return items


OF_DRIVER = (nvidia.FABRIC_MANAGER, nvidia.PERSISTENCED, nvidia.DCGM, nvidia.DCGM_EXPORTER)


def _active_state(entry: dict[str, JsonValue]) -> JsonValue:
    if entry["active"] == "active":
        return "active"
    if entry["load"] in ("not-found", "masked"):
        return f"{entry['active']} (unit {str(entry['load']).replace('-', ' ')})"
    return f"{entry['active']} ({entry['sub']})"


ENABLED_STARTS = ("enabled", "static", "alias", "generated", "indirect")


def _failed_items(view: View) -> Items:
    failed = whole("units.failed", _not_planned)(view)[""]
    return {str(unit): "failed" for unit in failed} if isinstance(failed, list) else {"": failed}


CDI_UNIT = f"{CDI_REFRESH}.service"
"""This unit uses the NVML library, which fails if the kernel module has a different version."""


OFF = "stopped and disabled"
RUNS = ("active", "activating", "reloading")
FORBIDDEN_STARTS = ("enabled", "enabled-runtime")


def _forbidden_state(entry: dict[str, JsonValue]) -> JsonValue:
    if entry["active"] not in RUNS and entry["enabled"] not in FORBIDDEN_STARTS:
        return OFF
    return f"{entry['active']} ({entry['sub']}), {entry['enabled'] or 'no unit file'}"


def _masked_state(entry: dict[str, JsonValue]) -> JsonValue:
    if entry["load"] == "masked":
        return "masked"
    if entry["enabled"] == "masked":
        return "masked on disk only (no daemon-reload yet)"
    return entry["enabled"] or entry["load"]


_compared = partial(
    Rule,
    peers=Peers.CLASS,
    text=Text(size, words=only_difference),
    severity=WARNING,
    applies=worker,
)
"""A rule that compares a list on a worker with the same list on its peers."""

RULES = (
    _compared(
        id="cron.jobs",
        claim="Workers of a hardware class have the same cron jobs.",
        why="While a cron job runs on one node, the other nodes of a parallel job wait.",
        blind="The minute and hour of a cron job, which some packages choose at random.",
        source="cron(8), crontab(5)",
        reading="cron.jobs",
        look=Look(whole("cron.jobs")),
        repair=by_hand("on {node}: compare the cron files with those of a peer"),
    ),
    Rule(
        id="limits.memlock",
        claim="slurmd, and therefore every job, may lock the declared amount of memory.",
        why="RDMA locks memory. With a lower limit, MPI falls back to slow paths or fails.",
        blind=(
            "Limits of the shell that submits a job (PropagateResourceLimits in slurm.conf). Nodes "
            "that are containers, which share their host's limit."
        ),
        source="systemd-system.conf(5), DefaultLimitMEMLOCK=; proc_pid_limits(5)",
        reading="limits.memlock",
        look=Look(where("limits.memlock", lambda view: (SLURMD,)), pick=of_map(_limit)),
        expected=each(lambda view: {SLURMD: _wanted(view)}),
        text=Text(lambda value: f"{value} bytes" if str(value).isdigit() else str(value)),
        repair=by_role(
            "os_settings",
            f"{DEPLOY}; then, when {{node}} is idle, run systemctl restart slurmd on it",
        ),
        # A container's limit cannot be above that of its host.
        applies=lambda view: (
            own_kernel(view)
            and view.plan.role is NodeRole.WORKER
            and SLURMD in view.plan.system.units
        ),
        explained_by=(
            Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
            Cause("unit.active", device=SLURMD, of=UNREAD),
        ),
    ),
    Rule(
        id="limits.open_files",
        claim=(
            "Services that start jobs have the same open-file limit on all nodes of a hardware "
            "class."
        ),
        why="A job with thousands of connections fails on the node with the lower limit.",
        blind="Limits that a job sets itself.",
        source="systemd.exec(5), LimitNOFILE=; proc_pid_limits(5)",
        reading="limits.open_files",
        look=Look(where("limits.open_files", lambda view: view.plan.system.job_parents)),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(
            lambda value: (
                f"{value['soft']} (at most {value['hard']})" if isinstance(value, dict) else ""
            )
        ),
        severity=WARNING,
        repair=by_hand(
            "on {node}: check systemctl show -p LimitNOFILE {device}; when the node is idle, "
            "restart {device}"
        ),
        applies=own_kernel,
        explained_by=(
            Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
            Cause("unit.active", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    Rule(
        id="listener.family",
        claim=(
            "Every network service listens on the management network, using that network's address "
            "family."
        ),
        why=(
            "On an IPv6 network, no node can reach a daemon that listens only on IPv4, even though "
            "the daemon is running."
        ),
        blind="Packet filters. On an IPv4 network, a socket on :: that accepts only IPv6.",
        source="ipv6(7)",
        reading="listeners",
        look=Look(_family_items),
        expected=each(lambda view: dict.fromkeys(_units(view), " or ".join(_reached_by(view)))),
        text=Text(detail=lambda view, port: f"port of {_units(view)[port]}"),
        repair=by_role(
            "the role that sets up the unit",
            roles=lambda view, port: owners.of_unit(view.plan, _units(view)[port]),
        ),
        tags=lambda view, port: frozenset({of_debian(_units(view)[port])}),
        explained_by=(
            *(
                Cause("file.content", device=file, of=Effect(tag=unit))
                for unit, files in CONFIGURED_BY.items()
                for file in files
            ),
            *(
                Cause("unit.active", device=unit, of=Effect(tag=unit))
                for unit in CONFIGURED_BY
                # The plan does not contain this unit: without ssh, no node can be read.
                if unit != "ssh.service"
            ),
            Cause(
                "file.content",
                device="/etc/slurm/slurm.conf",
                at=CONTROLLER,
                of=Effect(tag="slurmd.service"),
            ),
            Cause("slurm.conf", of=Effect(tag="slurmd.service")),
        ),
    ),
    Rule(
        id="unit.active",
        claim="Every planned unit is running.",
        why="A node without slurmd or munge accepts no new jobs, or loses its running jobs.",
        blind="A unit that is active but does not work.",
        source="systemctl(1)",
        reading="units",
        look=Look(pick=of_map(_active_state)),
        expected=each(lambda view: dict.fromkeys(view.plan.system.units, "active")),
        repair=by_role(
            "the role that sets up the unit",
            roles=lambda view, unit: owners.of_unit(view.plan, unit),
        ),
        explained_by=(
            Cause("package.present", of=Effect(found="(unit not found)")),
            # slurmd starts only if every device file in gres.conf exists.
            Cause("gpu.count", of=Effect(device="slurmd.service")),
            # This unit fails if a GPU does not answer or rejects a MIG device.
            *(
                Cause(rule, of=Effect(device=nvidia.GPU_SETTINGS))
                for rule in ("gpu.count", "gpu.recovery_action", "gpu.mig_layout")
            ),
            # The fabric manager rejects other driver versions; all four units need the module.
            Cause("package.version", tag=FABRIC_MANAGER, of=Effect(device=nvidia.FABRIC_MANAGER)),
            *(Cause("driver.module_version", of=Effect(device=unit)) for unit in OF_DRIVER),
            *(Cause("driver.module_on_disk", of=Effect(device=unit)) for unit in OF_DRIVER),
        ),
    ),
    Rule(
        id="unit.enabled",
        claim="Every planned unit starts at boot.",
        why="A service that is not enabled does not start after the next reboot.",
        blind="Errors in the startup order, which appear only at boot.",
        source="systemctl(1)",
        reading="units",
        look=Look(
            pick=of_map(
                lambda entry: (
                    "enabled"
                    if entry["enabled"] in ENABLED_STARTS
                    else entry["enabled"] or "no unit file"
                )
            )
        ),
        expected=each(lambda view: dict.fromkeys(view.plan.system.units, "enabled")),
        repair=by_role(
            "the role that sets up the unit",
            roles=lambda view, unit: owners.of_unit(view.plan, unit),
        ),
        explained_by=(Cause("unit.active", at=SAME_DEVICE),),
    ),
    Rule(
        id="unit.failed",
        claim="No unit has failed.",
        why="Jobs also need site-specific mounts, timers and daemons, which are not in the plan.",
        blind=(
            "Units that failed and were restarted before the check. Planned units, which "
            "unit.active checks."
        ),
        source="systemctl(1), list-units --state=failed",
        reading="units.failed",
        look=Look(_failed_items),
        expected=same("not failed"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: run systemctl status {device}, fix the cause, then run systemctl "
            "reset-failed {device}"
        ),
        explained_by=(
            Cause("package.version", tag=DRIVER, of=Effect(device=CDI_UNIT)),
            *(
                Cause(rule, of=Effect(device=CDI_UNIT))
                for rule in ("driver.module_version", "driver.library_version", "gpu.count")
            ),
        ),
    ),
    Rule(
        id="unit.forbidden",
        claim="Units for missing hardware or a disabled feature are stopped and disabled.",
        why=(
            "On a machine without NVSwitches, the fabric manager fails at every boot. If it is "
            "running, the description or the machine is wrong."
        ),
        blind="The unit's program, if someone started it by hand.",
        source="NVIDIA fabric manager user guide; IMEX guide",
        reading="units",
        look=Look(pick=of_map(_forbidden_state)),
        expected=each(lambda view: dict.fromkeys(view.plan.system.forbidden_units, OFF)),
        repair=by_role("nvidia_driver"),
        applies=lambda view: bool(view.plan.system.forbidden_units),
    ),
    Rule(
        id="unit.masked",
        claim="Units that would change the node on their own are masked.",
        why=(
            "An unattended upgrade changes locked versions on some nodes only. irqbalance moves "
            "interrupts to the CPUs of jobs."
        ),
        blind="Upgrades that a person, cron or a management agent starts.",
        source="apt.systemd.daily(8)",
        reading="units",
        look=Look(pick=of_map(_masked_state)),
        expected=each(lambda view: dict.fromkeys(view.plan.system.masked_units, "masked")),
        repair=by_role("os_settings"),
        applies=lambda view: bool(view.plan.system.masked_units),
    ),
    _compared(
        id="unit.peers",
        claim="The same units are enabled on all workers of a hardware class.",
        why="An extra timer or daemon on one node takes CPU time from the jobs there.",
        blind=(
            "Units that are enabled in /run or /usr/lib. Programs without a unit. Planned units, "
            "which unit.enabled checks."
        ),
        source="systemd.unit(5), [Install]",
        reading="units.enabled",
        look=Look(whole("units.enabled", _not_planned)),
        repair=by_hand(
            "on {node}: disable the extra units (systemctl disable --now), and enable the missing "
            "units"
        ),
    ),
)
