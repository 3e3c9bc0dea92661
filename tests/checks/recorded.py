"""Records of eight workers and their head: one capture, and the differences of each node."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.files import ManagedFile, managed
from lockstep.fleet.request import request
from lockstep.forms import Run
from lockstep.forms import text as text_form
from lockstep.inventory import planned as plan
from lockstep.manifest import SECTIONS
from lockstep.node.readers.collect import OF_ROLES
from lockstep.node.readers.reading import NOT_ASKED
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.nvidia import check_engines
from lockstep.probe.parse import record as record_of
from lockstep.probe.record import Reading, Record, Unreachable, only_records
from lockstep.report import Finding, Report
from lockstep.roles import declared
from lockstep.secrets import Secrets
from lockstep.spec import NodeRole, load
from lockstep.when import HOUR_S
from tests.checks.recorded_gpus import AT_WORK, WORKING, healthy, names
from tests.checks.recorded_machine import machine

CAPTURES = Path(__file__).parent.parent / "captures" / "h200"
SECRETS = Secrets(
    munge_key=b"k" * 128, database_password="not a real one", module_key=b"not a real one either"
)
DRIVER = "590.48.01"
KERNEL = "6.12.94+deb13-amd64"
"""The kernel of GRUB's first entry."""
REMOVED = object()
"""As a value of ``mutate``: take the reading away."""

CERTIFICATE = (Path(__file__).parents[2] / "inventories/keys/modules.pem").read_text()

DESCRIPTION: dict[str, Any] = {
    "name": "recorded",
    "networks": {
        "management": {
            "prefix": "fd00:1::/64",
            "manager": "release",
            "gateway": "fd00:1::ffff",
        },
        # Two rails: fd00:2::101 and fd00:2:0:1::101 on worker1.
        "fabric": {"prefix": "fd00:2::/48", "rails": 2, "manager": "networkd"},
    },
    "hardware": {
        "head": {
            "sockets": 1,
            "cores_per_socket": 2,
            "memory_mib": 8000,
            "management_interface": "eno1",
        },
        "hgx-h200": {
            "sockets": 2,
            "cores_per_socket": 4,
            "threads_per_core": 2,
            "numa_nodes": 2,
            "memory_mib": 65536,
            "gpu": {"model": "h200", "count": 8, "nvswitch": True},
            "hugepages": [
                {"size": "2M", "numa_node": 0, "count": 512},
                {"size": "2M", "numa_node": 1, "count": 512},
                {"size": "1G", "numa_node": 1, "count": 1},
            ],
            "housekeeping_cpus": "0,8",
            "nics": {
                "count": 2,
                "rdma": "roce",
                "rdma_devices": "mlx5_[0-1]",
                "interfaces": "fabric[0-1]",
            },
            "management_interface": "eno1",
            "kernel": {
                "transparent_hugepages": "madvise",
                "transparent_hugepages_defrag": "defer+madvise",
                "numa_balancing": False,
                "cpu_governor": "performance",
                "max_cstate": 1,
                "iommu": "pt",
                "isolation": ["managed_irq", "nohz_full"],
            },
        },
    },
    "nodes": [
        {
            "name": "head1",
            "role": "head",
            "hardware": "head",
            "management": "fd00:1::1",
            "runs": ["slurm_controller", "slurm_accounting", "prometheus"],
        },
        {
            "name": "worker[1-8]",
            "role": "worker",
            "hardware": "hgx-h200",
            "management": "fd00:1::101",
            "fabric": "fd00:2::101",
        },
    ],
    "os": {
        "release": "debian_13",
        "sysctl": {"net.core.somaxconn": "4096", "vm.swappiness": "1"},
    },
    "scheduler": {"kind": "slurm"},
    "software": {
        "rdma": {"stack": "distribution"},
        "versions": {"slurmd": "24.11.5-4+deb13u1"},
        "module_signing": {"key": "/keys/modules.key", "certificate": CERTIFICATE},
        "repositories": [
            {
                "name": "cuda",
                "uri": "https://mirror.example/debian13/x86_64",
                "suite": "/",
                "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nnone\n"
                "-----END PGP PUBLIC KEY BLOCK-----",
            }
        ],
        "nvidia": {
            "driver": DRIVER,
            "fabric_manager": DRIVER,
            "cuda": ["13.1"],
            "dcgm": "4.5.0",
            "dcgm_exporter": "4.8.0",
            "container_toolkit": "1.19.0",
        },
        "containers": {
            "engines": ["docker", "podman"],
            "apptainer": "1.5.3",
            "enroot": "4.1.2",
            "pyxis": "0.24.0",
        },
    },
}


