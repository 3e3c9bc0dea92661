"""The GPU models of the catalogue are plausible, and agree with recorded GPUs."""

import dataclasses
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from lockstep.catalog import gpus
from lockstep.catalog.nvidia.compatibility import ARCHITECTURES, branch
from lockstep.spec.fields import MigProfile

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


@pytest.mark.parametrize("name", gpus.known())
def test_every_gpu_is_possible(name: str) -> None:
    gpu = gpus.load(name)
    low, high = gpu.power_limits_w or (1.0, 10_000.0)
    assert 0 < low <= (gpu.default_power_limit_w or low) <= high
    assert gpu.max_sm_clock_mhz is None or gpu.max_sm_clock_mhz > 0
    assert gpu.architecture is not None
    assert set(gpu.kernel_modules) <= set(ARCHITECTURES[gpu.architecture].modules)
    assert gpu.modules("580.95.05") in gpu.kernel_modules
    first = ARCHITECTURES[gpu.architecture].first_branch
    assert gpu.first_listed == 0 or gpu.first_listed > first
    assert not gpu.first_driver or branch(gpu.first_driver) >= first


@pytest.mark.parametrize("name", gpus.known())
def test_every_value_has_one_source(name: str) -> None:
    gpu = gpus.load(name)
    named = [field for fields in gpu.sources.values() for field in fields.split()]
    given = [
        field.name
        for field in dataclasses.fields(gpu)
        if field.name != "sources" and getattr(gpu, field.name) != field.default
    ]
    assert sorted(named) == sorted(given)
    assert all(gpu.sources)


WANTED = """\
NVIDIA H100 80GB HBM3; NVIDIA H100 PCIe; NVIDIA H100 NVL; NVIDIA H200; NVIDIA H200 NVL; NVIDIA H800;
NVIDIA GH200 480GB; NVIDIA GH200 144G HBM3e; NVIDIA B200; NVIDIA B300 SXM6 AC; NVIDIA GB200;
NVIDIA GB300; NVIDIA A100-SXM4-40GB; NVIDIA A100-SXM4-80GB; NVIDIA A100-PCIE-40GB;
NVIDIA A100 80GB PCIe; NVIDIA A800-SXM4-80GB; NVIDIA A800 80GB PCIe; NVIDIA L4; NVIDIA L40;
NVIDIA L40S; NVIDIA A10; NVIDIA A10G; NVIDIA A30; NVIDIA A40; Tesla T4; Tesla V100-SXM2-32GB;
NVIDIA RTX PRO 6000 Blackwell Server Edition; NVIDIA RTX PRO 6000 Blackwell Workstation Edition;
NVIDIA RTX 6000 Ada Generation"""


@pytest.mark.parametrize("product_name", WANTED.replace("\n", " ").split("; "))
def test_the_catalogue_has_the_usual_models(product_name: str) -> None:
    name = gpus.named(product_name)
    assert name is not None
    assert gpus.load(name).product_name == product_name


def test_no_two_models_have_one_product_name() -> None:
    """A description may name a model by its product name."""
    assert len({gpus.load(name).product_name for name in gpus.known()}) == len(gpus.known())


@pytest.mark.parametrize(
    ("driver", "flavour"), [("550.163.01", "proprietary"), ("560.28.03", "open")]
)
def test_an_unknown_architecture_gets_what_nvidia_installs(driver: str, flavour: str) -> None:
    assert gpus.GpuModel(product_name="NVIDIA X").modules(driver) == flavour


def gigabytes(profile: str) -> int:
    found = re.fullmatch(r"\d+g\.(\d+)gb(\+me|\+me\.all|\+gfx|-me)?", profile)
    assert found, profile
    return int(found[1])


def test_a_description_may_have_each_profile_of_the_catalogue() -> None:
    profiles = {one for name in gpus.known() for one in gpus.load(name).mig_profiles or ()}
    assert "2g.48gb+me.all" in profiles
    accepts = TypeAdapter[str](MigProfile)
    assert {accepts.validate_python(profile) for profile in profiles} == profiles
    with pytest.raises(ValidationError):
        accepts.validate_python("2g.48gb+gfx.all")


@pytest.mark.parametrize("name", [name for name in gpus.known() if gpus.load(name).mig_profiles])
def test_profiles_are_eighths_of_the_gpus_memory(name: str) -> None:
    """The validation counts a profile's eighths from its name."""
    gpu = gpus.load(name)
    assert gpu.mig_profiles
    whole = max(map(gigabytes, gpu.mig_profiles))
    assert gpu.memory_mib is None or whole == pytest.approx(gpu.memory_mib / 1024, rel=0.03)
    for profile in gpu.mig_profiles:
        eighths = 8 * gigabytes(profile) / whole
        assert eighths == pytest.approx(round(eighths), abs=0.1), profile
        assert round(eighths) in (1, 2, 4, 8)
    assert len(set(gpu.mig_profiles)) == len(gpu.mig_profiles)


def recorded() -> dict[str, str]:
    head, row = (CAPTURES / "h200/query-gpu.csv").read_text().splitlines()
    names = [column.split(" [")[0] for column in head.split(", ")]
    return dict(zip(names, row.split(", "), strict=True))


def test_the_h200_is_the_recorded_one() -> None:
    gpu, row = gpus.load("h200"), recorded()
    assert gpu.product_name == row["name"]
    assert f"{gpu.memory_mib} MiB" == row["memory.total"]
    assert f"{gpu.default_power_limit_w:.2f} W" == row["power.default_limit"]
    assert gpu.power_limits_w
    low, high = gpu.power_limits_w
    assert (f"{low:.2f} W", f"{high:.2f} W") == (row["power.min_limit"], row["power.max_limit"])
    assert f"{gpu.max_sm_clock_mhz} MHz" == row["clocks.max.sm"]
