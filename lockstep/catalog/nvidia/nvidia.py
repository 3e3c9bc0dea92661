"""NVIDIA's own repositories (developer.download.nvidia.com/compute/cuda/repos), or a mirror.

Names: driver installation guide (Debian, compute-only), NVIDIA/gpu-driver-container, DCGM's
packaging.cmake, container toolkit's install guide.
"""

from lockstep.catalog.nvidia import Packaging, Part

PARTS = {
    "driver": Part(("libcuda1", "libnvidia-ml1", "nvidia-driver-cuda", "nvidia-persistenced")),
    "modules_open": Part(("nvidia-kernel-open-dkms",)),
    "modules_proprietary": Part(("nvidia-kernel-dkms",)),
    "cuda_runtime": Part(("cuda-libraries-{cuda}",), "{version}.*"),
    "cuda_toolkit": Part(("cuda-toolkit-{cuda}",), "{version}.*"),
    "fabric_manager": Part(("nvidia-fabricmanager{branch}",)),
    "nscq": Part(("libnvidia-nscq{branch}",)),
    "imex": Part(("nvidia-imex{branch}",)),
    "dcgm": Part(
        ("datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda{driver_cuda}"),
        "1:{version}-*",
    ),
    "dcgm_exporter": Part(("datacenter-gpu-manager-exporter",)),
    "container_toolkit": Part(
        (
            "libnvidia-container-tools",
            "libnvidia-container1",
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
        )
    ),
    "nccl": Part(("libnccl2",)),
    "gdrcopy": Part(("gdrdrv-dkms", "libgdrapi")),
}

PACKAGING = Packaging(PARTS)
