"""Settings of the GPUs on a node, from nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

FIELDS = ("uuid", "enforced.power.limit", "power.default_limit", "persistence_mode")


@dataclass(frozen=True)
class GpuSettings:
    """One GPU. Limits in watts; None where the board does not say."""

    uuid: str
    enforced_limit_w: float | None
    default_limit_w: float | None
    persistence: str
    """``Enabled``, ``Disabled`` or what else nvidia-smi prints."""


class Gpus(FactBase[tuple[GpuSettings, ...] | None]):
    """Returns the GPUs; None when nvidia-smi gave no answer (no driver, a lost board)."""

    @override
    def command(self) -> str:
        # nvidia-smi fails when the driver is not there: an answer, which the role reports.
        return (
            f"timeout 30 nvidia-smi --query-gpu={','.join(FIELDS)} --format=csv,noheader,nounits "
            "2>/dev/null || echo unread"
        )

    @override
    def process(self, output: Iterable[str]) -> tuple[GpuSettings, ...] | None:
        lines = list(output)
        if "unread" in lines:
            return None
        gpus = []
        for line in lines:
            columns = [column.strip() for column in line.split(",")]
            if len(columns) != len(FIELDS):
                raise FactProcessError(f"nvidia-smi, unexpected line {line!r}")
            gpus.append(GpuSettings(columns[0], _watts(columns[1]), _watts(columns[2]), columns[3]))
        return tuple(gpus)


def _watts(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # [N/A] and its relatives
        return None
