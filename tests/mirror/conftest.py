"""A key that signs the repositories of a test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mirror.site import Signer, signing


@pytest.fixture(scope="module")
def signer() -> Iterator[Signer]:
    with signing() as signer:
        yield signer
