"""The deployed cluster: a second run changes nothing, jobs run, drift is found and repaired."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.lab.drifts import DRIFTS, Drift
from tests.lab.labs import PYTHON, ROOT, Lab

pytestmark = pytest.mark.lab

NODES = ("head", "worker1", "worker2")
SETTLING = {
    ("time.synchronised", "worker1", ""),
    ("time.offset", "worker1", ""),
    ("munge.round_trip", "worker1", ""),
    ("unit.active", "worker1", "nvidia-dcgm-exporter.service"),
}
"""chronyd needs some seconds after a boot, and so does an exporter that waits for its engine."""
STARTS = (
    "systemctl show '*.service' --state=active -p Id -p ActiveEnterTimestampMonotonic "
    "| grep -v '^$' | grep -A1 -E 'slurm|munge|chrony|prometheus|mariadb'"
)


def seed(lab: Lab, drift: Drift) -> None:
    if drift.gpu:
        lab.lab("gpu", drift.node, *drift.seed.split())
    else:
        lab.on(drift.node, drift.seed)


def undo_hardware(lab: Lab) -> None:
    for node in ("worker1", "worker2"):
        lab.lab("gpu", node, "--reset")


def wait_until_idle(lab: Lab, seconds: int = 60) -> None:
    lab.on(
        "head",
        f"for i in $(seq {seconds}); do "
        '[ "$(sinfo -h -o %T | sort -u)" = idle ] && exit 0; sleep 1; done; sinfo; exit 1',
    )


def test_second_run_changes_nothing_and_restarts_nothing(cluster: Lab) -> None:
    wait_until_idle(cluster)
    job = cluster.on("head", "sbatch --parsable --wrap='sleep 600'").strip()
    cluster.on(
        "head", "for i in $(seq 30); do squeue -h -t RUNNING | grep -q . && exit; sleep 1; done"
    )
    jobs = cluster.on("head", "squeue -h -o '%i %T %S'")
    starts = {node: cluster.on(node, STARTS) for node in NODES}
    again = cluster.deploy()
    assert again.status == 0, again.errors
    assert again.changed == []
    assert {node: cluster.on(node, STARTS) for node in NODES} == starts
    assert cluster.on("head", "squeue -h -o '%i %T %S'") == jobs
    cluster.on("head", f"scancel {job}")


def test_second_run_says_that_it_did_nothing(cluster: Lab) -> None:
    done = cluster.command(
        str(ROOT / ".venv/bin/pyinfra"), "-y", "inventories/lab.py", "deploys/cluster.py"
    )
    total = next(line for line in done.stderr.splitlines() if "Grand total" in line).split()
    assert total[2] == total[5], "hosts with no change = all"
    assert total[3:5] == ["-", "-"], "no success, no error"


def test_job_runs_on_both_workers_with_every_gpu(cluster: Lab) -> None:
    wait_until_idle(cluster)
    printed = cluster.on(
        "head", "srun -N2 --gres=gpu:8 sh -c 'echo $(uname -n) $CUDA_VISIBLE_DEVICES'"
    )
    assert sorted(printed.splitlines()) == [
        "worker1 0,1,2,3,4,5,6,7",
        "worker2 0,1,2,3,4,5,6,7",
    ]


def test_job_stays_off_the_housekeeping_cpus(cluster: Lab) -> None:
    wait_until_idle(cluster)
    printed = cluster.on("head", "srun -N2 grep Cpus_allowed_list /proc/self/status")
    assert {line.split()[1] for line in printed.splitlines()} == {"1"}


def test_every_prometheus_target_is_up(cluster: Lab) -> None:
    done = cluster.command(str(PYTHON), "scripts/prometheus_targets.py", "inventories/lab.py")
    assert "6 of 6 targets are up" in done.stdout


def test_check_finds_nothing(cluster: Lab) -> None:
    wait_until_idle(cluster)
    checked = cluster.check(rules_only=False)
    assert (checked.status, checked.named) == (0, set()), checked.text


QUICK = ("GPU limited to 350 W",)
"""One at a time is the slow suite's; this one, and all of them at once, are every run's."""


@pytest.mark.parametrize(
    "drift",
    [
        pytest.param(drift, id=drift.id, marks=() if drift.id in QUICK else pytest.mark.slow)
        for drift in DRIFTS
    ],
)
def test_one_drift_is_named_alone_and_repaired(cluster: Lab, drift: Drift) -> None:
    wait_until_idle(cluster)
    seed(cluster, drift)
    checked = cluster.check()
    assert (checked.status, checked.named) == (1, {drift.finding}), checked.text
    deployed = cluster.deploy()
    assert deployed.status == 0, deployed.errors
    after = cluster.check()
    left = set() if drift.repaired else {drift.finding}
    assert after.named == left, after.text
    undo_hardware(cluster)
    cluster.deploy()
    assert cluster.check().named == set()


def test_all_drifts_at_once_are_named_exactly_and_repaired(cluster: Lab) -> None:
    wait_until_idle(cluster)
    for drift in DRIFTS:
        seed(cluster, drift)
    checked = cluster.check()
    assert checked.named == {drift.finding for drift in DRIFTS}, checked.text
    assert checked.status == 1
    for finding in checked.findings:
        for field in ("severity", "field", "found", "expected", "reference", "repair"):
            assert finding[field], (field, finding)
    deployed = cluster.deploy()
    # Workers that Slurm took out of service stay out while their hardware has faults.
    assert deployed.status == 0 or "because it differs from its class" in deployed.errors
    after = cluster.check()
    assert after.named == {drift.finding for drift in DRIFTS if not drift.repaired}, after.text
    undo_hardware(cluster)
    cluster.deploy()
    assert cluster.check().named == set()
    assert cluster.deploy().changed == []


def test_a_worker_that_is_off_is_named_and_brought_in_by_one_rerun(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.lab("power-off", "worker2")
    cluster.on("worker1", "ln -sfn /usr/share/zoneinfo/Asia/Tokyo /etc/localtime")
    checked = cluster.check()
    assert checked.status == 1
    assert ("node.reachable", "worker2", "") in checked.named
    assert ("os.time_zone", "worker1", "") in checked.named
    assert len(checked.named) == 2, checked.text
    deployed = cluster.deploy()
    assert deployed.status == 1
    assert "worker2" in deployed.errors
    assert cluster.on("worker1", "readlink /etc/localtime").strip().endswith("Etc/UTC")
    cluster.lab("power-on", "worker2")
    assert cluster.deploy().status == 0
    wait_until_idle(cluster)
    assert cluster.check().named == set()


def test_a_worker_that_is_cut_off_is_named(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.lab("cut", "worker1")
    try:
        checked = cluster.check()
        assert checked.status == 1
        assert checked.named == {("node.reachable", "worker1", "")}, checked.text
    finally:
        cluster.lab("reconnect", "worker1")
    assert cluster.deploy().status == 0
    wait_until_idle(cluster)


def test_health_check_takes_a_node_out_and_the_deploy_brings_it_back(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.lab("gpu", "worker2", "--gpu", "0", "--remove")
    cluster.node_check("worker2")
    node = cluster.on("head", "scontrol -o show node worker2")
    assert "State=IDLE+DRAIN" in node
    assert "Reason=lockstep: gpu.count: found 7 GPUs, expected 8 GPUs" in node
    checked = cluster.check()
    assert checked.named == {("gpu.count", "worker2", "")}, checked.text
    assert cluster.deploy().changed == [], "not brought back while it is broken"
    undo_hardware(cluster)
    assert cluster.deploy().status == 0
    wait_until_idle(cluster)
    cluster.on("head", "scontrol update NodeName=worker2 State=DRAIN Reason='a person'")
    cluster.node_check("worker2")
    assert cluster.deploy().changed == [], "what a person took out stays out"
    assert cluster.check().named == {("slurm.state", "worker2", "")}
    cluster.on("head", "scontrol update NodeName=worker2 State=RESUME")
    wait_until_idle(cluster)


def test_a_node_that_did_not_respond_registers_in_one_rerun(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.on("worker1", "systemctl mask --now munge.service")
    # slurmctld cannot start the job without munge, and notes that the node does not respond. Its
    # next ping, which would clear this, comes up to 100 s later.
    cluster.on("head", "sbatch --no-requeue -w worker1 --output=/dev/null --wrap true")
    cluster.on(
        "head",
        "for i in $(seq 60); do scontrol show node worker1 | grep -q NOT_RESPONDING && exit 0; "
        "sleep 1; done; exit 1",
    )
    deployed = cluster.deploy()
    assert deployed.status == 0, deployed.errors
    # slurmctld ends the job on the node at its next try, up to two minutes later, or at once if
    # the node goes down.
    cluster.on("head", "scontrol update NodeName=worker1 State=DOWN Reason='end the job'")
    cluster.on("head", "scontrol update NodeName=worker1 State=RESUME")
    wait_until_idle(cluster)
    assert cluster.check().named == set()
    assert cluster.deploy().changed == []


def test_after_a_reboot_nothing_differs_and_nothing_is_to_do(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.lab("power-cycle", "worker1")
    # A node that went away unasked waits for a deploy; nothing else is to do.
    assert cluster.check().named <= {("slurm.state", "worker1", ""), *SETTLING}
    deployed = cluster.deploy()
    assert deployed.status == 0, deployed.errors
    assert {line.split(":")[0] for line in deployed.changed} <= {
        "deploys/worker.py | Slurm worker | Registered with the controller",
        "deploys/worker.py | Time sync | Gate: the clock is right",
    }
    wait_until_idle(cluster)
    assert cluster.check().named == set()
    assert cluster.deploy().changed == []


def test_accounting_survives_a_power_cycle_of_the_head(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.on("head", "srun -N2 --job-name=before true")
    cluster.on(
        "head",
        "for i in $(seq 30); do sacct -n -X -o jobname%20,state | grep -q 'before.*COMPLETED' "
        "&& exit 0; sleep 1; done; sacct; exit 1",
    )
    before = cluster.on("head", "sacct -n -a -X -o jobid,jobname,state").splitlines()
    # slurmctld writes its own state within seconds; the accounting above is already on disk.
    cluster.on(
        "head",
        "touch /run/ended; for i in $(seq 30); do "
        "[ /var/lib/slurm/slurmctld/job_state -nt /run/ended ] && exit 0; sleep 1; done",
    )
    cluster.lab("power-cycle", "head")
    cluster.on(
        "head", "for i in $(seq 60); do sacct -n >/dev/null 2>&1 && exit 0; sleep 1; done; exit 1"
    )
    after = cluster.on("head", "sacct -n -a -X -o jobid,jobname,state").splitlines()
    assert set(before) <= set(after)
    assert cluster.deploy().status == 0
    wait_until_idle(cluster)
    assert cluster.check().named == set()
    assert cluster.deploy().changed == []


def test_pytest_output_agrees_with_the_command(cluster: Lab) -> None:
    wait_until_idle(cluster)
    argv = [str(ROOT / ".venv/bin/pytest"), "-q", "tests/consistency"]
    argv += ["--inventory", "inventories/lab.py"]
    clean = cluster.command(*argv, check=False)
    assert clean.returncode == 0, clean.stdout
    cluster.lab("gpu", "worker1", "--gpu", "3", "--set", "enforced.power.limit=350")
    try:
        drifted = cluster.command(*argv, check=False)
    finally:
        undo_hardware(cluster)
    assert drifted.returncode == 1
    failed = [line for line in drifted.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 1, drifted.stdout
    assert "gpu.power_limit" in failed[0]
    for word in ("worker1", "gpu3", "350 W", "700 W"):
        assert word in drifted.stdout


def test_promtool_takes_our_metrics_and_our_alerts_fire(cluster: Lab) -> None:
    wait_until_idle(cluster)
    cluster.lab("gpu", "worker1", "--gpu", "3", "--set", "enforced.power.limit=350")
    try:
        lockstep = str(ROOT / ".venv/bin/lockstep")
        argv = (lockstep, "check", "inventories/lab.py", "--metrics", "/dev/stdout", "--json")
        written = cluster.command(*argv, "/dev/null", check=False).stdout
    finally:
        undo_hardware(cluster)
    metrics = written[written.index("# HELP") : written.index("ERROR ")]
    assert 'rule="gpu.power_limit",node="worker1",device="gpu3"' in metrics
    cluster.on("head", f"printf %s {shlex.quote(metrics)} | promtool check metrics")
    cluster.promtool_passes("tests/lab/alerts.yml")


def test_a_secret_never_shows(cluster: Lab) -> None:
    secrets = subprocess.run(
        [
            str(PYTHON),
            "-c",
            "import base64, sys; from lockstep.inventory import load;"
            "from lockstep.secrets import obtain;"
            "s = load('inventories/lab.py').spec;"
            "k = obtain(s.name, s.secrets_dir); sys.stdout.write("
            "base64.b64encode(k.munge_key).decode() + ' ' + k.database_password"
            " + ' ' + k.munge_key.hex())",
        ],
        cwd=ROOT,
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    pieces = [text[start : start + 24] for text in secrets for start in (0, len(text) // 2)]
    # Both are spread again, at the highest verbosity, while the process lists are watched.
    watch = "for i in $(seq 200); do ps -eo args; sleep 0.05; done"
    watchers = [
        subprocess.Popen(
            [str(PYTHON), "-m", "lab", "run", node, "--", "sh", "-c", watch],
            cwd=ROOT,
            env=cluster.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in ("head", "worker1")
    ]
    cluster.on("worker1", "echo x >> /etc/munge/munge.key")
    cluster.on("head", "rm /etc/slurm/slurmdbd.conf")
    cluster.on("head", "mariadb -e \"ALTER USER 'slurm'@'localhost' IDENTIFIED BY 'other'\"")
    pyinfra = str(ROOT / ".venv/bin/pyinfra")
    deploy = (pyinfra, "-y", "-vvv", "--debug", "inventories/lab.py", "deploys/cluster.py")
    said = [cluster.command(*deploy)]
    listed = [watcher.communicate(timeout=120)[0] for watcher in watchers]
    said += [
        cluster.command(pyinfra, "--dry", "--diff", "-vvv", *deploy[-2:]),
        cluster.command(pyinfra, "inventories/lab.py", "debug-inventory"),
        cluster.command(str(ROOT / ".venv/bin/lockstep"), "plan", "inventories/lab.py", "--json"),
        cluster.command(
            str(ROOT / ".venv/bin/lockstep"),
            "check",
            "inventories/lab.py",
            "--save-records",
            "/dev/stdout",
            check=False,
        ),
    ]
    texts = listed + [done.stdout + done.stderr for done in said]
    assert len(texts[0].splitlines()) > 1000, "the process list was watched"
    for node in NODES:
        texts.append(cluster.on(node, "journalctl -q --no-pager -n 5000"))
        # Every file that somebody other than its owner and group may read.
        texts.append(
            cluster.on(
                node,
                "find / -xdev -type f -perm -o+r -size -2M -newer /etc/machine-id "
                "-not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/share/*' "
                "-exec grep -alF -e '" + "' -e '".join(pieces) + "' {} +",
                check=False,
            )
        )
    for piece in pieces:
        assert not any(piece in text for text in texts)
    for text in texts[-2 * len(NODES) + 1 :: 2]:
        assert text == "", "no file that others can read holds a secret"
