"""``lockstep init`` from the wheel: the new repository works, as its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from lockstep.commands.init import SITE, dependencies
from lockstep.inventory import load
from lockstep.probe.parse import dumps
from tests.checks import healthy, recorded
from tests.documented import ROOT, read
from tests.wheel.conftest import Installed

pytestmark = pytest.mark.nested

README = (SITE / "README.md").read_text(encoding="utf-8")
DEPLOYS = sorted(path.stem for path in (ROOT / "deploys").glob("[!_]*.py"))
COMMANDS = [one for one in read(README, "README.md") if one.not_run is None]


@pytest.fixture(scope="module")
def site(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as ``lockstep init`` makes it, with the wheel already in its ``.venv``."""
    folder = tmp_path_factory.mktemp("somewhere")
    printed = installed.run(folder, "lockstep", "init", "ours").stdout
    assert "Next: read ours/README.md" in printed
    (folder / "ours" / ".venv").symlink_to(installed.folder)
    (installed.folder / "ready").touch()
    return folder / "ours"


def sh(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the README in a shell that has run ``. .venv/bin/activate``."""
    # The plugin shares what it reads among all processes of one run of pytest-xdist.
    own = ("PYTHONPATH", "PYTEST_XDIST_")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(own)}
    path = f"{folder}/.venv/bin:{os.environ['PATH']}"
    state = str(folder / ".venv" / "state")
    return subprocess.run(
        ["sh", "-c", text],
        cwd=folder,
        env={**inherited, "PATH": path, "XDG_STATE_HOME": state, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_readme_names_every_file(site: Path) -> None:
    named = set(re.findall(r"`([\w./-]+)`", README))
    for path in site.rglob("*"):
        name = str(path.relative_to(site))
        if path.is_file() and not name.startswith(".venv/"):
            parents = {f"{one}/" for one in map(str, Path(name).parents)}
            assert {name, *parents} & named or name in (".gitignore", "README.md", "setup.sh")


@pytest.mark.parametrize("text", [one.text for one in COMMANDS])
def test_what_the_readme_shows_works(text: str, site: Path) -> None:
    assert len(COMMANDS) == 6
    done = sh(site, text)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_judges_the_records_that_it_gets(site: Path, tmp_path: Path) -> None:
    plan = load(str(site / "inventories/prod.py"))
    raw = dict(healthy.records(plan, Random(1)))
    file = tmp_path / "records.json"
    for swap, status in (([], 0), (["/swapfile"], 1)):
        raw["worker2"]["readings"]["memory.swap"] = {"value": swap}
        file.write_text(dumps(recorded.context(plan, raw).reading), encoding="utf-8")
        done = sh(site, "sh ci/check.sh", RECORDS=str(file))
        assert done.returncode == status, done.stdout + done.stderr
        assert ("site.no_swap  worker2" in done.stdout) == bool(status)
        assert "site.no_swap" in (site / "report.html").read_text(encoding="utf-8")
        (suite,) = ElementTree.parse(site / "nodes.xml").getroot()
        assert int(suite.attrib["tests"]) > 200
        failed = {case.attrib["name"] for case in suite if case.find("failure") is not None}
        assert any("site.no_swap" in name for name in failed) == bool(status)
        assert bool(failed) == bool(status)


def test_without_the_wheel_the_setup_says_what_is_missing(tmp_path: Path) -> None:
    """Without an index, as the release alone is wanted here."""
    for name in ("requirements.txt", "setup.sh"):
        (tmp_path / name).write_text((SITE / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "requirements.lock").touch()
    done = sh(tmp_path, "sh setup.sh", PYTHON=sys.executable)
    assert done.returncode == 1
    assert "ERROR wheels/ has no wheel of lockstep==" in done.stderr


def test_its_own_deploys_are_in_the_repairs(site: Path) -> None:
    program = (
        "from lockstep.inventory import load\nprint(*load('inventories/prod.py').deploys.values())"
    )
    done = sh(site, f'python -c "{program}"')
    assert done.stdout.split() == [f"deploys/{name}.py" for name in DEPLOYS]


@pytest.mark.parametrize("deploy", DEPLOYS)
def test_a_deploy_of_the_site_calls_lockstep_s(deploy: str) -> None:
    text = (SITE / "deploys" / f"{deploy}.py").read_text(encoding="utf-8")
    assert f'\ninclude("{deploy}")\n' in text


def test_pyinfra_runs_a_deploy_of_the_site(installed: Installed, site: Path) -> None:
    (site / "here.py").write_text(
        "from lockstep.inventory import load as _load\n"
        "_plan = _load('inventories/prod.py').nodes['worker1']\n"
        "hosts = [('@local', {'plan': _plan})]\n",
        encoding="utf-8",
    )
    ours = site / "deploys" / "ours.py"
    before = ours.read_text(encoding="utf-8")
    ours.write_text(before + 'host.log(f"ours, on {plan.name}")\n', encoding="utf-8")
    try:
        done = sh(site, "pyinfra -y here.py deploys/head.py")
    finally:
        ours.write_text(before, encoding="utf-8")
        (site / "here.py").unlink()
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "ours, on worker1" in said


def test_an_own_gpu_model_is_valid(site: Path) -> None:
    text = (site / "inventories/prod.py").read_text(encoding="utf-8")
    changed = text.replace('"model": "l40s"', '"model": _A2').replace(
        "\n_cluster =", "from gpu_models import A2 as _A2\n\n_cluster ="
    )
    (site / "inventories" / "a2.py").write_text(changed, encoding="utf-8")
    done = sh(site, "lockstep plan inventories/a2.py worker1")
    (site / "inventories" / "a2.py").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpu:nvidia_a2:4" in done.stdout


def test_a_folder_with_files_is_refused(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for name, problem in ((".", "the folder has files: notes.txt"), ("notes.txt", "a file")):
        done = installed.run(tmp_path, "lockstep", "init", name, status=3)
        assert problem in done.stderr
        assert "expected  a folder that is empty or does not exist" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_pinned_dependencies_are_those_that_lockstep_needs() -> None:
    names = set(re.findall(r"^([\w.-]+)==", dependencies(), re.MULTILINE))
    assert {"pyinfra", "pydantic", "paramiko", "pytest-testinfra"} <= names
    assert not {"ruff", "mypy", "hypothesis", "nvidia-ml-py", "wheel"} & names
    whole = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert set(dependencies().splitlines()) <= set(whole.splitlines())
