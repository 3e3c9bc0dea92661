"""The description of a lab whose machines a site has set up by hand.

``LOCKSTEP_ADOPTED`` names the roles that Lockstep manages; all others are the site's.
"""

import os
from pathlib import Path

import lockstep.lab_path as _lab_path  # noqa: F401
from lab.fingerprint_exceptions import EXCEPTIONS as _EXCEPTIONS
from lab.state import load_or_exit
from lockstep.inventory import plan_or_exit
from lockstep.roles import declared

_lab = load_or_exit()
_adopted = os.environ.get("LOCKSTEP_ADOPTED", "").split()
_machine = {"cgroup": "none", "boot_loader": "none", "clock": "host"}
_of_worker = {"nics": {"count": 1, "interfaces": "fabric0"}}
_of_head = {"runs": ["slurm_controller", "slurm_accounting"]}

_cluster = plan_or_exit(
    {
        "name": "byhand",
        "secrets_dir": str(Path(_lab.ssh_key).parent / "secrets"),
        "records_dir": str(Path(_lab.ssh_key).parent / "records"),
        "networks": {
            "management": {"prefix": _lab.prefix},
            "fabric": {"prefix": _lab.fabric_prefix},
        },
        "hardware": {
            role: {**hardware.model_dump(), **_machine, **(_of_worker if role == "worker" else {})}
            for role, hardware in _lab.hardware.items()
        },
        "nodes": [
            {
                "name": node.name,
                "role": node.role,
                "hardware": node.role,
                "management": node.address,
                "fabric": node.fabric_address,
                **(_of_head if node.role == "head" else {}),
            }
            for node in _lab.nodes
        ],
        # A container may not raise limits of running services of other accounts, such as munge's.
        "os": {"release": _lab.os, "sysctl": {"net.core.somaxconn": "8192"}, "nofile": 4096},
        "access": {"user": _lab.ssh_user, "key": _lab.ssh_key, "known_hosts": _lab.known_hosts},
        "scheduler": {"kind": "slurm"},
        "checks": {"exceptions": [row._asdict() for row in _EXCEPTIONS]},
        # The site keeps a name of its own in a file that a role takes over.
        "files": {"/etc/hosts": {"lines": ["fd00:9::1 storage1"]}} if _adopted else {},
        "unmanaged": [role.name for role in declared() if role.name not in _adopted]
        if _adopted
        else ["all"],
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
