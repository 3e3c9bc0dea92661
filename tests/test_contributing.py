"""The worked examples of CONTRIBUTING.md, applied to a copy of this tree exactly as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.commands.init import make
from lockstep.files import managed
from lockstep.inventory import load
from lockstep.roles.operations.apply import roles_of_site
from tests.worked_examples import PAGE, Edit, commit, copy_tree, examples, touched

pytestmark = pytest.mark.nested

ROLE, RULE = "Add a role", "Add a rule"
GPU, SYSTEM = "Add a GPU model", "Add an operating system"
SITE = "Add a role and a rule for your site"
INVENTORY = "inventories/prod.py"
MOST_FILES = {ROLE: 6, RULE: 2, GPU: 1, SYSTEM: 1}
OF_PAGE = examples(PAGE.read_text(encoding="utf-8"))


def run(folder: Path, *arguments: str) -> str:
    """Return what a Python program prints in a folder; fail with all of it, if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


EFFECT = "tests/checks/test_every_effect.py::test_a_change_is_found_and_its_repair_names_the_role"
OF_ROLE = (
    "tests/roles/test_nfs_client.py",
    *(
        f"{EFFECT}[examples-worker3-{operation}]"
        for operation in ("files.managed_files", "packages.locked_packages", "service.service")
    ),
    "tests/checks/test_every_effect.py::test_every_role_writes_something_that_is_proved",
)
OF_RULE = (
    "tests/checks/test_mutations.py::test_one_changed_value_gives_one_finding_that_names_it"
    "[slurm.version-worker3.version]",
    "tests/coverage/test_coverage.py",
)
OF_CATALOGUE = ("tests/catalog/test_gpus.py", "tests/plan/test_releases.py")
OF_WHOLE = (
    *("tests/test_layers.py", "tests/test_forgotten.py", "tests/test_docs.py"),
    "tests/test_examples.py",
)


@dataclass(frozen=True)
class Copy:
    """A copy of the tree with the examples of the page, and what ``make generate`` made of it."""

    root: Path
    touched: dict[str, list[str]]
    generated: list[str]
    said: str
    """What ``make generate`` printed."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    root = tmp_path_factory.mktemp("copy")
    copy_tree(root)
    files: dict[str, list[str]] = {}
    for heading in MOST_FILES:
        for edit in OF_PAGE[heading]:
            edit.apply(root)
        files[heading] = touched(root)
        commit(root)
    said = run(root, "-m", "scripts.generate")
    generated = touched(root)
    commit(root)
    return Copy(root, files, generated, said)


def test_the_page_has_an_example_of_each_kind() -> None:
    assert set(OF_PAGE) == {*MOST_FILES, SITE}


@pytest.mark.parametrize(("heading", "most"), MOST_FILES.items())
def test_an_example_touches_few_files(copy: Copy, heading: str, most: int) -> None:
    assert copy.touched[heading] == sorted(edit.path for edit in OF_PAGE[heading])
    assert len(copy.touched[heading]) <= most


def test_make_generate_writes_the_rest_and_names_every_file(copy: Copy) -> None:
    assert {"docs/rules.md", "README.md", "lockstep/catalog/checks.json"} <= set(copy.generated)
    written = set(re.findall("^written  (.+)$", copy.said, re.MULTILINE))
    assert set(copy.generated) == written


def test_the_copy_is_what_is_tested(copy: Copy) -> None:
    printed = run(copy.root, "-c", "import lockstep; print(lockstep.__file__)")
    assert Path(printed.strip()).is_relative_to(copy.root)


def test_the_examples_pass_the_linter(copy: Copy) -> None:
    files = [name for names in copy.touched.values() for name in names if name.endswith(".py")]
    for command in (("check",), ("format", "--check")):
        run(copy.root, "-m", "ruff", *command, "--no-cache", *files)


@pytest.fixture(scope="module")
def outcomes(copy: Copy) -> dict[str, str]:
    """Return test -> outcome, of the tests that an example can break."""
    chosen = (*OF_ROLE, *OF_RULE, *OF_CATALOGUE, *OF_WHOLE)
    options = ("-v", "-p", "no:cacheprovider", "-p", "no:xdist")
    printed = run(copy.root, "-m", "pytest", *options, *chosen)
    lines = re.findall(r"^(tests/\S+::.+) (PASSED|SKIPPED)\b", printed, re.MULTILINE)
    return dict(lines)


@pytest.mark.parametrize("chosen", [OF_ROLE, OF_RULE, OF_CATALOGUE, OF_WHOLE])
def test_the_tests_of_the_copy_pass(outcomes: dict[str, str], chosen: tuple[str, ...]) -> None:
    """Those of the role lose its package, its file and its unit, one after the other."""
    for one in chosen:
        assert "PASSED" in {
            outcome for name, outcome in outcomes.items() if name.startswith(one)
        }, one


@pytest.mark.parametrize(
    "name",
    [
        "tests/catalog/test_gpus.py::test_every_gpu_is_possible[a2]",
        "tests/test_forgotten.py::test_every_release_loads[ubuntu_26_04]",
        "tests/test_forgotten.py::test_every_gpu_model_loads[a2]",
    ],
)
def test_what_is_in_the_catalogue_is_tested(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "PASSED"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's repository as ``lockstep init`` makes it."""
    folder = tmp_path_factory.mktemp("site")
    make(folder)
    return folder


