"""The probe does not disturb jobs: it runs few commands, and none that changes something."""

from __future__ import annotations

import ast
import fnmatch
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import command_line
from benchmarks.probe import __main__ as benchmark
from lockstep.node.readers import collect, commands, cpu, gpu
from lockstep.probe.parse import parse
from lockstep.probe.record import Record
from lockstep.probe.ship import Request, command
from tests.probe.test_collect import GPU_ROW, Node, node, shipped

__all__ = ["node"]

READ_ONLY = (
    # Every command there may be, its words as patterns. None sets, starts, resets or samples:
    # `nvidia-smi -q` measures PCIe throughput for 2 x 20 ms a GPU, `dmon` and DCGM's profiling
    # counters cost the job.
    "nvidia-smi --query-gpu=* --format=csv,noheader,nounits",
    "nvidia-smi --help-query-gpu",
    "nvidia-smi --query-remapped-rows=* --format=csv,noheader,nounits",
    "nvidia-smi --query-compute-apps=gpu_uuid --format=csv,noheader,nounits",
    "nvidia-smi -L",
    "nvidia-smi nvlink -s",
    "nvidia-smi nvlink -e",
    "nvidia-smi topo -m",
    "modinfo *-F version *",
    "modinfo *-F license *",
    "modinfo *",  # the signer of a module
    "ofed_info -s",  # the version of DOCA-OFED
    "ldconfig -p",
    "journalctl -k -b -o short-unix --no-pager -n 2000 -g NVRM: Xid|SXid",
    "systemctl list-units --state=failed --plain --no-legend --no-pager",
    "ip -j address",
    "ip -j * route show default",
    "ip -j * route show proto *",
    "devlink -j dev param show",
    "dcb * show dev *",
    "* -d * --reg_name ROCE_ACCL --get",  # mlxreg or mstreg
    "systemctl show --no-pager --property=* -- *",
    "systemctl show -p UserspaceTimestampMonotonic",
    "locale -a",
    "dpkg-query -W -f *",
    "chronyc -n -c tracking",
    "munge -s lockstep",
    "unmunge --keys=STATUS --output=/dev/null",
    "scontrol -o show node",
    "scontrol -o show node *",
    "squeue -a -h -w * -o %i",
    "srun --help",
    "env * srun --help",
    "scontrol -o show node *",
    "* status",  # the node's own health check
    "sacctmgr -nP list cluster format=cluster",
    "mariadb --defaults-extra-file=/dev/stdin -N -e select 1 slurm_acct_db",
    "dpkg-query -S *",
    "nvidia-ctk cdi generate",
    "semodule -l -m",
    "* image inspect *",
    "ctr -n * images ls -q *",
    "systemctl is-active --quiet docker.service",
    "netplan get --root-dir *",
    "ip -d -j link",
    "networkctl --version",
    "systemd-analyze condition *",  # judges a condition, as a unit would
    # The fingerprint's.
    "bridge -json * show",
    "ionice -p *",
    "ipset save",
    "ip xfrm *",  # state, policy
    "firewall-cmd --list-all",
    "nft --stateless --numeric-priority --numeric-protocol list table inet lockstep",
    "nft --stateless list ruleset",
    "nft list tables",
    "rpm -qa * --configfiles --dump --qf *",
    "rpm -qa * --qf *",
    "rpm -qa --qf *",
    "rpm -qf --qf *",
    "runuser -u * -- *",  # the environment of a login
    "scontrol show slurmd",
    "scontrol show config",
    "scontrol -o -a show partition",
    "scontrol -o show reservation",
    "ss -H -l -n -t -u -w -x -e --cgroup",
    "systemctl list-units --all --plain --no-legend --no-pager",
    "systemctl show --no-pager",
    "systemctl show --no-pager -p NeedDaemonReload -- *",
    "tc -details * show*",
    "docker info --format {{.LiveRestoreEnabled}}",
    # kubectl: nothing is written in a dry run.
    "* create --dry-run=client --validate=false -o json -f -",
    "* get --ignore-not-found --show-managed-fields=false -o json -f -",
    "* apply --server-side --dry-run=server --force-conflicts * -o json -f -",
    "* get * --all-namespaces * -o json",
    "* get secrets * -o json",
    "env * kubeadm init phase control-plane all --config * --dry-run",  # into a folder of its own
    "kubeadm init phase addon * --config * --print-manifest",
)
ON_REQUEST = (
    "* run --rm --network none --device=nvidia.com/gpu=all * /bin/busybox sh -c *",
    "crictl --runtime-endpoint * *",
)
"""Those that start something, where somebody asked for it by name (--containers)."""
ASKED_OF_NVIDIA_SMI = 5


def pattern(part: ast.expr) -> str:
    if isinstance(part, ast.BinOp):
        return pattern(part.left) + pattern(part.right)
    return str(part.value) if isinstance(part, ast.Constant) else "*"


