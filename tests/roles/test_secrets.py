"""A deploy has the secrets before it adds an operation, or ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_host, ctx_state

from lockstep.plan import ClusterPlan, NodePlan
from lockstep.roles.steps import secrets
from lockstep.secrets import obtain, store
from tests.golden.write import plan_of
from tests.plan.example import planned
from tests.roles.local import machine


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodePlan:
    """A worker of a cluster without secrets."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return planned().nodes["worker1"]


def prepare(step: object, plan: NodePlan, name: str = "@local", roles: str | None = None) -> None:
    """Call a step as a deploy does that runs on a host."""
    state = machine(name)
    (host,) = state.inventory
    if roles is not None:
        host.data.roles = roles
    with ctx_state.use(state), ctx_host.use(host):
        step(plan)  # type: ignore[operator]  # the functions of the module


def test_workers_need_secrets_and_the_command_is_named(new: NodePlan) -> None:
    for step in (secrets.required, secrets.made):  # the controller is not in this run
        with pytest.raises(
            PyinfraError,
            match=r"no secrets .* Next: lockstep secrets .* \(only if the cluster is new\)",
        ):
            prepare(step, new)
    assert not store(new.spec.name).exists()


def test_a_run_for_roles_without_secrets_needs_none(new: NodePlan) -> None:
    prepare(secrets.required, new, roles="node_exporter,packages")
    with pytest.raises(PyinfraError):
        prepare(secrets.required, new, roles="node_exporter,munge")


def test_a_worker_of_kubernetes_needs_them_to_join(new: NodePlan) -> None:
    """It has no file with a secret, and may be prepared before the head that makes them."""
    worker = plan_of("kubernetes").nodes["worker01"]
    with pytest.raises(PyinfraError, match="no secrets"):
        prepare(secrets.made, worker)
    prepare(secrets.made, worker, roles="node_exporter,packages")


def test_a_run_with_the_controller_makes_them(
    new: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterPlan, "controller_host", "@local")
    prepare(secrets.made, new)
    assert store(new.spec.name).exists()
    prepare(secrets.required, new)


def test_a_folder_that_cannot_be_written_ends_the_run_with_a_next_step(
    new: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterPlan, "controller_host", "@local")
    folder = store(new.spec.name).parent
    folder.parent.mkdir(parents=True)
    folder.write_text("a file\n")
    with pytest.raises(PyinfraError, match=rf"^{folder}: File exists\. Next: make .* writable"):
        prepare(secrets.made, new)


def test_a_full_disk_ends_the_run_with_a_next_step(
    new: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ClusterPlan, "controller_host", "@local")
    monkeypatch.setattr(os, "fsync", full)
    path = store(new.spec.name)
    with pytest.raises(PyinfraError, match=rf"^{path}: No space left on device\. Next: "):
        prepare(secrets.made, new)
    assert not path.exists()


def test_an_unsafe_file_ends_the_run(new: NodePlan) -> None:
    obtain(new.spec.name)
    store(new.spec.name).chmod(0o644)
    with pytest.raises(PyinfraError, match="expected 0600"):
        prepare(secrets.required, new)
