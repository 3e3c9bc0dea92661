"""The exceptions for all clusters. A site adds its own in its description."""

from __future__ import annotations

from lockstep.node.fingerprint.accounts import EXCEPTIONS_OF_ACCOUNTS
from lockstep.node.fingerprint.containers import EXCEPTIONS_OF_ENGINES
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.firewall import EXCEPTIONS_OF_FIREWALL
from lockstep.node.fingerprint.hardware import EXCEPTIONS_OF_HARDWARE
from lockstep.node.fingerprint.kernel import EXCEPTIONS_OF_KERNEL
from lockstep.node.fingerprint.listeners import EXCEPTIONS_OF_LISTENERS
from lockstep.node.fingerprint.login import EXCEPTIONS_OF_LOGIN
from lockstep.node.fingerprint.modules import EXCEPTIONS_OF_MODULE
from lockstep.node.fingerprint.mounts import EXCEPTIONS_OF_MOUNT
from lockstep.node.fingerprint.network import EXCEPTIONS_OF_NETWORK
from lockstep.node.fingerprint.packages import EXCEPTIONS_OF_PACKAGES, EXCEPTIONS_OF_PROGRAMS
from lockstep.node.fingerprint.places import EXCEPTIONS_OF_FILES
from lockstep.node.fingerprint.processes import EXCEPTIONS_OF_PROCESSES
from lockstep.node.fingerprint.running import EXCEPTIONS_OF_RUNNING
from lockstep.node.fingerprint.scheduler import EXCEPTIONS_OF_SCHEDULER
from lockstep.node.fingerprint.sysctl import EXCEPTIONS_OF_SYSCTL
from lockstep.node.fingerprint.timers import EXCEPTIONS_OF_TIMERS
from lockstep.node.fingerprint.units import EXCEPTIONS_OF_UNITS

EXCEPTIONS: tuple[Exempt, ...] = (
    *EXCEPTIONS_OF_ACCOUNTS,
    *EXCEPTIONS_OF_ENGINES,
    *EXCEPTIONS_OF_FIREWALL,
    *EXCEPTIONS_OF_HARDWARE,
    *EXCEPTIONS_OF_KERNEL,
    *EXCEPTIONS_OF_LISTENERS,
    *EXCEPTIONS_OF_LOGIN,
    *EXCEPTIONS_OF_MODULE,
    *EXCEPTIONS_OF_MOUNT,
    *EXCEPTIONS_OF_NETWORK,
    *EXCEPTIONS_OF_PACKAGES,
    *EXCEPTIONS_OF_FILES,
    *EXCEPTIONS_OF_PROCESSES,
    *EXCEPTIONS_OF_PROGRAMS,
    *EXCEPTIONS_OF_RUNNING,
    *EXCEPTIONS_OF_SCHEDULER,
    *EXCEPTIONS_OF_SYSCTL,
    *EXCEPTIONS_OF_TIMERS,
    *EXCEPTIONS_OF_UNITS,
)
"""What is not compared although it differs between equal nodes: data, each row with its reason."""
