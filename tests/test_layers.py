"""The import table: imports run one way. A folder without a row fails, too."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT = {  # module or folder -> what of ours, and which of the guarded libraries
    "lockstep/report": {"ClusterShell"},
    "lockstep/catalog": set[str](),
    "lockstep/spec": {
        "lockstep.nearest",
        "lockstep.report",
        "lockstep.catalog",
        "pydantic",
        "pydantic_core",
        "netaddr",
        "ClusterShell",
    },
    "lockstep/plan": {
        *("lockstep.report", "lockstep.spec", "lockstep.catalog", "lockstep.secrets.Secrets"),
        *("lockstep.fast_path.inventory_name", "lockstep.question.Question", "pydantic"),
    },
    "lockstep/fast_path": set[str](),
    # What a role asks, as its declaration has it: no pyinfra.
    "lockstep/question": set[str](),
    "lockstep/connection": {"paramiko", "pyinfra.api"},
    "lockstep/faults": set[str](),
    "lockstep/unreached": {"paramiko", "lockstep.faults"},
    "lockstep/render": {"jinja2"},
    "lockstep/state": set[str](),
    "lockstep/lab_path": set[str](),
    "lockstep/nearest": set[str](),
    "lockstep/when": set[str](),
    "lockstep/lock": {"lockstep.state", "lockstep.when"},
    # What Lockstep replaces in pyinfra and gevent; the ssh clients are for correctness.
    "lockstep/pyinfra_internals": {
        *("lockstep.fast_path", "lockstep.connection", "lockstep.unreached"),
        "lockstep.report.fold",  # if something takes long: to fold names
        *("pyinfra", "paramiko", "gevent"),
    },
    "lockstep/forms": {"lockstep.report", "lockstep.render", "lockstep.when", "ClusterShell"},
    "lockstep/certificates": set[str](),
    "lockstep/secrets": {"lockstep.state", "lockstep.certificates"},
    "lockstep/files": {
        "lockstep.plan",
        "lockstep.render",
        "lockstep.secrets",
    },
    "lockstep/preview": {"lockstep.files"},
    "lockstep/site_files": {
        *("lockstep.files", "lockstep.nearest", "lockstep.plan", "lockstep.spec"),
        "lockstep.secrets",
    },
    "lockstep/manifest": {"lockstep.plan", "lockstep.files"},
    # Changes a description, and compares the plans.
    "lockstep/becomes": {
        *("lockstep.plan", "lockstep.spec", "lockstep.catalog", "lockstep.files"),
        *("lockstep.render.TemplateError", "pydantic", "netaddr"),
    },
    # It runs other releases in processes of their own.
    "lockstep/against": {"lockstep.report"},
    # Records of nodes that have no plan; of the plan it knows only names of kernel files.
    "lockstep/describe": {
        *("lockstep.catalog", "lockstep.spec", "lockstep.report", "lockstep.probe.record"),
        *("lockstep.plan.running", "lockstep.roles.declared"),
        *("lockstep.node.fingerprint.hostlists", "pydantic", "netaddr"),
    },
    "lockstep/removal": {"lockstep.plan", "lockstep.manifest"},
    # Runs on a node alone, beside the probe.
    "lockstep/node/check": {"lockstep.node.readers"},
    "lockstep/inventory": {
        *("lockstep.plan", "lockstep.spec", "lockstep.report", "lockstep.roles.declared"),
        "lockstep.site_files",
    },
    # Not the plan: what was seen must not be coloured by what was wanted.
    "lockstep/probe": {"pydantic", "lockstep.node.readers", "lockstep.node.record"},
    # They run on a node, which has nothing else of Lockstep.
    "lockstep/node": set[str](),
    "lockstep/node/readers": set[str](),
    "lockstep/node/fingerprint": {"lockstep.node.readers"},
    "lockstep/node/describe": {"lockstep.node.readers", "lockstep.node.fingerprint"},
    "lockstep/node/record": {"lockstep.node.readers", "lockstep.node.fingerprint"},
    "lockstep/facts": {
        *("lockstep.probe", "lockstep.plan", "lockstep.spec", "pyinfra.api"),
        *("lockstep.question", "lockstep.faults"),
        *("lockstep.node.readers", "lockstep.node.fingerprint", "lockstep.connection"),
        *("gevent", "paramiko", "pyinfra.connectors.util"),
    },
    "lockstep/fleet": {
        "lockstep.report",
        "lockstep.probe",
        "lockstep.spec",
        "lockstep.plan",
        "lockstep.files",
        *("pyinfra.api", "pyinfra.connectors.util", "paramiko", "gevent"),
        *("lockstep.connection", "lockstep.fast_path", "lockstep.faults"),
        *("lockstep.fast.ssh", "lockstep.fast.transport", "lockstep.pyinfra_internals"),
    },
    # Under pyinfra, not above it: it knows questions and commands, and no role.
    "lockstep/fast": {
        *("lockstep.pyinfra_internals", "lockstep.question", "lockstep.faults"),
        "lockstep.connection",
        *(
            "lockstep.unreached",
            "lockstep.facts.reading",
            "lockstep.facts.declared",
            "lockstep.fast_path",
        ),
        *("lockstep.probe.lines", "lockstep.probe.ship"),
        "lockstep.report",  # at the end of a run with failures: to fold names
        *("pyinfra", "paramiko", "gevent"),
    },
    # Beside the deploy path: no pyinfra, no facts.
    "lockstep/history": {
        *("lockstep.report", "lockstep.spec", "lockstep.probe", "lockstep.state"),
        *("lockstep.when", "lockstep.node.fingerprint", "pydantic"),
    },
    "lockstep/checks": {
        "lockstep.nearest",
        *("lockstep.report", "lockstep.faults.NEXT"),
        "lockstep.when",
        "lockstep.catalog",
        "lockstep.spec",
        "lockstep.plan",
        "lockstep.probe",
        *("lockstep.node.check.judge", "lockstep.node.readers", "lockstep.node.fingerprint"),
        *("lockstep.files", "lockstep.manifest", "pydantic"),
    },
    "lockstep/reading": {
        *("lockstep.secrets", "lockstep.checks", "lockstep.fleet", "lockstep.files"),
        *("lockstep.history", "lockstep.plan", "lockstep.probe", "lockstep.when"),
        "lockstep.report",
    },
    # Repositories and a folder on the deploying machine: no node.
    "lockstep/mirror": {
        *("lockstep.catalog", "lockstep.spec", "lockstep.plan"),
        *("lockstep.render", "lockstep.report"),
    },
    "lockstep/repairs": {"lockstep.report", "lockstep.forms", "lockstep.plan", "lockstep.spec"},
    "lockstep/commands": {"lockstep"},
    # The check as tests. It reads nodes by testinfra, and judges as ``lockstep check`` does.
    "lockstep/consistency": {
        *("lockstep.checks", "lockstep.commands.replace_file", "lockstep.fleet.request"),
        *(
            "lockstep.faults",
            "lockstep.forms.text",
            "lockstep.history.store.PRIVATE",
            "lockstep.inventory",
        ),
        *("lockstep.plan", "lockstep.probe", "lockstep.reading", "lockstep.report"),
        "lockstep.nearest",
        *("lockstep.spec.Service", "testinfra", "pytest", "pydantic"),
    },
    "lockstep/__main__": {
        *("lockstep.commands", "lockstep.fast_path", "lockstep.nearest", "lockstep.report"),
    },
    "lockstep/__init__": set[str](),
    # Declarations: data and pure functions of the plan.
    "lockstep/roles": {
        *("lockstep.plan", "lockstep.spec", "lockstep.render"),
        *("lockstep.facts", "lockstep.question.Questions"),
        # The program of the node's own check.
        "lockstep.node.readers",
        # What a node judges by itself is compiled from the rules.
        "lockstep.checks.local",
    },
    "lockstep/roles/operations": {
        *("lockstep.nearest", "lockstep.roles.declared"),
        *("lockstep.plan", "lockstep.spec", "lockstep.files", "lockstep.secrets"),
        *("lockstep.facts", "lockstep.question", "lockstep.fast.read"),
        *("pyinfra.host", "pyinfra.api", "pyinfra.context.ctx_host"),
        *("gevent.pool", "gevent.GreenletExit", "lockstep.fast.connector.read_anew_after"),
        *("lockstep.manifest", "lockstep.node.readers.manifest.MANIFEST"),
        # The run as a whole: the lock of the cluster, and the log of what was changed.
        *("lockstep.history", "lockstep.connection.is_lost", "lockstep.report.fold"),
        *("lockstep.lock", "lockstep.fast.connector.record_of"),
        *("pyinfra.logger", "pyinfra.is_cli", "pyinfra"),
        # A dry run, which shows what would change.
        *("lockstep.preview.changes", "lockstep.report.alike", "lockstep.report.count"),
        "lockstep.fast.dry.context_of",
        # Time limits, and why a host failed.
        *("lockstep.fast.limits", "lockstep.fast.failures.failures_of"),
        # A node that joins Kubernetes: one token for all nodes of a run, and the authority's hash.
        *("gevent.lock.RLock", "lockstep.certificates.public_key_hash"),
    },
    "lockstep/roles/steps": {
        *("lockstep.plan", "lockstep.spec", "lockstep.facts", "lockstep.roles.operations"),
        *("lockstep.files.managed", "lockstep.secrets"),
        *("lockstep.manifest", "lockstep.removal", "lockstep.report.fold", "lockstep.lock"),
        *("pyinfra.host", "pyinfra.api", "lockstep.fast.connector.read_anew"),
        "lockstep.fast.limits",
        # A deploy in steps decides for pyinfra which hosts execute an operation.
        *("pyinfra.logger", "lockstep.report.count", "lockstep.connection.is_lost"),
    },
    "lockstep/deploys": {
        *("lockstep.plan", "lockstep.spec.NodeRole", "lockstep.spec.Service"),
        *("lockstep.roles.operations.apply", "lockstep.roles.steps"),
        *("pyinfra.host", "pyinfra.local"),
    },
    "lockstep/inventories": {
        *("lockstep.inventory.plan_or_exit", "lockstep.plan", "lockstep.catalog", "lab.state"),
        *("lab.fingerprint_exceptions.EXCEPTIONS", "lab.description.plan_or_exit"),
        *("lockstep.roles.declared", "lockstep.spec.every_package"),
        "lockstep.lab_path",
    },
    # They send the probe as a check does, judge as it does, tell peers what the roles would do, and
    # measure the fast path, where it is on.
    "benchmarks": {
        *("lockstep.fleet", "lockstep.files", "lockstep.inventory", "lockstep.plan"),
        *("lockstep.probe", "lockstep.secrets", "lockstep.spec", "lab"),
        *("lockstep.report", "lockstep.fast_path.inventory_name"),
        *("lockstep.roles.declared", "lockstep.fast_path.wanted"),
        # One makes fingerprints of simulated nodes, and judges them in memory.
        *("lockstep.checks", "lockstep.node.fingerprint", "lockstep.node.readers"),
        "lockstep.reading",
        # One runs pyinfra without one of the faster functions, with operations of its own.
        *("lockstep.pyinfra_internals.registry", "lockstep.roles.operations.operation"),
        *("lockstep.facts.reading", "lockstep.node.readers.selected", "pyinfra"),
        "lockstep.question",
        # Nodes that cannot be booted are the tests' recorded ones.
        "tests.checks",
    },
    "scripts": {"lockstep.inventory", "lockstep.plan", "lockstep.spec"},
    # Documents are made of everything; some of what they tell is data of the tests.
    "scripts/generate": {
        *("lockstep", "tests", "pydantic", "lab.description.replacements"),
        "lab.__main__.command_parser",
    },
    # Makes machines, and knows nothing of what is put on them; it tells what its own mounts change.
    "lab": {"pydantic", "lockstep.node.fingerprint.exempt"},
    # It takes a description apart, and asks the plan for the packages that machines need.
    "lab/description": {
        *("lab", "lockstep.inventory", "lockstep.plan", "lockstep.spec", "lockstep.report.fold"),
    },
    # Simulated GPUs have the values of the catalogue's models.
    "lab/nvml": {"lab", "lockstep.catalog"},
}
GUARDED = {
    *("lockstep", "lab", "benchmarks", "tests"),
    *("pyinfra", "pydantic", "pydantic_core", "netaddr", "jinja2", "ClusterShell"),
    *("gevent", "paramiko", "testinfra", "pytest"),
}


def sources(row: str) -> list[Path]:
    """The files of a row: a folder below it with a row of its own is that row's."""
    single = ROOT / f"{row}.py"
    others = [ROOT / other for other in MAY_IMPORT if other.startswith(f"{row}/")]
    files = [single] if single.exists() else sorted((ROOT / row).rglob("*.py"))
    return [path for path in files if not any(path.is_relative_to(other) for other in others)]


