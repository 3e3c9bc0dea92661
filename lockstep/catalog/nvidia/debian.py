"""Debian's archive (contrib, non-free); NVIDIA's package names for parts not in the archive.

Names and versions read from the archive: trixie has driver 550.163.01 and CUDA 12.4, bookworm
535.261.03 and 11.8.
"""

from lockstep.catalog.nvidia import Packaging, Part
from lockstep.catalog.nvidia.nvidia import PARTS

ARCHIVE = {
    "driver": Part(
        (
            "libcuda1",
            "libnvidia-cfg1",
            "libnvidia-ml1",
            "libnvidia-ptxjitcompiler1",
            "nvidia-persistenced",
            "nvidia-smi",
        ),
        # From a separate source package: bookworm has 535.171.04 with driver 535.261.03.
        other_versions={"nvidia-persistenced": "{series}.*"},
        # Each of these packages depends on exactly its own version of this package.
        brought=("nvidia-alternative",),
    ),
    "modules_open": Part(
        ("firmware-nvidia-gsp", "nvidia-open-kernel-dkms", "nvidia-open-kernel-support")
    ),
    "modules_proprietary": Part(
        ("firmware-nvidia-gsp", "nvidia-kernel-dkms", "nvidia-kernel-support")
    ),
    "cuda_runtime": Part(("libcudart{cuda_soname}",), "{version}.*"),
    "cuda_toolkit": Part(("nvidia-cuda-toolkit",), "{version}.*"),
    "nccl": Part(("libnccl2",)),
}

PACKAGING = Packaging({**PARTS, **ARCHIVE}, from_archive=frozenset(ARCHIVE))
