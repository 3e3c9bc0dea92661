"""Compares a job's environment on each worker with the plan: CPUs, memory, huge pages, devices.

Usage: python scripts/job_environment.py INVENTORY (the lab in the inventory must be up).
Exit status: 1 if a value differs from the plan.
"""

import json
import subprocess
import sys

from lockstep.inventory import load
from lockstep.plan import NodePlan
from lockstep.spec import NodeRole
from lockstep.spec.names import cpus

INSIDE = r"""
import glob, json, os, re
group = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split("::")[1]
def nearest(name):
    folder = group
    while folder.startswith("/sys/fs/cgroup"):
        path = folder + "/" + name
        if os.path.exists(path):
            text = open(path).read().strip()
            if text not in ("", "max"):
                return text
        folder = os.path.dirname(folder)
    return "max"
def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        return False
    except OSError:  # the job has access, but the device has no driver
        return True
    return True
pages = {}
for path in glob.glob("/sys/devices/system/node/node*/hugepages/*/nr_hugepages"):
    node, size = re.search(r"node(\d+)/hugepages/hugepages-(\d+)kB", path).groups()
    pages[f"{size} kB on node {node}"] = int(open(path).read())
status = open("/proc/self/status").read()
memory = nearest("memory.max")
print(json.dumps({
    "node": os.uname().nodename,
    "cpuset": nearest("cpuset.cpus.effective"),
    "affinity": re.search(r"Cpus_allowed_list:\s*(\S+)", status).group(1),
    "mems": nearest("cpuset.mems.effective"),
    "memory_mib": memory if memory == "max" else int(memory) >> 20,
    "memlock": re.search(r"Max locked memory\s+(\S+)", open("/proc/self/limits").read()).group(1),
    "hugepages": pages,
    "thp": re.search(r"\[(.+)\]", open("/sys/kernel/mm/transparent_hugepage/enabled").read())[1],
    "devices": [p for p in sorted(glob.glob("/dev/nvidia[0-9]*")) if opens(p)],
    "given": os.environ.get("SLURM_STEP_GPUS", ""),
}))
"""
GPUS = 2
KIB = {"2M": 2048, "1G": 1048576}


def planned(plan: NodePlan, cpu_count: int) -> dict[str, str]:
    """Return the expected values of a job that uses all workload CPUs."""
    hardware = plan.hardware
    rows = {
        "cpuset": hardware.cpu.workload,
        "affinity": hardware.cpu.workload,
        "memory_mib": str(plan.cluster.slurm.def_mem_per_cpu_mib * cpu_count)
        if plan.cluster.slurm
        else "",
        "memlock": str(plan.spec.os.memlock),
        "devices": f"{GPUS} of {len(hardware.gpu_devices)}, those of SLURM_STEP_GPUS",
    }
    for size, split in hardware.hugepages.items():
        for node, pages in split.items():
            rows[f"hugepages {KIB[size]} kB on node {node}"] = str(pages)
    if hardware.hardware.kernel.transparent_hugepages:
        rows["thp"] = hardware.hardware.kernel.transparent_hugepages
    return rows


def found(inside: dict[str, object], total: int) -> dict[str, str]:
    """Return the values that the job found, in the same format."""
    rows = {
        name: str(value) for name, value in inside.items() if not isinstance(value, list | dict)
    }
    pages = inside["hugepages"]
    if isinstance(pages, dict):
        rows |= {f"hugepages {what}": str(count) for what, count in pages.items()}
    devices = inside["devices"]
    # SLURM_STEP_GPUS has node-wide indices. CUDA_VISIBLE_DEVICES counts from 0 inside the job
    # if devices are constrained (gres.conf(5)).
    wanted = [f"/dev/nvidia{i}" for i in str(inside["given"]).split(",") if i]
    rows["devices"] = (
        f"{len(wanted)} of {total}, those of SLURM_STEP_GPUS"
        if devices == wanted
        else f"can open {devices}, was allocated {wanted}"
    )
    return rows


def main(inventory: str) -> int:
    """Print the table; return the exit status."""
    plan = load(inventory)
    workers = [node for node in plan.nodes.values() if node.role is NodeRole.WORKER]
    count = len(cpus(workers[0].hardware.cpu.workload))
    argv = [sys.executable, "-m", "lab", "run", plan.heads[0], "--"]
    argv += ["srun", "--immediate=120", f"-N{len(workers)}", "--ntasks-per-node=1"]
    argv += [f"--cpus-per-task={count}", f"--gres=gpu:{GPUS}", "python3", "-c", INSIDE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        print(f"the job failed: {done.stderr.strip()}", file=sys.stderr)
        return 1
    inside = {row["node"]: row for row in map(json.loads, done.stdout.splitlines())}
    wrong = 0
    for node in workers:
        print(f"{node.name}: a job with {count} CPUs and {GPUS} GPUs")
        rows = found(inside[node.name], len(node.hardware.gpu_devices))
        width = max(map(len, rows))
        for name, wanted in planned(node, count).items():
            same = rows.get(name) == wanted
            wrong += not same
            mark = "=" if same else "DIFFERS from"
            print(f"    {name.ljust(width)}  {rows.get(name)}  {mark} plan {wanted}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
