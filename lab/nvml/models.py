"""Values of a healthy idle GPU of each model that the lab simulates.

``initial("h200", slot=0, seed="worker1")`` returns one section of the state file that the simulated
NVML reads. Keys are nvidia-smi's names of ``--query-gpu`` fields, values are what nvidia-smi prints
without the unit. A key that is absent is not supported by the model. Keys that no field of
``--query-gpu`` has:

=================================== ==============================================================
key                                 value
=================================== ==============================================================
``architecture``                    NVML's name: volta, turing, ampere, ada, hopper, blackwell
``product_brand``                   as ``-q`` prints it: NVIDIA, Tesla
``product_architecture``            as ``-q`` prints it: Ada Lovelace
``gpu_pdi``, ``board_id``           as ``-q`` prints them, in hex
``minor_number``                    N of /dev/nvidiaN
``board_part_number``,              as ``-q`` prints them
``gpu_part_number``
``gsp.firmware``                    ``driver``: the driver's version. Absent: no GSP
``ecc.mode.default``                Enabled
``virtualization_mode``             None
``cores``                           CUDA cores
``memory.bus_width``                bits
``bar1.total``, ``.used``,          MiB
``.free``
``pcie.replays``,                   counters
``pcie.replay_rollovers``
``sparse_operation_mode``           Enabled, Disabled
``pcie.tx_util``, ``pcie.rx_util``  KB/s
``clocks.supported.memory``         MHz, highest first: ``2619,1593``
``clocks.supported.graphics``       LOWEST-HIGHEST:STEP in MHz, each value rounded down:
                                    ``345-1980:15``, ``120-2062.5:7.5``. At every memory clock that
                                    has no key of its own
``clocks.supported.graphics.MHZ``   the same at the memory clock MHZ
``clocks.max.video``                MHz
``clocks.max_customer_boost.``      MHz
``graphics``
``clocks.locked``                   ``none`` or ``LOWEST,HIGHEST`` of ``-lgc``
``temperature.shutdown``,           absolute thresholds in degrees (models before Ada)
``.slowdown``, ``.max_operating``,
``.memory_max_operating``
``temperature.shutdown_tlimit``     the same as distance to T.Limit (Ada and newer)
and so on
``memory_power.draw.average``       W
``ecc.channel_repair_pending``,     Yes, No
``ecc.tpc_repair_pending``,
``ecc.unrepairable_memory``
``cpu_affinity``, ``numa_affinity`` as ``topo -m`` prints them
``nvlink.version``                  1 to 5
``nvlink.N.speed``                  GB/s as ``nvlink -s`` prints it (``26.562``) or ``<inactive>``
``nvlink.N.replay``, ``.recovery``, error counters of link N
``.crc``
``nvlink.N.effective_errors``,      the same from Blackwell on, instead of replays, recoveries and
``.symbol_errors``,                 CRC errors
``.link_recovery_failed``
``mig.instances``                   ``none`` or the instances
``mig.profiles``                    IDs of the GPU instance profiles in the order of ``-lgip``
``mig.profile.ID``                  ``name=1g.18gb slices=1 instances=7 memory=16384 sm=16 ce=1
                                    dec=1 enc=0 jpeg=1 ofa=0 placements=0,1,2,3,4,5,6 size=1``;
                                    memory in MiB; placements and size in memory slices
=================================== ==============================================================

``fabric.*`` exists on boards with NVSwitches from Hopper on, ``retired_pages.*`` before Ampere,
``remapped_rows.*`` from Ampere on, ``temperature.memory`` only with HBM, ``mig.*`` only where the
catalogue has profiles. The values of one model are in ``hardware/MODEL.ini``, with their sources;
what the catalogue holds already (memory, power, clocks, NVLinks, names of MIG profiles) comes from
there. A model of the catalogue without such a file is not simulated.
"""

from __future__ import annotations

import configparser
import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.nvml.mig import mig_values
from lockstep.catalog import gpus
from lockstep.catalog.gpus import GpuModel

HARDWARE = Path(__file__).parent / "hardware"

