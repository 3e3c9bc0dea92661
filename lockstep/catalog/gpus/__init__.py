"""GPU models: one module per generation, each with ``MODELS``, one row per model.

A row has only values with a source. A value that is left out is not compared with the catalogue:
the GPU's own default and the node's peers decide.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.catalog.nvidia.compatibility import ARCHITECTURES, OPEN_BY_DEFAULT_FROM, branch
from lockstep.catalog.nvidia.compatibility import Modules as Modules


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """Vendor data for a GPU model, used to find faults that all GPUs of a cluster share."""

    product_name: str
    """As ``nvidia-smi --query-gpu=name`` prints it."""
    architecture: str | None = None
    """A key of ``lockstep.catalog.nvidia.compatibility.ARCHITECTURES``; None: not declared."""
    memory_mib: int | None = None
    """As nvidia-smi shows it, with the ECC mode that the GPU is delivered with."""
    default_power_limit_w: float | None = None
    """The lowest default, if machines with higher ones exist; None also if one may be lower."""
    power_limits_w: tuple[float, float] | None = None
    """Lowest and highest power limits of the GPU (power.min_limit, power.max_limit)."""
    max_sm_clock_mhz: int | None = None
    nvlinks: str = ""
    """A GPU's NVLinks on a board with NVSwitches (`nvidia-smi nvlink -s`): ``18 x 26.562 GB/s``."""
    mig_profiles: tuple[str, ...] | None = None
    """GPU instance profiles (`nvidia-smi mig -lgip`); empty if the GPU does not support MIG."""
    ecc: bool | None = True
    """Whether the model is delivered with ECC on; None: not known, or it depends on the machine."""
    shares_power: bool = False
    """Whether the GPU shares the power limit of its module with a CPU, so that the module may hold
    the limit in force (enforced.power.limit) below the one that was set."""
    only_open: bool = False
    """Whether the model needs open kernel modules, although its architecture does not."""
    first_driver: str = ""
    """Oldest driver that NVIDIA supports for the model; "": the first branch of the architecture.
    An older driver is refused."""
    first_listed: int = 0
    """First branch of NVIDIA's open kernel modules whose list of GPUs has the model; 0: all of
    them. An older driver is not refused, but ``lockstep plan`` says that it is not verified."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Source -> the names of the fields that it gives, separated by spaces."""

    @property
    def kernel_modules(self) -> tuple[Modules, ...]:
        """The flavours of the kernel modules that support the model."""
        if self.only_open:
            return ("open",)
        served = ARCHITECTURES.get(self.architecture or "")
        return ("open", "proprietary") if served is None else served.modules

    def modules(self, driver: str) -> Modules:
        """Return the default flavour of the kernel modules: open if the model supports them.

        A model of an unknown architecture gets the flavour that NVIDIA installs by default.
        """
        if self.architecture is None and branch(driver) < OPEN_BY_DEFAULT_FROM:
            return "proprietary"
        return "open" if "open" in self.kernel_modules else "proprietary"


@functools.cache
def _models() -> Mapping[str, GpuModel]:
    """Return all models by name, sorted."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_")
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return dict(sorted(item for module in modules for item in module.MODELS.items()))


def known() -> tuple[str, ...]:
    """Return the names of all models, sorted."""
    return tuple(_models())


def load(name: str) -> GpuModel:
    """Return a model by its name; raises KeyError for an unknown model."""
    return _models()[name]


def named(product_name: str) -> str | None:
    """Return the name of the model with a product name; None if the catalogue has none."""
    return next((name for name, m in _models().items() if m.product_name == product_name), None)
