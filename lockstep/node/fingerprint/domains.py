"""The table of all domains."""

from __future__ import annotations

from lockstep.node.fingerprint.entry import Domain

DOMAINS: tuple[Domain, ...] = ()