# PCI buses of a DGX H200; the order of the modules is assumed to be that of an H100.
BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
MODULES = ("7", "5", "8", "6", "3", "1", "4", "2")
CPU_AFFINITY = ("0-47,96-143", "48-95,144-191")

T_LIMIT_FROM = ("ada", "hopper", "blackwell")
"""Architectures with thresholds as distance to T.Limit (recorded: L40S, H100, B200, RTX 4080)."""
RETIRES_PAGES = ("volta", "turing")
"""Architectures that retire pages; newer ones remap rows (nvidia-smi manual page)."""
NO_GSP = ("volta",)
"""Architectures without GSP (open-gpu-kernel-modules: firmware from Turing on)."""

LOCATIONS = ("device_memory", "dram")
EVENT_REASONS = (
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sync_boost",
)
REASON_COUNTERS = (
    "sw_power_cap",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)


@dataclass(frozen=True)
class Hardware:
    """One file of ``hardware``: values of a model that the catalogue does not hold."""

    values: Mapping[str, str]
    idle_w: float
    """Lowest idle power; the seed adds up to 4 W."""
    tlimit: int
    """Temperature at which the GPU slows down; temperature.gpu.tlimit is the distance to it."""
    hbm: bool
    gpus_per_board: int
    """GPUs with one serial number."""
    nvlinks: str
    """NVLinks of a model without NVSwitches, like ``GpuModel.nvlinks``."""
    slots: tuple[str, ...]
    """PCI bus IDs, if they differ from those of an HGX board."""
    modules: tuple[str, ...]
    absent: tuple[str, ...]
    """Keys that all other models have."""
    mig: Mapping[str, str]


