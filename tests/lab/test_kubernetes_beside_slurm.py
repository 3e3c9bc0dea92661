"""Slurm and Kubernetes in one cluster: worker1 is Slurm's, and worker3 moves to it last."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.lab.kubectl import Kubernetes, pod
from tests.lab.labs import Deployed, Lab, deployed_lab

pytestmark = [pytest.mark.slow]

INVENTORY = "tests/lab/kubernetes_beside_slurm_inventory.py"
MOVED_INVENTORY = "tests/lab/kubernetes_moved_inventory.py"
SLURM, PODS, MOVED = "worker1", "worker2", "worker3"
GPU_VALUES = "persistence_mode,power.limit,compute_mode,ecc.mode.current,mig.mode.current"
FILES = (
    "/etc/default/grub.d/50-lockstep.cfg",
    "/etc/systemd/system.conf.d/50-lockstep-cpus.conf",
    "/etc/systemd/system/user.slice.d/50-lockstep.conf",
    "/etc/systemd/system/dev-hugepages.mount.d/50-lockstep.conf",
    "/etc/modprobe.d/50-lockstep-nvidia.conf",
    "/etc/security/limits.d/90-lockstep.conf",
    "/usr/local/sbin/lockstep-gpu-settings",
)
SHOWN = {
    "GPU settings": f"nvidia-smi --query-gpu={GPU_VALUES} --format=csv,noheader | sort -u",
    "driver": "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u",
    "CPUs of systemd": "sed -n s/^Cpus_allowed_list:.//p /proc/1/status",
    "CPUs of logins": "systemctl show -P AllowedCPUs user.slice",
    "huge pages": "grep -E '^(HugePages_Total|Hugepagesize|Hugetlb)' /proc/meminfo",
    **{path: f"sha256sum < {path} 2>/dev/null || echo none" for path in FILES},
}
"""What a worker shows -> the command that shows it."""
EXPECTED = {
    "GPU settings": "Enabled, 600.00 W, Exclusive_Process, Enabled, Disabled",
    "CPUs of systemd": "0",
    "CPUs of logins": "0",
    "/etc/default/grub.d/50-lockstep.cfg": "none",
}
"""As the description says. These machines boot no kernel of their own, and have no boot line."""


@pytest.fixture(scope="module")
def both() -> Iterator[Lab]:
    up = ("--workers", "3", "--kubernetes", "1.34")
    with deployed_lab("test-beside", *up, inventory=INVENTORY) as lab:
        yield lab


def shown(lab: Lab, node: str) -> dict[str, str]:
    return {name: lab.on(node, command).strip() for name, command in SHOWN.items()}


def test_workers_of_one_class_show_the_same_under_both_schedulers(
    both: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm, pods = shown(both, SLURM), shown(both, PODS)
    with capsys.disabled():
        print(f"\n{'':60}{'under Slurm':62}under Kubernetes")
        for name in SHOWN:
            one, other = (" ".join(values[name].split())[:60] for values in (slurm, pods))
            print(f"{name:60}{one:62}{other}")
    differing = {name: (slurm[name], pods[name]) for name in SHOWN if slurm[name] != pods[name]}
    assert differing == {}
    assert {name: slurm[name] for name in EXPECTED} == EXPECTED


def test_each_scheduler_has_its_own_worker(both: Lab) -> None:
    assert both.on("head", "sinfo -h -N -o %N").split() == [SLURM]
    nodes = Kubernetes(both, "default").get("nodes")["items"]
    assert {one["metadata"]["name"] for one in nodes} == {"head", PODS, MOVED}


def test_a_job_and_a_pod_run_at_the_same_time_each_with_gpus(both: Lab) -> None:
    kubernetes = Kubernetes(both, "default")
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    image = {"image": "docker.io/library/debian:trixie-slim"}
    kubernetes.apply(pod("beside", ["sleep", "3600"], container={**image, **limits}))
    try:
        kubernetes.ready("beside")
        job = "srun --immediate=60 --gres=gpu:3 sh -c 'uname -n; nvidia-smi -L'"
        of_job = both.on("head", job).splitlines()
        of_pod = kubernetes.run("exec beside -- nvidia-smi -L")
        assert kubernetes.get("pod beside")["spec"]["nodeName"] in (PODS, MOVED)
    finally:
        kubernetes.run("delete pod beside --now --ignore-not-found")
    assert of_job[0] == SLURM
    assert len(of_job) == 1 + 3
    assert len(re.findall(r"UUID: GPU-", of_pod)) == 2


def test_the_check_finds_no_difference(both: Lab) -> None:
    checked = both.check_once_read(inventory=INVENTORY)
    assert (checked.status, checked.named) == (0, set()), checked.text


def test_a_second_deploy_changes_nothing(both: Lab) -> None:
    again = both.deploy(inventory=INVENTORY)
    assert (again.status, again.changed) == (0, []), again.errors


def test_a_worker_that_moves_to_slurm_is_reset_and_drained_until_it_equals_the_others(
    both: Lab,
) -> None:
    kubernetes = Kubernetes(both, "default")
    kubernetes.apply(pod("kept", nodeName=MOVED))
    kubernetes.ready("kept")
    refused = remove(both)
    assert refused.status == 1
    assert "default/kept" in refused.errors
    assert f"drain {MOVED}" in refused.errors
    kubernetes.run(f"drain {MOVED} --ignore-daemonsets --delete-emptydir-data --force")

    removed = remove(both)
    assert removed.status == 0, removed.errors
    kubernetes.run(f"delete node {MOVED}")
    left = (
        "ctr -n k8s.io containers ls -q; pgrep -x 'pause|kubelet'; "
        "ls /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml; "
        "find /var/lib/kubelet/pods /var/lib/lockstep/kubernetes -mindepth 1"
    )
    assert both.on(MOVED, left, check=False) == ""
    again = remove(both)
    assert (again.status, again.changed) == (0, []), again.errors

    deployed = both.deploy(inventory=MOVED_INVENTORY)
    assert deployed.status == 1
    # A folder that the packages of Kubernetes leave; docs/kubernetes.md says what to do.
    assert f"{MOVED} stays drained, because it differs from its class" in deployed.errors
    checked = both.check(inventory=MOVED_INVENTORY, rules_only=False)
    assert ("fingerprint.file", MOVED, "/etc/kubernetes") in checked.named, checked.text
    both.on("head", f"scontrol update NodeName={MOVED} State=RESUME")
    job = f"srun --immediate=60 -w {MOVED} --gres=gpu:2 uname -n"
    assert both.on("head", job).strip() == MOVED


def remove(lab: Lab) -> Deployed:
    return lab.deploy("deploys/remove.py", "--limit", MOVED, inventory=MOVED_INVENTORY)
