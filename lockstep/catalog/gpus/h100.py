"""NVIDIA H100 SXM5, 80 GB (vendor data sheet; memory as nvidia-smi reports it)."""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA H100 80GB HBM3",
    memory_mib=81559,
    default_power_limit_w=700.0,
)