@functools.cache
def hardware(model: str) -> Hardware:
    """Return the values of a model; raises FileNotFoundError for an unknown one."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    with (HARDWARE / f"{model}.ini").open(encoding="utf-8") as file:
        parser.read_file(file)
    board = parser["board"]
    return Hardware(
        values=dict(parser["values"]),
        idle_w=board.getfloat("idle_w", 0.0),
        tlimit=board.getint("tlimit", 0),
        hbm=board.getboolean("hbm", False),
        gpus_per_board=board.getint("gpus_per_board", 1),
        nvlinks=board.get("nvlinks", ""),
        slots=_words(board.get("slots", "")),
        modules=_words(board.get("modules", "")),
        absent=_words(board.get("absent", "")),
        mig=dict(parser["mig"]) if parser.has_section("mig") else {},
    )


def known() -> tuple[str, ...]:
    """Return the names of the models that have values, sorted."""
    return tuple(sorted(path.stem for path in HARDWARE.glob("*.ini")))


def slots(model: str) -> int:
    """Return the highest number of GPUs of a node."""
    return len(hardware(model).slots or BUSES)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def initial(model: str, slot: int, seed: str) -> dict[str, str]:
    """Return keys and values of one healthy idle GPU.

    Args:
        model: a name of ``lockstep.catalog.gpus``.
        slot: position in the node, from 0; it never changes.
        seed: name that determines identities and measured values, usually that of the node.

    Raises:
        ValueError: the model has fewer slots.
    """
    data, catalogue = hardware(model), gpus.load(model)
    values = {
        **_common(),
        **_of_catalogue(catalogue),
        **_features(catalogue, data),
        **_links(catalogue, data),
        **mig_values(catalogue.mig_profiles or (), data.mig),
        **data.values,
        **_identity(data, slot, seed),
        **_measured(catalogue, data, slot, seed),
    }
    return {key: value for key, value in sorted(values.items()) if key not in data.absent}


def _common() -> dict[str, str]:
    """Return the values that all healthy idle GPUs have."""
    return {
        "display_mode": "Enabled",
        "display_attached": "Yes",
        "display_active": "Disabled",
        "persistence_mode": "Enabled",
        "addressing_mode": "None",
        "accounting.mode": "Disabled",
        "accounting.buffer_size": "4000",
        "inforom.checksum_validation": "valid",
        "gpu_recovery_action": "None",
        "reset_status.reset_required": "No",
        "reset_status.drain_and_reset_recommended": "No",
        "virtualization_mode": "None",
        "product_brand": "NVIDIA",
        "power.management": "Enabled",
        "pci.baseClass": "0x3",
        "pci.subClass": "0x2",
        "pcie.replays": "0",
        "pcie.replay_rollovers": "0",
        "pcie.tx_util": "371",
        "pcie.rx_util": "337",
        "pstate": "P0",
        "clocks.locked": "none",
        "clocks_event_reasons.supported": "0x00000000000001FF",
        "clocks_event_reasons.active": "0x0000000000000001",
        "clocks_event_reasons.gpu_idle": "Active",
        **{f"clocks_event_reasons.{reason}": "Not Active" for reason in EVENT_REASONS},
        **{f"clocks_event_reasons_counters.{reason}": "0" for reason in REASON_COUNTERS},
        "compute_mode": "Default",
        **dict.fromkeys(
            ("utilization.gpu", "utilization.memory", "utilization.encoder", "utilization.decoder"),
            "0",
        ),
        "encoder.stats.sessionCount": "0",
        "encoder.stats.averageFps": "0",
        "encoder.stats.averageLatency": "0",
        "memory.used": "0",
        "ecc.mode.default": "Enabled",
        "ecc.mode.current": "Enabled",
        "ecc.mode.pending": "Enabled",
    }


def _of_catalogue(gpu: GpuModel) -> dict[str, str]:
    """Return the values that the catalogue holds; it has the first three of a simulated model."""
    assert gpu.architecture is not None
    assert gpu.memory_mib is not None
    assert gpu.default_power_limit_w is not None
    watts = {
        "power.limit": gpu.default_power_limit_w,
        "enforced.power.limit": gpu.default_power_limit_w,
        "power.default_limit": gpu.default_power_limit_w,
    }
    if gpu.power_limits_w is not None:
        watts["power.min_limit"], watts["power.max_limit"] = gpu.power_limits_w
    clocks = ("clocks.max.graphics", "clocks.max.sm", "clocks.max_customer_boost.graphics")
    highest = gpu.max_sm_clock_mhz
    return {
        "name": gpu.product_name,
        "architecture": gpu.architecture,
        "product_architecture": gpu.architecture.capitalize(),
        "memory.total": str(gpu.memory_mib),
        **{name: f"{value:.2f}" for name, value in watts.items()},
        **({} if highest is None else dict.fromkeys(clocks, str(highest))),
    }


def _features(gpu: GpuModel, data: Hardware) -> dict[str, str]:
    """Return the values of what the model's architecture supports."""
    values = dict(_ecc(gpu.architecture or ""))
    if gpu.architecture in RETIRES_PAGES:
        values |= {
            "retired_pages.single_bit_ecc.count": "0",
            "retired_pages.double_bit.count": "0",
            "retired_pages.pending": "No",
        }
    else:
        values |= {
            "remapped_rows.correctable": "0",
            "remapped_rows.uncorrectable": "0",
            "remapped_rows.pending": "No",
            "remapped_rows.failure": "No",
            **{f"remapped_rows.histogram.{n}": "0" for n in ("high", "partial", "low", "none")},
        }
    if gpu.architecture not in NO_GSP:
        values |= {
            "gsp.mode.current": "Enabled",
            "gsp.mode.default": "Enabled",
            "gsp.firmware": "driver",
            "utilization.jpeg": "0",
            "utilization.ofa": "0",
            **dict.fromkeys((f"protected_memory.{n}" for n in ("total", "used", "free")), "0"),
        }
    if gpu.nvlinks and gpu.architecture in ("hopper", "blackwell"):
        values |= {
            "fabric.state": "Completed",
            "fabric.status": "Success",
            "fabric.cliqueId": "0",
            "fabric.clusterUuid": "00000000-0000-0000-0000-000000000000",
        }
    return values


