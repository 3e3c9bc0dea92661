"""inventories/prod.py, deployed in a lab as it stands there: two heads, eight rails, driver 590."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Deployed, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-description"
DRIVER, NEXT = "590.48.01", "590.48.02"
WORKERS = ("worker01", "worker02")
DRIVER_OF_ALL = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"


@dataclass(frozen=True)
class Described(Lab):
    """A lab with the cluster of an inventory file."""

    inventory: Path = Path()
    """A copy of inventories/prod.py, which a test may edit."""
    first: Deployed | None = None

    def edited(self, *changes: tuple[str, str]) -> None:
        """Change the description, as a user does."""
        text = self.inventory.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        self.inventory.write_text(text, encoding="utf-8")


def wait_until_idle(lab: Lab) -> None:
    lab.on(
        "head1",
        'for i in $(seq 60); do [ "$(sinfo -h -o %T | sort -u)" = idle ] && exit 0; sleep 1; done;'
        " sinfo; exit 1",
    )


@pytest.fixture(scope="module")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("site")
    inventory = folder / "prod.py"
    shutil.copytree(ROOT / "inventories" / "keys", folder / "keys")
    shutil.copyfile(ROOT / "inventories" / "prod.py", inventory)
    lab = Lab(os.environ.get("LOCKSTEP_TEST_LAB", NAME))
    lab.lab("down")
    try:
        lab.lab("up", "--description", str(inventory))
        yield Described(lab.name, inventory=inventory, first=lab.deploy())
    finally:
        lab.lab("down")


def test_the_first_deploy_succeeds_and_the_second_changes_nothing(prod: Described) -> None:
    assert prod.first is not None
    assert prod.first.status == 0, prod.first.errors
    wait_until_idle(prod)
    again = prod.deploy()
    assert (again.status, again.changed) == (0, []), again.errors


def test_the_check_finds_no_difference(prod: Described) -> None:
    checked = prod.check("--containers", rules_only=False)
    assert (checked.status, checked.named) == (0, set()), checked.text


@pytest.mark.parametrize("node", WORKERS)
def test_a_worker_has_the_version_set_of_the_description(prod: Described, node: str) -> None:
    assert prod.on(node, DRIVER_OF_ALL).strip() == DRIVER
    installed = dict(
        line.split()
        for line in prod.on(node, "dpkg-query -W -f '${Package} ${Version}\\n'").splitlines()
    )
    expected = {
        "nvidia-driver-cuda": f"{DRIVER}-1",
        "nvidia-fabricmanager": f"{DRIVER}-1",
        "libnvidia-nscq": f"{DRIVER}-1",
        "datacenter-gpu-manager-4-core": "1:4.6.0-1",
        "datacenter-gpu-manager-exporter": "4.8.3-1",
        "nvidia-container-toolkit": "1.19.1-1",
        "libnccl2": "2.28.9-1+cuda13.1",
        "cuda-toolkit-13-1": "13.1.0-1",
        "enroot": "4.1.2-1",
        "apptainer": "1.5.3",
    }
    assert {name: installed.get(name) for name in expected} == expected
    assert "release 13.1" in prod.on(node, "sh -lc 'nvcc --version'")


def test_jobs_run_on_both_workers_with_every_gpu(prod: Described) -> None:
    wait_until_idle(prod)
    said = "sh -c 'echo $(uname -n) $CUDA_VISIBLE_DEVICES'"
    shown = prod.on("head1", f"srun --immediate=60 -p train -N2 --gres=gpu:8 {said}")
    gpus = ",".join(map(str, range(8)))
    assert sorted(shown.splitlines()) == [f"{node} {gpus}" for node in WORKERS]


def test_workers_reach_each_other_on_every_rail(prod: Described) -> None:
    script = f"{ROOT / '.venv/bin/lockstep'} plan {INVENTORY} worker02 --json"
    rails = json.loads(prod.command(*script.split()).stdout)["fabric"]
    assert len(rails) == 8
    for rail, address in enumerate(rails):
        prod.on("worker01", f"ping -c1 -W2 -I ib{rail} {address}")


def test_drifts_are_named_alone_and_repaired(prod: Described) -> None:
    wait_until_idle(prod)
    prod.lab(
        *("gpu", "worker01", "--gpu", "3"),
        *("--set", "power.limit=350", "--set", "enforced.power.limit=350"),
    )
    prod.on("worker02", "ip link set dev ib3 mtu 1500")
    named = {("gpu.power_limit", "worker01", "gpu3"), ("net.mtu", "worker02", "ib3")}
    checked = prod.check()
    assert checked.named == named, checked.text
    deployed = prod.deploy("deploys/worker.py")
    assert deployed.status == 0, deployed.errors
    assert prod.check().named == set()


def test_the_set_is_upgraded_node_by_node_and_no_job_is_lost(prod: Described) -> None:
    wait_until_idle(prod)
    job = prod.on(
        "head1", "sbatch --parsable -w worker02 --gres=gpu:2 -o /tmp/job --wrap='sleep 20'"
    ).strip()
    prod.edited(
        *((f'"{part}": "{DRIVER}"', f'"{part}": "{NEXT}"')
          for part in ("driver", "fabric_manager", "nscq")),
    )  # fmt: skip
    deployed = prod.deploy()
    assert deployed.status == 0, deployed.errors
    rolled = prod.deploy("deploys/reboot.py")
    assert rolled.status == 0, rolled.errors
    assert prod.on("head1", f"sacct -n -X -P -j {job} -o state,exitcode,restarts").split() == [
        "COMPLETED|0:0|0"
    ]
    assert [prod.on(node, DRIVER_OF_ALL).strip() for node in WORKERS] == [NEXT, NEXT]
    wait_until_idle(prod)
    checked = prod.check()
    assert checked.named == set(), checked.text
    assert prod.deploy().changed == []


def test_a_description_that_the_lab_does_not_have_is_refused(prod: Described) -> None:
    prod.edited((f'"driver": "{NEXT}"', '"driver": "590.99.99"'),
                (f'"fabric_manager": "{NEXT}"', '"fabric_manager": "590.99.99"'),
                (f'"nscq": "{NEXT}"', '"nscq": "590.99.99"'))  # fmt: skip
    refused = prod.deploy()
    assert refused.status != 0
    assert "neither the archive nor the lab's repositories have" in refused.errors
    assert "libcuda1 590.99.99-*" in refused.errors
    other = prod.lab("up", "--description", "inventories/small.py", check=False)
    assert other.returncode == 3
    assert "requires all nodes to be recreated" in other.stderr
    branch = prod.lab("gpu", "worker01", "--branch", "535", check=False)
    assert branch.returncode == 3
    assert f"has the driver of {prod.inventory}" in branch.stderr
