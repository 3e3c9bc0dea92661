"""The table of all domains."""

from __future__ import annotations

from lockstep.node.fingerprint.containers import ENGINES
from lockstep.node.fingerprint.entry import Domain
from lockstep.node.fingerprint.listeners import LISTENERS
from lockstep.node.fingerprint.login import LOGIN
from lockstep.node.fingerprint.processes import PROCESSES
from lockstep.node.fingerprint.running import RUNNING
from lockstep.node.fingerprint.scheduler import SCHEDULER
from lockstep.node.fingerprint.timers import TIMERS
from lockstep.node.fingerprint.units import UNITS

DOMAINS: tuple[Domain, ...] = (
    *UNITS, *PROCESSES, *RUNNING, *LISTENERS, *TIMERS, *SCHEDULER, *ENGINES, *LOGIN
)  # fmt: skip