def written() -> list[str]:
    """Every command as the program has it; what is put in while it runs is a ``*``."""
    found = []
    for call in shipped():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if ast.unparse(call.func).removeprefix("self.") in ("commands.run", "commands.outcome"):
            words: list[str] = []
            for given in call.args:
                inner = given.value if isinstance(given, ast.Starred) else given
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                words += [pattern(part) for part in parts]
            found.append(" ".join(words))
    return found


def allowed(line: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(line, pattern) for pattern in patterns)


def test_every_command_of_the_program_only_reads() -> None:
    lines = written()
    assert len(lines) > 10
    # Words of their own: gpu_query, twice, and the start of a container; of the fingerprint the
    # programs that save tables of packet filters, twice, a login shell, and batches of ip.
    queries = [line for line in lines if line == "*"]
    others = [line for line in lines if line != "*"]
    assert [line for line in others if not allowed(line, (*READ_ONLY, *ON_REQUEST))] == []
    assert len(queries) == 7
    assert allowed(" ".join(gpu.gpu_query(["name"])), READ_ONLY)
    started = {"subprocess.Popen", "subprocess.run", "os.system", "os.popen"}
    calls = [
        name
        for call in shipped()
        if isinstance(call, ast.Call) and (name := ast.unparse(call.func)) in started
    ]
    assert calls == ["subprocess.Popen"]


def healthy(node: Node) -> None:
    row = GPU_ROW.format(index=0, enforced="700.00")
    node.tool("nvidia-smi", f"case $1 in --query-gpu=*) echo '{row}';; *) echo 'GPU 0: x';; esac")
    for tool in ("modinfo", "ldconfig", "journalctl", "systemctl", "dpkg-query", "chronyc"):
        node.tool(tool, "exit 0")
    for tool in ("munge", "unmunge", "scontrol", "slurmctld", "docker", "dcgmi"):
        node.tool(tool, "exit 0")


def ran(node: Node, **request: Any) -> list[str]:
    asked = {"units": ["a.service"], "credential": "MUNGE:x", **request}
    return [" ".join(one["argv"]) for one in collect.collect(asked)["commands"]]


def test_what_runs_is_on_the_list_and_no_more_than_that(node: Node) -> None:
    healthy(node)
    lines = ran(node)
    assert [line for line in lines if not allowed(line, READ_ONLY)] == []
    assert len([line for line in lines if line.startswith("nvidia-smi ")]) == ASKED_OF_NVIDIA_SMI
    assert len(lines) <= len(READ_ONLY)
    lines = ran(node, containers=["docker"], check_image="image")
    assert [line for line in lines if not allowed(line, (*READ_ONLY, *ON_REQUEST))] == []
    assert any(line.startswith("docker run ") for line in lines)


def test_a_hanging_nvidia_smi_is_asked_once_and_all_else_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(node)
    complete = collect.collect({})["readings"]
    monkeypatch.setattr(commands, "COMMAND_TIMEOUT_S", 0.3)
    node.tool("nvidia-smi", "exec /bin/sleep 60")
    record = collect.collect({})
    asked = [one for one in record["commands"] if one["argv"][0] == "nvidia-smi"]
    assert [(one["timed_out"], one["argv"][1][:12]) for one in asked] == [(True, "--query-gpu=")]
    silent = {name for _, names in collect.OF_NVIDIA_SMI for name in names}
    silent -= collect.OF_ROLES
    reason = {"unread": "nvidia-smi: did not finish within 0.3 s"}
    assert {name for name in silent if record["readings"][name] != reason} == set()
    taken = {name for name, reading in complete.items() if "value" in reading} - silent
    assert taken
    assert {name for name in taken if "value" not in record["readings"][name]} == set()


def test_one_query_that_hangs_leaves_what_was_answered_before(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "COMMAND_TIMEOUT_S", 0.5)
    row = GPU_ROW.format(index=0, enforced="700.00")
    node.tool("nvidia-smi", f"case $1 in nvlink) exec /bin/sleep 60;; *) echo '{row}';; esac")
    seen = node.read()
    assert seen["gpu.count"] == {"value": 1}
    for name in ("gpu.nvlink.links", "gpu.nvlink.crc", "gpu.topology"):
        assert seen[name] == {"unread": "nvidia-smi: did not finish within 0.5 s"}


