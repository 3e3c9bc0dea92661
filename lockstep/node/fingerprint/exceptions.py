"""The exceptions for all clusters. A site adds its own in its description."""

from __future__ import annotations

from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.listeners import EXCEPTIONS_OF_LISTENERS
from lockstep.node.fingerprint.processes import EXCEPTIONS_OF_PROCESSES
from lockstep.node.fingerprint.running import EXCEPTIONS_OF_RUNNING
from lockstep.node.fingerprint.units import EXCEPTIONS_OF_UNITS

EXCEPTIONS: tuple[Exempt, ...] = (
    *EXCEPTIONS_OF_UNITS,
    *EXCEPTIONS_OF_PROCESSES,
    *EXCEPTIONS_OF_RUNNING,
    *EXCEPTIONS_OF_LISTENERS,
)
"""What is not compared although it differs between equal nodes: data, each row with its reason."""
