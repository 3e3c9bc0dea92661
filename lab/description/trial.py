"""Tries an inventory file in a lab: boots its cluster, deploys it and checks it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time

from lab import lifecycle, places
from lab.errors import LabError
from lockstep.inventory import OWN_DEPLOYS, deploy_files

LAB_INVENTORY = OWN_DEPLOYS.with_name("inventories") / "lab.py"
"""The inventory of every lab: it reads the lab's state, and the file that is tried."""


def tried(name: str, inventory: str, workers: int | None) -> int:
    """Boot the missing machines, deploy the cluster with the site's deploys, and check it.

    On a lab that an earlier trial has deployed, the deploy is an upgrade, as in production.

    Args:
        name: the lab.
        inventory: the inventory file.
        workers: number of workers; None: as before, or two.

    Returns:
        0 if all nodes are consistent; otherwise the exit status of the check.

    Raises:
        LabError: the lab cannot take the description, or the deploy failed.
    """
    began = time.monotonic()

    def step(what: str) -> None:
        print(f"\n==> [{time.monotonic() - began:3.0f} s] {what}", flush=True)

    os.environ[places.NAME_VARIABLE] = name
    step(f"machines: those of {inventory}")
    lab = lifecycle.up(name, workers, None, None, inventory)
    (deploy,) = shlex.split(deploy_files(inventory)["cluster"])
    step(f"deploy: pyinfra -y LAB {deploy}")
    if status := _run("pyinfra", "-y", str(LAB_INVENTORY), deploy):
        raise LabError(
            f"the deploy ended with status {status}; the lab stays up",
            f"correct the reason above, then run again: lockstep lab --name {name} try {inventory}",
        )
    step("check: lockstep check LAB")
    status = _run("lockstep", "check", str(LAB_INVENTORY))
    worker = next(node.name for node in lab.nodes if node.role == "worker")
    step(f"done: the lab {name!r} is up")
    print(
        f"    LAB         {LAB_INVENTORY}\n"
        f"    shell       lockstep lab --name {name} ssh {worker}\n"
        f"    try again   lockstep lab --name {name} try {inventory}\n"
        f"    remove it   lockstep lab --name {name} down"
    )
    return status


def _run(module: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *words], check=False).returncode
