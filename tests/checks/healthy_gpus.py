"""Readings of healthy GPUs of each model, busy and idle."""

from __future__ import annotations

from random import Random
from typing import Any

from lockstep.catalog import gpus as catalogue
from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.nvidia.compatibility import branch
from lockstep.catalog.nvidia.xid import XIDS
from lockstep.node.readers.gpu_nvlink import NVLINK_ERRORS
from lockstep.node.readers.reading import NOT_AVAILABLE, NOT_SUPPORTED
from lockstep.plan import NodePlan
from lockstep.spec import NodeRole
from tests.checks.recorded_gpus import names

LACKS = NOT_SUPPORTED
OLD = ("volta", "turing")
"""Architectures without row remapping and GSP."""
HARMLESS = tuple(number for number, xid in XIDS.items() if xid.severity == "none")
YOUNG = 580
LATE = (
    *("gpu.recovery_action", "gpu.fabric", "gpu.gsp", "gpu.addressing", "gpu.ecc.sram_threshold"),
    *("gpu.slowdown.", "gpu.temperature", "gpu.memory.protected", "gpu.inforom.checksum"),
)
"""Fields that came to nvidia-smi one by one."""
MEMORY_MHZ = 3201
MODULES = ("NVIDIA GB200", "NVIDIA GB300")
"""Models of which two GPUs share a module and its serial number."""


def real(node: NodePlan) -> GpuModel:
    """Return the model that the node has, also if the description only has its name."""
    gpu = node.gpu
    assert gpu is not None
    return catalogue.load(catalogue.named(gpu.values.product_name) or "h200")


def usual_w(model: GpuModel) -> float:
    """Return the default power limit of a model."""
    return model.default_power_limit_w or 350.0


def own(node: NodePlan, raw: dict[str, Any], at_work: bool, chance: Random) -> dict[str, Any]:
    """Return the readings of a worker's GPUs; those of a worker without any are unread."""
    if node.gpu is None:
        asked = [name for name in raw["readings"] if name.startswith("gpu.")]
        unread = {"unread": "nvidia-smi: not installed"}
        return dict.fromkeys(asked, unread) if node.role is NodeRole.WORKER else {}
    gpus = names(node)
    fitting = {
        name: {gpu: value for gpu, value in entry["value"].items() if gpu in gpus}
        for name, entry in raw["readings"].items()
        if isinstance(entry.get("value"), dict) and "gpu0" in entry["value"]
    }
    each = {**_model(node), **_settings(node)}
    rows = {gpu: _moment(node, at_work, chance) for gpu in gpus}
    uuids = [row["gpu.uuid"] for row in rows.values()]
    if real(node).product_name in MODULES:
        for first, second in zip(gpus[::2], gpus[1::2], strict=False):
            rows[second]["gpu.serial"] = rows[first]["gpu.serial"]
    moment = {name: {gpu: row[name] for gpu, row in rows.items()} for name in rows["gpu0"]}
    return {
        **fitting,
        **{name: dict.fromkeys(gpus, value) for name, value in each.items()},
        **moment,
        **{reading: value for reading in (*fitting, *moment) if (value := _older(node, reading))},
        **_divided(node),
        **_without_links(node),
        **_node(node, raw["readings"], chance),
        "driver.boards": {f"195:{minor}": uuid for minor, uuid in enumerate(uuids)},
    }


def _model(node: NodePlan) -> dict[str, Any]:
    """Return what follows from the model of the GPUs."""
    gpu, model = node.gpu, real(node)
    assert gpu is not None
    linked = gpu.nvswitch or gpu.multi_node_nvlink
    links, _, speed = model.nvlinks.partition(" x ") if linked else ("0", "", "")
    least, most = model.power_limits_w or (usual_w(model),) * 2
    told = linked and model.architecture != "ampere"
    return {
        "gpu.name": model.product_name,
        "gpu.memory.total_mib": model.memory_mib or 40960,
        "gpu.power.default_w": usual_w(model),
        "gpu.power.min_w": least,
        "gpu.power.max_w": most,
        "gpu.clocks.max_sm_mhz": model.max_sm_clock_mhz or 1980,
        **({} if gpu.in_sysfs else {"gpu.pcie.width_current": 8}),  # as clouds have it
        **{f"gpu.nvlink.{kind}": NOT_SUPPORTED for kind in _uncounted(model.architecture or "")},
        "gpu.fabric.state": "Completed" if told else LACKS,
        "gpu.fabric.status": "Success" if told else LACKS,
        "gpu.nvlink.links": {str(link): speed for link in range(int(links))},
        **(
            {}
            if model.mig_profiles != ()
            else {f"gpu.mig.{when}": LACKS for when in ("current", "pending")}
        ),
        **(_without_rows() if model.architecture in OLD else {}),
    }


def _uncounted(architecture: str) -> tuple[str, ...]:
    """Return the kinds of NVLink errors that an architecture does not count."""
    return ("replay", "crc") if architecture == "blackwell" else ("packet", "symbol")


