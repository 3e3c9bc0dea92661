"""GPU models: one module per model, each with one ``MODEL``."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuModel:
    """What the vendor says of a board; the reference when a whole cluster is equally wrong."""

    product_name: str
    """As ``nvidia-smi --query-gpu=name`` prints it."""
    memory_mib: int
    default_power_limit_w: float


def known() -> tuple[str, ...]:
    """Return the names of all models, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> GpuModel:
    """Return a model by its file name; raises ModuleNotFoundError for an unknown one."""
    model: GpuModel = importlib.import_module(f"{__name__}.{name}").MODEL
    return model