def clustered(change: Callable[[dict[str, Any]], None] = lambda description: None) -> Context:
    """Return a consistent cluster, after a change of its description."""
    description = copy.deepcopy(DESCRIPTION)
    change(description)
    modules = "nvidia" in description["software"] and any(
        "gpu" in one and one.get("boot_loader") != "none"
        for one in description["hardware"].values()
    )
    if not modules:  # then a key for them is refused
        description["software"].pop("module_signing", None)
    cluster, problems = load(description, declared())
    assert cluster is not None, problems
    planned = plan(cluster, inventory="inventories/recorded.py")
    return context(planned, {name: raw_record(node) for name, node in planned.nodes.items()})


def parsed(raw: dict[str, Any]) -> Record:
    """Return a record as a check reads it: with what other records say as well, shared."""
    return record_of(json.dumps(raw))


def context(planned: ClusterPlan, raw: dict[str, dict[str, Any]]) -> Context:
    """Return what the engine judges; an hour ago everything was as it is now."""
    reading: Reading = {name: parsed(record) for name, record in raw.items()}
    now = Context(planned, reading, _files, SECRETS.munge_key_sha256)
    before = {
        name: record.model_copy(update={"taken_at": record.taken_at - HOUR_S})
        for name, record in only_records(reading).items()
    }
    return replace(now, before=before)


@cache
def consistent() -> Context:
    """Return the cluster in which nothing differs."""
    return clustered()


def mutated(start: Context, node: str, reading: str, path: tuple[str, ...], value: Any) -> Context:
    """Return the cluster with one place of one record changed; the path is inside the value."""
    record = start.reading[node]
    assert isinstance(record, Record)
    # Only this reading is written and parsed again: a record has hundreds.
    others = {name: one for name, one in record.readings.items() if name != reading}
    mine = {reading: record.readings[reading]} if reading in record.readings else {}
    raw = record.model_copy(update={"readings": mine}).model_dump(mode="json")
    place, last = raw["readings"], reading
    if path:
        place = raw["readings"][reading]["value"]
        for key in path[:-1]:
            place = place[key]
        last = path[-1]
        new = value
    else:
        new = value if value is REMOVED else {"value": value}
    if value is REMOVED:
        del place[last]
    else:
        assert last not in place or place[last] != new, "the mutation changes nothing"
        place[last] = new
    readings = {**others, **parsed(raw).readings}
    changed = record.model_copy(update={"readings": readings})
    return with_reading(start, {**start.reading, node: changed})


def unreachable(start: Context, *nodes: str) -> Context:
    """Return the cluster without records of these nodes."""
    gone = {node: Unreachable("ssh: Could not connect (timed out)") for node in nodes}
    return with_reading(start, {**start.reading, **gone})


def with_reading(start: Context, reading: Reading) -> Context:
    """Return the cluster with other records."""
    return replace(start, reading=reading)


def report(context: Context, *ids: str) -> Report:
    """Return what all rules find, or those with these ids."""
    return check([rule for rule in all_rules() if not ids or rule.id in ids], context)


RUN = Run("inventories/recorded.py", "lockstep check inventories/recorded.py", 1.8e9, 2.5)


def text(report: Report) -> str:
    """Return a report as people see it."""
    return text_form.text(report, RUN)


def only(findings: Iterable[Finding]) -> Finding:
    """Return the one finding there must be."""
    found = list(findings)
    assert len(found) == 1, [(f.rule, f.node, f.device, f.found) for f in found]
    return found[0]


@cache
def _rendered(name: str, role: NodeRole, cluster: int) -> tuple[ManagedFile, ...]:
    return managed(_PLANS[cluster].nodes[name], SECRETS)


_PLANS: dict[int, ClusterPlan] = {}


def _files(node: NodePlan) -> tuple[ManagedFile, ...]:
    _PLANS[id(node.cluster)] = node.cluster  # kept, so that an id is never used twice
    return _rendered(node.name, node.role, id(node.cluster))


@cache
def _capture(role: NodeRole) -> str:
    return (CAPTURES / f"{role.value}.json").read_text(encoding="utf-8")


