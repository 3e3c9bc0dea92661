"""Tests of the fast path itself: it is on, also where ``LOCKSTEP_FAST=0`` is for all others."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fast_path(fast_path: None) -> None:
    """Every test here."""
