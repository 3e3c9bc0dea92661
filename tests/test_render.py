"""Compiled templates are cached per user; a folder that others can write to is not trusted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RENDER = """
import jinja2, sys
from lockstep.render import render
compiled = []
compile = jinja2.Environment.compile
jinja2.Environment.compile = lambda *a, **k: compiled.append(a[2]) or compile(*a, **k)
print(render("header.j2"), end="")
print(*compiled, file=sys.stderr)
"""
CACHES = ("XDG_CACHE_HOME", "HOME")
NO_HOME = """
import pwd
def getpwuid(uid): raise KeyError(uid)
pwd.getpwuid = getpwuid
"""


def rendered(home: Path) -> tuple[str, list[str]]:
    """What one process makes of a template, and which templates it compiled."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    words = [sys.executable, "-c", RENDER]
    # As on distributions where each user has a group of his own: what it makes is its group's, too.
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env=environment, umask=0o002
    )
    return done.stdout, done.stderr.split()


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    home = tmp_path / "new"
    first = rendered(home)
    assert first[1] == ["header.j2"]
    assert rendered(home) == (first[0], [])
    (folder,) = (home / "lockstep").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    for kept in folder.iterdir():
        kept.write_bytes(kept.read_bytes()[:40])
    assert rendered(home) == first, "what is torn is made again"


@pytest.mark.parametrize(
    "kept_from", ["others may write", "others may replace it", "another's", "no folder"]
)
def test_where_it_is_not_safe_nothing_is_kept(tmp_path: Path, kept_from: str) -> None:
    text, _ = rendered(tmp_path)
    (folder,) = (tmp_path / "lockstep").iterdir()
    if kept_from == "others may write":
        folder.chmod(0o770)
    elif kept_from == "others may replace it":
        folder.parent.chmod(0o777)
    elif kept_from == "another's":
        if os.geteuid() != 0:
            pytest.skip("gives the folder to somebody else")
        os.chown(folder, 1, 1)
    else:
        for kept in folder.iterdir():
            kept.unlink()
        folder.rmdir()
        folder.write_text("a file")
    assert rendered(tmp_path) == (text, ["header.j2"])


def test_a_user_without_a_home_compiles_each_time() -> None:
    without = {name: value for name, value in os.environ.items() if name not in CACHES}
    words = [sys.executable, "-c", NO_HOME + RENDER]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=without)
    assert done.stderr.split() == ["header.j2"]
