"""The wheel has all that a user needs, under one name, and works in any folder."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.wheel.conftest import ROOT, Installed

pytestmark = pytest.mark.nested

DEPLOYS = {path.name for path in (ROOT / "deploys").glob("[!_]*.py")}


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_installs_no_name_beside_lockstep(wheel: Path) -> None:
    top = {name.split("/")[0] for name in names(wheel)}
    beside = {name for name in top if not re.fullmatch(r"lockstep-[\d.]+\.(dist-info|data)", name)}
    assert beside == {"lockstep"}


def test_it_has_every_file_of_the_library(wheel: Path) -> None:
    there = names(wheel)
    for folder in ("lockstep", "roles", "deploys", "templates", "inventories", "lab"):
        inside = {"lockstep": "lockstep", "lab": "lockstep/test_machines/lab"}.get(
            folder, f"lockstep/{folder}"
        )
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and not path.is_symlink():
                assert f"{inside}/{path.relative_to(ROOT / folder)}" in there
    assert "lockstep/requirements.lock" in there


@pytest.fixture
def site(installed: Installed, tmp_path: Path) -> Path:
    """An empty folder, into which a user copies an example."""
    (example,) = installed.folder.glob("lib/python3.*/site-packages/lockstep/inventories/small.py")
    shutil.copy2(example, tmp_path)
    return tmp_path


def test_the_commands_that_need_no_node_work(installed: Installed, site: Path) -> None:
    planned = installed.run(site, "lockstep", "plan", "small.py", "worker1", "--becomes").stdout
    assert "/etc/munge/munge.key" in planned
    assert "gpu.power_limit" in installed.run(site, "lockstep", "rules").stdout
    made = installed.run(site, "lockstep", "secrets", "small.py").stdout
    assert "made     munge key, database password" in made
    shown = installed.run(site, "lockstep", "demo").stdout
    assert "gpu.pcie_width  gpu05 gpu3" in shown
    assert (site / "lockstep-demo" / "report.html").is_file()


def test_pyinfra_reads_an_inventory_and_finds_the_connector(
    installed: Installed, site: Path
) -> None:
    shown = installed.run(site, "pyinfra", "small.py", "debug-inventory")
    said = shown.stdout + shown.stderr
    assert "[worker1]" in said
    assert "connector for pyinfra is not installed" not in said


def test_the_deploys_are_named_by_their_paths(installed: Installed, site: Path) -> None:
    listed = installed.run(site, "lockstep", "deploys").stdout.splitlines()
    paths = [Path(line) for line in listed if not line.startswith(" ")]
    assert {path.name for path in paths} == DEPLOYS
    for path in paths:
        assert path.is_file()
        assert path.is_relative_to(installed.folder)
    assert installed.run(site, "lockstep", "deploys", "head").stdout == f"{paths[1]}\n"
    wrong = installed.run(site, "lockstep", "deploys", "workers", status=3)
    assert "unknown deploy 'workers'" in wrong.stderr


def test_a_deploy_of_the_wheel_runs(installed: Installed, site: Path) -> None:
    """On this machine, as a node for which the deploy has nothing to do."""
    (site / "here.py").write_text(
        "from lockstep.inventory import load as _load\n"
        "_plan = _load('small.py').nodes['worker1']\n"
        "hosts = [('@local', {'plan': _plan})]\n",
        encoding="utf-8",
    )
    # The deploy of the heads does nothing on a worker.
    (path,) = installed.run(site, "lockstep", "deploys", "head").stdout.splitlines()
    ran = installed.run(site, "pyinfra", "-y", "here.py", path)
    assert f"Ready: {path}" in ran.stdout + ran.stderr


def test_a_printed_repair_runs_where_the_user_stands(installed: Installed, site: Path) -> None:
    program = (
        "from lockstep.inventory import load\n"
        "plan = load('small.py')\n"
        "print(plan.deploy_command('worker'))"
    )
    (printed,) = installed.run(site, "python", "-c", program).stdout.splitlines()
    *command, path = printed.split()
    assert command == ["pyinfra", "-y", "small.py"]
    assert path == installed.run(site, "lockstep", "deploys", "worker").stdout.strip()
    # A site's own deploys are those beside the inventory or beside its folder.
    for folder, own in ((site, site / "deploys"), (site / "clusters", site / "deploys")):
        own.mkdir(exist_ok=True)
        (own / "worker.py").touch()
        folder.mkdir(exist_ok=True)
        shutil.copy2(site / "small.py", folder / "again.py")
        shown = (folder / "again.py").relative_to(site)
        program = (
            f"from lockstep.inventory import load; print(load('{shown}').deploy_command('worker'))"
        )
        printed = installed.run(site, "python", "-c", program).stdout
        assert printed == f"pyinfra -y {shown} deploys/worker.py\n"


def test_the_lab_starts_from_the_wheel(installed: Installed, site: Path) -> None:
    (site / "lab").mkdir()  # a site may have a package of this name
    (site / "lab" / "__init__.py").touch()
    shown = installed.run(site, "lockstep", "lab", "--help").stdout
    assert "usage: lockstep lab" in shown
    refused = installed.run(site, "lockstep", "lab", "--name", "none", "ssh-config", status=1)
    assert "next: lockstep lab --name none up" in refused.stderr
    inventory = "lib/python3.*/site-packages/lockstep/inventories/lab.py"
    (path,) = installed.folder.glob(inventory)
    said = installed.run(site, "lockstep", "plan", str(path), status=3, LOCKSTEP_LAB="none").stderr
    assert "lockstep lab --name none up" in said


def test_completions_and_the_manual_page_are_where_programs_look(installed: Installed) -> None:
    for name in (
        "man/man1/lockstep.1",
        "bash-completion/completions/lockstep.bash",
        "zsh/site-functions/_lockstep",
        "fish/vendor_completions.d/lockstep.fish",
    ):
        file = installed.folder / "share" / name
        assert file.read_bytes() == (ROOT / "docs" / "shell" / file.name).read_bytes()
