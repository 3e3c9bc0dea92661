"""What one command says of many units is what a command of each says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lockstep.facts import services
from lockstep.facts.services import MANAGER, Service

SYSTEMCTL = """\
#!/bin/sh
# A double of systemctl(1): a paragraph for each unit, as systemctl 257 prints them.
shift
if [ "$1" = -p ]; then echo UserspaceTimestampMonotonic=7; exit; fi
while [ "$1" != -p ]; do
    if [ "$between" ]; then echo; fi
    between=yes
    echo "ActiveState=$1"; echo UnitFileState=; echo "InvocationID=of $1"
    case $* in *Names*) echo "Names=$1 alias-of-$1";; esac
    shift
done
"""
MOVING = ("Now=", "Uptime=")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "a name").write_text("foo")
    (tmp_path / "empty").touch()
    return [str(tmp_path / name) for name in ("a name", "empty", "gone")]


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str]) -> None:
    """Units, some of which have a stamp."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(services, "LOADED", str(tmp_path))
    (tmp_path / "one.service").write_text(f"of one.service\n1.000000000 5 {files[0]}\n")
    (tmp_path / "one.service.d").write_text("of another\n")
    (tmp_path / "none.service").write_text("\n")
    odd = b"of another\n1.0 5 /not utf-8 \xff\n 2.0 7 /a\\n\tb \n"
    (tmp_path / "one.service:2").write_bytes(odd)
    (tmp_path / MANAGER).write_text("the boot\n")


def printed(command: str) -> list[str]:
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode(errors="replace").split("\n")[:-1]


def lasting(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith(MOVING)]


def compare(fact: Any, every: list[dict[str, Any]], order: Any = list) -> None:
    together = fact.outputs_for_many(every, printed(fact.command_for_many(every)))
    assert len(together) == len(every)
    for one, said in zip(every, together, strict=True):
        alone = printed(fact.command(**one))
        assert order(lasting(said)) == order(lasting(alone))
        assert len(said) == len(alone)  # also what changes is there


def units(files: list[str]) -> list[dict[str, Any]]:
    return [
        {"unit": MANAGER, "files": [], "reload_files": files},
        {"unit": "two.service"},
        {"unit": "one.service", "files": files, "reload_files": files[:1]},
        {"unit": "one.service", "files": files[1:]},
        {"unit": "none.service", "files": [files[2]]},
        {"unit": "one.service:2"},
        {"unit": MANAGER},
    ]


@pytest.mark.usefixtures("loaded")
def test_units(files: list[str]) -> None:
    every = units(files)
    compare(Service(), every)
    compare(Service(), [one for one in every if one["unit"] == MANAGER])
    compare(Service(), [one for one in every if one["unit"] != MANAGER])
    compare(Service(), every[1:2] * 2)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("lacks", [slice(0, 5), slice(4, 5)], ids=["a unit", "an empty line"])
def test_an_answer_that_lacks_a_unit_is_none(files: list[str], lacks: slice) -> None:
    every = units(files)[1:4]
    output = printed(Service().command_for_many(every))
    del output[lacks]
    with pytest.raises(ValueError, match=r"zip|shown is"):
        Service().outputs_for_many(every, output)


@pytest.mark.usefixtures("loaded")
def test_answers_in_another_order_are_none(files: list[str]) -> None:
    """systemctl(1) puts what a pattern finds behind the others."""
    every = [{"unit": "one.service"}, {"unit": "two.service"}]
    output = printed(Service().command_for_many(every))
    with pytest.raises(ValueError, match=r"one\.service: shown is"):
        Service().outputs_for_many(every, [*output[5:10], *output[:5], *output[10:]])
