"""A lab for tests, used like a user does: with commands, without imports of the project."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
INVENTORY = "inventories/lab.py"
NODE_CHECK = "/usr/local/libexec/lockstep/node-check"
LAST_LINES = 60
UNREAD_TRIES, UNREAD_PAUSE_S = 6, 10


@dataclass(frozen=True)
class Deployed:
    """What a run of pyinfra said."""

    status: int
    results: dict[str, Any]
    errors: str

    @property
    def changed(self) -> list[str]:
        """``operation: hosts`` of every operation that changed something or failed."""
        return [
            f"{operation['name']}: {operation['success'] + operation['error']}"
            for operation in self.results["operations"]
            if operation["success"] or operation["error"]
        ]


@dataclass(frozen=True)
class Checked:
    """What ``lockstep check`` said."""

    status: int
    findings: list[dict[str, Any]]
    text: str

    @property
    def named(self) -> set[tuple[str, str, str]]:
        """(rule, node, device) of every finding."""
        return {(f["rule"], f["node"], f["device"]) for f in self.findings}


@dataclass(frozen=True)
class Lab:
    """One lab by name."""

    name: str
    tree: Path = ROOT
    """The checkout whose Lockstep drives it; a test may have a changed copy."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the lab's inventory is this lab's."""
        tree = {} if self.tree == ROOT else {"PYTHONPATH": str(self.tree)}
        return {**os.environ, **tree, "LOCKSTEP_LAB": self.name, "PYTHONUNBUFFERED": "1"}

    def command(
        self, *argv: str, timeout_s: float = 1800, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the project from its root."""
        done = subprocess.run(
            argv,
            cwd=self.tree,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode != 0:
            # What went wrong is said last, and a report that is cut is cut at its end.
            said = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
            raise AssertionError(
                f"{' '.join(argv)}: status {done.returncode}\n{done.stderr}\n{said}"
            )
        return done

    def lab(
        self, *argv: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the lab."""
        return self.command(str(PYTHON), "-m", "lab", *argv, check=check, stdin=stdin)

    def on(self, node: str, script: str, check: bool = True) -> str:
        """Run a shell script as root on a node's console; return what it printed."""
        return self.lab("run", node, "--", "sh", "-c", script, check=check).stdout

    def promtool_passes(self, file: str) -> None:
        """Have promtool test the rules that Prometheus has on the head with a file of ours."""
        alerts = (ROOT / file).read_text(encoding="utf-8")
        self.on(
            "head",
            "cd $(mktemp -d) && cp /etc/prometheus/lockstep.rules.yml ."
            f" && printf %s {shlex.quote(alerts)} >alerts.yml && promtool test rules alerts.yml",
        )

    @contextmanager
    def booted(self, workers: int = 2, os_name: str = "debian_13") -> Iterator[Lab]:
        """Boot a head and workers as they were installed, and remove the lab afterwards."""
        self.lab("down")
        try:
            self.lab("up", "--workers", str(workers), "--os", os_name)
            yield self
        finally:
            self.lab("down")

    @contextmanager
    def drifted(self, node: str) -> Iterator[None]:
        """Have a sysctl of a node, net.core.somaxconn, not be as planned for a while."""
        self.on(node, "sysctl -q -w net.core.somaxconn=128")
        try:
            yield
        finally:
            self.on(node, "sysctl -q -w net.core.somaxconn=8192")

    def names_a_file_by_hand(self, node: str, *options: str) -> None:
        """Hold that a check names a new file of a node, and else finds what a plain one finds."""
        path, directly = "/etc/by-hand.conf", self.check(rules_only=False)
        self.on(node, f"echo by hand >{path}")
        try:
            checked = self.check(*options, rules_only=False)
        finally:
            self.on(node, f"rm {path}")
        assert checked.named - directly.named == {("fingerprint.file", node, path)}
        assert "read directly" not in checked.text
        assert self.check(*options, rules_only=False).named == directly.named

    def node_check(self, node: str, mode: str = "health") -> None:
        """Have a node judge itself now: a run beside slurmd's own checks nothing."""
        # journald may still be reading what the program has logged.
        log = "journalctl --sync; journalctl -q -t lockstep-node-check -o cat --since @$begin"
        active = f"{{ {log}; }} | grep -q 'another run is still active'"
        once = f"begin=$(date +%s); timeout 60 {NODE_CHECK} {mode} || exit $?; {active} || exit 0"
        self.on(node, f"for i in $(seq 30); do {once}; sleep 2; done; exit 1")

    def deploy(
        self, deploy: str = "deploys/cluster.py", *options: str, inventory: str = INVENTORY
    ) -> Deployed:
        """Deploy as a user does, with the result for programs."""
        done = self.command(
            str(ROOT / ".venv/bin/pyinfra"),
            "-y",
            "--json",
            *options,
            inventory,
            deploy,
            check=False,
        )
        results = json.loads(done.stdout)["results"] if done.stdout.startswith("{") else {}
        return Deployed(done.returncode, results or {"operations": []}, done.stderr)

    def check(
        self,
        *options: str,
        inventory: str = INVENTORY,
        left_over: bool = False,
        rules_only: bool = True,
    ) -> Checked:
        """Compare the nodes as they are: counters that an earlier test drove up are its own.

        Args:
            options: of ``lockstep check``.
            inventory: the description.
            left_over: whether to return findings of what left the description as well. Tests that
                change it and change it back leave packages behind; tests/lab/test_removal.py is
                about that.
            rules_only: whether to leave fingerprints out. They show also what follows from a
                change, and what earlier tests left; tests/lab/test_changes.py is about them.
        """
        done = self.command(
            str(ROOT / ".venv/bin/lockstep"),
            "check",
            inventory,
            "--no-history",
            "--json",
            "-",
            *(("--no-fingerprint",) if rules_only else ()),
            *options,
            check=False,
        )
        if not done.stdout.startswith("{"):
            raise AssertionError(f"lockstep check: {done.returncode}\n{done.stderr}")
        document = json.loads(done.stdout)
        document.pop("rules")  # 200 lines before what was found: a report that is cut ends in them
        status, findings = done.returncode, document["findings"]
        if not left_over:
            findings = [one for one in findings if not one["rule"].startswith("left_over.")]
            # 1: something differs.
            status = 0 if status == 1 and document["findings"] and not findings else status
        return Checked(status, findings, json.dumps(document, indent=2) + done.stderr)

    def check_once_read(self, *options: str, inventory: str = INVENTORY) -> Checked:
        """Compare the nodes, again while something could not be read yet.

        An emulated machine that has just booted is busy for a while, and its clock has no samples.
        """
        for _ in range(UNREAD_TRIES):
            checked = self.check(*options, inventory=inventory)
            if all(finding["status"] != "unknown" for finding in checked.findings):
                break
            time.sleep(UNREAD_PAUSE_S)
        return checked


@contextmanager
def deployed_lab(
    name: str,
    *up: str,
    deploys: tuple[str, ...] = ("deploys/cluster.py",),
    inventory: str = INVENTORY,
    variable: str = "LOCKSTEP_TEST_LAB",
) -> Iterator[Lab]:
    """Boot machines as they were installed, deploy them, and remove the lab afterwards.

    Args:
        name: of the lab.
        up: options of ``lab up``.
        deploys: what is deployed, in turn.
        inventory: the description.
        variable: name of an environment variable with a developer's own lab, which stays as it is.
    """
    lab = Lab(os.environ.get(variable, name))
    kept = variable in os.environ
    try:
        if not kept:
            lab.lab("down")
        lab.lab("up", *up)
        for deploy in deploys:
            done = lab.deploy(deploy, inventory=inventory)
            assert done.status == 0, done.errors
        yield lab
    finally:
        if not kept:
            lab.lab("down")
