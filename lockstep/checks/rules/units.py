"""Rules about systemd units, cron jobs, limits and listeners."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import CONTROLLER, SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    DEPLOY,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    each,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._driver import DRIVER, FABRIC_MANAGER
from lockstep.checks.rules._peers import only_difference, size, whole, worker
from lockstep.plan import nvidia, owners
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.probe.record import Unread
from lockstep.spec import Role


def not_planned(view: View, reading: str) -> Items:
    """Return the units of a list that are not in the plan."""
    units = view.read(reading)
    if not isinstance(units, list):
        return {"": units}
    plan = view.plan
    planned = {*plan.units, *plan.masked_units, *plan.forbidden_units}
    return {"": [unit for unit in units if unit not in planned]}


SLURMD = "slurmd.service"


def _wanted(view: View) -> str:
    memlock = view.plan.spec.os.memlock
    return "unlimited" if memlock == "unlimited" else str(memlock * 1024)


def _memlock_items(view: View) -> Items:
    found = view.items("limits.memlock")
    if SLURMD not in found:
        return found if "" in found else {}
    limit = found[SLURMD]
    if isinstance(limit, Unread) or not isinstance(limit, dict):
        return {SLURMD: limit}
    soft, hard = limit.get("soft"), limit.get("hard")
    return {SLURMD: soft if soft == hard else f"{soft} (at most {hard})"}


def _applies(view: View) -> bool:
    # A container's limit cannot be above that of its host.
    return own_kernel(view) and view.plan.role is Role.WORKER and SLURMD in view.plan.units


def _open_files_items(view: View) -> Items:
    limits = view.items("limits.open_files")
    return {unit: value for unit, value in limits.items() if unit in (*view.plan.job_parents, "")}


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
}
CLOSED_BY_ITSELF = "ssh.service"
"""No unit of the plan: without it the node cannot be read at all."""


def _units(view: View) -> dict[str, str]:
    return {f"{one.protocol}/{one.port}": one.unit for one in view.plan.listeners}


def _reached_by(view: View) -> tuple[str, ...]:
    """Return the addresses of sockets that accept the management address."""
    # A socket on :: takes IPv4 as well, unless IPV6_V6ONLY is set (ipv6(7)).
    every = ("::",) if view.plan.address_family == "ipv6" else ("0.0.0.0", "::")
    return (*every, view.plan.address)


def _family_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(_units(view), " or ".join(_reached_by(view)))


def _family_items(view: View) -> Items:
    items: Items = {}
    for port, found in view.items("listeners").items():
        if isinstance(found, Unread):
            items[port] = found
            continue
        addresses = [str(address) for address in found] if isinstance(found, list) else []
        reached = not set(_reached_by(view)).isdisjoint(addresses)
        here = ", ".join(addresses) or "not listening"
        items[port] = _family_expected(view).get(port) if reached else here
    return items


OF_DRIVER = (nvidia.FABRIC_MANAGER, nvidia.PERSISTENCED, nvidia.DCGM, nvidia.DCGM_EXPORTER)


def _active_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.units, "active")


def _active_state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    if entry["active"] == "active":
        return "active"
    if entry["load"] in ("not-found", "masked"):
        return f"{entry['active']} (unit {str(entry['load']).replace('-', ' ')})"
    return f"{entry['active']} ({entry['sub']})"


ENABLED_STARTS = ("enabled", "static", "alias", "generated", "indirect")


def _enabled_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.units, "enabled")


def _enabled_state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    return "enabled" if entry["enabled"] in ENABLED_STARTS else entry["enabled"] or "no unit file"


def _failed_items(view: View) -> Items:
    failed = not_planned(view, "units.failed")[""]
    return {str(unit): "failed" for unit in failed} if isinstance(failed, list) else {"": failed}


CDI_UNIT = f"{CDI_REFRESH}.service"
"""It uses nvidia-smi's library, so it fails if library and module do not match."""


OFF = "stopped and disabled"
RUNS = ("active", "activating", "reloading")
FORBIDDEN_STARTS = ("enabled", "enabled-runtime")


def _forbidden_state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
    if entry["active"] not in RUNS and entry["enabled"] not in FORBIDDEN_STARTS:
        return OFF
    return f"{entry['active']} ({entry['sub']}), {entry['enabled'] or 'no unit file'}"


def _masked_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.masked_units, "masked")


def _masked_state(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict):
        return entry
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
"""Lists of workers that are compared with their peers."""

