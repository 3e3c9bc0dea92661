"""The commands of README and docs: each is run, here or in the lab, or has a reason not to be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import COMMANDS, ROOT, Command, Where, commands, read

HERE = [one for one in commands() if one.way and one.way.where is Where.HERE]

COPIED = ("Makefile", "deploys", "inventories", "lab", "lockstep", "pyproject.toml", "roles")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what commands use: they run in it, and write nothing into the checkout."""
    folder = tmp_path_factory.mktemp("documented")
    for name in (*COPIED, "scripts", "templates", "docs", "README.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def test_every_command_is_run_or_has_a_reason() -> None:
    assert [str(one) for one in commands() if one.way is None] == [], (
        "no line of tests/documented.py says how to try them. Add one there, or the comment "
        "<!-- not run: REASON --> on the line before the block"
    )
    assert [
        way.pattern for way in COMMANDS if (way.where is Where.NOWHERE) != bool(way.reason)
    ] == []


@pytest.mark.parametrize("text", sorted({one.text for one in HERE}))
def test_commands_that_need_no_machines_succeed(text: str, copy: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": path,
        "PYTHONPATH": str(copy),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["sh", "-c", text], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    way = next(one.way for one in HERE if one.text == text)
    assert way is not None
    assert done.returncode in way.statuses, done.stdout + done.stderr


# --- how pages are read

PAGE = """\
# Words

```text
$ make no-command
```

<!-- not run: no such machine -->
```console
$ lockstep check INVENTORY    # compare
# systemctl stop slurmd
```

<!-- not run: -->
```sh
reboot
```

```console
$ lockstep plan inventories/prod.py \\
    worker01
worker01: output
$ for n in 1 2; do
>   echo $n; done
$ make unknown
```
"""


def test_a_page_is_read() -> None:
    assert list(read(PAGE, "page.md")) == [
        Command("page.md", 9, "lockstep check INVENTORY    # compare", "no such machine"),
        Command("page.md", 10, "systemctl stop slurmd", "no such machine"),
        Command("page.md", 15, "reboot", ""),
        Command("page.md", 19, "lockstep plan inventories/prod.py worker01"),
        Command("page.md", 22, "for n in 1 2; do   echo $n; done"),
        Command("page.md", 24, "make unknown"),
    ]


def test_without_a_reason_or_a_known_way_a_command_is_none_that_passes() -> None:
    ways = [one.way for one in read(PAGE, "page.md")]
    assert [way.where if way else None for way in ways] == [
        *(Where.NOWHERE, Where.NOWHERE),
        *(None, Where.HERE, None, None),
    ]


def test_what_needs_the_lab_is_run_there() -> None:
    reason = "needs the lab, which `make lab` boots"
    check, other = (
        Command("page.md", 1, text, reason).way
        for text in ("lockstep check inventories/lab.py", "tcpdump -i mgmt0")
    )
    assert check is not None
    assert other is not None
    assert (check.where, other.where, other.reason) == (Where.LAB, Where.NOWHERE, reason)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (".venv/bin/lockstep check inventories/lab.py --containers", Where.LAB),
        ("pyinfra -y inventories/lab.py deploys/cluster.py  # apply", Where.LAB),
        (".venv/bin/python -m lab run worker1 -- nvidia-smi -i 3 -pl 350", Where.LAB),
        ("lockstep check inventories/prod.py --through slurm", Where.NOWHERE),
        ("lockstep plan inventories/prod.py worker01", Where.HERE),
        ("lockstep explain gpu.power_limit", Where.HERE),
        ("make lab", Where.NOWHERE),
        ("make test-unit", Where.NOWHERE),
    ],
)
def test_commands_are_known_by_their_beginning(text: str, where: Where) -> None:
    way = Command("page.md", 1, text).way
    assert way is not None
    assert way.where is where
