"""What replaces functions of pyinfra does what they do, and only while they are those."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
from pyinfra.api import arguments, util

from lockstep.fast import leaner
from tests.fast.runs import Machine

ORDERS = """
from pyinfra import state
from pyinfra.api import deploy
from pyinfra.api.util import get_operation_order_from_stack
from lockstep.fast.leaner import operation_order

def reached():
    return [order(state) for order in (get_operation_order_from_stack, operation_order)]

@deploy("Nested")
def nested():
    for both in (reached(), reached()):
        assert both[0] == both[1] and len(both[0]) > 2, both
        host.log(f"order {both[1]}")
nested()
state.current_deploy_filename, before = "elsewhere.py", state.current_deploy_filename
assert reached() == [[0], [0]], reached()
state.current_deploy_filename = None
both = reached()
assert both[0] == both[1], both
state.current_deploy_filename = before
"""


@pytest.mark.parametrize("patch", leaner.PATCHES, ids=lambda patch: patch.function.__name__)
def test_pyinfra_has_the_function_that_is_replaced(patch: leaner.Patch) -> None:
    """Fails with another pyinfra: read what its function does now, then change or drop ours."""
    assert patch.fits
    for caller in patch.callers:
        module = importlib.import_module(caller)
        assert getattr(module, patch.function.__name__) in (patch.function, patch.instead)


def test_another_pyinfra_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = replace(leaner.PATCHES[0], source_sha256="of another version")
    module = importlib.import_module(patch.callers[0])
    monkeypatch.setattr(module, patch.function.__name__, patch.function)
    monkeypatch.setattr(leaner, "PATCHES", (patch,))
    leaner.patch.__wrapped__()
    assert getattr(module, patch.function.__name__) is patch.function


def test_operations_have_the_order_that_pyinfra_gives_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    said = machine.deploy(ORDERS, "--dry").said
    assert said.count("order [0, ") == 2


def test_the_global_arguments_are_those_of_pyinfra() -> None:
    assert leaner.global_arguments() == arguments.all_global_arguments()
    assert leaner.global_arguments() is leaner.global_arguments()
    assert util.PYINFRA_INSTALL_DIR


def test_what_was_imported_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    counts = "import gc; host.log(f'frozen: {gc.get_freeze_count() > 0}')\n"
    assert "frozen: True" in Machine(tmp_path).deploy(counts, "--dry").said


@pytest.mark.parametrize(("unwanted", "kept"), [("", True), ("1", False)])
def test_modules_of_a_deploy_are_compiled_once_unless_python_was_told_otherwise(
    unwanted: str, kept: bool, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "imported.py").write_text("")
    machine.deploy("import imported\n", "--dry", PYTHONDONTWRITEBYTECODE=unwanted)
    assert (tmp_path / "__pycache__").is_dir() is kept
