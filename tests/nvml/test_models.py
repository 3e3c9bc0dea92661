"""The lab's GPUs of each model: plausible, complete and as recorded."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from lab.nvml import models
from lockstep.catalog import gpus

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
# What nvidia-smi prints for a value that it cannot read.
NO_VALUE = ("[N/A]", "N/A", "[Requested functionality has been deprecated]")
UNITS = re.compile(r" (MiB|W|MHz|%|us)$")
MODELS = models.known()
UNRECORDED = ("rtx_pro_6000",)
"""No recording tells the clocks of the cores of these models, so their states have none."""


def recorded() -> dict[str, str]:
    """Return the fields of the recorded H200, without units."""
    with (CAPTURES / "h200/query-gpu.csv").open() as file:
        names, row = csv.reader(file, skipinitialspace=True)
    return {
        name.split(" [")[0]: UNITS.sub("", value)
        for name, value in zip(names, row, strict=True)
        if value not in NO_VALUE
    }


COMPUTED = {"timestamp", "driver_version", "count", "index"}
"""Fields that are no property of one GPU."""
OWN = {
    "serial",
    "uuid",
    "pci.bus_id",
    "pci.bus",
    "platform.module_id",
    "temperature.gpu",
    "temperature.gpu.tlimit",
    "temperature.memory",
    "power.draw",
    "power.draw.average",
    "power.draw.instant",
}
"""Fields that differ between GPUs of one model."""


def test_the_h200_has_the_recorded_values() -> None:
    values = models.initial("h200", slot=0, seed="worker1")
    for name, value in recorded().items():
        if name in COMPUTED:
            assert name not in values
        elif name in OWN:
            assert values[name]
        else:
            assert values[name] == value, name


def test_seed_and_slot_determine_the_identity() -> None:
    """The values are those that the first simulated nvidia-smi of the lab had."""
    values = models.initial("h200", slot=5, seed="worker1")
    assert values["uuid"] == "GPU-fc5434c6-2e47-0836-0beb-f5446e5ac749"
    assert values["serial"] == "1654876536970"
    assert (values["pci.bus_id"], values["board_id"]) == ("00000000:C3:00.0", "0xc300")
    assert values["minor_number"] == "5"
    assert values["platform.module_id"] == "1"
    assert values["numa_affinity"] == "1"
    assert values == models.initial("h200", slot=5, seed="worker1")
    assert values["uuid"] != models.initial("h200", slot=5, seed="worker2")["uuid"]


def test_gpus_of_one_node_differ() -> None:
    for key in ("uuid", "serial", "pci.bus_id", "board_id", "platform.module_id", "gpu_pdi"):
        assert len({models.initial("h200", slot, "worker1")[key] for slot in range(8)}) == 8, key


def test_a_slot_that_the_model_does_not_have() -> None:
    with pytest.raises(ValueError, match="slot 8: expected 0 to 7"):
        models.initial("h200", slot=8, seed="worker1")


@pytest.mark.parametrize("model", MODELS)
def test_no_placeholder_and_no_unit(model: str) -> None:
    for key, value in models.initial(model, slot=0, seed="worker1").items():
        assert value not in (*NO_VALUE, "?", "~", "!"), key
        assert not UNITS.search(value), key
        assert re.fullmatch(r"[\w.-]+", key), key
        assert value.strip() == value, key


@pytest.mark.parametrize("model", MODELS)
def test_the_catalogue_decides(model: str) -> None:
    gpu, values = gpus.load(model), models.initial(model, slot=0, seed="worker1")
    assert values["name"] == gpu.product_name
    assert values["memory.total"] == str(gpu.memory_mib)
    assert float(values["power.limit"]) == gpu.default_power_limit_w
    speeds = [value for key, value in values.items() if re.fullmatch(r"nvlink\.\d+\.speed", key)]
    if gpu.nvlinks:
        assert f"{len(speeds)} x {speeds[0]} GB/s" == gpu.nvlinks
    names = {found[1] for key, text in values.items() if (found := PROFILE.match(f"{key}={text}"))}
    assert names == set(gpu.mig_profiles or ())
    assert ("mig.mode.current" in values) == bool(gpu.mig_profiles)


PROFILE = re.compile(r"mig\.profile\.\d+=name=(\S+) ")


@pytest.mark.parametrize("model", MODELS)
def test_memory_adds_up(model: str) -> None:
    """Total is used, reserved and free, up to rounding (as recorded)."""
    values = models.initial(model, slot=0, seed="worker1")
    parts = sum(int(values[f"memory.{part}"]) for part in ("used", "reserved", "free"))
    assert abs(parts - int(values["memory.total"])) <= 1
    parts = sum(int(values[f"bar1.{part}"]) for part in ("used", "free"))
    assert parts == int(values["bar1.total"])


@pytest.mark.parametrize("model", [name for name in MODELS if name not in UNRECORDED])
def test_clocks_are_supported_ones(model: str) -> None:
    values = models.initial(model, slot=0, seed="worker1")
    memory = values["clocks.supported.memory"].split(",")
    assert values["clocks.max.memory"] == memory[0]
    assert values.get("clocks.applications.memory", memory[0]) in memory
    # Recorded: a T4 runs at 5000 MHz of 5001.
    assert any(abs(int(values["clocks.current.memory"]) - int(clock)) <= 1 for clock in memory)
    for clock in memory:
        specific = f"clocks.supported.graphics.{clock}"
        low, high, step = map(
            float, re.split("[-:]", values.get(specific, values["clocks.supported.graphics"]))
        )
        assert low < high
        assert (high - low) / step == round((high - low) / step)
        assert low <= float(values["clocks.current.graphics"]) <= float(values["clocks.max.sm"])
    highest = values["clocks.supported.graphics"].partition("-")[2].partition(":")[0]
    assert int(float(highest)) == int(values["clocks.max.graphics"])


@pytest.mark.parametrize("model", [name for name in MODELS if gpus.load(name).mig_profiles])
def test_profiles_fit_the_gpu(model: str) -> None:
    values = models.initial(model, slot=0, seed="worker1")
    profiles = [
        dict(pair.split("=") for pair in values[f"mig.profile.{number}"].split())
        for number in values["mig.profiles"].split(",")
    ]
    slices = max(int(profile["size"]) for profile in profiles)
    assert len({profile["name"] for profile in profiles}) == len(profiles)
    for profile in profiles:
        assert int(profile["memory"]) <= int(values["memory.total"])
        placements = [int(start) for start in profile["placements"].split(",")]
        assert len(placements) >= int(profile["instances"])
        assert max(placements) + int(profile["size"]) <= slices
        assert profile["name"].startswith(f"{profile['slices']}g.")


def test_gpus_of_one_module_have_one_serial_number() -> None:
    """Recorded: GB200 and GB300."""
    for model in ("gb200", "gb300"):
        serials = [models.initial(model, slot, "worker1")["serial"] for slot in range(4)]
        assert serials[0] == serials[1] != serials[2] == serials[3]


@pytest.mark.parametrize("model", MODELS)
def test_the_draw_is_an_average_or_instantaneous(model: str) -> None:
    """nvml.h: averaged on Ampere (except GA100) and newer."""
    values = models.initial(model, slot=0, seed="worker1")
    averaged = model not in ("a100", "a100_40gb", "t4", "v100")
    assert ("power.draw.average" in values) == averaged
    which = "average" if averaged else "instant"
    assert values["power.draw"] == values[f"power.draw.{which}"]


def test_every_simulated_model_is_in_the_catalogue() -> None:
    assert set(models.known()) <= set(gpus.known())


def test_what_the_models_do_not_support_is_absent() -> None:
    a100 = models.initial("a100", slot=0, seed="worker1")
    h100 = models.initial("h100", slot=0, seed="worker1")
    assert "fabric.state" not in a100
    assert "temperature.gpu.tlimit" not in a100
    assert a100["temperature.shutdown"] == "92"
    assert h100["fabric.state"] == "Completed"
    assert "temperature.shutdown" not in h100
    t4 = models.initial("t4", slot=0, seed="worker1")
    v100 = models.initial("v100", slot=0, seed="worker1")
    for values in (t4, v100):
        assert values["retired_pages.pending"] == "No"
        assert "remapped_rows.pending" not in values
        assert "mig.mode.current" not in values
    assert "temperature.memory" not in t4
    assert v100["temperature.memory"]
    assert "gsp.mode.current" not in v100
    assert "ecc.errors.corrected.volatile.l2_cache" not in t4
    assert v100["ecc.errors.corrected.volatile.l2_cache"] == "0"
    assert not any(key.startswith("nvlink") for key in t4)
    assert "fabric.state" not in models.initial("rtx_pro_6000", slot=0, seed="worker1")
    assert v100["nvlink.5.speed"] == "25.781"
    assert "nvlink.0.crc" not in models.initial("b200", slot=0, seed="worker1")
    for values in (a100, h100):
        assert "retired_pages.pending" not in values
        assert values["remapped_rows.pending"] == "No"
        assert "fan.speed" not in values
