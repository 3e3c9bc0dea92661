"""Nothing is forgotten: what exists is used, and what is used exists."""

import ast
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from lockstep import commands
from lockstep.catalog import gpus
from lockstep.catalog import os as operating_systems
from lockstep.files import managed
from lockstep.plan import ClusterPlan
from lockstep.plan.declaration import Declaration, key, ordered
from lockstep.render import TEMPLATES, render
from lockstep.roles import declared
from lockstep.spec import NodeRole, Service
from lockstep.spec.names import cpus
from tests.declared import FILES, UNITS
from tests.golden.write import FAKE
from tests.plan.example import planned

ROOT = Path(__file__).resolve().parent.parent
ROLES = sorted(path.stem for path in (ROOT / "roles").glob("[!_]*.py"))
HEADER = (TEMPLATES / "header.j2").read_text(encoding="utf-8")
MOST_LINES = 400


def applied(deploy: str) -> list[str]:
    """Roles that a deploy lists."""
    tree = ast.parse((ROOT / "deploys" / f"{deploy}.py").read_text(encoding="utf-8"))
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return [name for one in lists if isinstance(one, ast.Tuple) for name in ast.literal_eval(one)]


# -- roles and deploys


def test_every_role_is_called_by_a_deploy() -> None:
    roles = {role for path in (ROOT / "deploys").glob("*.py") for role in applied(path.stem)}
    assert sorted(roles) == ROLES, "list the role in deploys/head.py or deploys/worker.py"


@pytest.mark.parametrize("role", declared(), ids=lambda role: role.name)
def test_a_role_is_named_as_its_module_and_its_operations_exist(role: Declaration) -> None:
    assert importlib.import_module(f"lockstep.roles.{role.name}").ROLE is role
    assert role.title
    functions = {stage.function for stage in role.all_stages}
    if role.operations:
        module = importlib.import_module(role.operations)
        assert {name for name in functions if hasattr(module, name)} | {"apply"} == functions
    else:
        assert functions == {"apply"}


def test_a_declaration_needs_no_pyinfra() -> None:
    """Its modules would cost each check 0.17 s of CPU."""
    program = (
        "import sys; from lockstep.roles import declared; declared(); "
        "print([name for name in ('pyinfra', 'gevent', 'paramiko') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.parametrize("deploy", ["head", "worker"])
def test_a_deploy_is_a_list_of_roles_without_loops(deploy: str) -> None:
    """pyinfra takes the order of operations from line numbers: one call, one line, no loop."""
    tree = ast.parse((ROOT / "deploys" / f"{deploy}.py").read_text(encoding="utf-8"))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While | ast.comprehension)]
    assert max(Counter(applied(deploy)).values()) == 1


@pytest.mark.parametrize(
    ("deploy", "role"),
    [("head", NodeRole.HEAD), ("worker", NodeRole.WORKER)],
    ids=["head", "worker"],
)
def test_what_a_node_does_is_what_its_deploy_lists(deploy: str, role: NodeRole) -> None:
    listed = applied(deploy)
    for node in planned().nodes.values():
        if node.role is role:
            assert set(node.roles) <= set(listed)


def test_munge_starts_behind_the_gate_of_the_clock() -> None:
    order = [key(step) for step in ordered(declared())]
    assert order.index("time_sync") < order.index("time_sync.gate") < order.index("munge")


def test_the_barrier_of_a_head_stands_where_the_roles_want_it() -> None:
    """Roles of the second list come after some of the first, and none the other way round."""
    tree = ast.parse((ROOT / "deploys" / "head.py").read_text(encoding="utf-8"))
    first, second = (
        set(ast.literal_eval(n.value))
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Tuple)
    )
    after = {role.name: set(role.after) for role in declared()}
    assert any(after[name] & first for name in second)
    assert not any(after[name] & second for name in first)


def test_every_service_is_a_role_with_units_and_packages() -> None:
    for service in Service:
        assert service.value in ROLES
        assert service.value in UNITS


