"""Each original is replaced only while its source is known, and never with LOCKSTEP_FAST=0."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from lockstep.pyinfra_internals import registry
from lockstep.pyinfra_internals.registry import Patch
from tests.fast.runs import Machine

PATCHES = (*registry.READING, *registry.DEPLOY)
ORIGINALS = {patch: resolve_name(patch.original) for patch in PATCHES}


@pytest.fixture(autouse=True)
def _originals(fast_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is replaced when a test begins, nor after it."""
    for patch in PATCHES:
        for place in patch.places:
            monkeypatch.setattr(resolve_name(place), patch.name, ORIGINALS[patch])


def in_place(patch: Patch) -> list[Any]:
    return [vars(resolve_name(place))[patch.name] for place in patch.places]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.replacement)
def test_pyinfra_has_the_function_that_is_replaced(patch: Patch) -> None:
    """Fails with another pyinfra: read what its function does now, then change or drop ours."""
    assert patch.fits
    before = in_place(patch)
    registry.apply([patch])
    assert in_place(patch) != before
    assert len(set(in_place(patch))) == 1


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.replacement)
def test_an_original_with_another_source_stays(
    patch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = in_place(patch)
    registry.apply([replace(patch, source_sha256="of another version")])
    assert in_place(patch) == before
    assert "does not use 1 of its 1 faster functions for pyinfra" in capsys.readouterr().err


BOUND = """
import sys
from pkgutil import resolve_name
import lockstep.fast.connector, lockstep.roles.operations.apply
from lockstep.pyinfra_internals import registry
originals = {id(resolve_name(patch.original)): patch.original for patch in registry.DEPLOY}
registry.speed_up_deploy()
for name, module in sorted(sys.modules.items()):
    if name.startswith("lockstep."):
        for key, value in vars(module).items():
            if id(value) in originals:
                print(f"{name}.{key}")
"""


def test_no_module_of_lockstep_keeps_an_original() -> None:
    """A ``from ... import`` binds it before it is replaced, and stays slow without a sign."""
    command = [sys.executable, "-c", BOUND]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


RENAMED = """
from pyinfra.api import connectors
del connectors.get_all_connectors
from lockstep.pyinfra_internals import registry
registry.apply(registry.DEPLOY)
"""


def test_an_original_that_is_gone_keeps_no_other_from_being_replaced() -> None:
    done = subprocess.run([sys.executable, "-c", RENAMED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"1 of its {len(registry.DEPLOY)} faster functions" in done.stderr


def test_nothing_is_replaced_without_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_FAST", "0")
    before = [in_place(patch) for patch in PATCHES]
    registry.apply(PATCHES)
    assert [in_place(patch) for patch in PATCHES] == before


def test_the_table_has_each_module_of_its_folder() -> None:
    modules = {path.stem for path in Path(registry.__file__).parent.glob("*.py")}
    in_table = {patch.replacement.partition(":")[0] for patch in PATCHES}
    assert modules == {*in_table, "__init__", "registry", "progress", "ssh_client"}


@pytest.mark.parametrize(("fast", "frozen"), [("1", "True, 20000"), ("0", "False, ")])
def test_a_deploy_collects_garbage_seldom(tmp_path: Path, fast: str, frozen: str) -> None:
    counts = (
        "import gc; host.log(f'frozen: {gc.get_freeze_count() > 0}, {gc.get_threshold()[0]}')\n"
    )
    assert f"frozen: {frozen}" in Machine(tmp_path).deploy(counts, "--dry", LOCKSTEP_FAST=fast).said