def raw_record(node: NodePlan) -> dict[str, Any]:
    """Return the capture of the node's role, brought to what its plan says."""
    record: dict[str, Any] = json.loads(_capture(node.role))
    hardware, number = node.hardware, list(node.cluster.nodes).index(node.name)
    seen = {name: entry.get("value") for name, entry in record["readings"].items()}
    line = [*seen["kernel.cmdline"], *node.system.kernel_args]
    asked = request(node)
    changes: dict[str, Any] = {
        "os.hostname": node.name,
        **dict.fromkeys(OF_ROLES, NOT_ASKED),
        "files.changed": {},
        "os.groups": {},
        "hugepages.tried": {"tried": "", "reached": "0,0"},
        "packages.interrupted": False,
        "os.locales": ["c", "c.utf8", "en_us.utf8"],
        "systemd.started": {"invocation": f"{number:032x}", "at": 1795199783.0, "stamp": []},
        "time.own_clock": node.time.reference,
        "slurm.jobs": {},
        "slurm.node": {},
        "os.init_started": 60,
        "os.reboot_required": "absent",
        "os.rebooted_in_vain": [],
        "os.boot_id": f"00000000-0000-4000-8000-{number:012}",
        "cpu.online": f"0-{hardware.hardware.cpus - 1}",
        "numa.cpus": {str(numa): cpus for numa, cpus in enumerate(hardware.cpu.numa)},
        # A declared size leaves room for what the kernel keeps for itself.
        "memory_mib": hardware.hardware.memory_mib * 103 // 100,
        "kernel.cmdline": line,
        "kernel.cmdline_persisted": list(node.system.kernel_args),
        "kernel.cmdline_entries": {},
        "driver.kernels": {},
        "kernel.next": KERNEL,
        "kernel.initramfs": "1795199783.000000000 11",
        "driver.loaded": ["nvidia", "nvidia_uvm"] if node.gpu else [],
        "hugepages": {
            size: {
                str(numa): hardware.hugepages.get(size, {}).get(numa, 0)
                for numa in range(hardware.hardware.numa_nodes)
            }
            for size in {**dict.fromkeys(("2M", "1G")), **hardware.hugepages}
        },
        "cpuset.manager": hardware.cpu.housekeeping,
        "cpuset.user_slice": hardware.cpu.housekeeping,
        "hosts.entries": {name: [address] for address, name in node.cluster.hosts},
        "munge.key_sha256": SECRETS.munge_key_sha256,
        "files": {
            file.path: {
                "sha256": file.sha256,
                "mode": file.mode,
                "user": file.user,
                "group": file.group,
            }
            for file in _files(node)
        },
        "sysctl.running": dict(node.system.sysctl),
        "sysctl.persisted": {
            key: {"value": value, "file": "/etc/sysctl.d/99-zz-lockstep.conf"}
            for key, value in node.system.sysctl.items()
        },
        # The capture is older than some packages and units of the plan.
        "packages": {
            **dict.fromkeys(node.software.packages, "1.0-1"),
            **seen["packages"],
            **{name: pattern.replace("*", "1") for name, pattern in node.software.versions.items()},
        },
        "packages.held": sorted(node.software.held),
        "manifest": _manifest(node),
        **_kernel(node),
        **_services(node, seen["units"]),
        **_rdma(node, number),
        **machine(node, number),
        "slurm.spank_plugins": dict.fromkeys(asked.spank_plugins, "24.11"),
        "slurm.srun_options": dict.fromkeys(asked.srun_options, True),
    }
    if node.gpu is not None:
        gpus = range(node.gpu.count)
        changes["gpu.uuid"] = {f"gpu{i}": f"GPU-{number:08}-0000-{i:012}" for i in gpus}
        changes |= _driver(node) | healthy(node)
        if node.name == AT_WORK:
            changes |= {name: dict.fromkeys(names(node), v) for name, v in WORKING.items()}
        changes["driver.boards"] = {
            f"195:{i}": uuid for i, uuid in enumerate(changes["gpu.uuid"].values())
        }
        changes["gpu.serial"] = {f"gpu{i}": f"165{number:06}{i:04}" for i in gpus}
    if node.spec.slurm is None:
        pass
    elif node.role is NodeRole.WORKER:
        controller = _files(next(iter(node.cluster.nodes.values())))
        conf = {file.path: file.sha256 for file in controller}["/etc/slurm/slurm.conf"]
        changes["slurm.conf_sha256"] = conf
    else:
        changes["slurm.nodes"] = {
            name: {
                "state": ["ALLOCATED" if name == AT_WORK else "IDLE"],
                "cpus": worker.hardware.hardware.cpus,
                "real_memory": worker.hardware.hardware.slurm_memory_mib,
                "gres": worker.hardware.slurm.gres,
                "cpu_spec_list": worker.hardware.slurm.cpu_spec_list,
                "reason": "",
                "version": "24.11.5",
            }
            for name, worker in node.cluster.nodes.items()
            if worker.role is NodeRole.WORKER
        }
    for name, value in changes.items():
        record["readings"][name] = {"value": value}
    return record


