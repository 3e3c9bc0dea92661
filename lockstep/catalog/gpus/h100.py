"""NVIDIA H100 SXM5, 80 GB (vendor data sheet; memory as nvidia-smi reports it)."""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA H100 80GB HBM3",
    memory_mib=81559,
    default_power_limit_w=700.0,
    power_limits_w=(200.0, 700.0),
    max_sm_clock_mhz=1980,
    architecture="hopper",
    nvlinks="18 x 26.562 GB/s",
    # MIG user guide, supported profiles.
    mig_profiles=(
        "1g.10gb",
        "1g.10gb+me",
        "1g.20gb",
        "2g.20gb",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
    ),
)