def _without_links(node: NodePlan) -> dict[str, Any]:
    """Return what nvidia-smi of 535 to 555 says of GPUs without NVLinks: nothing."""
    gpu = node.gpu
    assert gpu is not None
    if (
        gpu.nvswitch
        or gpu.multi_node_nvlink
        or node.nvidia is None
        or branch(node.nvidia.spec.driver) >= YOUNG
    ):
        return {}
    why = {"unread": f"{NOT_AVAILABLE}: nvidia-smi nvlink -e printed no counters"}
    return {"gpu.nvlink.links": {}, **{f"gpu.nvlink.{kind}": why for kind in NVLINK_ERRORS}}


def _without_rows() -> dict[str, Any]:
    optional = (
        "remapped.pending",
        "remapped.failure",
        "remapped.uncorrectable",
        "remapped.banks_without_spare",
        "gsp.current",
        "gsp.default",
    )
    return {
        **{f"gpu.{name}": NOT_SUPPORTED for name in optional},
    }


def _settings(node: NodePlan) -> dict[str, Any]:
    """Return what the description sets."""
    gpu, model = node.gpu, real(node)
    assert gpu is not None
    limit = gpu.power_limit_w or usual_w(model)
    on = gpu.ecc_wanted is not False
    ecc = "Enabled" if on else "Disabled"
    can_ecc = on or model.architecture != "ada"
    uncounted = ("ecc.corrected_volatile", "ecc.uncorrected_aggregate", "ecc.sram_threshold")
    return {
        **{f"gpu.power.{name}_w": limit for name in ("enforced", "requested", "limit")},
        "gpu.ecc.current": ecc if can_ecc else NOT_SUPPORTED,
        "gpu.ecc.pending": ecc if can_ecc else NOT_SUPPORTED,
        "gpu.persistence": "Disabled" if node.gpu_persistence is False else "Enabled",
        "gpu.compute_mode": gpu.compute_mode.title(),
        "gpu.driver_version": node.nvidia.spec.driver if node.nvidia else "590.48.01",
        **({} if on else {f"gpu.{name}": NOT_SUPPORTED for name in uncounted}),
        **({} if on else {"gpu.ecc.uncorrected_volatile": LACKS}),
    }


def _moment(node: NodePlan, at_work: bool, chance: Random) -> dict[str, Any]:
    """Return what one GPU does just now, what it counted, and what is its own."""
    gpu, model = node.gpu, real(node)
    assert gpu is not None
    busy = at_work and chance.random() < 0.8
    low, high = gpu.clocks_mhz or (345, model.max_sm_clock_mhz or 1980)
    slow = not busy and model.architecture in ("ada", "volta")
    return {
        "gpu.uuid": f"GPU-{chance.randrange(1 << 128):032x}",
        "gpu.serial": str(chance.randrange(10**13)),
        "gpu.utilization": chance.randint(0, 100) if busy else 0,
        "gpu.memory.used_mib": chance.randint(400, 30000) if busy else chance.randint(0, 255),
        "gpu.clocks.sm_mhz": chance.randint(low, high) if busy else low,
        "gpu.temperature.margin_c": chance.randint(5 if busy else 30, 70),
        "gpu.slowdown.active": chance.choice((0, 4)) if busy else 1,
        "gpu.pstate": "P8" if slow else "P0",
        # A T4 runs its memory at 5000 of 5001 MHz.
        "gpu.clocks.memory_mhz": 405 if slow else MEMORY_MHZ - (model.architecture == "turing"),
        "gpu.pcie.generation": 1 if slow else 5,
        "gpu.slowdown.power_cap_us": chance.randrange(10**9),
    }


def _older(node: NodePlan, reading: str) -> dict[str, str] | None:
    """Return that a driver of an older branch does not have a field."""
    old = node.nvidia is not None and branch(node.nvidia.spec.driver) < YOUNG
    if not old or not reading.startswith(LATE):
        return None
    return {"unread": f"{NOT_AVAILABLE}: {reading}"}


def _divided(node: NodePlan) -> dict[str, Any]:
    """Return what GPUs do not tell while they are divided (captures/nvidia_smi/h200-mig.csv)."""
    gpu = node.gpu
    assert gpu is not None
    if not gpu.mig:
        return {}
    return {
        "gpu.utilization": dict.fromkeys(names(node), LACKS),
        **{
            f"gpu.remapped.{name}": dict.fromkeys(names(node), NOT_SUPPORTED)
            for name in ("pending", "failure")
        },
    }


def _node(node: NodePlan, raw: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return what the node says of all its GPUs together."""
    gpu, gpus = node.gpu, names(node)
    assert gpu is not None
    way = "NV18" if gpu.nvswitch or gpu.multi_node_nvlink else "SYS"
    adapters = [f"mlx5_{index}" for index in range(node.hardware.hardware.nics.count)]
    return {
        "gpu.count": gpu.count,
        "gpu.device_files": list(node.hardware.gpu_devices),
        "gpu.answered_in_s": chance.uniform(0.05, 1.9),
        "gpu.topology": {
            **{f"{a} {b}": way for a in gpus for b in gpus if a < b},
            **{f"{a} {b}": "NODE" for a in gpus for b in adapters},
        },
        **({} if gpu.in_sysfs else {name: {} for name in raw if name.startswith("gpu.pci.")}),
        "driver.xid": {"0000:1b:00": chance.choices(HARMLESS, k=2)}
        if chance.random() < 0.3
        else {},
    }
