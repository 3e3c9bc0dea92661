"""A cluster that a site has set up by hand: it is checked, then adopted while a job runs.

The tests build on each other: each leaves the cluster to the next one.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.lab.labs import ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME, INVENTORY = "test-adopt", "tests/lab/adopt_inventory.py"
WORKERS = ("worker1", "worker2", "worker3")
PYINFRA = str(ROOT / ".venv/bin/pyinfra")
ADOPTED = ("packages", "os_settings", "node_exporter")
SLURM_CONF = """\
# The site's own.
ClusterName=byhand
SlurmctldHost=head
SlurmUser=slurm
CommunicationParameters=EnableIPv6,DisableIPv4
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=worker[1-3] CPUs=1 RealMemory=500 State=UNKNOWN
PartitionName=site Nodes=ALL Default=YES State=UP
"""
BY_HAND = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends {packages} >/dev/null
printf '%s' {key} | base64 -d >/etc/munge/munge.key
chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
printf '%s\\n' '127.0.0.1 localhost' '::1 localhost' {hosts} 'fd00:9::1 storage1' >/etc/hosts
echo {node} >/etc/hostname; hostname {node}
mkdir -p /etc/slurm
printf '%s' {slurm} >/etc/slurm/slurm.conf
printf 'CgroupPlugin=disabled\\n' >/etc/slurm/cgroup.conf
{sysctls}
printf '* soft nofile 4096\\n' >/etc/security/limits.d/site.conf
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\\nDefaultLimitNOFILE=4096\\n' >/etc/systemd/system.conf.d/site.conf
{zone}
"""
SYSCTLS = (
    "printf 'net.core.somaxconn = 2048\\nnet.ipv4.tcp_keepalive_time = 600\\n' "
    ">/etc/sysctl.d/10-site.conf; sysctl -q -p /etc/sysctl.d/10-site.conf"
)
ZONE = "ln -sfn /usr/share/zoneinfo/Europe/Berlin /etc/localtime"
DRIFT = (
    "sed -i s/2048/512/ /etc/sysctl.d/10-site.conf; sysctl -q -p /etc/sysctl.d/10-site.conf; "
    "echo '* soft core 0' >/etc/security/limits.d/new.conf; "
    "ln -sfn /usr/share/zoneinfo/Asia/Tokyo /etc/localtime"
)
JOB = "while :; do date +%s >>/root/ticks; sleep 1; done"
RUNS = "for i in $(seq 20); do test -s /root/ticks && break; sleep 1; done"
IDLE = "test $(sinfo -h -t idle -o %D) = 3"
LONGEST_PAUSE_S = 15
"""Two processors have four machines: a job that only writes the time can wait for seconds."""


@pytest.fixture(scope="module")
def site() -> Iterator[Lab]:
    """A head and three workers with Debian's Slurm, as an administrator sets them up."""
    with Lab(os.environ.get("LOCKSTEP_TEST_LAB", NAME)).booted(workers=3) as lab:
        set_up(lab)
        yield lab


def set_up(lab: Lab) -> None:
    """Install and configure Slurm on all machines, without Lockstep."""
    nodes = json.loads(lab.lab("status", "--json").stdout)["nodes"]
    hosts = {node["name"]: node["address"] for node in nodes}
    key = secrets.token_bytes(128)

    def by_hand(node: str) -> None:
        role = "slurmctld" if node == "head" else "slurmd"
        lab.on(
            node,
            BY_HAND.format(
                node=node,
                packages=f"munge slurm-client {role}",
                key=base64.b64encode(key).decode(),
                hosts=" ".join(f"'{address} {name}'" for name, address in hosts.items()),
                slurm=shlex.quote(SLURM_CONF),
                sysctls=SYSCTLS,
                zone=ZONE,
            ),
        )
        # Everything runs as configured, as on machines that have been booted since.
        lab.lab("power-cycle", node)

    with ThreadPoolExecutor() as together:
        list(together.map(by_hand, hosts))
    lab.on("head", f"for i in $(seq 60); do {IDLE} && exit; sleep 1; done; sinfo; exit 1")


