"""Roles of a site that contradict those of Lockstep, or have wrong settings, are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from lockstep.inventory import plan_or_problems
from lockstep.plan.declaration import Contribution, Declaration, Unit
from lockstep.spec import Problem
from tests.spec import example


class Notice(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = ""


def role(name: str, **fields: Any) -> Declaration:
    return Declaration(name=name, title=name, **fields)


Refused = Callable[..., Problem]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    file = tmp_path / "prod.py"
    file.write_text(example.SOURCE, encoding="utf-8")

    def first(*roles: Declaration, **changed: Any) -> Problem:
        made, problems = plan_or_problems({**example.description(), **changed}, str(file), roles)
        assert made is None
        return problems[0]

    return first


def test_a_role_with_the_name_of_one_of_lockstep_is_refused(refused: Refused) -> None:
    problem = refused(role("hugepages"))
    assert (problem.value, problem.allowed) == (
        "'hugepages'",
        "a name that no built-in role has",
    )


def test_a_wrong_setting_of_a_role_names_the_settings_of_this_role(refused: Refused) -> None:
    problem = refused(role("notice", settings=Notice), extensions={"notice": {"txt": "a"}})
    assert problem.path == ("extensions", "notice", "txt")
    assert problem.allowed == "one of text"


@pytest.mark.parametrize("on_workers", [True, False])
def test_a_unit_that_one_role_runs_and_another_masks_is_refused(
    refused: Refused, on_workers: bool
) -> None:
    runs = role("runs", units=(Unit(name="a.service"),))
    masks = role(
        "masks",
        when=lambda plan: plan.is_worker is on_workers,
        contributes=Contribution(masked_units=lambda plan: ("a.service",)),
    )
    problem = refused(runs, masks)
    assert problem.path == ("hardware", "hgx" if on_workers else "head")
    assert problem.value == "a.service: started by runs, masked by masks"
    assert "unmanaged" in problem.allowed
