"""NVIDIA's software on the lab's workers: real apt, packages and containers, simulated GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Deployed, Lab
from tests.lab.test_cluster import wait_until_idle

pytestmark = pytest.mark.lab

WORKERS = ("worker1", "worker2")
DRIVER = "550.163.01"
NEXT = "550.163.02"
BROKEN = "550.163.03"


CUDA_VERSION = (
    "import ctypes; version = ctypes.c_int(); "
    'ctypes.CDLL("libcudart.so.12").cudaRuntimeGetVersion(ctypes.byref(version)); '
    "print(version.value)"
)


def changed(folder: Path, *replacements: tuple[str, str]) -> str:
    """Write an inventory of the lab that differs in some places; return its path."""
    text = (ROOT / INVENTORY).read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "changed.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def ssh(lab: Lab, node: str, command: str) -> str:
    """Run a command as a user does: what a shell of the console may do is not what a user may."""
    return lab.lab("ssh", node, "--", command).stdout.strip()


@pytest.mark.parametrize("node", WORKERS)
def test_a_worker_has_the_whole_set_at_one_version(cluster: Lab, node: str) -> None:
    query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"
    assert ssh(cluster, node, query) == DRIVER
    held = set(cluster.on(node, "apt-mark showhold").split())
    plan = json.loads(
        cluster.command(str(ROOT / ".venv/bin/lockstep"), "plan", INVENTORY, node, "--json").stdout
    )
    stack = {name for name in plan["packages"] if "nvidia" in name or "datacenter-gpu" in name}
    assert stack <= held
    assert ssh(cluster, node, f"python3 -c '{CUDA_VERSION}'") == "12040"


def test_a_job_in_a_container_sees_exactly_its_allocated_gpus(cluster: Lab) -> None:
    wait_until_idle(cluster)
    script = (ROOT / "scripts/job_container.sh").read_text(encoding="utf-8")
    for node, count in (("worker1", 3), ("worker2", 8)):
        cluster.lab("run", node, "--", "sh", "-c", "cat > /tmp/job_container.sh", stdin=script)
        said = ssh(
            cluster,
            "head",
            f"srun --immediate=60 -w {node} --gres=gpu:{count} bash /tmp/job_container.sh",
        )
        gpus = ",".join(map(str, range(count)))
        assert said == f"{node}: GPUs {gpus} allocated, {gpus} in its container"


def test_an_upgrade_by_hand_leaves_the_set_alone(cluster: Lab) -> None:
    said = cluster.on("worker1", "apt-get -q update >/dev/null; apt-get -q -y -s dist-upgrade")
    assert not re.search(r"^Inst (nvidia|libnvidia|libcuda|datacenter)", said, re.MULTILINE), said


def test_a_fabric_manager_runs_only_where_its_hardware_is(cluster: Lab, tmp_path: Path) -> None:
    without = changed(
        tmp_path,
        ('_gpu["nvswitch"] = True', '_gpu["nvswitch"] = False'),
        ('"fabric_manager": "550.163.01",', ""),
        ('"nscq": "550.163.01",', ""),
    )
    named = cluster.check(inventory=without).named
    unit = "nvidia-fabricmanager.service"
    assert {(rule, device) for rule, _, device in named} == {
        ("unit.forbidden", unit),
        # It is another plan: other pins, and GPUs that need no fabric.
        ("file.content", "/etc/apt/preferences.d/90-lockstep"),
        ("file.content", "/etc/lockstep/node-check.json"),
    }
    assert cluster.deploy("deploys/worker.py", inventory=without).status == 0
    assert cluster.check(inventory=without).named == set()
    assert cluster.deploy("deploys/worker.py").status == 0
    assert cluster.check().named == set()


@pytest.mark.slow
def test_an_older_module_under_a_newer_library_waits_for_a_reboot(cluster: Lab) -> None:
    """What a package upgrade by hand leaves: nvidia-smi refuses, and one finding says why."""
    packages = " ".join(
        f"{name}={NEXT}-1" for name in ("libcuda1", "libnvidia-cfg1", "libnvidia-ml1", "nvidia-smi")
    )
    cluster.on(
        "worker1",
        f"apt-get -q -y --allow-change-held-packages install {packages} >/dev/null; "
        "apt-mark hold libcuda1 libnvidia-cfg1 libnvidia-ml1 nvidia-smi",
    )
    assert (
        "Driver/library version mismatch"
        in cluster.lab("run", "worker1", "--", "nvidia-smi", check=False).stdout
    )
    checked = cluster.check()
    assert [(f["rule"], f["node"], f["status"]) for f in checked.findings] == [
        ("package.version", "worker1", "pending reboot")
    ], checked.text
    rolled = cluster.deploy("deploys/reboot.py")
    assert rolled.status == 0, rolled.errors
    assert cluster.check().named == set()


@pytest.mark.slow
def test_a_fabric_manager_of_another_version_waits_for_the_rollout(cluster: Lab) -> None:
    package = "nvidia-fabricmanager-550"
    cluster.on(
        "worker1",
        f"apt-get -q -y --allow-change-held-packages install {package}={NEXT}-1 >/dev/null; "
        f"apt-mark hold {package}",
    )
    checked = cluster.check()
    assert [(f["rule"], f["node"], f["device"], f["status"]) for f in checked.findings] == [
        ("package.version", "worker1", package, "pending reboot")
    ], checked.text
    rolled = cluster.deploy("deploys/reboot.py")
    assert rolled.status == 0, rolled.errors
    assert cluster.check().named == set()
    assert cluster.deploy().changed == []


IMAGE = """\
cd / && libraries=usr/lib/x86_64-linux-gnu
tar -c lib64 lib usr/lib64 sbin usr/sbin/ldconfig etc/ld.so.conf \
    $libraries/ld-linux-x86-64.so.2 $libraries/libc.so.6 $libraries/libdl.so.2 \
    $libraries/libpthread.so.0 $libraries/libm.so.6 $libraries/librt.so.1 > /tmp/glibc.tar
