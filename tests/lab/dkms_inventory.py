"""The lab's workers as machines with their own kernels, which get NVIDIA's driver."""

from pathlib import Path

import lockstep.lab_path  # noqa: F401
from lab.state import load_or_exit
from lockstep.inventory import plan_or_exit

_lab = load_or_exit()
_keys = Path(_lab.ssh_key).parent / "module-keys"
_container = {"cgroup": "none", "clock": "host"}

_cluster = plan_or_exit(
    {
        "name": _lab.name,
        "secrets_dir": str(Path(_lab.ssh_key).parent / "secrets"),
        "networks": {"management": {"prefix": _lab.prefix}},
        "hardware": {
            "head": {**_lab.hardware["head"].model_dump(), **_container, "boot_loader": "none"},
            "worker": {
                **_lab.hardware["worker"].model_dump(),
                **_container,
                "gpu": {"model": "h200", "count": 8},
            },
        },
        "nodes": [
            {
                "name": node.name,
                "role": node.role,
                "hardware": node.role,
                "management": node.address,
                "runs": ["slurm_controller", "slurm_accounting"] if node.role == "head" else [],
            }
            for node in _lab.nodes
        ],
        "os": {"release": _lab.os, "time_zone": "Etc/UTC"},
        "access": {
            "user": _lab.ssh_user,
            "key": _lab.ssh_key,
            "known_hosts": _lab.known_hosts,
        },
        "scheduler": {"kind": "slurm"},
        "software": {
            "nvidia": {"packaging": "debian", "driver": "550.163.01"},
            "module_signing": {
                "key": str(_keys / "modules.key"),
                "certificate": (_keys / "modules.pem").read_text(encoding="ascii"),
            },
        },
    },
    __file__,
)

worker = _cluster.group("worker")