def test_nodes_that_are_alike_have_no_finding_and_nothing_of_lockstep(site: Lab) -> None:
    checked = site.check(inventory=INVENTORY, rules_only=False)
    assert (checked.status, checked.findings) == (0, []), checked.text
    assert "every role; Lockstep only checks" in checked.text
    deployed = site.deploy(inventory=INVENTORY)
    assert (deployed.status, deployed.changed) == (0, [])
    assert "Nothing is managed" in deployed.errors
    left = "find / -xdev -iname '*lockstep*' ! -path '*standin*' ! -path '*nvidia*'"
    assert [site.on(node, left).strip() for node in ("head", *WORKERS)] == [""] * 4


def test_real_differences_are_named_and_nothing_else(site: Lab) -> None:
    site.on("worker3", DRIFT)
    try:
        checked = site.check(inventory=INVENTORY, rules_only=False)
    finally:
        site.on("worker3", f"{SYSCTLS}; rm /etc/security/limits.d/new.conf; {ZONE}")
    assert checked.named == {
        ("sysctl.common", "worker3", "net.core.somaxconn"),
        ("fingerprint.file", "worker3", "/etc/sysctl.d/10-site.conf"),
        ("fingerprint.file", "worker3", "/etc/security/limits.d/new.conf"),
        ("fingerprint.file", "worker3", "/etc/localtime"),
    }
    assert {one["reference"].partition(" (")[0].partition(":")[0] for one in checked.findings} == {
        "peers"
    }


def test_three_roles_are_adopted_and_the_running_job_is_unharmed(
    site: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_ADOPTED", " ".join(ADOPTED))
    job = site.on("head", f"cd /tmp && sbatch --parsable -w worker1 -o /dev/null --wrap '{JOB}'")
    site.on("worker1", f"{RUNS} && test -s /root/ticks")
    before = daemons(site)
    dry = site.command(PYINFRA, "--dry", "-y", INVENTORY, "deploys/cluster.py").stderr
    for shown in (
        "+++ /etc/hosts planned",
        "package prometheus-node-exporter",
        "No node was changed.",
    ):
        assert shown in dry
    assert "/etc/slurm" not in dry
    deployed = site.deploy(inventory=INVENTORY)
    assert deployed.status == 0, deployed.errors
    assert any("OS settings" in one for one in deployed.changed)
    again = site.deploy(inventory=INVENTORY)
    assert (again.status, again.changed) == (0, [])
    checked = site.check(inventory=INVENTORY, rules_only=False)
    assert (checked.status, checked.findings) == (0, []), checked.text

    # The job, the daemons and the site's files are as before, and the adopted roles are Lockstep's.
    assert daemons(site) == before
    ticks = [int(one) for one in site.on("worker1", f"{RUNS}; cat /root/ticks").split()]
    assert max(later - one for one, later in pairwise(ticks)) <= LONGEST_PAUSE_S
    state = site.on("head", f"squeue -h -o '%T %N %r' -j {job.strip()}").split()
    assert state[:2] == ["RUNNING", "worker1"]
    for node in ("head", *WORKERS):
        assert site.on(node, "cat /etc/slurm/slurm.conf") == SLURM_CONF
        assert site.on(node, "sysctl -n net.core.somaxconn").strip() == "8192"
        assert site.on(node, "getent hosts storage1").split() == ["fd00:9::1", "storage1"]
    site.on("head", f"scancel {job.strip()} && srun -w worker1 true")


def test_an_adopted_role_is_judged_and_an_unmanaged_one_is_compared(
    site: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_ADOPTED", " ".join(ADOPTED))
    for node in WORKERS:
        site.on(node, "sysctl -q -w net.core.somaxconn=128")
    site.on("worker2", "printf 'KillWait=90\\n' >>/etc/slurm/slurm.conf")
    checked = site.check(inventory=INVENTORY, rules_only=False)
    assert checked.named == {
        *(("sysctl.running", node, "net.core.somaxconn") for node in WORKERS),
        ("fingerprint.file", "worker2", "/etc/slurm/slurm.conf"),
    }


def daemons(lab: Lab) -> list[str]:
    """Return which process of each of the site's daemons runs, and since when."""
    show = "systemctl show -p Id,MainPID,InvocationID munge {}"
    return [
        lab.on(node, show.format("slurmctld" if node == "head" else "slurmd"))
        for node in ("head", *WORKERS)
    ]