docker import /tmp/glibc.tar localhost/glibc:1
podman import -q /tmp/glibc.tar localhost/glibc:1
"""
"""An image with the C library, without which no container runs nvidia-smi."""


def test_nvidia_smi_lists_the_gpus_that_a_job_or_container_got(cluster: Lab) -> None:
    wait_until_idle(cluster)
    listed = cluster.on("worker1", "nvidia-smi --query-gpu=uuid --format=csv,noheader").split()
    query = "nvidia-smi --query-gpu=uuid,power.limit --format=csv,noheader,nounits"
    job = f"cd /tmp && runuser -u ops -- srun -w worker1 --gres=gpu:3 {query}"
    assert cluster.on("head", job).splitlines() == [f"{uuid}, 700.00" for uuid in listed[:3]]
    cluster.on("worker1", IMAGE)
    cluster.lab("gpu", "worker1", "--gpu", "5", "--set", "power.limit=444")
    devices = "--device nvidia.com/gpu=2 --device nvidia.com/gpu=5"
    for engine in ("docker", "podman"):
        run = f"{engine} run --rm --network none {devices} localhost/glibc:1 /usr/bin/{query}"
        seen = cluster.on("worker1", run).splitlines()
        assert seen == [f"{listed[2]}, 700.00", f"{listed[5]}, 444.00"], engine
        cluster.on("worker1", f"{engine} rmi localhost/glibc:1")
    cluster.lab("gpu", "worker1", "--reset")


INSTANCES = ["3g.71gb", "2g.35gb", "1g.18gb+me"]
DEVICE = re.compile(r"  MIG (\S+) +Device +\d+: \(UUID: (MIG-[0-9a-f-]+)\)")


def job(lab: Lab, profile: str) -> str:
    """Return what nvidia-smi lists in a job with one MIG device of a profile, as a plain user."""
    one = f"srun -w worker1 --gres=gpu:nvidia_h200_{profile}:1 nvidia-smi -L"
    return lab.on("head", f"cd /tmp && runuser -u ops -- {one}")


@pytest.mark.slow
def test_gpus_are_divided_as_declared_and_jobs_get_their_instances(
    cluster: Lab, tmp_path: Path
) -> None:
    whole = '"model": "h200", "count": 8'
    divided = changed(tmp_path, (whole, f'{whole}, "mig": {json.dumps(INSTANCES)}'))
    deployed = cluster.deploy(inventory=divided)
    assert deployed.status == 0, deployed.errors
    wait_until_idle(cluster)
    checked = cluster.check(inventory=divided)
    assert checked.named == set(), checked.text
    assert cluster.deploy(inventory=divided).changed == []
    for profile in INSTANCES:
        assert [found[0] for found in DEVICE.findall(job(cluster, profile))] == [profile]
    # A job holds an instance: the layout stays as it is.
    held = "sbatch -w worker1 --gres=gpu:nvidia_h200_1g.18gb+me:1 --wrap='sleep 600'"
    number = cluster.on("head", f"cd /tmp && runuser -u ops -- {held}").split()[-1]
    cluster.on(
        "head",
        f"for i in $(seq 60); do squeue -h -t R -j {number} | grep -q . && exit 0; sleep 1; done; "
        "squeue; exit 1",
    )
    assert cluster.deploy(inventory=divided).changed == []
    cluster.on("head", f"scancel {number}")
    wait_until_idle(cluster)
    # Somebody destroys an instance: it is named, and made again.
    listed = cluster.on("worker1", "nvidia-smi mig -i 2 -lgi")
    (gi,) = re.findall(r"MIG 2g\.35gb +14 +(\d+) ", listed)
    for verb in ("-dci", "-dgi"):
        cluster.on("worker1", f"nvidia-smi mig -i 2 -gi {gi} {verb}")
    assert ("gpu.mig_layout", "worker1", "gpu2") in cluster.check(inventory=divided).named
    repaired = cluster.deploy(inventory=divided)
    assert repaired.status == 0, repaired.errors
    wait_until_idle(cluster)
    checked = cluster.check(inventory=divided)
    assert checked.named == set(), checked.text
    assert cluster.deploy(inventory=divided).changed == []
    # Whole again: the mode waits for a reset, because there are instances on the GPUs.
    assert cluster.deploy().status == 0
    waiting = {(f["rule"], f["status"]) for f in cluster.check().findings}
    assert ("gpu.mig", "pending reboot") in waiting
    rolled = cluster.deploy("deploys/reboot.py")
    assert rolled.status == 0, rolled.errors
    wait_until_idle(cluster)
    checked = cluster.check()
    assert checked.named == set(), checked.text
    assert cluster.deploy().changed == []


def test_a_dead_gpu_does_not_end_the_deploy(cluster: Lab) -> None:
    cluster.lab("gpu", "worker1", "--gpu", "4", "--set", "lost=yes")
    cluster.on("worker1", "systemctl stop lockstep-gpu-settings")
    deployed = cluster.deploy("deploys/worker.py")
    assert deployed.status == 0, deployed.errors
    assert "lockstep-gpu-settings.service failed; the deploy goes on" in deployed.errors
    # This driver's nvidia-smi stops at a dead GPU, and names its address.
    assert cluster.check().named == {
        ("gpu.lost", "worker1", "0000:9d:00.0"),
        ("unit.active", "worker1", "lockstep-gpu-settings.service"),
    }
    cluster.lab("gpu", "worker1", "--reset")
    assert cluster.deploy().status == 0
    assert cluster.check().named == set()


def rollout(lab: Lab, inventory: str) -> Deployed:
    """What a user runs after a change of the version set."""
    deployed = lab.deploy(inventory=inventory)
    assert deployed.status == 0, deployed.errors
    return lab.deploy("deploys/reboot.py", inventory=inventory)


def set_of(folder: Path, version: str) -> str:
    return changed(
        folder,
        *((f'"{part}": "{DRIVER}"', f'"{part}": "{version}"')
          for part in ("driver", "fabric_manager", "nscq")),
    )  # fmt: skip


@pytest.mark.slow
def test_an_upgrade_goes_through_node_by_node_and_no_job_is_lost(
    cluster: Lab, tmp_path: Path
) -> None:
    wait_until_idle(cluster)
    job = cluster.on(
        "head", "sbatch --parsable -w worker2 --gres=gpu:2 -o /tmp/job --wrap='sleep 45'"
    ).strip()
    newer = set_of(tmp_path, NEXT)
    rolled = rollout(cluster, newer)
    assert rolled.status == 0, rolled.errors
    assert cluster.on("head", f"sacct -n -X -P -j {job} -o state,exitcode,restarts").split() == [
        "COMPLETED|0:0|0"
    ]
    assert cluster.check("--containers", inventory=newer).named == set()
    for node in WORKERS:
        query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"
        assert ssh(cluster, node, query) == NEXT
    assert cluster.deploy(inventory=newer).changed == []


@pytest.mark.slow
def test_a_package_that_fails_stops_the_rollout_there(cluster: Lab, tmp_path: Path) -> None:
    broken = set_of(tmp_path, BROKEN)
    rolled = rollout(cluster, broken)
    assert rolled.status == 1
    assert "the driver packages of worker1 could not be changed" in rolled.errors
    states = dict(
        line.split("|", 1) for line in cluster.on("head", "sinfo -hN -o '%N|%T %E'").splitlines()
    )
    assert states["worker1"].startswith("drained lockstep-reboot: driver")
    assert states["worker2"].startswith("idle")
    held = cluster.on("worker1", "apt-mark showhold").split()
    assert {"libnvidia-ml1", "nvidia-smi", "libcuda1"} <= set(held), "also after a failure"
    # Back to what the inventory says: the deploy fails on the broken node alone, the rollout
    # replaces what is broken there and takes it back into service.
    cluster.deploy()
    rolled = cluster.deploy("deploys/reboot.py")
    assert rolled.status == 0, rolled.errors
    assert cluster.deploy().status == 0
    assert cluster.check("--containers").named == set()
    assert cluster.deploy().changed == []
