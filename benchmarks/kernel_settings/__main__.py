"""Measures the effect of huge pages and CPU sets on a job in a lab.

    python -m benchmarks.kernel_settings [--lab NAME] [--node worker1] [--repeat 3] [--json FILE]

Builds two small programs on a worker, runs them there as jobs, one case after another, and prints
a table of ratios. Uses only the commands of the lab. Cleans up at the end, even after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.command_line import new_file, whole
from benchmarks.kernel_settings import figures
from benchmarks.kernel_settings.figures import Case, Neighbour, Process

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = ("chase", "jitter")
ALLOCATION_WITHIN_S = 60
ENDS_WITHIN_S = 15
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130


class BenchmarkError(Exception):
    """A requirement is missing or a command failed; the message has the next step."""


@dataclass(frozen=True)
class Lab:
    """A lab, controlled through its command line."""

    name: str | None

    def run(
        self, node: str, *command: str, given: str | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root on a node's console; any exit status is accepted."""
        named = ["--name", self.name] if self.name else []
        argv = [sys.executable, "-m", "lab", *named, "run", node, "--", *command]
        # In its own session: Ctrl-C reaches only this program, which then ends the command cleanly.
        with subprocess.Popen(
            argv,
            cwd=ROOT,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(given, timeout_s)
            except subprocess.TimeoutExpired:
                _end(process)
                raise BenchmarkError(
                    f"{node}: `{shlex.join(command)}` did not finish within {timeout_s:.0f} s"
                ) from None
            except BaseException:
                _end(process)
                raise
        return subprocess.CompletedProcess(argv, process.returncode, output, errors)

    def must(
        self, node: str, *command: str, given: str | None = None, timeout_s: float = 120
    ) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(node, *command, given=given, timeout_s=timeout_s)
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines()[-8:]
            raise BenchmarkError(
                f"{node}: `{shlex.join(command)}` failed with exit status {done.returncode}"
                + "".join(f"\n    {line}" for line in output)
            )
        return done.stdout


def _end(process: subprocess.Popen[str]) -> None:
    """End a lab command, first with SIGTERM, so that it ends its command on the node."""
    process.terminate()
    try:
        process.communicate(timeout=ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Bench:
    """One run of the benchmark on one node."""

    lab: Lab
    head: str
    node: str
    mib: int
    seconds: float
    token: str

    @property
    def folder(self) -> str:
        """Folder of the programs on the node."""
        return f"/tmp/lockstep-kernel-settings-{self.token}"

    @property
    def unit(self) -> str:
        """Unit of the neighbour process."""
        return f"lockstep-neighbour-{self.token}.service"

    @property
    def job(self) -> str:
        """Name of every job."""
        return f"kernel-settings-{self.token}"

    def require(self) -> dict[str, str]:
        """Check the requirements; return facts about the node.

        Raises:
            BenchmarkError: requirements are missing; the message lists all of them.
        """
        script = """
        echo tcc=$(command -v tcc)
        echo header=$(ls /usr/include/stdio.h 2>/dev/null)
        echo systemd_run=$(command -v systemd-run)
        echo huge_free=$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 2>/dev/null)
        echo online=$(cat /sys/devices/system/cpu/online)
        echo kernel=$(uname -r)
        echo kernel_arguments=$(cat /proc/cmdline)
        echo cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
        """
        lines = self.lab.must(self.node, "sh", "-c", script).splitlines()
        facts = {key: value for key, found, value in (x.partition("=") for x in lines) if found}
        wrong = figures.problems(self.node, facts, self.mib)
        asked = "command -v srun >/dev/null || { echo none; exit; }; exec sinfo -h -o %T -n "
        output = self.lab.must(self.head, "sh", "-c", asked + shlex.quote(self.node)).split()
        if output == ["none"]:
            wrong.append(f"{self.head}: srun is not installed; deploy Slurm first")
        elif set(output) != {"idle"}:
            shown = ", ".join(sorted(set(output))) or "unknown"
            wrong.append(f"{self.node}: Slurm state {shown}; expected idle, without other jobs")
        if wrong:
            raise BenchmarkError("cannot measure:" + "".join(f"\n    {x}" for x in wrong))
        return facts

    def build(self) -> None:
        """Compile the programs on the node."""
        self.lab.must(self.node, "mkdir", self.folder)
        for program in PROGRAMS:
            path = f"{self.folder}/{program}"
            text = (HERE / f"{program}.c").read_text(encoding="utf-8")
            self.lab.must(self.node, "sh", "-c", f"cat >{path}.c", given=text)
            self.lab.must(self.node, "tcc", "-Wall", "-o", path, f"{path}.c")

    def srun(self, *command: str) -> str:
        """Run a command as a job with one core of the node; return its output."""
        minutes = 5 + int(2 * self.seconds / 60)
        return self.lab.must(
            self.head,
            *("srun", "--quiet", f"--immediate={ALLOCATION_WITHIN_S}", f"--time={minutes}"),
            *(f"--job-name={self.job}", f"--nodelist={self.node}", "--ntasks=1"),
            *("--cpus-per-task=1", f"--mem={self.mib + 160}M", "--chdir=/", *command),
            timeout_s=ALLOCATION_WITHIN_S + 60 * (minutes + 2),
        )

    def job_cpu(self) -> int:
        """Return the CPU of the benchmark's jobs."""
        output = self.srun("grep", "Cpus_allowed_list", "/proc/self/status")
        return min(figures.cpu_list(output.split()[-1]))

    def measure(self, case: Case, cpu: int) -> dict[str, Any]:
        """Run one case once."""
        arguments = [*case.arguments, str(self.mib)] if case.program == "chase" else []
        command = [f"{self.folder}/{case.program}", *arguments, f"{self.seconds:g}"]
        # If Slurm allocates whole cores with two threads, use only one CPU. This has no effect
        # otherwise, and fails if the job has not got the expected CPU.
        output = self.srun("taskset", "-c", str(cpu), *command)
        try:
            return figures.printed(output)
        except ValueError as error:
            raise BenchmarkError(f"{shlex.join(command)}: {error}; output: {output!r}") from None

    @contextlib.contextmanager
    def neighbour(self, kind: Neighbour, cpu: int, online: str) -> Iterator[None]:
        """Run a busy neighbour process inside the context."""
        if kind is Neighbour.NONE:
            yield
            return
        # A safety net: the unit ends by itself if this program is killed.
        properties = [f"RuntimeMaxSec={900 + 20 * self.seconds:.0f}"]
        if kind is Neighbour.LOOSE:
            properties += [f"AllowedCPUs={online}", f"CPUAffinity={cpu}"]
        self.lab.must(
            self.node,
            *("systemd-run", "--quiet", "--collect", f"--unit={self.unit}"),
            *(f"--property={one}" for one in properties),
            *("sh", "-c", "while :; do :; done"),
        )
        try:
            yield
        finally:
            self.lab.run(self.node, "systemctl", "stop", self.unit)

    def look(self) -> Process:
        """Read the neighbour's CPUs and CPU time."""
        script = (
            f"pid=$(systemctl show --property=MainPID --value {self.unit}) && cat /proc/$pid/status"
            " && echo == && cat /proc/$pid/stat"
        )
        status, found, stat = self.lab.must(self.node, "sh", "-c", script).partition("\n==\n")
        if not found or "Pid" not in status:
            raise BenchmarkError(f"{self.node}: the neighbour {self.unit} is not running")
        return figures.process(status, stat)

    def clean_up(self) -> None:
        """Remove everything that this run created; report failures."""
        script = (
            f"systemctl stop {self.unit} 2>/dev/null; systemctl reset-failed {self.unit} "
            f"2>/dev/null; rm -rf {self.folder}"
        )
        for node, command in (
            (self.head, ("scancel", f"--name={self.job}")),
            (self.node, ("sh", "-c", script)),
        ):
            try:
                self.lab.must(node, *command)
            except BenchmarkError as failure:
                say(f"not removed: {failure}")


def say(text: str) -> None:
    """Print progress."""
    print(f"kernel_settings: {text}", file=sys.stderr, flush=True)


def sample(bench: Bench, repeat: int, cpu: int, online: str) -> list[dict[str, Any]]:
    """Run all cases in `repeat` rounds."""
    samples: list[dict[str, Any]] = []
    for number in range(repeat):
        for kind, cases in groupby(figures.order(number), key=lambda case: case.neighbour):
            with bench.neighbour(kind, cpu, online):
                for case in cases:
                    load = os.getloadavg()[0]
                    before = bench.look() if kind is not Neighbour.NONE else None
                    measured = bench.measure(case, cpu)
                    if before is not None:
                        after = bench.look()
                        why = figures.misplaced(kind, before, after, cpu)
                        if why:
                            raise BenchmarkError(f"{case.name}: invalid neighbour process: {why}")
                        measured |= {
                            "neighbour_cpus": sorted(after.cpus),
                            "neighbour_last_cpu": after.last_cpu,
                            "neighbour_ticks": after.ticks - before.ticks,
                        }
                    key = "ns_median" if case.program == "chase" else "off_cpu_percent"
                    say(
                        f"round {number + 1}/{repeat}: {case.name}: "
                        f"{key} {figures.figure(measured[key])}"
                    )
                    samples.append(
                        {"case": case.name, "round": number + 1, "host_load": load, **measured}
                    )
    return samples


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_settings", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--lab", metavar="NAME", help="lab (default: as for `python -m lab`)")
    parser.add_argument("--head", default="head", help="node that runs srun (default: head)")
    parser.add_argument("--node", default="worker1", help="node of the jobs (default: worker1)")
    parser.add_argument("--repeat", type=whole(1), default=3, help="rounds (default: 3)")
    parser.add_argument("--seconds", type=float, default=5, help="time per program (default: 5)")
    parser.add_argument("--mib", type=whole(2), default=96, help="memory to read (default: 96)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all samples as JSON")
    return parser


def _on_ending(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _on_endings(
    action: Callable[[int, FrameType | None], object] | signal.Handlers,
) -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP with ``action`` inside the context."""
    before = {ending: signal.signal(ending, action) for ending in ENDINGS}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


def measure(bench: Bench, repeat: int, command: str) -> str:
    """Run the whole benchmark; print the table; return all results as JSON.

    Raises:
        BenchmarkError: a requirement is missing, a command failed, or the neighbour ran elsewhere.
    """
    facts = bench.require()
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > cpus / 2:
        say(f"this host is busy (load {load:.1f} on {cpus} CPUs): the ratios will be noisy")
    try:
        bench.build()
        cpu = bench.job_cpu()
        say(f"jobs on {bench.node} run on CPU {cpu}; {repeat} rounds of {len(figures.CASES)} cases")
        samples = sample(bench, repeat, cpu, facts["online"])
    finally:
        with _on_endings(signal.SIG_IGN):
            bench.clean_up()
    about: dict[str, Any] = {
        "command": command,
        "node": bench.node,
        "job_cpu": cpu,
        "host_cpus": cpus,
        **{key: facts[key] for key in ("kernel", "kernel_arguments", "cpu") if key in facts},
    }
    loads = [one["host_load"] for one in samples]
    print(f"`{command}`")
    print(f"{about.get('cpu')}, kernel {about.get('kernel')}, job on CPU {cpu}, {repeat} rounds,")
    print(f"host load {min(loads):.1f} to {max(loads):.1f} on {cpus} CPUs.\n")
    print(figures.table(figures.rows(samples)), flush=True)
    return figures.document(about, samples)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return its exit status (0 success, 1 failure, 2 usage error)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.seconds <= 0:
        parser.error("--seconds: expected more than 0")
    if arguments.mib % 2:
        parser.error("--mib: expected an even number, because huge pages have 2 MiB")
    bench = Bench(
        Lab(arguments.lab),
        arguments.head,
        arguments.node,
        arguments.mib,
        arguments.seconds,
        secrets.token_hex(4),
    )
    command = shlex.join(["python", "-m", "benchmarks.kernel_settings", *words])
    try:
        with _on_endings(_on_ending):
            content = measure(bench, arguments.repeat, command)
    except BenchmarkError as failure:
        say(str(failure))
        return EXIT_FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return EXIT_INTERRUPTED
    if arguments.json:
        arguments.json.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