def test_the_page_shows_what_init_makes(site: Path) -> None:
    (role,) = OF_PAGE[SITE]
    assert (site / role.path).read_text(encoding="utf-8") == role.text
    excerpt = PAGE.read_text(encoding="utf-8").partition("\nsys.path.insert(0, ")[2]
    lines = excerpt.partition("```")[0].splitlines()[1:]
    inventory = (site / INVENTORY).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.strip() != "# ..." and line not in inventory] == []


def lockstep(folder: Path, *arguments: str) -> str:
    root = str(PAGE.parent)
    start = f"import sys; sys.path.insert(0, {root!r}); from lockstep.__main__ import main; main()"
    return run(folder, "-c", start, *arguments)


def test_a_site_has_a_role_and_a_rule_of_its_own(site: Path) -> None:
    nodes = load(str(site / INVENTORY)).nodes
    (file,) = managed(nodes["worker1"], None, "login_notice")
    assert file.content == b"# Managed by Lockstep.\nJobs only: log in to head1.\n"
    assert roles_of_site(nodes["worker1"]) == ("login_notice",)
    assert "login_notice" not in nodes["head1"].roles
    assert "nodes have no swap" in lockstep(site, "explain", INVENTORY, "site.no_swap")


def test_a_wrong_setting_of_a_sites_role_is_shown_with_its_line(site: Path) -> None:
    wrong = site / "inventories" / "wrong.py"
    text = (site / INVENTORY).read_text(encoding="utf-8")
    wrong.write_text(text.replace('{"text": ', '{"txt": '), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"extensions\.login_notice\.txt"):
        lockstep(site, "plan", "inventories/wrong.py")


def test_an_edit_finds_its_place_or_fails(tmp_path: Path) -> None:
    (tmp_path / "list.py").write_text("ROLES = (\n    'a',\n    'c',\n)\n")
    Edit("list.py", "     'a',\n+    'b',\n@@\n-    'c',\n )\n", changes=True).apply(tmp_path)
    assert (tmp_path / "list.py").read_text() == "ROLES = (\n    'a',\n    'b',\n)\n"
    with pytest.raises(ValueError, match=r"list\.py has no place"):
        Edit("list.py", "     'd',\n+    'e',\n", changes=True).apply(tmp_path)
    with pytest.raises(ValueError, match=r"list\.py exists"):
        Edit("list.py", "", changes=False).apply(tmp_path)
