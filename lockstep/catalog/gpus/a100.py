"""NVIDIA A100 SXM4, 80 GB, 400 W; some machines have a 500 W version of the same GPU.

Power and clocks: `nvidia-smi -q` of a real GPU, driver 535.104.05 (github.com/NVIDIA/DCGM,
issue 152). Memory: a real GPU, driver 535.54.03 (a capture in github.com/influxdata/telegraf).
"""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA A100-SXM4-80GB",
    memory_mib=81920,
    default_power_limit_w=400.0,
    power_limits_w=(100.0, 400.0),
    max_sm_clock_mhz=1410,
    architecture="ampere",
    nvlinks="12 x 25 GB/s",
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
