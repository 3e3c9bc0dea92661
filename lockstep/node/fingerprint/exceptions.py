"""The exceptions for all clusters. A site adds its own in its description."""

from __future__ import annotations

from lockstep.node.fingerprint.accounts import EXCEPTIONS_OF_ACCOUNTS
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.packages import EXCEPTIONS_OF_PACKAGES
from lockstep.node.fingerprint.places import EXCEPTIONS_OF_FILES
from lockstep.node.fingerprint.programs import EXCEPTIONS_OF_PROGRAMS

EXCEPTIONS: tuple[Exempt, ...] = (
    *EXCEPTIONS_OF_FILES, *EXCEPTIONS_OF_PROGRAMS, *EXCEPTIONS_OF_PACKAGES,
    *EXCEPTIONS_OF_ACCOUNTS
)  # fmt: skip
