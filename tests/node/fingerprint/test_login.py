"""What a login shell gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.node.fingerprint.login import read_login
from lockstep.node.readers import commands
from lockstep.node.readers.commands import Commands

ROOT = "login shell of root"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of the node: ``bash`` reads this profile instead of /etc/profile."""
    monkeypatch.setattr(commands, "PATH", f"{tmp_path}:/usr/bin:/bin")
    profile = tmp_path / "profile"
    profile.write_text("")
    for name, text in {
        "env": f'shift 6; exec /usr/bin/env -i bash -c ". {profile}; $1"',
        "runuser": 'shift 3; exec "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def read(tools: Path, profile: str = "") -> dict[str, Fields]:
    (tools / "profile").write_text(profile)
    return {entry.name: entry.fields for entry in read_login({}, Commands())}


@pytest.mark.parametrize(
    ("profile", "field", "value"),
    [
        ("umask 077", "umask", "0077"),
        ("export NCCL_DEBUG=INFO", "environment NCCL_DEBUG", "INFO"),
        ("alias rm='rm -i'", "alias rm", "'rm -i'"),
        ("ml() { :; }", "functions", "ml"),
        ("set -o noclobber", "options", None),
        ("echo welcome", "profile prints", "welcome"),
    ],
)
def test_a_change_of_the_profile(tools: Path, profile: str, field: str, value: str | None) -> None:
    before, after = read(tools)[ROOT], read(tools, profile)[ROOT]
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert changed == {field}
    assert value is None or after[field] == value


def test_a_variable_with_a_secret_is_one(tools: Path) -> None:
    fields = read(tools, "export WANDB_API_KEY=abc")[ROOT]
    assert isinstance(fields["environment WANDB_API_KEY"], Secret)


def test_the_session_of_the_probe_does_not_matter(tools: Path) -> None:
    before = read(tools)
    usual = os.umask(0o077)
    try:
        assert read(tools) == before
    finally:
        os.umask(usual)