RUNNING = {
    "active": "active",
    "sub": "running",
    "load": "loaded",
    "enabled": "enabled",
    "started_at": 1795199971,
}
OFF = {
    "active": "inactive",
    "sub": "dead",
    "load": "not-found",
    "enabled": "",
    "started_at": None,
}
MASKED = {
    "active": "inactive",
    "sub": "dead",
    "load": "masked",
    "enabled": "masked",
    "started_at": None,
}


OTHER_DEVICES = {
    "/dev/nvidiactl": "195:255",
    "/dev/nvidia-uvm": "511:0",
    "/dev/infiniband/rdma_cm": "10:58",
    "/dev/infiniband/uverbs0": "231:192",
    "/dev/infiniband/uverbs1": "231:193",
}


def _driver(node: NodePlan) -> dict[str, Any]:
    """Return what the driver and its GPUs say when nothing runs on them."""
    gpu = node.gpu
    assert gpu is not None
    linked = gpu.nvswitch or gpu.multi_node_nvlink
    idle = {
        "gpu.power.requested_w": gpu.power_limit_w or 700.0,
        "gpu.mig.current": "Enabled" if gpu.mig else "Disabled",
        "gpu.mig.pending": "Enabled" if gpu.mig else "Disabled",
        "gpu.mig.devices": sorted(gpu.mig),
        "gpu.clocks.sm_mhz": 345,
        "gpu.pstate": "P0",
        "gpu.utilization": 0,
        "gpu.memory.used_mib": 0,
        "gpu.recovery_action": "None",
        "gpu.remapped.pending": "No",
        "gpu.remapped.failure": "No",
        "gpu.ecc.uncorrected_volatile": 0,
        "gpu.fabric.state": "Completed" if linked else "not supported",
        "gpu.fabric.status": "Success" if linked else "not supported",
        "gpu.fabric.cluster": str(uuid5(NAMESPACE_OID, node.node.nvlink_domain)),
        "gpu.fabric.clique": "32766",
    }
    version = node.nvidia.spec.driver if node.nvidia else DRIVER
    modules = node.nvidia.driver.flavour if node.nvidia else None
    module = {"version": version, "flavour": modules or "open"}
    devices = [f"/dev/nvidia{i}" for i in range(gpu.count)]
    files = {path: f"195:{i}" for i, path in enumerate(devices)} | OTHER_DEVICES
    return {
        **{name: {f"gpu{i}": value for i in range(gpu.count)} for name, value in idle.items()},
        "gpu.lost": {},
        "driver.module": module,
        "driver.module_on_disk": dict(module),
        "driver.module_next": {"kernel": KERNEL, **module},
        "driver.library": version,
        "driver.xid": {},
        "cdi.devices": {
            "0": [devices[0]],
            "all": devices,
            **{f"{i}:{n}": [devices[i]] for i in range(gpu.count) for n in range(len(gpu.mig))},
        },
        "cdi.libraries": [version],
        "device.files": files | {"/dev/nvidia-caps/nvidia-cap1": "236:1"},
        "driver.instance_files": [],
        "containers": {
            engine: {
                "devices": files,
                "libraries": [version],
                "memlock": str(node.spec.os.memlock),
                "shm_kib": "65536",
                "cpus": node.hardware.cpu.all,
            }
            for engine in check_engines(node)
        },
    }


def _manifest(node: NodePlan) -> dict[str, Any]:
    """Return what the reader says of a node that has nothing beside its plan."""
    owner = {"role": "packages", "state": ""}
    return {
        **{section: {} for section in SECTIONS},
        "packages": dict.fromkeys(node.software.packages, owner),
    }


