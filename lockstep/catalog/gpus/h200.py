"""NVIDIA H200 SXM, 141 GB. Values read from a real GPU, driver 590.48.01."""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA H200",
    memory_mib=143771,
    default_power_limit_w=700.0,
    power_limits_w=(200.0, 700.0),
    max_sm_clock_mhz=1980,
    architecture="hopper",
    nvlinks="18 x 26.562 GB/s",
    # MIG user guide, supported profiles.
    mig_profiles=(
        "1g.18gb",
        "1g.18gb+me",
        "1g.35gb",
        "2g.35gb",
        "3g.71gb",
        "4g.71gb",
        "7g.141gb",
    ),
)
