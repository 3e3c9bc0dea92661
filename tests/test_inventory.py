"""The description in an inventory file, without its plan."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from lockstep.inventory import described, load
from tests.golden.write import ROOT
from tests.spec.example import SOURCE, description

PROD = str(ROOT / "inventories" / "prod.py")


def test_it_is_what_the_file_gives_to_plan_or_exit(tmp_path: Path) -> None:
    file = tmp_path / "site.py"
    file.write_text(SOURCE, encoding="utf-8")
    found = described(str(file))
    assert (found.values, found.file, found.roles) == (description(), str(file), ())


def test_it_needs_no_valid_description(tmp_path: Path) -> None:
    file = tmp_path / "site.py"
    file.write_text(SOURCE.replace('"debian_13"', '"plan9"'), encoding="utf-8")
    assert described(str(file)).values["os"] != description()["os"]


def test_lines_after_the_call_are_not_run_and_later_calls_plan_again(tmp_path: Path) -> None:
    file = tmp_path / "site.py"
    file.write_text(f"{SOURCE}\nraise RuntimeError\n", encoding="utf-8")
    assert described(str(file)).values["name"] == description()["name"]
    with pytest.raises(RuntimeError):
        runpy.run_path(str(file))
    assert load(PROD).spec.name == "prod"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes = []\n", "site.py: the file describes no cluster"),
        ("1 / 0\n", "site.py:1: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_without_a_description_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "site.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        described(str(file))
    assert ended.value.code == 3
    assert said in capsys.readouterr().err