def imports(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in GUARDED}


def forbidden(names: Iterable[str], allowed: set[str]) -> list[str]:
    return [
        name for name in sorted(names) if not any(f"{name}.".startswith(f"{ok}.") for ok in allowed)
    ]


@pytest.mark.parametrize("row", MAY_IMPORT)
def test_imports_point_down(row: str) -> None:
    allowed = {row.replace("/", "."), *MAY_IMPORT[row]}
    if row == "lockstep/roles":  # roles never import each other
        allowed.discard(row.replace("/", "."))
    files = sources(row)
    assert files, f"{row} has no source"
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in forbidden(imports(path.read_text(encoding="utf-8")), allowed)
    ] == []


def test_every_module_of_the_library_has_a_row() -> None:
    folder = ROOT / "lockstep"
    modules = {path.stem for path in folder.glob("*.py")} | {
        path.name for path in folder.iterdir() if any(path.glob("*.py"))
    }
    assert {f"lockstep/{name}" for name in modules} <= set(MAY_IMPORT)


@pytest.mark.parametrize("folder", ["roles", "deploys"])
def test_a_module_has_one_name(folder: str) -> None:
    """Under a second name it would be a second module, with operations of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"ImportError: import this package as lockstep.{folder}" in done.stderr
    assert (ROOT / "lockstep" / folder).resolve() == ROOT / folder


def test_the_table_itself_has_no_circle() -> None:
    rows = {row.replace("/", "."): allowed for row, allowed in MAY_IMPORT.items()}
    order: list[str] = []

    def visit(row: str, above: tuple[str, ...]) -> None:
        assert row not in above, " imports ".join((*above, row))
        for name in sorted(rows[row]):
            for other in rows:
                if f"{name}.".startswith(f"{other}."):
                    visit(other, (*above, row))
        order.append(row)

    for row in rows:
        visit(row, ())


def test_no_module_of_the_library_changes_a_node() -> None:
    """Operations are for roles: nothing below lockstep/ imports or makes one."""
    made = ("pyinfra.operations", "pyinfra.api.operation", "pyinfra.api.deploy", "pyinfra.host")
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "lockstep").rglob("*.py"))
        for name in sorted(imports(path.read_text(encoding="utf-8")))
        if f"{name}.".startswith(tuple(f"{one}." for one in made))
    ] == []


def test_every_operation_fails_alone() -> None:
    """pyinfra's own decorator lets a node that cannot be read end the run of all of them."""
    assert [
        str(path.relative_to(ROOT))
        for path in sources("roles")
        if "pyinfra.api.operation" in imports(path.read_text(encoding="utf-8"))
    ] == ["roles/operations/operation.py"]


def test_what_the_test_reads_is_what_python_imports() -> None:
    text = "import jinja2.ext\nfrom lockstep.spec import names\nimport os\ndef f():\n import lab\n"
    assert imports(text) == {"jinja2.ext", "lockstep.spec.names", "lab"}
    assert forbidden({"lockstep.planning", "lockstep.plan.cpu"}, {"lockstep.plan"}) == [
        "lockstep.planning"
    ]
