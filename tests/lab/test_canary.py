"""A deploy with canaries: a wrong package reaches one worker, and the others are untouched."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Deployed, Lab
from tests.lab.test_cluster import wait_until_idle

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DEPLOY = "deploys/worker.py"
PACKAGE = "datacenter-gpu-manager-exporter"
GOOD, BETTER, BROKEN, FAULTY = "4.4.1", "4.4.2", "4.4.3", "4.4.4"
OTHERS = ("worker2", "worker3")
MARK = "/run/before-the-deploy"
BEGINS = "--> Canary: worker1 first, then worker2, then worker3"
LOST_WITHIN_S = 120
PINGED_WITHIN_S = 150
"""slurmctld pings nodes every third of SlurmdTimeout, 100 s; one that was cut off waits for it."""


@pytest.fixture(scope="module")
def equal() -> Iterator[Lab]:
    lab = Lab("test-canary")
    lab.lab("down")
    lab.lab("up", "--workers", "3")
    try:
        deployed = lab.deploy()
        assert deployed.status == 0, deployed.errors
        yield lab
    finally:
        lab.lab("down")


@pytest.fixture
def ready(equal: Lab) -> Lab:
    """All workers are equal, and have a mark that is older than every change to come."""
    wait_until_idle(equal, PINGED_WITHIN_S)
    for node in OTHERS:
        equal.on(node, f"touch {MARK}")
    return equal


def inventory(folder: Path, exporter: str, share: float = 0.3) -> str:
    """The lab's inventory, with canaries and a version of dcgm-exporter."""
    text = (ROOT / INVENTORY).read_text(encoding="utf-8")
    changes = {
        f'"dcgm_exporter": "{GOOD}"': f'"dcgm_exporter": "{exporter}"',
        '"monitoring": {': f'"deploys": {{"canary": True, "share": {share}}},\n"monitoring": {{',
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    copy = folder / f"exporter_{exporter}.py"
    copy.write_text(text, encoding="utf-8")
    return str(copy)


def told(deployed: Deployed) -> list[str]:
    return re.findall(r"--> Canary: (.*)", deployed.errors)


def versions(lab: Lab) -> list[str]:
    shown = f"dpkg-query -W -f '${{Version}} ${{db:Status-Abbrev}}' {PACKAGE}"
    return [lab.on(node, shown).strip() for node in ("worker1", *OTHERS)]


def assert_untouched(lab: Lab) -> None:
    for node in OTHERS:
        changed = f"find /etc /usr /var/lib/dpkg/status /var/lib/lockstep -newer {MARK} -type f"
        assert lab.on(node, f"{changed} 2>/dev/null || true") == ""
    assert lab.on("head", "sinfo -hN -n worker2,worker3 -o %T").split() == ["idle", "idle"]


def test_a_package_that_cannot_be_configured_stops_at_the_canary(
    ready: Lab, tmp_path: Path
) -> None:
    deployed = ready.deploy(DEPLOY, inventory=inventory(tmp_path, BROKEN))
    assert deployed.status == 1
    assert BEGINS in deployed.errors, deployed.errors
    stopped = told(deployed)[-1]
    assert stopped.startswith("stopped after step 1 of 3, because worker1 failed in "), stopped
    assert "Untouched: worker[2-3]. Next: repair worker1, then run: pyinfra -y" in stopped
    assert f"{PACKAGE}: this version cannot be configured" in deployed.errors
    assert versions(ready) == [f"{BROKEN}-1 hF", f"{GOOD}-1 hi", f"{GOOD}-1 hi"]
    assert_untouched(ready)

    # The description is corrected, and the same command goes through all workers.
    deployed = ready.deploy(DEPLOY, inventory=inventory(tmp_path, BETTER))
    assert deployed.status == 0, deployed.errors
    assert BEGINS in deployed.errors, deployed.errors
    checks = [line for line in told(deployed) if line.startswith("checking")]
    assert checks[1:] == [
        f"checking {nodes} after the change" for nodes in ("worker1", "worker[1-2]", "worker[1-3]")
    ]
    assert versions(ready) == [f"{BETTER}-1 hi"] * 3
    deployed = ready.deploy(DEPLOY, inventory=inventory(tmp_path, BETTER))
    assert (deployed.status, deployed.changed) == (0, [])
    assert told(deployed) == ["no node needs a change, so there are no steps"]


def test_a_package_that_brings_a_fault_stops_at_the_canary(ready: Lab, tmp_path: Path) -> None:
    # This finding is there before the deploy, so it does not stop it.
    ready.on("worker1", "sysctl -q -w net.ipv4.tcp_fin_timeout=59")
    deployed = ready.deploy(DEPLOY, inventory=inventory(tmp_path, FAULTY))
    assert deployed.status == 1
    stopped = told(deployed)[-1]
    assert (
        "stopped after step 1 of 3, because worker1 has findings that it did not have before this "
        "deploy: " in stopped
    ), deployed.errors
    assert "net.core.somaxconn (found 128" in stopped
    assert "tcp_fin_timeout" not in stopped
    assert "Untouched: worker[2-3]. Next: repair worker1" in stopped
    assert versions(ready) == [f"{FAULTY}-1 hi", f"{BETTER}-1 hi", f"{BETTER}-1 hi"]
    assert_untouched(ready)
    ready.on("worker1", "sysctl -q -w net.ipv4.tcp_fin_timeout=60")
    deployed = ready.deploy(DEPLOY, inventory=inventory(tmp_path, BETTER))
    assert deployed.status == 0, deployed.errors


def begun(lab: Lab, path: str) -> subprocess.Popen[str]:
    """A deploy that has begun to change its canary."""
    running = subprocess.Popen(
        [str(ROOT / ".venv/bin/pyinfra"), "-y", path, DEPLOY],
        cwd=ROOT,
        env=lab.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if BEGINS in line:
            return running
    raise AssertionError(f"it did not begin: {running.wait()}")


def test_a_lost_canary_is_said_in_one_line(ready: Lab, tmp_path: Path) -> None:
    running = begun(ready, inventory(tmp_path, GOOD))
    ready.lab("cut", "worker1")
    try:
        _, said = running.communicate(timeout=LOST_WITHIN_S)
    finally:
        ready.lab("reconnect", "worker1")
    assert running.returncode == 1
    (stopped,) = (line for line in said.splitlines() if "Canary: stopped" in line)
    assert 'step 1 of 3, because worker1 stopped answering during "' in stopped, said
    assert "Untouched: worker[2-3]. " in stopped
    assert_untouched(ready)


def test_ctrl_c_is_said_in_one_line(ready: Lab, tmp_path: Path) -> None:
    ready.on("worker1", f"apt-get -q -y --allow-change-held-packages remove {PACKAGE} >/dev/null")
    running = begun(ready, inventory(tmp_path, GOOD))
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    (line,) = (line for line in said.splitlines() if "Canary: interrupted" in line)
    assert "interrupted while deploying worker1 (may be incomplete). " in line
    assert "Traceback" not in said
    assert_untouched(ready)
    deployed = ready.deploy()
    assert deployed.status == 0, deployed.errors
