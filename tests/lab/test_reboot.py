"""Rollouts of reboots: no job is lost, manual drains stay, one failure stops the rollout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Deployed, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

REBOOT = "deploys/reboot.py"
MARKER = "/run/reboot-required"
PID_1 = "sed 's/.*) //' /proc/1/stat | cut -d' ' -f20"
OURS = "lockstep-reboot: reboot-required"
NO_WAY_BACK = """\
printf '%s\\n' '#!/bin/sh' '[ "$1" = reboot ] && exec /usr/bin/systemctl poweroff' \\
    'exec /usr/bin/systemctl "$@"' > /usr/local/bin/systemctl
chmod 755 /usr/local/bin/systemctl
"""
"""A machine whose reboot ends in the dark."""


def wait_until(lab: Lab, node: str, states: str) -> None:
    lab.on(
        "head",
        f"for i in $(seq 60); do scontrol -o show node {node} | grep -qE ' State=({states}) ' "
        f"&& exit 0; sleep 1; done; scontrol -o show node {node}; exit 1",
    )


def boots(lab: Lab) -> dict[str, str]:
    return {node: lab.on(node, PID_1).strip() for node in ("head", "worker1", "worker2")}


def rollout(lab: Lab, *options: str) -> Deployed:
    return lab.deploy(REBOOT, *options)


def said(done: Deployed, node: str) -> list[str]:
    """What the rollout said of a node, in order."""
    text = re.sub(r"\x1b\[[\d;]*m", "", done.errors)
    parts = [part for part in text.split("--> ") if part.startswith("Starting operation: Reboot")]
    lines = [line for part in parts for line in re.findall(rf"^ *\[{node}\] +(.*)$", part, re.M)]
    return [line.strip() for line in lines if line.strip() != "Skipped"]


def reason(lab: Lab, node: str) -> str:
    shown = re.search(r" Reason=(.*?) \[", lab.on("head", f"scontrol -o show node {node}"))
    return shown.group(1) if shown else ""


@pytest.fixture
def ready(cluster: Lab) -> Iterator[Lab]:
    """The cluster in order, nothing pending; and so again when a test failed half-way."""
    for node in ("worker1", "worker2"):
        wait_until(cluster, node, "IDLE")
    assert cluster.check().named == set()
    yield cluster
    for node in ("worker1", "worker2"):
        cluster.lab("power-on", node, check=False)
        cluster.on(node, f"rm -f {MARKER} {MARKER}.pkgs /usr/local/bin/systemctl")
        cluster.on("head", f"scontrol update NodeName={node} State=RESUME", check=False)
    cluster.on("head", "scancel --user=root; sleep 1")


def test_a_rollout_loses_no_job_and_leaves_what_is_not_pending_alone(ready: Lab) -> None:
    before = boots(ready)
    job = ready.on("head", "sbatch --parsable -w worker2 --wrap='sleep 600'").strip()
    wait_until(ready, "worker2", "ALLOCATED|MIXED")
    ready.on("worker1", f"touch {MARKER}; echo linux-image-amd64 > {MARKER}.pkgs")
    dry = ready.command(str(ROOT / ".venv/bin/pyinfra"), "--dry", INVENTORY, REBOOT).stderr
    assert dry.count("to reboot: reboot-required: linux-image-amd64") == 1
    assert dry.count("no reboot is pending") == 2
    assert boots(ready) == before
    done = rollout(ready)
    assert done.status == 0, done.errors
    steps = said(done, "worker1")
    assert steps[0] == "to reboot: reboot-required: linux-image-amd64"
    assert steps[1] == f"drained ({OURS})"
    assert steps[2] == "rebooting"
    assert steps[-2:] == ["resumed", "Success"]
    assert said(done, "worker2")[:2] == ["no reboot is pending", "No changes"]
    after = boots(ready)
    assert {node for node in before if before[node] != after[node]} == {"worker1"}
    assert ready.on("head", "sinfo -h -n worker1 -o %T").strip() == "idle"
    assert ready.on("head", "squeue -h -o '%i %T %N'").strip() == f"{job} RUNNING worker2"
    again = rollout(ready)
    assert (again.status, again.changed) == (0, []), again.errors
    assert boots(ready) == after
    ready.on("head", f"scancel {job}")


def test_a_job_is_awaited_and_a_persons_drain_stays(ready: Lab) -> None:
    before = boots(ready)
    job = ready.on("head", "sbatch --parsable -w worker1 --wrap='sleep 8'").strip()
    wait_until(ready, "worker1", "ALLOCATED|MIXED")
    ready.on("head", "scontrol update NodeName=worker1 State=DRAIN Reason='fan of a person'")
    ready.on("worker1", f"touch {MARKER}")
    done = rollout(ready, "--limit", "worker1")
    assert done.status == 0, done.errors
    steps = said(done, "worker1")
    assert steps[1].startswith(f"waiting for 1 job ({job})"), steps
    assert steps[-2:] == ["not resumed: already out of service: 'fan of a person'", "Success"]
    assert boots(ready)["worker1"] != before["worker1"]
    assert reason(ready, "worker1") == "fan of a person"
    wait_until(ready, "worker1", r"IDLE\+DRAIN")
    ended = f"scontrol -o show job {job} | grep -o 'JobState=[A-Z]*'"
    assert ready.on("head", ended).strip() == "JobState=COMPLETED"


def impatient(folder: Path) -> str:
    """The lab's inventory, with little time to come back."""
    text = (ROOT / INVENTORY).read_text(encoding="utf-8")
    anchor = '"monitoring": {'
    assert text.count(anchor) == 1
    copy = folder / "impatient.py"
    limits = '"reboots": {"return_timeout_s": 20},\n        '
    copy.write_text(text.replace(anchor, limits + anchor), encoding="utf-8")
    return str(copy)


