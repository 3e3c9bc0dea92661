"""Wrong settings of Apptainer, enroot and pyxis: the complete messages."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep import spec
from lockstep.catalog.os import rocky_9
from lockstep.roles import declared
from tests.spec.example import line_of
from tests.spec.nvidia_example import changed, description
from tests.spec.test_wrong_nvidia import Change, Wrong, without
from tests.spec.test_wrong_specs import message, refused

ENGINES = '"containers": {"engines": ["containerd"]}'
HERE = "software.containers"


def containers(*fields: str) -> Change:
    """Containers of the example, other ones."""
    return ENGINES, f'"containers": {{{", ".join(fields)}}}'


ENROOT, PYXIS = '"enroot": "4.1.2"', '"pyxis": "0.24.0"'
NO_TOOLKIT = without('"container_toolkit": "1.18.0"')

CASES = [
    Wrong(
        "pyxis without enroot",
        (containers('"engines": ["podman"]', PYXIS),),
        '"containers": {',
        f"{HERE}.enroot",
        "not declared",
        "a version: pyxis 0.24.0 starts its containers with enroot",
    ),
    Wrong(
        "an enroot that pyxis does not know",
        (containers('"enroot": "3.0.2"', PYXIS),),
        '"enroot"',
        f"{HERE}.enroot",
        "3.0.2",
        "3.1.0 or later for pyxis 0.24.0",
    ),
    Wrong(
        "enroot without the toolkit",
        (containers(ENROOT), NO_TOOLKIT),
        '"enroot"',
        f"{HERE}.enroot",
        "4.1.2",
        "software.nvidia with container_toolkit: without it, containers get no GPUs",
    ),
    Wrong(
        "a lock that contradicts the declared version",
        (
            containers(ENROOT),
            ('"slurmd": "24.11.5-4"', '"slurmd": "24.11.5-4", "enroot+caps": "3.5.0-1"'),
        ),
        '"enroot+caps"',
        "software.versions.enroot+caps",
        "3.5.0-1, but enroot is 4.1.2",
        "4.1.2-*, as in software.containers",
    ),
    Wrong(
        "an epoch and a revision",
        (containers('"apptainer": "1:1.5.3-1"'), NO_TOOLKIT),
        '"apptainer"',
        f"{HERE}.apptainer",
        "'1:1.5.3-1'",
        "an upstream version (no epoch, no revision), such as 550.163.01",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_whole_message(
    case: Wrong,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = changed(*case.changes)
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert said == message(line_of(text, case.at), case.field, case.found, case.allowed)


def found(change: Mapping[str, object], **software: object) -> dict[str, tuple[str, str]]:
    """Problems of the example with these containers and this software, by their place."""
    wanted = description()
    wanted["software"].update(software, containers=change)
    return {
        ".".join(map(str, problem.path)): (problem.value, problem.allowed)
        for problem in spec.load(wanted, declared())[1]
    }


def test_no_archive_holds_them() -> None:
    every = {"engines": ["podman"], "apptainer": "1.5.3", "enroot": "4.1.2", "pyxis": "0.24.0"}
    said = found(every, repositories=[], nvidia=None)
    assert said["software.repositories"] == (
        "none",
        "a repository that provides apptainer, enroot, pyxis: the distribution's archive does not",
    )


def test_pyxis_is_a_plugin_of_a_scheduler() -> None:
    wanted = description()
    wanted["software"]["containers"] = {"enroot": "4.1.2", "pyxis": "0.24.0"}
    wanted["scheduler"] = None
    wanted["nodes"][0]["runs"] = []
    (problem,) = (one for one in spec.load(wanted, declared())[1] if one.path[0] == "software")
    assert (problem.path, problem.value, problem.allowed) == (
        ("software", "containers", "pyxis"),
        "0.24.0",
        "leave it out, or add Slurm: pyxis is a Slurm plugin",
    )


def test_a_release_without_packages_gets_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(rocky_9.RELEASE, supported_roles=("os_settings", "kernel"))
    monkeypatch.setattr(rocky_9, "RELEASE", few)
    wanted = description()
    wanted["os"]["release"] = "rocky_9"
    wanted["software"]["containers"] = {"apptainer": "1.5.3", "enroot": "4.1.2"}
    said = {problem.path: problem.allowed for problem in spec.load(wanted, declared())[1]}
    packages = "leave it out: packages are not supported on rocky_9 yet"
    assert said[("software", "containers", "apptainer")] == packages
    assert said[("software", "containers", "enroot")] == packages


@pytest.mark.parametrize(
    "fields",
    [
        {"enroot": "4.1.2", "pyxis": "0.24.0"},
        {"engines": ["docker"], "apptainer": "1.5.3"},
        {"engines": ["docker"], "apptainer": "1.5.3", "enroot": "3.1.0", "pyxis": "0.21.0"},
    ],
    ids=["enroot and pyxis alone", "apptainer beside an engine", "all"],
)
def test_what_fits_is_right(fields: dict[str, object]) -> None:
    assert found(fields) == {}
