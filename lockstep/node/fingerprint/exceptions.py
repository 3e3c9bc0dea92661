"""The exceptions for all clusters. A site adds its own in its description."""

from __future__ import annotations

from lockstep.node.fingerprint.exempt import Exempt

EXCEPTIONS: tuple[Exempt, ...] = ()
