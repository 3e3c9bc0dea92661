"""The node check with simulated tools: its calls of Slurm, and the nodes that it leaves alone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.node.check.judge import Result
from lockstep.node.check.program import CONFIGURATION
from lockstep.node.check.slurm import LONGEST_REASON, reason
from lockstep.roles.node_check import LIBRARY
from tests.plan.example import planned
from tests.probe.test_collect import Node, gpus

POWER = {
    "rule": "gpu.power_limit",
    "readings": ["gpu.power.enforced_w"],
    "devices": "gpu.uuid",
    "reference": "gpu.power.default_w",
    "shown": "{} W",
    "at_jobs": True,
}
MEMORY = {
    "rule": "memory.at_least",
    "readings": ["memory_mib"],
    "expected": 1000,
    "bound": "at least",
    "shown": "{} MiB",
}
START = """
import sys
from dataclasses import replace
from lockstep.node.check import program
from lockstep.node.readers import commands, tree
base = {base!r}
program.CONFIGURATION, program.RUN = base + "/node-check.json", base + "/run"
tree.ROOT, commands.PATH = base + "/root", base + "/bin"
for name, mode in program.MODES.items():
    program.MODES[name] = replace(
        mode, again_s=mode.again_s and 0.2, command_s={command_s}, ends_s={ends_s}
    )
