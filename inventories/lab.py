"""The machines of `python -m lab`: one head and its workers, as the lab that made them says.

What the machines are (processors, memory, addresses) and which package versions their archive
holds comes from the lab, which made them: never from the nodes themselves.
"""

import json
from pathlib import Path

from lab.state import load_or_exit
from lockstep.catalog.os import load as release
from lockstep.plan import plan_or_exit
from lockstep.plan.software import every_package

_lab = load_or_exit()
_archive = json.loads(Path(_lab.archive_versions).read_text(encoding="utf-8"))
_cores = _lab.hardware.sockets * _lab.hardware.cores_per_socket
# All threads of the first core, where there is a second core for jobs.
_first_core = ",".join(str(_cores * thread) for thread in range(_lab.hardware.threads_per_core))
_machine = {
    **_lab.hardware.model_dump(),
    # The nodes are containers: they share their host's kernel and clock.
    "cgroup": "none",
    "boot_loader": "none",
    "clock": "host",
}

_cluster = plan_or_exit(
    {
        "name": _lab.name,
        # With the machines: when they go, their secrets go.
        "secrets_dir": str(Path(_lab.ssh_key).parent / "secrets"),
        "networks": {
            "management": {"prefix": _lab.prefix},
            "fabric": {"prefix": _lab.fabric_prefix},
        },
        "hardware": {
            "head": {**_machine, "housekeeping_cpus": ""},
            "worker": {
                **_machine,
                "housekeeping_cpus": _first_core if _cores > 1 else "",
                "gpu": {"model": "h200", "count": 8},
                "nics": {"count": 1},
            },
        },
        "nodes": [
            {
                "name": node.name,
                "role": node.role,
                "hardware": node.role,
                "management": node.address,
                "fabric": node.fabric_address,
                "runs": ["slurm_controller", "slurm_accounting", "prometheus"]
                if node.role == "head"
                else [],
            }
            for node in _lab.nodes
        ],
        "os": {
            "release": _lab.os,
            "time_zone": "Etc/UTC",
            "sysctl": {
                # Keys that belong to a network namespace: the only ones a container can set.
                "net.core.somaxconn": "8192",
                "net.ipv6.conf.all.accept_ra": "0",
                "net.ipv6.conf.default.accept_ra": "0",
                "net.ipv4.tcp_keepalive_time": "300",
            },
        },
        "access": {
            "user": _lab.ssh_user,
            "key": _lab.ssh_key,
            "known_hosts": _lab.known_hosts,
        },
        "scheduler": {"kind": "slurm", "partitions": []},
        "monitoring": {"scrape_interval_s": 5},
        "software": {
            "versions": {name: _archive[name] for name in every_package(release(_lab.os))}
        },
    },
    __file__,
)

head = _cluster.group("head")
worker = _cluster.group("worker")
