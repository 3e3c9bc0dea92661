"""Hardware classes: nodes with equal processors, memory, GPUs and fabric interfaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lockstep.catalog import gpus
from lockstep.describe import kernel
from lockstep.describe.networks import Networks
from lockstep.describe.seen import Seen
from lockstep.describe.values import (
    Block,
    Value,
    agreed,
    checked,
    folded,
    found_on,
    named,
    optional,
    table,
    todo,
)
from lockstep.report import alike, fold
from lockstep.spec.hardware import Gpu

SAME_MEMORY = 0.02
"""Equal machines report sizes of memory that differ by less: firmware and kernel keep some."""
ARM = "aarch64"
COMPUTE_MODES = {"Exclusive_Process": "exclusive_process", "Prohibited": "prohibited"}
"""As nvidia-smi prints the mode -> as a description has it."""


@dataclass(frozen=True)
class Machines:
    """The nodes of one hardware class."""

    name: str
    nodes: tuple[Seen, ...]
    kind: tuple[Any, ...]


def classes(nodes: Sequence[Seen], networks: Networks) -> list[Machines]:
    """Return the hardware classes, those with most nodes first."""
    kinds = alike(nodes, lambda one: (*_shape(one), folded(networks.devices(one))))
    split = [(kind, part) for kind, members in kinds.items() for part in _by_memory(members)]
    names: set[str] = set()
    found = []
    for kind, part in sorted(split, key=lambda one: (-len(one[1]), one[1][0].order)):
        name = base = _name(kind)
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.add(name)
        found.append(Machines(name, tuple(part), kind))
    return found


PARTS = ("processors", "NUMA nodes", "GPUs", "kind of machine", "RDMA devices")


def _shape(one: Seen) -> tuple[Any, ...]:
    """Return what equal machines have in common, as in ``PARTS``, but for the RDMA devices."""
    processors = one.items("describe.processors")
    return (
        ", ".join(f"{name} {value}" for name, value in processors.items()),
        len(numa_nodes(one)),
        fold_counts(_products(one)) or f"{_boards(one)} boards" * bool(_boards(one)),
        one.items("describe.machine").get("container", ""),
    )


def numa_nodes(one: Seen) -> list[str]:
    """Return the NUMA nodes with processors; memory of GPUs and of CXL has nodes without them."""
    return [number for number, cpus in one.items("numa.cpus").items() if cpus]


def _by_memory(nodes: Sequence[Seen]) -> list[list[Seen]]:
    """Split nodes whose memory differs by more than the system keeps for itself."""
    parts: list[list[Seen]] = []
    for one in sorted(nodes, key=lambda one: (memory_mib(one), one.order)):
        if parts and memory_mib(one) <= memory_mib(parts[-1][0]) * (1 + SAME_MEMORY):
            parts[-1].append(one)
        else:
            parts.append([one])
    return [sorted(part, key=lambda one: one.order) for part in parts]


def memory_mib(one: Seen) -> int:
    """Return the memory of a node; 0 if it was not read."""
    return int(one.get("memory_mib") or 0)


def _products(one: Seen) -> list[str]:
    return [str(name) for name in one.items("gpu.name").values()]


def _boards(one: Seen) -> int:
    """Return how many GPUs of NVIDIA PCI has."""
    return len(one.items("gpu.pci.numa_node"))


def has_gpus(one: Seen) -> bool:
    """Return whether a node has GPUs of NVIDIA."""
    return bool(_products(one) or _boards(one))


def fold_counts(texts: Iterable[str]) -> str:
    """Return each text with its number: ``NVIDIA H200 x8``."""
    return ", ".join(f"{text} x{len(same)}" for text, same in alike(texts, str).items())


def _name(kind: tuple[Any, ...]) -> str:
    """Return the name of a class: its GPUs, or its processors."""
    product = re.sub(r" x\d+$", "", kind[2])
    name = gpus.named(product) or re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")
    return name or "cpu"


def block(machines: Machines, every: Sequence[Machines], networks: Networks) -> Block:
    """Return a hardware class as a description has it."""
    nodes = machines.nodes
    parts: dict[Any, Value | Block] = {}
    field = partial(_processor, nodes)
    if any(one.items("describe.processors").get("architecture") == ARM for one in nodes):
        parts["architecture"] = Value("arm64", found_on(nodes))
    for name in ("sockets", "cores_per_socket", "threads_per_core"):
        parts[name] = field(name)
    if any(one.items("describe.processors").get("adjacent") for one in nodes):
        parts["cpu_numbering"] = Value("threads_adjacent", found_on(nodes))
    parts["numa_nodes"] = _required(
        nodes, lambda one: len(numa_nodes(one)) or None, "numa.cpus", "number of NUMA nodes"
    )
    sizes = [size for one in nodes if (size := memory_mib(one))]
    parts["memory_mib"] = (
        Value(min(sizes), f"the least that was {found_on(nodes)}; more is accepted")
        if sizes
        else todo("MiB of memory", nodes[0].reason("memory_mib"))
    )
    if gpu := _gpu(nodes):
        parts["gpu"] = gpu
    parts |= networks.of_class(nodes)
    if nodes[0].items("describe.machine").get("container"):
        parts["boot_loader"] = Value(
            "none", f"{found_on(nodes)}: containers, which share the kernel of their host"
        )
        parts["clock"] = Value("host", found_on(nodes))
    else:
        parts |= kernel.fields(nodes)
    return table(parts, f"{named(nodes)}", *_differences(machines, every))


def _processor(nodes: Sequence[Seen], name: str) -> Value:
    return _required(
        nodes,
        lambda one: one.items("describe.processors").get(name),
        "describe.processors",
        name.replace("_", " "),
    )


def _required(nodes: Sequence[Seen], pick: Callable[[Seen], Any], reading: str, what: str) -> Value:
    got = agreed(nodes, pick)
    return Value(*got) if got else todo(what, nodes[0].reason(reading))


def _differences(machines: Machines, every: Sequence[Machines]) -> Iterator[str]:
    """Compare a class with the one of most nodes that has GPUs of the same model, or none."""
    first = next((one for one in every if _name(one.kind) == _name(machines.kind)), machines)
    if first is machines:
        return
    yield (
        f"{named(machines.nodes)}: differs from the class {first.name} ({named(first.nodes)}). If "
        "that is a fault of these nodes,"
    )
    yield f"declare them as {first.name}: the check then reports the fault. It differs in"
    for what, one, other in zip(PARTS, machines.kind, first.kind, strict=True):
        if one != other:
            yield f"  {what}: {one or 'none'} instead of {other or 'none'}"
    mine, its = memory_mib(machines.nodes[0]), memory_mib(first.nodes[0])
    if abs(mine - its) > its * SAME_MEMORY:
        yield f"  memory: {mine} MiB instead of {its} MiB"


def _gpu(nodes: Sequence[Seen]) -> Block | None:
    """Return the GPUs of a class; None if it has none."""
    first = nodes[0]
    products = _products(first)
    if not has_gpus(first):
        return None
    note = found_on(nodes)
    parts: dict[Any, Value | Block] = {}
    if len(set(products)) == 1:
        model = gpus.named(products[0]) or products[0]
        parts["model"] = checked(Gpu, "model", Value(model, note), "GPU model")
    elif products:
        why = f"{fold_counts(products)} {note}; a class has one model"
        parts["model"] = todo("GPU model", why)
    else:
        parts["model"] = todo("GPU model", first.reason("gpu.name"))
    parts["count"] = Value(len(products) or _boards(first), note)
    if products and not _boards(first):
        parts["in_sysfs"] = Value(False, f"{note}: no GPU in /sys/bus/pci")
    parts |= _links(nodes)
    parts |= _modes(nodes, gpus.named(products[0]) if products else None)
    return table(parts)


def _links(nodes: Sequence[Seen]) -> dict[Any, Value | Block]:
    first, note = nodes[0], found_on(nodes)
    parts: dict[Any, Value | Block] = {}
    split = numa_of_gpus(first)
    if split:
        parts["numa"] = Value(split, note)
    if first.is_active("nvidia-imex.service"):
        parts["multi_node_nvlink"] = Value(True, f"{note}: nvidia-imex.service runs")
    elif first.is_active("nvidia-fabricmanager.service"):
        parts["nvswitch"] = Value(True, f"{note}: nvidia-fabricmanager.service runs")
    elif number := first.items("describe.machine").get("nvswitches"):
        parts["nvswitch"] = Value(True, f"{note}: {number} NVSwitches in /sys/bus/pci")
    return parts


def numa_of_gpus(one: Seen) -> dict[int, str]:
    """Return NUMA node -> its GPUs; {} if they are spread evenly, in order, or not known."""
    nodes = [number for _, number in sorted(one.items("gpu.pci.numa_node").items())]
    count = len(numa_nodes(one))
    even = [slot * count // len(nodes) for slot in range(len(nodes))]
    if -1 in nodes or nodes == even or len(nodes) != len(_products(one)):
        return {}
    slots = alike(range(len(nodes)), nodes.__getitem__)
    return {node: fold(map(str, slots[node])).strip("[]") for node in sorted(slots)}


def _modes(nodes: Sequence[Seen], model: str | None) -> dict[Any, Value | Block]:
    """Return settings that differ from what the GPUs are delivered with."""
    parts: dict[Any, Value | Block] = {}

    def every(one: Seen, reading: str) -> Any:
        """Return the value that all GPUs of a node have; None if they differ."""
        values = list(one.items(reading).values())
        same = values and all(value == values[0] for value in values)
        return values[0] if same else None

    def limit(one: Seen) -> Any:
        wanted, usual = (every(one, f"gpu.power.{kind}_w") for kind in ("requested", "default"))
        return wanted if usual is not None and wanted != usual else None

    ecc = model is not None and gpus.load(model).ecc
    declared = {"Enabled": True, "Disabled": False}
    optional(parts, "power_limit_w", agreed(nodes, limit))
    optional(
        parts,
        "compute_mode",
        agreed(nodes, lambda one: COMPUTE_MODES.get(every(one, "gpu.compute_mode"))),
    )
    optional(
        parts,
        "ecc",
        agreed(nodes, lambda one: declared.get(every(one, "gpu.ecc.pending"))),
        usual=bool(ecc),
    )
    optional(
        parts,
        "persistence",
        agreed(nodes, lambda one: declared.get(every(one, "gpu.persistence"))),
        usual=True,
    )
    optional(
        parts,
        "mig",
        agreed(nodes, lambda one: every(one, "gpu.mig.devices") or None),
    )
    return parts
