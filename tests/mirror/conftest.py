"""A key that signs the repositories of a test file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.mirror.site import Signer


@pytest.fixture(scope="module")
def signer() -> Iterator[Signer]:
    signer = Signer()
    yield signer
    shutil.rmtree(signer.home)
