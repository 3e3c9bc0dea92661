"""Sources that several generations name. All of them were looked up on 2026-11-24."""

LISTED = "NVIDIA/open-gpu-kernel-modules at 595.45.04, README.md, list of compatible GPUs"
"""Product names, and by its history the first release that lists them."""

FAMILY = "NVIDIA GPU operator, platform support: products and their architectures"

LOGS = "nvidia-smi's table in several public logs, on drivers from 535 on"
"""Memory and power cap of idle GPUs."""

MIG_GUIDE = "NVIDIA MIG user guide, supported MIG profiles"

MIG_PARTED = "NVIDIA/mig-parted at bd7160f, deployments/systemd/config-default.yaml"
"""The profiles of each device ID."""

NO_MIG = "NVIDIA MIG user guide, supported GPUs"


def smi(driver: str) -> str:
    """Return the source of values that nvidia-smi of a real GPU printed."""
    return f"nvidia-smi -q of a real GPU, driver {driver}, in a public repository"
