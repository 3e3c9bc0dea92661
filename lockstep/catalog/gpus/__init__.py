"""GPU models: one module per model, each with one ``MODEL``."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

from lockstep.catalog.nvidia.compatibility import ARCHITECTURES


@dataclass(frozen=True)
class GpuModel:
    """What the vendor says of a board; the reference when a whole cluster is equally wrong."""

    product_name: str
    """As ``nvidia-smi --query-gpu=name`` prints it."""
    memory_mib: int
    default_power_limit_w: float
    power_limits_w: tuple[float, float]
    """Lowest and highest limit that the board takes (power.min_limit, power.max_limit)."""
    max_sm_clock_mhz: int
    architecture: str
    """A key of ``lockstep.catalog.nvidia.compatibility.ARCHITECTURES``."""
    nvlinks: str = ""
    """Of a board with NVSwitches, as `nvidia-smi nvlink -s` has them: ``18 x 26.562 GB/s``."""
    mig_profiles: tuple[str, ...] = ()
    """GPU instance profiles (`nvidia-smi mig -lgip`); none: the board has no MIG."""

    @property
    def modules(self) -> str:
        """Kernel modules to use where nobody says which: open ones where they exist."""
        supported = ARCHITECTURES[self.architecture].modules
        return "open" if "open" in supported else "proprietary"


def known() -> tuple[str, ...]:
    """Return the names of all models, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> GpuModel:
    """Return a model by its file name; raises ModuleNotFoundError for an unknown one."""
    model: GpuModel = importlib.import_module(f"{__name__}.{name}").MODEL
    return model