HOW = "cut -d' ' -f41 /proc/self/stat; while read -r k v; do [ $k = Cpus_allowed_list: ] && echo $v"
SCHED_OTHER, SCHED_IDLE = "0", "5"
"""Column "policy" of proc_pid_stat(5)."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root leaves the idle policy, as sudo does")
def test_it_runs_idle_on_the_housekeeping_cpus_and_a_container_does_not(tmp_path: Path) -> None:
    """An idle task asks its disks idly as well (linux/ioprio.h, task_nice_ioclass)."""
    every = sorted(os.sched_getaffinity(0))
    tools = Node(tmp_path)
    for tool in ("chronyc", "docker"):
        tools.tool(tool, f"{{ {HOW}; done </proc/self/status; }} > {tmp_path}/{tool}")
    asked = Request(containers=("docker",), check_image="x", housekeeping_cpus=f"{every[0]},4095")
    path = f"{tools.bin}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command(asked)], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    parse(done.stdout)
    assert (tmp_path / "chronyc").read_text().split() == [SCHED_IDLE, str(every[0])]
    assert (tmp_path / "docker").read_text().split() == [SCHED_OTHER, cpu.cpulist({*every})]


def test_without_housekeeping_cpus_it_runs_idle_anywhere(tmp_path: Path) -> None:
    tools = Node(tmp_path)
    tools.tool("chronyc", f"{{ {HOW}; done </proc/self/status; }} > {tmp_path}/how")
    path = f"{tools.bin}:{os.environ['PATH']}"
    read = ["sh", "-c", command(Request())]
    subprocess.run(read, env={"PATH": path}, stdout=subprocess.DEVNULL, check=True)
    every = cpu.cpulist({*os.sched_getaffinity(0)})
    assert (tmp_path / "how").read_text().split() == [SCHED_IDLE, every]


NOTHING_TO_WRITE = (
    "while read -r _ at _; do mount -o remount,bind,ro $at || exit 1; done </proc/self/mounts; "
    "for at in {folder} /dev/shm; do touch $at/written 2>/dev/null && exit 1; done; "
)
"""Every file system of the namespace; it ends where one can be written all the same."""
DIFFERS_EACH_TIME = {
    *("munge.credential", "time.offset_s", "os.boot_id", "gpu.answered_in_s"),
    "storage.space",  # other tests write files at the same time
}
MADE_READ_ONLY = {"mounts.local"}
"""It says how file systems are mounted: read-only ones, there."""


def test_it_reads_as_much_where_nothing_can_be_written(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    locked = NOTHING_TO_WRITE.format(folder=tmp_path)
    if shutil.which("unshare") is None or subprocess.run([*namespace, locked + "true"]).returncode:
        pytest.skip("no namespace of its own here in which everything is read-only")
    asked = Request(files=("/etc/hosts",), units=("a.service",), sysctls=("vm.swappiness",))
    request = command(asked)

    def read(before: str) -> Record:
        done = subprocess.run(
            [*namespace, before + request], capture_output=True, text=True, check=True
        )
        return parse(done.stdout)

    free, held = read(""), read(locked)
    assert held.readings.keys() == free.readings.keys()
    assert len([name for name, one in free.readings.items() if hasattr(one, "value")]) > 10
    assert {
        name
        for name, one in free.readings.items()
        if one != held.readings[name] and name not in DIFFERS_EACH_TIME | MADE_READ_ONLY
    } == set()


def test_the_benchmark_measures_a_reading_and_judges_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = command(Request())
    one = benchmark.measured(["env"], line, [])
    assert one.wall_s > 0
    assert one.cpu_s > 0
    text = benchmark.table([one])
    assert f"{len(one.record.commands)} commands" in text
    with pytest.raises(ValueError, match="status"):
        benchmark.measured(["false"], line, [])
    monkeypatch.setattr(command_line, "load", lambda _: SimpleNamespace(nodes={"here": None}))
    monkeypatch.setattr(benchmark, "request", lambda _: Request())
    for most, status in ((1000.0, 0), (0.0, 1)):
        monkeypatch.setattr(benchmark, "MOST_CPU_S", most)
        monkeypatch.setattr(benchmark, "MOST_S", 1000.0)
        assert benchmark.main(["any.py", "here", "--repeat", "1", "--", "env"]) == status
    assert "| CPU seconds |" in capsys.readouterr().out


@pytest.mark.parametrize("inventory", ["prod", "kubernetes"])
def test_the_benchmark_takes_the_questions_of_a_plan(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are longer than an argument of a command may be: the program is standard input."""
    benchmark.main(["--repeat", "1", f"inventories/{inventory}.py", "worker01", "env"])
    assert "| CPU seconds |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["there", "--", "env"], "there: expected a node of any.py: here"),
        (
            ["here", "--", "no-such-program"],
            "no-such-program: not found; expected a command that starts a root shell",
        ),
        (["here", "--repeat", "0", "--", "env"], "expected a whole number, 1 or more"),
        (["here", "--", "false"], "here could not be read with false: exit status 1"),
    ],
)
def test_the_benchmark_says_what_is_wrong(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "load", lambda _: SimpleNamespace(nodes={"here": None}))
    monkeypatch.setattr(benchmark, "request", lambda _: Request())
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["any.py", *words])
    assert said in capsys.readouterr().err + str(ended.value)
