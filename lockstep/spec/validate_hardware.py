"""Validates the fields of one hardware class against each other and against its GPU model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from lockstep.catalog import gpus
from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.nvidia.compatibility import ARCHITECTURES
from lockstep.spec import names
from lockstep.spec.hardware import Gpu, HardwareClass, Nics, OwnGpu
from lockstep.spec.problem import Path, Problem, Relation, violated
from lockstep.spec.validate_architecture import architecture_relations
from lockstep.spec.validate_firmware import firmware_relations
from lockstep.spec.validate_processors import processor_relations, too_many_cpus

PLANNED_ARGS = {
    "isolcpus": "kernel.isolation",
    "nohz_full": "kernel.isolation",
    "rcu_nocbs": "housekeeping_cpus",
    "irqaffinity": "housekeeping_cpus",
    "hugepages": "hugepages",
    "hugepagesz": "hugepages",
    "default_hugepagesz": "hugepages",
    "transparent_hugepage": "kernel.transparent_hugepages",
    "cpufreq.default_governor": "kernel.cpu_governor",
    "processor.max_cstate": "kernel.max_cstate",
    "intel_idle.max_cstate": "kernel.max_cstate",
}
"""Kernel argument -> the field that sets it; ``kernel_args`` must not set it as well."""


def hardware_problems(name: str, hardware: HardwareClass) -> Iterator[Problem]:
    """Yield the problems of one hardware class."""
    if found := too_many_cpus(name, hardware):
        # The other relations would count them one by one.
        yield from found
        return
    yield from violated(
        ("hardware", name),
        *processor_relations(hardware),
        *_hugepages(hardware),
        *_kernel(hardware),
        *_kernel_arguments(hardware),
        *architecture_relations(hardware),
        *_nics(hardware.nics),
        *firmware_relations(hardware),
    )
    if hardware.gpu is not None:
        yield from violated(("hardware", name, "gpu"), *_gpu(hardware, hardware.gpu))


def _hugepages(hardware: HardwareClass) -> Iterator[Relation]:
    memory_mib = hardware.memory_mib // hardware.numa_nodes
    taken: Counter[int] = Counter()
    for index, pages in enumerate(hardware.hugepages):
        node, exists = pages.numa_node, pages.numa_node < hardware.numa_nodes
        taken[node] += pages.mib
        yield from (
            (
                not exists,
                ("hugepages", index, "numa_node"),
                str(node),
                f"0 to {hardware.numa_nodes - 1}",
            ),
            (
                exists and taken[node] >= memory_mib,
                ("hugepages", index, "count"),
                f"{pages.count} pages of {pages.size}: {taken[node]} MiB of huge pages "
                f"on NUMA node {node}",
                f"less than the NUMA node's memory, {memory_mib} MiB",
            ),
        )


def _kernel(hardware: HardwareClass) -> Iterable[Relation]:
    kernel, housekeeping = hardware.kernel, hardware.housekeeping_cpus
    return (
        (
            hardware.boot_loader == "none"
            and (hardware.kernel_args or hardware.hugepages or kernel != type(kernel)()),
            ("boot_loader",),
            "none",
            '"grub": kernel, kernel_args and hugepages need a machine that boots its own kernel',
        ),
        (
            kernel.isolation and not housekeeping,
            ("kernel", "isolation"),
            ", ".join(kernel.isolation),
            "set housekeeping_cpus as well: the CPUs for everything except jobs",
        ),
        (
            "nohz_full" in kernel.isolation and 0 not in names.cpus(housekeeping),
            ("kernel", "isolation"),
            f"nohz_full without CPU 0 in housekeeping_cpus {housekeeping}",
            "CPU 0 in housekeeping_cpus: the kernel needs its tick for timekeeping",
        ),
    )


def _kernel_arguments(hardware: HardwareClass) -> Iterator[Relation]:
    kernel = hardware.kernel
    for number, argument in enumerate(hardware.kernel_args):
        field = ("kernel_args", number)
        key, _, value = argument.partition("=")
        declared = {
            "iommu": kernel.iommu is not None,
            "numa_balancing": kernel.numa_balancing is not None,
            "pci": bool(kernel.disable_acs_redir) and value.startswith("disable_acs_redir"),
        }
        yield from (
            (key in PLANNED_ARGS, field, argument, f"use the field {PLANNED_ARGS.get(key)}"),
            (declared.get(key), field, argument, "use the matching field of kernel"),
            (
                # The file of GRUB quotes a value, because a ";" ends a command there.
                not re.fullmatch(r"[A-Za-z0-9_.,:/@+-]+(=[A-Za-z0-9_.,:;=/@+-]*)?", argument),
                field,
                repr(argument),
                "one kernel argument, without spaces",
            ),
        )


def _nics(nics: Nics) -> Iterable[Relation]:
    has_rdma = nics.rdma != "none"
    return (
        (
            has_rdma and not nics.count,
            ("nics", "rdma"),
            nics.rdma,
            "set nics.count, too: the number of RDMA interfaces",
        ),
        (
            nics.rdma_devices and not has_rdma,
            ("nics", "rdma_devices"),
            nics.rdma_devices,
            "set rdma to infiniband or roce",
        ),
        (
            nics.gpudirect == "peermem" and not has_rdma,
            ("nics", "gpudirect"),
            nics.gpudirect,
            "set nics.rdma, too: nvidia_peermem gives RDMA devices access to GPU memory",
        ),
        _as_many("names", ("nics", "rdma_devices"), nics.rdma_devices, "nics.count", nics.count),
        _as_many("names", ("nics", "interfaces"), nics.interfaces, "nics.count", nics.count),
    )


def _as_many(noun: str, field: Path, text: str, counter: str, count: int) -> Relation:
    """Return the relation that requires exactly ``count`` names in a range, unless it is empty."""
    number = len(names.expand(text)) if text else count
    return number != count, field, f"{text}: {number} {noun}", f"{count} {noun}, as in {counter}"


def _gpu(hardware: HardwareClass, gpu: Gpu) -> Iterable[Relation]:
    last = hardware.numa_nodes - 1
    slots = sorted(slot for text in gpu.numa.values() for slot in names.cpus(text))
    return (
        *(_gpu_of_nvidia(gpu) if gpu.vendor == "nvidia" else _gpu_of_others(gpu)),
        _as_many("devices", ("devices",), gpu.devices, "gpu.count", gpu.count),
        (
            gpu.numa and slots != [*range(gpu.count)],
            ("numa",),
            str(gpu.numa),
            f"each of the GPUs 0 to {gpu.count - 1} on exactly one NUMA node",
        ),
        *((node > last, ("numa", node), str(node), f"NUMA node 0 to {last}") for node in gpu.numa),
    )


def _gpu_of_others(gpu: Gpu) -> Iterator[Relation]:
    """Yield the relations of GPUs of another vendor, which have none of NVIDIA's settings."""
    for field in sorted(gpu.model_fields_set - OF_ANY_VENDOR):
        yield (
            getattr(gpu, field) != Gpu.model_fields[field].get_default(call_default_factory=True),
            (field,),
            str(getattr(gpu, field)),
            f"leave it out: Lockstep does not set or check {MAKERS[gpu.vendor]} GPUs",
        )


