"""A worker of Kubernetes that a run has repaired takes pods again at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.plan.kubernetes import CORDONED
from lockstep.roles.steps import uncordon
from tests.golden.write import plan_of
from tests.roles.local import Done, noting, run

FOUND = "lockstep: gpu.lost gpu3"


class Node:
    """A worker whose API server and node check are doubles."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = noting("kubectl", folder, monkeypatch)
        self.kubectl, self.told = folder / "bin" / "kubectl", folder / "told"
        self.kubelet_conf, self.reason = folder / "kubelet.conf", folder / "reason"
        self.kubelet_conf.touch()
        monkeypatch.setattr(uncordon, "KUBELET_CONF", self.kubelet_conf)
        self.monkeypatch = monkeypatch

    def deploy(self, reason: str, then: str = "", cordoned: str = "true", fails: str = "") -> Done:
        """Run the last step of a deploy.

        Args:
            reason: why Lockstep has cordoned the node.
            then: the same after a run of the node check.
            cordoned: ``spec.unschedulable`` as kubectl prints it.
            fails: what kubectl runs instead of an answer.
        """
        self.reason.write_text(f"{cordoned} {reason}")
        check = f"echo >>{self.told}; echo '{cordoned} {then}' >{self.reason}; :"
        self.monkeypatch.setattr(uncordon, "HEALTH_CHECK", check)
        with self.kubectl.open("a", encoding="utf-8") as program:
            program.write(f"{fails or f'cat {self.reason}'}\n")
        return run(uncordon.uncordoned, plan=plan_of("kubernetes").nodes["worker01"])


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Node:
    caplog.set_level("INFO")
    return Node(tmp_path, monkeypatch)


def test_the_node_check_uncordons_a_node_that_is_healthy(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    assert node.deploy(FOUND) == Done(True, 1, "")
    assert node.told.exists()
    assert "uncordoned: its node check finds no failure" in caplog.text
    assert CORDONED in node.calls.read_text(encoding="utf-8")


def test_a_failure_that_is_left_is_said_and_changes_nothing(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    assert node.deploy(FOUND, "lockstep: rdma.port") == Done(True, 0, "")
    said = "worker01 stays cordoned by its own node check (lockstep: rdma.port). Next: on worker01:"
    assert said in caplog.text


@pytest.mark.parametrize(
    ("reason", "cordoned"),
    [
        pytest.param("", "", id="takes pods"),
        pytest.param("", "true", id="a person's cordon"),
        pytest.param("lockstep-reboot: kernel", "true", id="a rollout's cordon"),
        pytest.param(FOUND, "", id="uncordoned by a person"),
    ],
)
def test_what_the_node_check_did_not_do_is_left(node: Node, reason: str, cordoned: str) -> None:
    assert node.deploy(reason, cordoned=cordoned) == Done(True, 0, "")
    assert not node.told.exists()


@pytest.mark.parametrize(
    ("fails", "said"), [("echo refused >&2; exit 1", "refused"), ("sleep 9", "within 0.2 s")]
)
def test_without_an_api_server_a_deploy_goes_on(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fails: str,
    said: str,
) -> None:
    monkeypatch.setattr(uncordon, "ANSWER_S", 0.2)
    assert node.deploy(FOUND, fails=fails) == Done(True, 0, "")
    assert not node.told.exists()
    assert "unknown whether its node check has cordoned it: " in caplog.text
    assert said in caplog.text


def test_a_node_that_has_not_joined_is_not_asked_about(node: Node) -> None:
    node.kubelet_conf.unlink()
    assert node.deploy(FOUND) == Done(True, 0, "")
    assert not node.calls.exists()


def test_a_node_check_of_the_site_is_left_alone(node: Node) -> None:
    done = run(uncordon.uncordoned, plan=SimpleNamespace(name="worker01", roles=()))
    assert done == Done(True, 0, "")
    assert not node.calls.exists()