# -- alerts


def test_every_alert_on_our_own_metrics_is_tried() -> None:
    rules = (TEMPLATES / "prometheus" / "rules.yml.j2").read_text(encoding="utf-8")
    ours = set(re.findall(r"alert: (\w+)\n +expr: .*lockstep_", rules))
    tried = (ROOT / "tests" / "lab" / "alerts.yml").read_text(encoding="utf-8")
    assert ours == set(re.findall(r"alertname: (\w+)", tried))


# -- templates and managed files


def template_names() -> list[str]:
    return sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.j2"))


def test_every_template_is_used_and_every_used_template_is_there() -> None:
    used = {entry.template for _, entry in FILES if entry.template}
    used |= {
        name
        for path in TEMPLATES.rglob("*.j2")
        for name in re.findall(
            r'{%-? *(?:include|import|extends) +"([^"]+)"', path.read_text(encoding="utf-8")
        )
    }
    assert sorted(used) == template_names()


def test_templates_lie_in_the_folder_of_a_role_that_owns_the_file() -> None:
    for _, entry in FILES:
        if entry.template:
            owners = {role for role, other in FILES if other.path == entry.path}
            assert entry.template.split("/")[0] in owners, entry.path


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in template_names()
        # JSON has no comments, and dockerd refuses keys that it does not know.
        if name != "header.j2" and not name.endswith(".json.j2")
    ],
)
def test_every_template_says_who_owns_the_file(name: str) -> None:
    first, second, *_ = (TEMPLATES / name).read_text(encoding="utf-8").splitlines()
    own = second if first.startswith("#!") else first
    # A comment of CIL, SELinux's language, begins with ";", and one of XML with "<!--".
    assert own.removeprefix("; ").removeprefix("<!-- ") == '{% include "header.j2" %}'
    assert HEADER.startswith("# Managed by Lockstep: ")


def test_every_rendered_file_says_who_owns_it() -> None:
    for node in planned().nodes.values():
        for file in managed(node, FAKE):
            # JSON, keys and certificates have no comments.
            if not file.path.endswith((".json", ".key", ".der")):
                first, second, *_ = [*file.content.decode("utf-8").splitlines(), ""]
                assert HEADER.strip() in (first, second), file.path


@pytest.mark.parametrize(
    "release",
    # A release with few roles refuses the example.
    [n for n in operating_systems.known() if operating_systems.load(n).supported_roles is None],
)
def test_every_managed_path_has_one_owner_on_a_node(release: str) -> None:
    def on_release(wanted: dict[str, Any]) -> None:
        wanted["os"].update(release=release)
        if operating_systems.load(release).family == "rhel":
            wanted["software"] = {}  # the example locks a package by its name in Debian

    cluster = planned(on_release)
    for node in cluster.nodes.values():
        paths = Counter(file.path for file in managed(node, FAKE))
        assert [path for path, n in paths.items() if n > 1] == [], node.name


def test_a_path_that_two_roles_own_on_different_nodes_is_the_same_file() -> None:
    seen: dict[str, object] = {}
    for _, entry in FILES:
        file = (entry.template, entry.mode, entry.owner, entry.secret, entry.validate)
        assert seen.setdefault(entry.path, file) == file, entry.path


def test_secret_files_are_for_their_owner_only() -> None:
    for _, entry in FILES:
        assert not entry.secret or int(entry.mode, 8) & 0o077 == 0, entry.path
        holds_secret = entry.template and "secrets." in (TEMPLATES / entry.template).read_text(
            encoding="utf-8"
        )
        assert entry.secret or not holds_secret, entry.path


def test_without_secrets_no_secret_file_is_rendered() -> None:
    files = managed(planned().nodes["head1"], None)
    assert not [file.path for file in files if file.secret]
    everything = managed(planned().nodes["head1"], FAKE)
    assert {f.path for f in everything if f.secret} == {
        "/etc/munge/munge.key",
        "/etc/slurm/slurmdbd.conf",
    }