def test_a_node_that_does_not_come_back_stops_the_rollout_and_is_gone_on_with(
    ready: Lab, tmp_path: Path
) -> None:
    before = boots(ready)
    inventory = impatient(tmp_path)
    for node in ("worker1", "worker2", "head"):
        ready.on(node, f"touch {MARKER}")
    ready.on("worker1", NO_WAY_BACK)
    done = ready.command(
        *(str(ROOT / ".venv/bin/pyinfra"), "-y", inventory, REBOOT), check=False
    )  # fmt: skip
    assert done.returncode == 1
    run = Deployed(done.returncode, {}, done.stderr)
    told = said(run, "worker1")
    (failed,) = [line for line in told if "did not come back" in line]
    assert failed.startswith(
        "worker1 did not come back within 20 s of its reboot (return_timeout_s): "
    )
    assert "It stays drained. Next: look at the console of worker1" in failed
    assert f"pyinfra -y {inventory} deploys/reboot.py --limit worker1" in failed
    assert told[-1].startswith("Error")
    for node in ("worker2", "head"):
        left, end = said(run, node)
        assert left.startswith("left alone: the rollout stopped because worker1 did not come back")
        assert end == "No changes"
        ready.on(node, f"rm {MARKER}")  # still pending; not part of what follows
    assert reason(ready, "worker1") == OURS
    assert ready.on("head", "srun -w worker2 uname -n").strip() == "worker2"
    ready.lab("power-on", "worker1")
    ready.on("worker1", "rm /usr/local/bin/systemctl")
    gone_on = rollout(ready)
    assert gone_on.status == 0, gone_on.errors
    steps = said(gone_on, "worker1")
    assert steps[0] == "to check and resume: drained by a rollout that did not finish"
    assert "rebooting" not in steps
    assert ready.on("head", "sinfo -h -n worker1 -o %T").strip() == "idle"
    now = boots(ready)
    assert {node for node in before if before[node] != now[node]} == {"worker1"}
