"""With a record of each node a run gets the answers of plain pyinfra, in far fewer executions."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.labs import ROOT, Lab

pytestmark = pytest.mark.lab

INVENTORY = "tests/lab/logging_inventory.py"
DEPLOYS = ("deploys/head.py", "deploys/worker.py")
MOVING = {"clock_offset"}
"""Facts whose value is another one each time."""
NOT_ASKED_HERE = {
    *("boot_entries", "menu_is_due", "hugetlb_mounts", "group_of", "kernel_files"),
    *("boot_kernels", "loaded_driver", "initramfs_is_due"),
    *("cpus_of_services", "is_healthy", "shipped_by", "cdi_refused"),
    *("selinux_state", "built_modules", "module_trust", "folders_to_make"),
    *("rdma_driver_waits", "listens", "loaded_rules"),
    *("existing", "files_and_texts"),
    *("links", "nodes_seen", "object_states", "pod_routes", "release_states", "static_pods"),
    "swap_areas",
}
"""Of boot loaders, huge pages, kernel modules and CPU sets, which containers do not have; what only
a deploy with something to record asks; what is asked beside a GPU that must be reset; and of
SELinux, of signed modules, of dnf, of DOCA-OFED and of packet filters, which the lab does not
use; what a dry run asks; and of Kubernetes, which this lab does not have."""


@dataclass(frozen=True)
class Told:
    """What a run was told, per host in its order, and how often something was executed."""

    facts: dict[str, list[tuple[str, str, str]]]
    executions: int


def run(lab: Lab, tmp_path: Path, deploy: str, fast: str) -> Told:
    file = tmp_path / "told"
    file.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOLD", str(file))
        patch.setenv("LOCKSTEP_FAST", fast)
        patch.setenv("PYTHONHASHSEED", "0")  # sets are shown in one order
        done = lab.deploy(deploy, inventory=INVENTORY)
    assert done.status == 0, done.errors
    assert done.changed == []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    facts: dict[str, list[tuple[str, str, str]]] = {}
    for what, *rest in lines:
        if what == "fact":
            host, kind, arguments, value = rest
            moving = kind in MOVING
            facts.setdefault(host, []).append((kind, arguments, "" if moving else value))
    return Told(facts, sum(line[0] == "execution" for line in lines))


@pytest.fixture(scope="module", params=DEPLOYS)
def both(
    cluster: Lab, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Told, Told]:
    """Plain, and with a record; run once for all that look at it."""
    folder = tmp_path_factory.mktemp("told")
    return run(cluster, folder, request.param, "0"), run(cluster, folder, request.param, "1")


def test_every_fact_is_told_as_plain_pyinfra_tells_it(both: tuple[Told, Told]) -> None:
    plain, recorded = both
    assert recorded.facts == plain.facts


def test_a_rerun_takes_three_executions_at_most(both: tuple[Told, Told]) -> None:
    plain, recorded = both
    hosts = len(plain.facts)
    assert recorded.executions <= 3 * hosts
    assert plain.executions >= 10 * recorded.executions


def test_every_fact_of_every_role_is_compared(cluster: Lab, tmp_path: Path) -> None:
    asked = {
        name.id
        for path in (ROOT / "roles/operations").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get_fact"
        for name in node.args
        if isinstance(name, ast.Name)
    } | {
        question.func.id
        for path in (ROOT / "roles/operations").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ask"
        for question in node.args
        if isinstance(question, ast.Call) and isinstance(question.func, ast.Name)
    }
    told = {
        kind
        for deploy in DEPLOYS
        for facts in run(cluster, tmp_path, deploy, "1").facts.values()
        for kind, _, _ in facts
    }
    assert asked - told == NOT_ASKED_HERE
    assert told <= asked