def test_a_name_that_was_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'plan' is undefined"):
        render("os_settings/hostname.j2")
    with pytest.raises(UndefinedError):
        render("os_settings/hostname.j2", plan={"nam": "head1"})


# -- catalogue, commands, inventories


@pytest.mark.parametrize("name", operating_systems.known())
def test_every_release_loads(name: str) -> None:
    release = operating_systems.load(name)
    assert name == f"{release.id}_{release.version_id.replace('.', '_')}"


@pytest.mark.parametrize("name", gpus.known())
def test_every_gpu_model_loads(name: str) -> None:
    model = gpus.load(name)
    assert model.product_name.startswith(("NVIDIA ", "Tesla "))  # the older GPUs
    assert model.memory_mib is None or model.memory_mib > 0
    assert model.default_power_limit_w is None or model.default_power_limit_w > 0


COMMANDS = sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if m.name[0] != "_")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_parsed_and_run(name: str) -> None:
    module = importlib.import_module(f"lockstep.commands.{name}")
    assert isinstance(module.COMMAND, commands.Command)


# The lab's inventory reads what `python -m lab` left behind: tests/lab has it.
INVENTORIES = sorted(path.stem for path in (ROOT / "inventories").glob("[!_]*.py"))


@pytest.mark.parametrize("name", [name for name in INVENTORIES if name != "lab"])
def test_every_inventory_gives_host_groups_and_nothing_else(name: str) -> None:
    public = {
        key: value
        for key, value in runpy.run_path(str(ROOT / "inventories" / f"{name}.py")).items()
        if not key.startswith("_") and isinstance(value, list | tuple)
    }
    assert sorted(public) == sorted(role.value for role in NodeRole)


def test_no_inventory_is_named_like_a_role_of_nodes() -> None:
    """pyinfra makes a group of all hosts with the name of the file."""
    assert not {role.value for role in NodeRole} & set(INVENTORIES)


# -- sources


def tracked(pattern: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def test_no_source_is_longer_than_a_person_reads_in_one_go() -> None:
    """Tables of cases may be longer: they are looked up, not read."""
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for pattern in ("*.py", "*.c", "*.h")
        for path in tracked(pattern)
        if path.relative_to(ROOT).parts[0] != "tests"
    }
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def test_the_example_covers_every_service_and_role() -> None:
    cluster: ClusterPlan = planned()
    assert {node.role for node in cluster.nodes.values()} == set(NodeRole)
    of_slurm = set(Service) - {Service.KUBERNETES_CONTROL_PLANE}
    assert all(cluster.running(service) for service in of_slurm)
    assert cpus(cluster.classes["hgx", "debian_13"].cpu.housekeeping)


# -- operations of roles


@cache
def operation_names() -> set[str]:
    return {
        node.name
        for path in (ROOT / "roles").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(d).startswith("operation") for d in node.decorator_list)
    }


def test_every_operation_has_a_name() -> None:
    """pyinfra prints the arguments of an operation without one: contents of files among them."""
    operations = operation_names()
    assert {"managed_files", "service", "locked_packages"} <= operations
    unnamed = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for folder in ("roles", "deploys")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in operations
        and "name" not in {keyword.arg for keyword in node.keywords}
    ]
    assert unnamed == []


def test_roles_use_no_operation_of_pyinfra() -> None:
    """files.put goes through a temporary file that others can read; server.* asks too much."""
    assert [
        str(path.relative_to(ROOT))
        for path in (ROOT / "roles").rglob("*.py")
        if "pyinfra.operations" in path.read_text(encoding="utf-8")
    ] == []


def test_no_operation_takes_an_argument_that_pyinfra_keeps_for_itself() -> None:
    """pyinfra swallows ``name``: the operation would never see it."""
    taken = {
        f"{path.stem}.{node.name}": {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
        for path in (ROOT / "roles").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name in operation_names()
    }
    assert [name for name, arguments in taken.items() if "name" in arguments] == []
