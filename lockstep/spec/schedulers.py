"""The types of a description's schedulers: Slurm, and the choice between it and Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from lockstep.spec.fields import Model, Name, NodeRange, SlurmTime
from lockstep.spec.kubernetes import Kubernetes

MOST_MIB = 1 << 32
"""4 PiB: the memory that the 52-bit physical addresses of x86 and arm64 reach, in MiB."""


class Partition(Model):
    """A Slurm partition."""

    name: Name
    """Name of the partition."""
    nodes: NodeRange
    """Workers of the partition, as a range of names."""
    default: bool = False
    """Whether jobs that name no partition go here."""
    max_time: SlurmTime = "UNLIMITED"
    """Time limit of a job: minutes, HH:MM:SS, D-HH, or UNLIMITED (slurm.conf(5), MaxTime)."""


class Slurm(Model):
    """Settings of Slurm, the scheduler."""

    kind: Literal["slurm"] = "slurm"
    """The scheduler."""
    partitions: tuple[Partition, ...] = ()
    """Slurm's partitions; empty: a single partition ``batch`` with every worker."""
    system_memory_mib: Annotated[int, Field(ge=0, le=MOST_MIB)] = 0
    """Memory reserved for the system on each worker (MemSpecLimit)."""
    health_check_interval_s: Annotated[int, Field(ge=0, le=65533)] = 300
    """Seconds between two checks that a node makes of itself; 0: never."""
    prolog_check: bool = True
    """Check the node before each job; a failed check drains the node and requeues a batch job."""
    epilog_check: bool = True
    """Check the node after each job; a failed check drains the node before the next job."""


SCHEDULER_TAGS = ("[slurm]", "[kubernetes]", "[several]")
"""Tags of the forms of ``scheduler``, which pydantic adds to the path of an error."""


def _scheduler_tag(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[several]"
    kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
    return "[kubernetes]" if kind == "kubernetes" else "[slurm]"


_One = Annotated[
    Annotated[Slurm, Tag("[slurm]")] | Annotated[Kubernetes, Tag("[kubernetes]")],
    Discriminator(_scheduler_tag),
]
Schedulers = Annotated[
    Annotated[Slurm, Tag("[slurm]")]
    | Annotated[Kubernetes, Tag("[kubernetes]")]
    | Annotated[tuple[_One, ...], Tag("[several]")],
    Discriminator(_scheduler_tag),
]
