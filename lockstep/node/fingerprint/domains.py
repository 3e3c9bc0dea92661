"""The table of all domains."""

from __future__ import annotations

from lockstep.node.fingerprint.accounts import ACCOUNTS
from lockstep.node.fingerprint.entry import Domain
from lockstep.node.fingerprint.files import FILES
from lockstep.node.fingerprint.packages import PACKAGES

DOMAINS: tuple[Domain, ...] = (*FILES, *PACKAGES, *ACCOUNTS)
