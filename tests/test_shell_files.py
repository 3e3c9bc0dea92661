"""The manual page and the completions; tests/test_generated.py shows that they are current."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.generate.man_page import FOLDER, subcommands, whole_parser

SHELL = Path(__file__).resolve().parents[1] / FOLDER
COMMANDS = subcommands(whole_parser())
COMPLETES = """\
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function="$(complete -p lockstep | sed 's/.* -F \\([^ ]*\\).*/\\1/')"
"$function" lockstep "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_command_with_all_its_options(name: str) -> None:
    page = (SHELL / "lockstep.1").read_text(encoding="utf-8")
    sections = re.split(r"^\.SS ", page, flags=re.MULTILINE)
    (section,) = (one for one in sections if one.startswith(f"lockstep {name}\n"))
    for action in COMMANDS[name]._actions:
        for option in action.option_strings if action.dest != "help" else ():
            assert option.replace("-", "\\-") in section


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("lockstep ch", {"check"}),
        ("lockstep check --j", {"--job", "--json", "--junit"}),
        ("lockstep check --severity n", {"notice"}),
        ("lockstep lab --name one u", {"up"}),
    ],
)
def test_bash_completes_what_is_typed(typed: str, completed: set[str]) -> None:
    done = subprocess.run(
        ["bash", "-c", COMPLETES, "bash", SHELL / "lockstep.bash", *typed.split(" ")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == completed
