"""GPU models that Lockstep's catalogue does not have; `"gpu": {"model": A2, ...}` uses one.

The name is enough. Declare other values only if you know them: the GPU's own default and the GPUs
of its class decide otherwise (docs/nvidia.md of Lockstep, "GPU models").
"""

A2 = {
    # As `nvidia-smi --query-gpu=name --format=csv` prints it.
    "name": "NVIDIA A2",
    "architecture": "ampere",
}