RULES = (
    _compared(
        id="cron.jobs",
        claim="Workers of a hardware class have the same cron jobs.",
        why="A cron job on one node runs in the middle of a step that all nodes take together.",
        blind="The minute and hour of a job, which packages choose at random.",
        source="cron(8), crontab(5)",
        reading="cron.jobs",
        look=Look(whole("cron.jobs")),
        repair=by_hand("on {node}: compare these files with those of a peer"),
    ),
    Rule(
        id="limits.memlock",
        claim="slurmd, and with it every job, may lock the declared amount of memory.",
        why="RDMA registers memory. With a lower limit MPI falls back to slow paths or ends.",
        blind=(
            "Limits that a submitting shell passes on with a job (PropagateResourceLimits of "
            "slurm.conf). Containers, which have the limit of their host."
        ),
        source="systemd-system.conf(5), DefaultLimitMEMLOCK=; proc_pid_limits(5)",
        reading="limits.memlock",
        look=Look(_memlock_items),
        expected=each(lambda view: {SLURMD: _wanted(view)}),
        text=Text(lambda value: f"{value} bytes" if str(value).isdigit() else str(value)),
        repair=by_role(
            "os_settings", f"{DEPLOY}; then, when {{node}} is idle: systemctl restart slurmd"
        ),
        applies=_applies,
        explained_by=(
            Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
            Cause("unit.active", device=SLURMD, of=UNREAD),
        ),
    ),
    Rule(
        id="limits.open_files",
        claim="Services that start jobs may open the same number of files.",
        why="A job with thousands of connections ends on the node with the lower limit.",
        blind="Limits that a job brings with it.",
        source="systemd.exec(5), LimitNOFILE=; proc_pid_limits(5)",
        reading="limits.open_files",
        look=Look(_open_files_items),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(
            lambda value: f"{value['soft']} of {value['hard']}" if isinstance(value, dict) else ""
        ),
        severity=WARNING,
        repair=by_hand(
            "on {node}: systemctl show -p LimitNOFILE {device}; when it is idle, restart {device}"
        ),
        applies=own_kernel,
        explained_by=(
            Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
            Cause("unit.active", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    Rule(
        id="listener.family",
        claim="Every network service listens on the management network, in its address family.",
        why=(
            "A daemon that listens on IPv4 only cannot be reached on an IPv6 network, although "
            "it runs."
        ),
        blind="Packet filters. On an IPv4 network, an IPv6-only socket on ::.",
        source="ipv6(7)",
        reading="listeners",
        look=Look(_family_items),
        expected=each(_family_expected),
        text=Text(detail=lambda view, port: f"port of {_units(view)[port]}"),
        repair=by_role(
            "the role of the unit",
            roles=lambda view, port: owners.of_unit(view.plan, _units(view)[port]),
        ),
        tags=lambda view, port: frozenset({_units(view)[port]}),
        explained_by=(
            *(
                Cause("file.content", device=file, of=Effect(tag=unit))
                for unit, files in CONFIGURED_BY.items()
                for file in files
            ),
            *(
                Cause("unit.active", device=unit, of=Effect(tag=unit))
                for unit in CONFIGURED_BY
                if unit != CLOSED_BY_ITSELF
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
        why="A node without slurmd or munge takes no jobs, or loses those it has.",
        blind="A unit that runs and does nothing useful.",
        source="systemctl(1)",
        reading="units",
        look=Look(pick=_active_state),
        expected=each(_active_expected),
        repair=by_role(
            "the role of the unit", roles=lambda view, unit: owners.of_unit(view.plan, unit)
        ),
        explained_by=(
            Cause("package.present", of=Effect(found="(unit not found)")),
            # slurmd does not start without every device file of gres.conf.
            Cause("gpu.count", of=Effect(device="slurmd.service")),
            # It fails if a GPU does not answer, or does not accept a MIG device.
            *(
                Cause(rule, of=Effect(device=nvidia.GPU_SETTINGS))
                for rule in ("gpu.count", "gpu.recovery_action", "gpu.mig_layout")
            ),
            # A fabric manager refuses another driver; without the module nothing works.
            Cause("package.version", tag=FABRIC_MANAGER, of=Effect(device=nvidia.FABRIC_MANAGER)),
            *(Cause("driver.module_version", of=Effect(device=unit)) for unit in OF_DRIVER),
            *(Cause("driver.module_on_disk", of=Effect(device=unit)) for unit in OF_DRIVER),
        ),
    ),
    Rule(
        id="unit.enabled",
        claim="Every planned unit starts at boot.",
        why="A service that is not enabled is missing after the next reboot.",
        blind="A start order that fails only at boot.",
        source="systemctl(1)",
        reading="units",
        look=Look(pick=_enabled_state),
        expected=each(_enabled_expected),
        repair=by_role(
            "the role of the unit", roles=lambda view, unit: owners.of_unit(view.plan, unit)
        ),
        explained_by=(Cause("unit.active", at=SAME_DEVICE),),
    ),
    Rule(
        id="unit.failed",
        claim="No unit failed.",
        why="Jobs need the mounts, timers and daemons of a site as well.",
        blind="Units that fail and are restarted in time. Planned units: unit.active judges those.",
        source="systemctl(1), list-units --state=failed",
        reading="units.failed",
        look=Look(_failed_items),
        expected=same("not failed"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: systemctl status {device}; repair it, then systemctl reset-failed {device}"
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
        claim="Units for hardware that a node does not have are stopped and disabled.",
        why=(
            "A fabric manager without NVSwitches fails at every boot. If it runs, the "
            "description or the machine is wrong."
        ),
        blind="The same program started by hand.",
        source="NVIDIA fabric manager user guide; IMEX guide",
        reading="units",
        look=Look(pick=_forbidden_state),
        expected=each(lambda view: dict.fromkeys(view.plan.forbidden_units, OFF)),
        repair=by_role("nvidia_driver"),
        applies=lambda view: bool(view.plan.forbidden_units),
    ),
    Rule(
        id="unit.masked",
        claim="Units that would change the node by themselves are masked.",
        why=(
            "An unattended upgrade breaks the version lock on some nodes only. irqbalance "
            "moves interrupts to the CPUs of jobs."
        ),
        blind="Other ways to start an upgrade: a person, cron, a management agent.",
        source="apt.systemd.daily(8)",
        reading="units",
        look=Look(pick=_masked_state),
        expected=each(_masked_expected),
        repair=by_role("os_settings"),
        applies=lambda view: bool(view.plan.masked_units),
    ),
    _compared(
        id="unit.peers",
        claim="The same units are enabled on all workers of a hardware class.",
        why="An extra timer or daemon on one node takes CPU time from the jobs there.",
        blind=(
            "Units that the system enables by itself. Programs without a unit. Planned units: "
            "unit.enabled judges those."
        ),
        source="systemd.unit(5), [Install]",
        reading="units.enabled",
        look=Look(lambda view: not_planned(view, "units.enabled")),
        repair=by_hand(
            "on {node}: systemctl disable --now the extra units, enable the missing ones"
        ),
    ),
)
