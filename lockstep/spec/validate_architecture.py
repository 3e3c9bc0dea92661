"""Validates a hardware class against the architecture of its processors and its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.spec.hardware import HardwareClass
from lockstep.spec.problem import Relation

OF_X86 = frozenset({"amd_iommu", "amd_pstate", "intel_iommu", "intel_pstate", "iommu"})
"""Kernel arguments that only x86 has (kernel documentation, admin-guide/kernel-parameters)."""
HUGEPAGES_OF_64K = ("2M", "512M")
"""Of the sizes that a description can have, those of an arm64 kernel with pages of 64 KiB. Other
kernels have 2M and 1G.

Source: kernel documentation, arch/arm64/hugetlbpage: 4K: 64K, 2M, 32M, 1G; 64K: 2M, 512M, 16G.
"""


def architecture_relations(hardware: HardwareClass) -> Iterator[Relation]:
    """Find settings that the architecture of the processors, or its kernel, does not have."""
    kernel, gpu, arm64 = hardware.kernel, hardware.nvidia_gpu, hardware.architecture == "arm64"
    product = gpu.values.product_name if gpu and gpu.model else ""
    yield from (
        (
            product.startswith(("NVIDIA GB200", "NVIDIA GB300", "NVIDIA GH200")) and not arm64,
            ("architecture",),
            hardware.architecture,
            f'"arm64": the processors of {product} are Grace',
        ),
        (
            kernel.page_size == "64k" and not arm64,
            ("kernel", "page_size"),
            "64k",
            "4k, or leave it out: x86 has no other page size",
        ),
        *(
            (
                pages.size == "512M" and kernel.page_size != "64k",
                ("hugepages", number, "size"),
                pages.size,
                "2M or 1G"
                + (
                    '; or set kernel.page_size to "64k": only such a kernel has pages of 512M'
                    if arm64
                    else ": x86 has no pages of 512M"
                ),
            )
            for number, pages in enumerate(hardware.hugepages)
        ),
    )
    if not arm64:
        return
    of_arm64: tuple[Relation, ...] = (
        (
            kernel.iommu == "off",
            ("kernel", "iommu"),
            "off",
            '"pt" or "nopt": iommu=off is for x86',
        ),
        (
            kernel.max_cstate is not None,
            ("kernel", "max_cstate"),
            str(kernel.max_cstate),
            "leave it out: its arguments, processor.max_cstate and intel_idle.max_cstate, are for "
            "x86",
        ),
        *(
            (
                argument.partition("=")[0] in OF_X86,
                ("kernel_args", number),
                argument,
                "leave it out: the argument is for x86",
            )
            for number, argument in enumerate(hardware.kernel_args)
        ),
        *(
            (
                kernel.page_size == "64k" and pages.size not in HUGEPAGES_OF_64K,
                ("hugepages", number, "size"),
                pages.size,
                "2M or 512M: an arm64 kernel with 64k pages has no others that Lockstep sets",
            )
            for number, pages in enumerate(hardware.hugepages)
        ),
    )
    yield from of_arm64