sys.argv[1:] = {arguments!r}
status = program.main()
sys.stdout.flush()
program.os._exit(status)
"""
OURS = "lockstep: gpu.power_limit gpu1: found 350 W, expected 700 W"


@dataclass
class Machine(Node):
    """A node with Slurm, whose controller is a script that keeps what it is told."""

    base: Path
    command_s: float = 5
    """How long a tool may take to answer; enough on a busy machine where none hangs."""

    def __post_init__(self) -> None:
        super().__init__(self.base)
        self.configure(POWER, MEMORY)
        self.file("/proc/meminfo", "MemTotal:  2048000 kB\n")
        gpus(self, "700.00", "700.00")
        self.slurm("IDLE")

    def configure(self, *judgements: dict[str, Any]) -> None:
        document = {
            "node": "worker1",
            "housekeeping": "0",
            "textfile": str(self.base / "lockstep.prom"),
            "request": {},
            "judgements": list(judgements),
        }
        (self.base / "node-check.json").write_text(json.dumps(document))

    def slurm(self, state: str, reason: str = "") -> None:
        given = f" Reason={reason} [root@2026-01-01T00:00:00]" if reason else ""
        self.tool(
            "scontrol",
            f'case "$1" in -o) echo "NodeName=worker1 State={state} Cores=2{given}";; '
            f'*) echo "$*" >> {self.base}/told;; esac',
        )

    def run(
        self, *arguments: str, context: str = "", ends_s: int = 20
    ) -> subprocess.CompletedProcess[str]:
        text = self.program(arguments, ends_s)
        return subprocess.run(
            [sys.executable, "-c", text],
            env={"PATH": "/usr/bin:/bin", "SLURM_SCRIPT_CONTEXT": context},
            capture_output=True,
            text=True,
            check=False,
        )

    def program(self, arguments: Sequence[str], ends_s: int) -> str:
        return START.format(
            base=str(self.base),
            arguments=list(arguments),
            command_s=self.command_s,
            ends_s=ends_s,
        )

    @property
    def told(self) -> str:
        path = self.base / "told"
        return path.read_text().strip() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def drained(reason: str) -> str:
    return f"update NodeName=worker1 State=DRAIN Reason={reason}"


def capped(machine: Machine) -> None:
    gpus(machine, "700.00", "350.00")


def hanging(machine: Machine) -> None:
    machine.tool("nvidia-smi", "/bin/sleep 60")
    machine.command_s = 0.5


def no_file(machine: Machine) -> None:
    (machine.base / "node-check.json").unlink()


def no_json(machine: Machine) -> None:
    (machine.base / "node-check.json").write_text("# half a fi")


def unknown_key(machine: Machine) -> None:
    machine.configure({**POWER, "surprise": 1})


def wrong_type(machine: Machine) -> None:
    capped(machine)
    machine.configure(POWER, {**MEMORY, "expected": "much", "at_jobs": True})


def no_controller(machine: Machine) -> None:
    capped(machine)
    machine.tool("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")


def test_a_healthy_node_is_left_alone(machine: Machine) -> None:
    assert machine.run().returncode == 0
    assert machine.told == ""


def test_the_health_check_takes_out_with_our_reason(machine: Machine) -> None:
    capped(machine)
    assert machine.run().returncode == 0
    assert machine.told == drained(OURS)


def test_a_failure_that_is_gone_a_moment_later_takes_nothing_out(machine: Machine) -> None:
    gpus(machine, "350.00")
    capped_rows = (machine.bin / "nvidia-smi").read_text()
    gpus(machine, "700.00")
    fine_rows = (machine.bin / "nvidia-smi").read_text()
    once = machine.base / "once"
    body = capped_rows.replace("#!/bin/sh", f"if [ ! -e {once} ]; then : > {once}")
    machine.tool("nvidia-smi", f"{body}\nelse{fine_rows.replace('#!/bin/sh', '')}\nfi")
    assert machine.run().returncode == 0
    assert once.exists()
    assert machine.told == ""


@pytest.mark.parametrize("states", ["IDLE+DRAIN", "DOWN", "DOWN*+DRAIN", "ALLOCATED+DRAIN"])
@pytest.mark.parametrize("reason", ["a person", "Prolog error", ""])
@pytest.mark.parametrize("broken", [True, False])
def test_what_somebody_else_took_out_stays(
    machine: Machine, states: str, reason: str, broken: bool
) -> None:
    if broken:
        capped(machine)
    machine.slurm(states, reason)
    assert machine.run().returncode == 0
    assert machine.told == ""


def test_our_drain_is_lifted_when_nothing_is_wrong(machine: Machine) -> None:
    machine.slurm("IDLE+DRAIN", OURS)
    machine.run()
    assert machine.told == "update NodeName=worker1 State=RESUME"


@pytest.mark.parametrize("unread", [hanging, no_file, no_json, unknown_key])
def test_our_drain_stays_while_anything_is_unread(machine: Machine, unread: Any) -> None:
    machine.slurm("IDLE+DRAIN", OURS)
    unread(machine)
    machine.run()
    assert machine.told == ""


def test_the_same_failure_is_told_once_and_another_one_anew(machine: Machine) -> None:
    capped(machine)
    machine.slurm("IDLE+DRAIN", OURS)
    machine.run()
    assert machine.told == ""
    machine.slurm("IDLE+DRAIN", "lockstep: gpu.count: found 7 GPUs, expected 8 GPUs")
    machine.run()
    assert machine.told == drained(OURS)


def test_a_reason_left_over_on_a_working_node_does_not_keep_it_in(machine: Machine) -> None:
    capped(machine)
    machine.slurm("IDLE", "Not responding")
    machine.run()
    assert machine.told == drained(OURS)


def test_a_reason_names_the_first_failure_and_fits_slurm(machine: Machine) -> None:
    capped(machine)
    machine.configure(POWER, {**MEMORY, "expected": 4000}, {**MEMORY, "expected": 5000})
    machine.run()
    assert machine.told == drained(f"{OURS}; and 2 more")
    machine.configure({**POWER, "rule": "x" * 400}, {**MEMORY, "expected": 4000})
    machine.run()
    last = machine.told.splitlines()[-1].partition("Reason=")[2]
    assert len(last) == LONGEST_REASON
    assert last.endswith("; and 1 more")


OWN_FAILURES = [hanging, no_file, no_json, unknown_key, wrong_type, no_controller]


@pytest.mark.parametrize("failure", OWN_FAILURES)
def test_its_own_failure_takes_nothing_out(machine: Machine, failure: Any) -> None:
    failure(machine)
    assert machine.run().returncode == 0
    assert machine.told == ""


@pytest.mark.parametrize("failure", OWN_FAILURES)
@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_its_own_failure_refuses_no_job(machine: Machine, failure: Any, context: str) -> None:
    failure(machine)
    # A broken GPU is not an error of the check: the job is refused, with a message or without.
    refused = failure is no_controller and context == "prolog_slurmd"
    assert machine.run(context=context).returncode == (10 if refused else 0)
    assert machine.told in ("", drained(OURS))


def test_out_of_time_it_ends_and_does_nothing(machine: Machine) -> None:
    capped(machine)
    machine.tool("scontrol", "/bin/sleep 60")
    machine.command_s = 30
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", machine.program((), ends_s=2)],
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert (done.returncode, machine.told) == (0, "")
    assert 1 < time.monotonic() - begin < 10


def test_a_job_is_refused_by_a_broken_node_which_is_taken_out(machine: Machine) -> None:
    capped(machine)
    assert machine.run(context="prolog_slurmd").returncode == 10
    assert machine.told == drained(OURS)


def test_a_job_is_refused_also_where_somebody_took_the_node_out(machine: Machine) -> None:
    capped(machine)
    machine.slurm("ALLOCATED+DRAIN", "a person")
    assert machine.run("prolog").returncode == 10
    assert machine.told == ""


def test_the_end_of_a_job_takes_out_what_it_left_broken(machine: Machine) -> None:
    capped(machine)
    assert machine.run(context="epilog_slurmd").returncode == 0
    assert machine.told == drained(OURS)


def test_around_jobs_only_some_rules_count_and_nothing_is_lifted(machine: Machine) -> None:
    machine.configure(POWER, {**MEMORY, "expected": 4000})
    machine.slurm("ALLOCATED+DRAIN", OURS)
    assert machine.run("prolog").returncode == 0
    assert machine.told == ""


def test_status_says_it_and_changes_nothing(machine: Machine) -> None:
    assert machine.run("status").stdout == "ok\n"
    capped(machine)
    assert machine.run("status").stdout == f"{OURS.removeprefix('lockstep: ')}\n"
    hanging(machine)
    assert machine.run("status").stdout == "unread\n"
    no_file(machine)
    assert machine.run("status").stdout == "unread\n"
    assert machine.told == ""


def test_metrics_name_every_rule_and_change_nothing(machine: Machine) -> None:
    capped(machine)
    before = time.time()
    assert machine.run("metrics").returncode == 0
    text = (machine.base / "lockstep.prom").read_text()
    for line in (
        'lockstep_node_check_failed{rule="gpu.power_limit"} 1',
        'lockstep_node_check_failed{rule="memory.at_least"} 0',
        'lockstep_node_check_unread{rule="gpu.power_limit"} 0',
    ):
        assert line in text.splitlines()
    values = dict(line.split() for line in text.splitlines() if "{" not in line and line[0] != "#")
    assert before - 1 < float(values["lockstep_node_check_time_seconds"]) < time.time() + 1
    assert 0 < float(values["lockstep_node_check_cpu_seconds"]) < 10
    assert machine.told == ""
    assert sorted(path.name for path in machine.base.glob("lockstep*")) == ["lockstep.prom"]


def test_metrics_of_a_hanging_driver_say_unread(machine: Machine) -> None:
    hanging(machine)
    machine.run("metrics")
    text = (machine.base / "lockstep.prom").read_text()
    assert 'lockstep_node_check_unread{rule="gpu.power_limit"} 1' in text.splitlines()


@pytest.fixture
def locked(machine: Machine) -> Iterator[Machine]:
    """A machine on which another health check and another prolog are under way."""
    (machine.base / "run").mkdir()
    names = [f"{machine.base}/run/node-check.{kind}.lock" for kind in ("health", "jobs")]
    text = (
        "import fcntl, sys, time\n"
        "files = [open(name, 'w') for name in sys.argv[1:]]\n"
        "[fcntl.flock(file, fcntl.LOCK_EX) for file in files]\n"
        "print('held', flush=True)\n"
        "time.sleep(30)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", text, *names], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    yield machine
    holder.kill()
    holder.communicate()


@pytest.mark.parametrize("mode", ["health", "prolog"])
def test_a_run_beside_another_of_its_kind_leaves_it_to_that_one(locked: Machine, mode: str) -> None:
    capped(locked)
    assert locked.run(mode).returncode == 0
    assert locked.told == ""


def test_kinds_do_not_wait_for_each_other(locked: Machine) -> None:
    assert locked.run("metrics").returncode == 0
    assert (locked.base / "lockstep.prom").exists()


def test_the_installed_program_needs_no_other_module_of_lockstep(tmp_path: Path) -> None:
    for file in managed(planned().nodes["worker1"], None, "node_check"):
        if file.path.startswith(f"{LIBRARY}/"):
            target = tmp_path / file.path.removeprefix(f"{LIBRARY}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
        elif file.path == CONFIGURATION:
            (tmp_path / "node-check.json").write_bytes(file.content)
    for module, words in (
        ("node.check.program", ["verify", "node-check.json"]),
        ("node.readers.collect", [base64.b64encode(b"{}").decode()]),
    ):
        # -S: without the packages of this environment, ours among them.
        subprocess.run(
            [sys.executable, "-S", "-m", f"lockstep.{module}", *words],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL,
            check=True,
        )


def test_a_file_that_is_no_configuration_is_not_verified(machine: Machine) -> None:
    path = str(machine.base / "node-check.json")
    assert machine.run("verify", path).returncode == 0
    unknown_key(machine)
    assert machine.run("verify", path).returncode == 1
    no_json(machine)
    assert machine.run("verify", path).returncode == 1


def test_a_reason_that_is_cut_at_a_space_is_recognised_again() -> None:
    cut = [reason([Result("gpu.count", "", "a" * n + " b" * 150, "8")]) for n in (99, 100)]
    assert {len(one) for one in cut} == {LONGEST_REASON, LONGEST_REASON - 1}
    assert all(one == one.rstrip() for one in cut)
