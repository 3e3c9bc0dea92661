"""Programs that cannot be run make a reading unread; a prolog refuses the job then."""

from pathlib import Path

import pytest

from lockstep.node.readers import commands
from lockstep.node.readers.reading import Unread


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0, "tool: not installed"),
        ("#!/bin/sh\n", 0o644, "tool: not installed"),
        ("#!/no/such/interpreter\n", 0o755, "tool: cannot run: No such file or directory"),
        ("no program", 0o755, "tool: cannot run: Exec format error"),
    ],
)
def test_a_program_that_cannot_be_run_is_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, mode: int, why: str
) -> None:
    if content is not None:
        (tmp_path / "tool").write_text(content)
        (tmp_path / "tool").chmod(mode)
    monkeypatch.setattr(commands, "PATH", str(tmp_path))
    with pytest.raises(Unread) as unread:
        commands.Commands().run("tool")
    assert str(unread.value) == why
