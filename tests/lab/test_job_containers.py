"""Jobs in containers: pyxis in the real Slurm, stand-ins of enroot and Apptainer, real images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.labs import ROOT, Lab
from tests.lab.test_cluster import wait_until_idle
from tests.lab.test_nvidia import WORKERS, changed, ssh

pytestmark = [pytest.mark.lab, pytest.mark.slow]

IMAGE = "/tmp/job-image"
GPUS = "/bin/busybox sh -c 'cd /dev; for gpu in nvidia[0-9]*; do echo $gpu; done'"
PACKAGE = "nvslurm-plugin-pyxis"
PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"
PLUGSTACK = "/etc/slurm/plugstack.conf.d/50-lockstep-pyxis.conf"


@pytest.fixture(scope="module")
def images(cluster: Lab) -> Lab:
    """The lab, with an image of its own on each worker, made by the user."""
    script = (ROOT / "scripts/job_image.sh").read_text(encoding="utf-8")
    for node in WORKERS:
        cluster.lab("run", node, "--", "sh", "-c", "cat > /tmp/job_image.sh", stdin=script)
        ssh(cluster, node, f"sh /tmp/job_image.sh {IMAGE}")
    wait_until_idle(cluster)
    return cluster


def gpus(*numbers: int) -> list[str]:
    return [f"nvidia{number}" for number in numbers]


def in_container(lab: Lab, node: str, command: str, options: str = "") -> str:
    """Run a job in a container by pyxis, as an ordinary user, from the head."""
    image = f"--container-image={IMAGE}.sqsh"
    return ssh(lab, "head", f"srun --immediate=60 -w {node} {options} {image} {command}")


@pytest.mark.parametrize("node", WORKERS)
def test_a_job_in_a_container_sees_exactly_its_gpus(images: Lab, node: str) -> None:
    for count in (3, 8):
        seen = in_container(images, node, GPUS, f"--gres=gpu:{count}")
        assert sorted(seen.split()) == gpus(*range(count))
    assert in_container(images, node, GPUS) == "nvidia[0-9]*", "a job without GPUs has none"


def test_enroot_gives_the_gpus_that_slurm_names(images: Lab) -> None:
    start = f"SLURM_JOB_ID=1 %s enroot start {IMAGE}.sqsh {GPUS}"
    given = ssh(images, "worker1", start % "SLURM_STEP_GPUS=2,5")
    assert sorted(given.split()) == gpus(2, 5)
    assert ssh(images, "worker1", start % "SLURM_JOB_GPUS=7") == "nvidia7"
    assert ssh(images, "worker1", start % "") == "nvidia[0-9]*"


def test_it_is_another_root_and_the_same_user(images: Lab) -> None:
    assert in_container(images, "worker1", "/bin/busybox id -u") == "1000"
    assert "home" not in in_container(images, "worker1", "/bin/busybox ls /").split()


def test_the_node_keeps_folders_of_each_user_alone(images: Lab) -> None:
    ssh(images, "worker1", "enroot list")
    assert images.on("worker1", "stat -c '%a %U' /var/lib/enroot/user-1000").strip() == "700 ops"
    images.on("worker1", "rm -rf /run/enroot/user-1000; mkdir -m 777 /run/enroot/user-1000")
    refused = images.lab("ssh", "worker1", "--", "enroot list", check=False)
    assert refused.returncode != 0
    assert "/run/enroot/user-1000: not a folder of ops alone" in refused.stderr
    images.on("worker1", "rm -rf /run/enroot/user-1000")


def test_what_apptainer_shows_of_the_gpus(images: Lab) -> None:
    """--nv: every device node, where no cgroup constrains devices. CDI: those that are named."""
    run = "srun --immediate=60 -w worker1 --gres=gpu:2"
    all_of_them = ssh(images, "head", f"{run} apptainer exec --nv {IMAGE} {GPUS}")
    assert sorted(all_of_them.split()) == gpus(*range(8))
    chosen = "--contain --device nvidia.com/gpu=0 --device nvidia.com/gpu=1"
    given = ssh(images, "head", f"{run} apptainer exec {chosen} {IMAGE} {GPUS}")
    assert sorted(given.split()) == gpus(0, 1)


def test_a_plugin_for_another_slurm_is_named_and_repaired(images: Lab) -> None:
    images.on(
        "worker1",
        "apt-get -q -y --allow-downgrades --allow-change-held-packages install "
        f"{PACKAGE}=0.24.0-1 >/dev/null 2>&1; apt-mark hold {PACKAGE}",
    )
    refused = images.lab("ssh", "head", "--", "srun -w worker1 hostname", check=False)
    assert refused.returncode != 0, "a required plugin fails every job"
    # The extern step (PrologFlags=Contain) fails first, before srun's own step.
    assert "Something is wrong with the boot of the nodes" in refused.stderr
    checked = images.check()
    assert checked.named == {("slurm.pyxis", "worker1", PLUGIN)}, checked.text
    assert [finding["found"] for finding in checked.findings] == ["built for Slurm 24.05"]
    images.node_check("worker1")
    state = images.on("head", "scontrol -o show node worker1")
    assert re.search(
        r"State=\S*DRAIN\S* .*Reason=lockstep: slurm.pyxis .*found built for Slurm 24.05", state
    )
    assert images.deploy("deploys/worker.py").status == 0
    assert images.check().named == set()
    assert sorted(in_container(images, "worker1", GPUS, "--gres=gpu:1").split()) == gpus(0)
    assert images.deploy().changed == []


def test_without_a_build_for_this_slurm_workers_take_no_jobs(images: Lab, tmp_path: Path) -> None:
    """As after an upgrade of Slurm, before the repository has the plugin for it."""
    older = changed(
        tmp_path,
        (
            '"software": _software,',
            '"software": {**_software, "versions": {**_software["versions"], '
            f'"{PACKAGE}": "0.24.0-1"}}}},',
        ),
    )
    failed = images.deploy("deploys/worker.py", inventory=older)
    assert failed.status == 1
    assert f"no build of {PACKAGE} 0.24.0-1 in the repositories fits Slurm 24.11" in failed.errors
    states = images.on("head", "sinfo -hN -o '%T %E'").splitlines()
    reason = (
        f"lockstep: slurm.pyxis {PLUGIN}: found built for Slurm 24.05, "
        "expected built for Slurm 24.11"
    )
    assert states == [f"drained {reason}"] * len(WORKERS)
    assert images.deploy("deploys/worker.py").status == 0
    assert images.check().named == set()
    assert images.on("head", "sinfo -hN -o %T").split() == ["idle"] * len(WORKERS)


def test_a_node_that_does_not_load_the_plugin_is_named(images: Lab) -> None:
    images.on("worker1", f"rm {PLUGSTACK}")
    checked = images.check()
    assert checked.named == {("file.content", "worker1", PLUGSTACK)}, checked.text
    assert "slurm.container_image" in checked.text
    assert images.deploy("deploys/worker.py").status == 0
    assert images.check().named == set()
