"""Roles that a run leaves out, and roles that nobody has."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_host, ctx_state

from lockstep.files import managed
from lockstep.plan import owners
from lockstep.roles import _daemon, node_exporter
from lockstep.roles._role import chosen, known
from tests.checks import recorded
from tests.golden.write import FAKE
from tests.plan.example import planned
from tests.roles.local import machine
from tests.test_forgotten import ROLES

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_without_roles_has_all() -> None:
    assert chosen(None) == set(known()) == set(ROLES)


def test_a_run_has_the_roles_that_it_names() -> None:
    assert chosen("munge,slurm_worker") == {"munge", "slurm_worker"}


@pytest.mark.parametrize("asked", ["mung", "munge,", "barrier", "munge, packages"])
def test_a_wrong_name_is_an_error_that_says_the_right_ones(asked: str) -> None:
    with pytest.raises(PyinfraError, match=r"no role .*; the roles: .*munge, node_check"):
        chosen(asked)


@pytest.mark.parametrize(("asked", "ran"), [("munge", False), ("packages,node_exporter", True)])
def test_a_role_that_a_run_does_not_name_does_nothing(
    asked: str, ran: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(_daemon, "managed_files", lambda **_: done.append("files"))
    monkeypatch.setattr(_daemon, "service", lambda **_: done.append("service"))
    state = machine()
    (host,) = state.inventory
    host.data.roles = asked
    with ctx_state.use(state), ctx_host.use(host):
        node_exporter.apply(plan=planned().nodes["head1"])
    assert done == (["files", "service"] if ran else [])


@pytest.mark.parametrize("name", ROLES)
def test_every_role_can_be_left_out(name: str) -> None:
    tree = ast.parse((ROOT / "roles" / f"{name}.py").read_text(encoding="utf-8"))
    (apply,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "apply")
    (decorator,) = apply.decorator_list
    assert ast.unparse(decorator).startswith("role(")


def test_a_role_whose_service_reads_files_of_another_runs_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without that, a new munge key would reach slurmd with the next whole deploy only."""
    worker = recorded.consistent().plan.nodes["worker1"]
    owner = {file.path: file.role for file in managed(worker, FAKE)}
    read: dict[str, set[str]] = {}
    state = machine()
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        for name in worker.capabilities:
            role = import_module(f"lockstep.roles.{name}")
            paths: set[str] = set()
            for module in (role, _daemon):
                _silence(module, paths, monkeypatch)
            role.apply(plan=worker)
            read[name] = {owner[path] for path in paths if path in owner} - {name}
    assert {name: others for name, others in read.items() if others} == {
        name: set(others) for name, others in owners.READS.items()
    }


def test_new_mig_devices_are_slurmds_business_as_well() -> None:
    worker = recorded.consistent().plan.nodes["worker1"]
    assert owners.together(worker, ["gpu_settings"]) == ("gpu_settings",)
    divided = recorded.clustered(
        lambda wanted: wanted["hardware"]["hgx-h200"]["gpu"].update(mig=["3g.71gb"] * 2)
    ).plan.nodes["worker1"]
    assert owners.together(divided, ["gpu_settings"]) == ("gpu_settings", "slurm_worker")


def _silence(module: Any, paths: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a module's operations from doing anything; take the files of its services."""

    def noted(**words: Any) -> None:
        paths.update(words.get("files", ()) if "unit" in words else ())

    for name, value in vars(module).items():
        if hasattr(value, "_inner"):
            monkeypatch.setattr(module, name, noted)
    monkeypatch.setattr(module, "secrets_of", lambda plan: FAKE, raising=False)


def test_units_and_packages_have_roles_of_the_node() -> None:
    for node in planned().nodes.values():
        for unit in node.units:
            assert set(owners.of_unit(node, unit)) <= set(node.capabilities)
            assert len(owners.of_unit(node, unit)) == 1, unit
        for package in node.packages:
            assert {"packages"} <= set(owners.of_package(node, package)) <= set(node.capabilities)


def test_a_package_is_its_daemons_too() -> None:
    worker = planned().nodes["worker1"]
    assert owners.together(worker, owners.of_package(worker, "slurmd")) == (
        "packages",
        "slurm_worker",
    )
