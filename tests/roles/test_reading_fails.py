"""A host that gives no complete answer: one kind of error, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.facts.files import file_states
from lockstep.question import Unreadable
from tests.roles.local import asked


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such interpreter' >&2; exit 127", "no such interpreter.*Next: check that py"),
        ("exit 124", "no message within 60 s"),
        ("echo garbage", "contains no readings, or was cut off"),
        ("echo LOCKSTEP-READINGS 1; echo half", "contains no readings, or was cut off"),
        ("exit 0", "contains no readings, or was cut off"),
    ],
)
def test_what_a_host_fails_with_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    double = tmp_path / "python3"
    # It reads the program first; otherwise, writing the program may fail before the answer is read.
    double.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with pytest.raises(Unreadable, match=said):
        asked(file_states(("/etc/hosts",)))