OF_ANY_VENDOR = {"vendor", "model", "count"}
MAKERS = {"amd": "AMD", "intel": "Intel"}


def _gpu_of_nvidia(gpu: Gpu) -> Iterable[Relation]:
    if gpu.model is None:
        wanted = "a model of the catalogue, or the name that nvidia-smi prints"
        return [(True, ("model",), "nothing", wanted)]
    known = gpus.known()
    if isinstance(gpu.model, OwnGpu):
        return (*_own_gpu(gpu.model), *_gpu_model(gpu, gpu.values))
    if gpu.name not in known and CATALOGUE_NAME.fullmatch(gpu.name):
        wanted = f"one of {', '.join(known)}; or the name that nvidia-smi prints"
        return [(True, ("model",), gpu.name, wanted)]
    return _gpu_model(gpu, gpu.values)


CATALOGUE_NAME = re.compile(r"[a-z0-9_]+")
"""The form of names in the catalogue. A product name has spaces or capital letters."""


def _own_gpu(own: OwnGpu) -> Iterable[Relation]:
    """Return the relations between the values of an own model."""
    lowest, highest = own.power_limits_w or (0.0, math.inf)
    default = own.default_power_limit_w
    return (
        (
            own.architecture is not None and own.architecture not in ARCHITECTURES,
            ("model", "architecture"),
            str(own.architecture),
            "one of " + ", ".join(ARCHITECTURES),
        ),
        (
            not 0 <= lowest <= highest,
            ("model", "power_limits_w"),
            f"{lowest:g}, {highest:g}",
            "the lower limit first, in watts",
        ),
        (
            default is not None and lowest <= highest and not lowest <= default <= highest,
            ("model", "default_power_limit_w"),
            f"{default} W",
            f"{lowest:g} to {highest:g} W, as in power_limits_w",
        ),
    )


