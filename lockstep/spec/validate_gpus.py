"""Validates the GPU settings and MIG instances of a hardware class against the GPU model."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog.gpus import GpuModel
from lockstep.spec.hardware import Gpu
from lockstep.spec.problem import Problem


def gpu_problems(path: tuple[str | int, ...], gpu: Gpu, model: GpuModel) -> Iterator[Problem]:
    """Yield declared settings that the GPU model does not support."""
    lowest, highest = model.power_limits_w
    if gpu.power_limit_w is not None and not lowest <= gpu.power_limit_w <= highest:
        yield Problem(
            (*path, "power_limit_w"),
            f"{gpu.power_limit_w:g} W",
            f"{lowest:g} to {highest:g} W ({model.product_name})",
        )
    if gpu.clocks_mhz is not None:
        low, high = gpu.clocks_mhz
        if not low <= high <= model.max_sm_clock_mhz:
            yield Problem(
                (*path, "clocks_mhz"),
                f"{low}, {high}",
                f"the lower one first, at most {model.max_sm_clock_mhz} MHz ({model.product_name})",
            )
    yield from _mig(path, gpu, model)


def _mig(path: tuple[str | int, ...], gpu: Gpu, model: GpuModel) -> Iterator[Problem]:
    """Find instances that do not fit on one GPU (MIG user guide, supported profiles)."""
    if gpu.mig and not model.mig_profiles:
        yield Problem(
            (*path, "mig"), ", ".join(gpu.mig), f"leave it out: {model.product_name} has no MIG"
        )
        return
    unknown = [
        (number, name) for number, name in enumerate(gpu.mig) if name not in model.mig_profiles
    ]
    for number, name in unknown:
        yield Problem((*path, "mig", number), name, "one of " + ", ".join(model.mig_profiles))
    if unknown or not gpu.mig:
        return
    slices = sum(int(name.partition("g.")[0]) for name in gpu.mig)
    whole = max(_gigabytes(name) for name in model.mig_profiles)
    # Profile names round the memory size; the GPU allocates memory in eighths, so count those.
    eighths = sum(round(8 * _gigabytes(name) / whole) for name in gpu.mig)
    extensions = sum(name.endswith("+me") for name in gpu.mig)
    for wrong, found, allowed in (
        (slices > 7, f"{slices} slices", "at most 7 slices, the digit before the g"),
        (eighths > 8, f"{eighths} eighths of the memory", f"at most {whole} GB, 8 eighths"),
        (extensions > 1, f"{extensions} with +me", "one instance with media extensions"),
    ):
        if wrong:
            yield Problem((*path, "mig"), f"{', '.join(gpu.mig)}: {found}", allowed)


def _gigabytes(profile: str) -> int:
    return int(profile.partition("g.")[2].partition("gb")[0])