def _ecc(architecture: str) -> Iterator[tuple[str, str]]:
    """Yield the error counters.

    Recorded -q of a V100, a T4 and newer GPUs: only Volta counts errors per cache; parity and
    SEC-DED errors and their sources are distinguished from Ampere on.
    """
    for scope in ("volatile", "aggregate"):
        for kind in ("corrected", "uncorrected"):
            places = ["sram"]
            if architecture == "volta":
                places = ["register_file", "l1_cache", "l2_cache"]
                places += ["cbu"] if kind == "uncorrected" else []
            for location in (*LOCATIONS, *places, "total"):
                yield f"ecc.errors.{kind}.{scope}.{location}", "0"
    if architecture in RETIRES_PAGES:
        return
    for scope in ("volatile", "aggregate"):
        for check in ("parity", "secded"):
            yield f"ecc.errors.uncorrected.{scope}.sram.{check}", "0"
    yield "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "No"
    for source in ("l2", "sm", "mcu", "pcie", "other"):
        yield f"ecc.errors.uncorrected.aggregate.sram.{source}", "0"


def _links(gpu: GpuModel, data: Hardware) -> dict[str, str]:
    """Return state and counters of the NVLinks."""
    text = gpu.nvlinks or data.nvlinks
    if not text:
        return {}
    count, _, speed = text.removesuffix(" GB/s").partition(" x ")
    counters = (
        ("effective_errors", "symbol_errors", "link_recovery_failed")
        if gpu.architecture == "blackwell"
        else ("replay", "recovery", "crc")
    )
    return {
        f"nvlink.{link}.{key}": value
        for link in range(int(count))
        for key, value in (("speed", speed), *((counter, "0") for counter in counters))
    }


def _identity(data: Hardware, slot: int, seed: str) -> dict[str, str]:
    """Return the values that differ between GPUs of one model and never change."""
    bus_ids = data.slots or tuple(f"00000000:{bus:02X}:00.0" for bus in BUSES)
    if not 0 <= slot < len(bus_ids):
        raise ValueError(f"slot {slot}: expected 0 to {len(bus_ids) - 1}")
    bus_id, module = bus_ids[slot], (data.modules or MODULES)[slot]
    domain, bus, device = bus_id.removesuffix(".0").split(":")
    uuid = _digest(f"{seed}:{slot}")[:32]
    first = slot - slot % data.gpus_per_board
    numa = 0 if slot < 4 else 1
    return {
        "serial": f"165{int(_digest(f'{seed}:{first}')[32:48], 16) % 10**10:010d}",
        "uuid": f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}",
        "pci.bus_id": bus_id,
        "pci.domain": f"0x{domain[-4:]}",
        "pci.bus": f"0x{bus}",
        "pci.device": f"0x{device}",
        "platform.module_id": module,
        "gpu_pdi": "0x" + _digest(f"pdi:{seed}:{slot}")[:16],
        "minor_number": str(slot),
        # Recorded: 0x8300 at 00000000:83:00.0, 0x9 at 0:00:09.0, 0x80600 at 8:06:00.0.
        "board_id": f"0x{int(domain, 16) << 16 | int(bus, 16) << 8 | int(device, 16):x}",
        "cpu_affinity": CPU_AFFINITY[numa],
        "numa_affinity": str(numa),
    }


def _measured(gpu: GpuModel, data: Hardware, slot: int, seed: str) -> dict[str, str]:
    """Return temperatures, power draw and free memory of an idle GPU."""
    digest = _digest(f"{seed}:{slot}")
    noise = [int(digest[n : n + 2], 16) for n in range(48, 64, 2)]
    celsius = 26 + noise[0] % 5
    watts = data.idle_w + noise[1] / 64
    values = {"temperature.gpu": str(celsius), "power.draw": f"{watts:.2f}"}
    if gpu.architecture in T_LIMIT_FROM:
        values["temperature.gpu.tlimit"] = str(data.tlimit - celsius)
    # nvml.h, nvmlDeviceGetPowerUsage: an average on Ampere (except GA100) and newer, else the
    # instantaneous draw.
    instant = f"{watts + noise[3] / 256:.2f}"
    values["power.draw.instant"] = instant
    if gpu.architecture in T_LIMIT_FROM or (gpu.architecture == "ampere" and not data.hbm):
        values["power.draw.average"] = values["power.draw"]
    else:
        values["power.draw"] = instant
    if data.hbm:
        values["temperature.memory"] = str(celsius + 3 + noise[2] % 3)
    return values


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
