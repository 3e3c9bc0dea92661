"""Boots a lab, lets it live, and checks it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.lab.labs import INVENTORY, ROOT, Lab
from tests.lab.silence import Event
from tests.lab.silence.deployments import WORKERS, deployed, prepared
from tests.lab.silence.events import REBOOT
from tests.lab.silence.life import Life

UP_S, IDLE_S = 90, 90
ENDED = (["running"], ["degraded"])
"""States of a system that has booted; early in a boot systemctl(1) does not wait, and says so."""
PID_1 = "sed 's/.*) //' /proc/1/stat | cut -d' ' -f20"
"""Prints when PID 1 of a node started; see proc_pid_stat(5)."""
CHECKS: tuple[tuple[str, ...], ...] = ((), ("--slow",))
"""Options of the checks after a life. The last one reads anew what is read once a day."""


@dataclass
class Outcome:
    """What became of one lab."""

    life: Life
    findings: list[Mapping[str, Any]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Exit status of each check; the first one follows the deploy."""
    failed: list[str] = field(default_factory=list)
    """Events that did not happen, with their output; "deploy: ..." if the lab was not deployed."""
    took_s: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether all happened, and no check found anything."""
        return not self.failed and not self.findings and self.statuses == [0] * (1 + len(CHECKS))

    def lines(self) -> Iterator[str]:
        """Yield one line about the lab, and all that was found or failed."""
        one = self.life
        again = ", deployed again" if one.deployed_again else ""
        yield (
            f"{'silent' if self.silent else 'NOT SILENT'}: life {one.seed}, "
            f"{one.deployment.name}, {len(one.events)} events{again}, "
            f"checks {self.statuses}, {len(self.findings)} findings, "
            f"{len(self.failed)} failed, {self.took_s:.0f} s"
        )
        yield from (f"  failed: {text}" for text in self.failed)
        yield from (f"  finding: {json.dumps(one)}" for one in self.findings)


def lived(lab: Lab, life: Life) -> Outcome:
    """Deploy a fresh lab, let everything happen to it, and check it."""
    began = time.monotonic()
    outcome, chance = Outcome(life), Random(life.seed)
    try:
        prepared(lab, chance)
        life.deployment.run(lab, chance)
        idle(lab)
    except AssertionError as wrong:
        outcome.failed.append(f"deploy: {wrong}")
        outcome.took_s = time.monotonic() - began
        return outcome
    outcome.findings += checked(lab, outcome)
    for worker, event in life.events:
        try:
            happens(lab, worker, event)
        except AssertionError as wrong:
            outcome.failed.append(f"{worker}, {event.name}: {wrong}")
    try:
        if life.deployed_again:
            deployed(lab)
        idle(lab)
    except AssertionError as wrong:
        outcome.failed.append(str(wrong))
    for options in CHECKS:
        outcome.findings += checked(lab, outcome, *options)
    outcome.took_s = time.monotonic() - began
    return outcome


def happens(lab: Lab, worker: str, event: Event) -> None:
    """Let an event happen to a worker; wait until a worker that boots is back.

    Raises:
        AssertionError: it did not happen.
    """
    script = event.script.replace("NODE", worker)
    booted = lab.on(worker, PID_1) if event.boots else ""
    if event.user:
        lab.lab("ssh", worker, "--", "sh", "-s", stdin=script)
    else:
        # The console may go before the command has ended.
        lab.on("head" if event.head else worker, script, check=event.script != REBOOT)
    if event.boots:
        if event.script != REBOOT:
            lab.lab("power-cycle", worker)
        back(lab, worker, booted)
        idle(lab)


def back(lab: Lab, worker: str, booted: str) -> None:
    """Wait until a worker has booted again.

    Args:
        lab: the lab.
        worker: the worker.
        booted: when it had booted before, as PID_1 prints it.

    Raises:
        AssertionError: it has not.
    """
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        now = lab.on(worker, f"{PID_1} && systemctl is-system-running --wait", check=False)
        if not now.startswith(booted) and now.split()[-1:] in ENDED:
            return
        time.sleep(1)
    raise AssertionError(f"{worker} did not boot within {UP_S} s")


def idle(lab: Lab) -> None:
    """Wait until Slurm can use all workers, and their clocks follow the head's again.

    chronyd needs some seconds after its start (chronyc(1), waitsync).

    Raises:
        AssertionError: Slurm cannot, or a clock does not.
    """
    for worker in WORKERS:
        lab.on(worker, f"chronyc waitsync {IDLE_S} 0 0 1 > /run/waitsync || cat /run/waitsync")
    lab.on(
        "head",
        f'for i in $(seq {IDLE_S}); do [ "$(sinfo -h -o %T | sort -u)" = idle ] && exit 0; sleep 1;'
        " done; sinfo; sinfo -R; exit 1",
    )


def checked(lab: Lab, outcome: Outcome, *options: str) -> list[Mapping[str, Any]]:
    """Check a lab as a user does; note the exit status, and return the findings."""
    words = (str(ROOT / ".venv/bin/lockstep"), "check", INVENTORY, "--json", "-", *options)
    done = lab.command(*words, check=False)
    outcome.statuses.append(done.returncode)
    if not done.stdout.startswith("{"):
        outcome.failed.append(f"lockstep check: {done.returncode}\n{done.stderr}")
        return []
    findings: list[Mapping[str, Any]] = json.loads(done.stdout)["findings"]
    return findings