def _gpu_model(gpu: Gpu, model: GpuModel) -> Iterable[Relation]:
    """Return the relations between a class's GPU settings and the limits of its GPU model."""
    lowest, highest = model.power_limits_w or (0.0, math.inf)
    fastest = math.inf if model.max_sm_clock_mhz is None else model.max_sm_clock_mhz
    most = "" if fastest == math.inf else f", at most {fastest:g} MHz ({model.product_name})"
    low, high = gpu.clocks_mhz or (0, 0)
    return (
        (
            gpu.power_limit_w is not None and not lowest <= gpu.power_limit_w <= highest,
            ("power_limit_w",),
            f"{gpu.power_limit_w or 0:g} W",
            f"{lowest:g} to {highest:g} W ({model.product_name})",
        ),
        (
            not low <= high <= fastest,
            ("clocks_mhz",),
            f"{low}, {high}",
            f"the lower clock first{most}",
        ),
        (
            gpu.mig and model.mig_profiles == (),
            ("mig",),
            ", ".join(gpu.mig),
            f"leave it out: {model.product_name} does not support MIG",
        ),
        *(_mig(gpu.mig, model.mig_profiles) if model.mig_profiles else ()),
    )


def _mig(layout: tuple[str, ...], profiles: tuple[str, ...]) -> Iterable[Relation]:
    """Return the relations that the instances on one GPU must satisfy (MIG user guide)."""
    if not {*layout} <= {*profiles}:
        allowed = "one of " + ", ".join(profiles)
        return [(name not in profiles, ("mig", n), name, allowed) for n, name in enumerate(layout)]
    slices = sum(int(name.partition("g.")[0]) for name in layout)
    whole = max(_gigabytes(name) for name in profiles)
    # Profile names round the memory size; the GPU allocates memory in eighths, so count those.
    eighths = sum(round(8 * _gigabytes(name) / whole) for name in layout)
    extensions = sum("+me" in name for name in layout)
    text = ", ".join(layout)
    return (
        (
            slices > 7,
            ("mig",),
            f"{text}: {slices} slices",
            "at most 7 slices (the number before the g)",
        ),
        (
            eighths > 8,
            ("mig",),
            f"{text}: {eighths} eighths of the memory",
            f"at most {whole} GB, 8 eighths",
        ),
        (
            extensions > 1,
            ("mig",),
            f"{text}: {extensions} with +me",
            "at most one instance with media extensions (+me)",
        ),
    )


def _gigabytes(profile: str) -> int:
    return int(profile.partition("g.")[2].partition("gb")[0])
