"""A host that gives no whole answer: one kind of error with the reason, and never an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.facts.files import file_states
from lockstep.unreadable import Unreadable
from tests.roles.local import asked


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such interpreter' >&2; exit 127", "no such interpreter.*Next: see that python3"),
        ("exit 124", "no message within 60 s"),
        ("echo garbage", "not there, or were cut off"),
        ("echo LOCKSTEP-READINGS 1; echo half", "not there, or were cut off"),
        ("exit 0", "not there, or were cut off"),
    ],
)
def test_what_a_host_fails_with_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    double = tmp_path / "python3"
    double.write_text(f"#!/bin/sh\n{script}\n")
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with pytest.raises(Unreadable, match=said):
        asked(file_states(("/etc/hosts",)))