def _kernel(node: NodePlan) -> dict[str, Any]:
    """Return what a kernel that was started and set as planned shows."""
    hardware = node.hardware
    isolation = hardware.hardware.kernel.isolation
    shown = {
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/kernel/mm/transparent_hugepage/defrag": (
            "always defer [defer+madvise] madvise never"
        ),
    }
    # The kernel fills the first group of a mask up with zeros.
    shown |= {file.path: f"0{file.value}" for file in hardware.cpu_files}
    files: dict[str, Any] = {}
    for file in (*hardware.cpu_files, *hardware.kernel_files):
        if "*" in file.path:
            paths = [file.path.replace("*", str(cpu)) for cpu in range(hardware.hardware.cpus)]
            files[file.path] = dict.fromkeys(paths, "performance")
        else:
            files[file.path] = {file.path: shown[file.path]}
    pages = {
        size: {str(numa): count for numa, count in split.items()}
        for size, split in hardware.hugepages.items()
    }
    points = {"2M": "/dev/hugepages", "1G": "/dev/hugepages1G", "512M": "/dev/hugepages512M"}
    gid = node.spec.os.hugetlb_gid
    return {
        "kernel.files": files,
        "kernel.max_cstate": 1 if hardware.hardware.kernel.max_cstate is not None else 9,
        "cpu.isolated": hardware.cpu.workload if "domain" in isolation else "",
        "cpu.nohz_full": hardware.cpu.workload if "nohz_full" in isolation else "",
        "irq.affinity": {
            "timer": f"0-{hardware.hardware.cpus - 1}",
            "nvme0q1": "1",
            "virtio0-input.0": "1",
            # One that was moved on all nodes alike, and one where the command line puts it.
            "mlx5_comp1@pci:0000:3b:00.0": "1",
            "mlx5_comp0@pci:0000:3b:00.0": hardware.cpu.housekeeping or "0",
        },
        "hugepages.free": pages,
        "hugepages.mounts": {
            points[size]: {
                "pagesize": size,
                "mode": "1777" if gid is None else "1770",
                "gid": gid or 0,
            }
            for size in pages
        },
    }


def _services(node: NodePlan, units: dict[str, Any]) -> dict[str, Any]:
    """Return where the services of a node run, listen and what they may lock."""
    cpu = node.hardware.cpu
    running = (*node.system.units, "ssh.service", "systemd-journald.service")
    memlock = node.spec.os.memlock
    limit = memlock if memlock == "unlimited" else str(memlock * 1024)
    return {
        "units": {
            **dict.fromkeys(node.system.units, RUNNING),
            **dict.fromkeys(node.system.masked_units, MASKED),
            **dict.fromkeys(node.system.forbidden_units, OFF),
            **units,
        },
        "units.started": {
            unit: {
                "invocation": "5ee1",
                "at": 1795199971.25,
                "needs_daemon_reload": False,
                "stamp": [],
            }
            for unit in node.system.units
        },
        "cpuset.services": {
            unit: cpu.all if unit == "slurmd.service" else cpu.housekeeping or cpu.all
            for unit in running
        },
        "cpuset.groups": {},
        "limits.memlock": {unit: {"soft": limit, "hard": limit} for unit in node.system.units},
        "listeners": {
            f"{one.protocol}/{one.port}": ["::"] if node.address_family == "ipv6" else ["0.0.0.0"]
            for one in node.system.listeners
        },
    }


def _rdma(node: NodePlan, number: int) -> dict[str, Any]:
    """Return the RDMA devices that a node should have."""
    names = [f"mlx5_{index}" for index in range(node.hardware.hardware.nics.count)]
    each = {
        "rdma.firmware": "28.39.1002",
        "rdma.board": "MT_0000000838",
        "rdma.type": "MT4129",
        "rdma.state": "ACTIVE",
        "rdma.phys_state": "LinkUp",
        "rdma.rate": "400 Gb/sec (4X NDR)",
        "rdma.link_layer": "Ethernet",
    }
    return {
        **{reading: dict.fromkeys(names, value) for reading, value in each.items()},
        "rdma.count": len(names),
        "rdma.names": names,
        "rdma.guid": {name: f"a088:c203:00{number:02}:000{i}" for i, name in enumerate(names)},
        "rdma.netdev": {name: f"fabric{i}" for i, name in enumerate(names)},
        "rdma.device_files": {
            f"/dev/infiniband/{file}": mode
            for file, mode in (("rdma_cm", "666"), ("uverbs0", "666"), ("umad0", "600"))
            if names
        },
    }
