"""A node that has joined keeps its version, which an upgrade changes, and its API server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lockstep.roles.operations import kubernetes_node
from tests.plan.test_virtual_address import planned, three_heads
from tests.roles.local import run

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")


@pytest.mark.parametrize(
    ("joined", "pattern", "goes_on"),
    [(True, "none-*", False), (False, "none-*", True), (True, "*", True)],
)
def test_another_version_ends_a_deploy_of_a_node_that_has_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool, pattern: str, goes_on: bool
) -> None:
    done = tmp_path / "done"
    if joined:
        done.touch()
    monkeypatch.setattr(kubernetes_node, "DONE", str(done))
    monkeypatch.setattr(kubernetes_node, "packages", lambda plan: {"dpkg": pattern})
    ran = run(kubernetes_node.same_version, plan=planned(three_heads()).nodes["head1"])
    assert ran.succeeded is goes_on
    assert ("deploys/upgrade.py" in ran.output) is not goes_on


OLD = "[fd00:1::10]:6443\n"


@pytest.mark.parametrize(
    ("joined", "member", "goes_on"),
    [
        (None, True, True),
        ("", True, True),
        ("[fd00:1::f]:6443\n", True, True),
        (OLD, True, False),
        (OLD, False, True),
    ],
    ids=["not yet", "before notes had it", "the same address", "that of one head", "reset"],
)
def test_another_address_of_the_api_server_ends_a_deploy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    joined: str | None,
    member: bool,
    goes_on: bool,
) -> None:
    done, kubelet = tmp_path / "done", tmp_path / "kubelet.conf"
    if joined is not None:
        done.write_text(joined, encoding="utf-8")
    if member:
        kubelet.touch()
    monkeypatch.setattr(kubernetes_node, "DONE", str(done))
    monkeypatch.setattr(kubernetes_node, "KUBELET_CONF", str(kubelet))
    ran = run(kubernetes_node.same_endpoint, plan=planned(three_heads()).nodes["head1"])
    assert ran.succeeded is goes_on
    for said in ("[fd00:1::10]:6443", "the description has [fd00:1::f]:6443", "Next: "):
        assert (said in ran.output) is not goes_on
