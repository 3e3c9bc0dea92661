"""A node is reset only if an interrupted run of Lockstep made what it has of Kubernetes."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyinfra.api import State, StringCommand

from lockstep.facts.files import existing
from lockstep.plan.kubernetes import (
    BEGUN,
    DONE,
    ETCD_DATA,
    JOIN_CONFIG,
    KUBELET_CONF,
    RESTORING,
    STATE,
)
from lockstep.roles.operations import kubernetes_heads
from lockstep.roles.operations import kubernetes_member as member
from lockstep.roles.operations import operation as of_operations
from lockstep.secrets import Secrets
from tests.golden.write import plan_of
from tests.plan.test_virtual_address import planned, three_heads
from tests.roles.local import Done, asked, noting, read_below, run

PLAN = plan_of("kubernetes")
API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
ETCD = "/var/lib/etcd/member"
KUBELET = "/var/lib/kubelet/config.yaml"


def cleared(monkeypatch: pytest.MonkeyPatch, there: set[str], name: str = "head1") -> list[str]:
    """Return the commands for a node with these paths; a refusal as its text."""
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    monkeypatch.setattr(member, "refusal", lambda why: why)
    monkeypatch.setattr(member, "existing", lambda paths: paths)

    def ask(paths: tuple[str, ...]) -> frozenset[str]:
        assert there <= set(paths)
        return frozenset(there)

    monkeypatch.setattr(member, "ask", ask)
    operation = member.cleared._inner
    return [str(one) for one in operation(plan=PLAN.nodes[name])]


@pytest.mark.parametrize(
    ("there", "commands"),
    [
        pytest.param(set(), [], id="new or replaced"),
        pytest.param({DONE}, [], id="reset by a person"),
        pytest.param({DONE, KUBELET_CONF, KUBELET, API_SERVER, ETCD}, [], id="member"),
        pytest.param(
            {DONE, KUBELET_CONF, BEGUN}, [f"rm -f {BEGUN}"], id="killed between the two notes"
        ),
        pytest.param({DONE, BEGUN}, [f"rm -f {BEGUN}"], id="then reset by a person"),
        # The moments of tests/lab/test_kubernetes_killed.py: a node with only the first note.
        pytest.param({BEGUN}, [member.RESET], id="has begun"),
        pytest.param({BEGUN, ETCD, API_SERVER}, [member.RESET], id="init waits"),
        pytest.param(
            {BEGUN, KUBELET_CONF, KUBELET, API_SERVER, ETCD}, [member.RESET], id="init is ready"
        ),
        pytest.param(
            {BEGUN, JOIN_CONFIG}, [member.RESET, f"rm -f {JOIN_CONFIG}"], id="join has begun"
        ),
        pytest.param(
            {BEGUN, JOIN_CONFIG, KUBELET_CONF, KUBELET},
            [member.RESET, f"rm -f {JOIN_CONFIG}"],
            id="join has a certificate",
        ),
        pytest.param(
            {DONE, KUBELET_CONF, BEGUN, JOIN_CONFIG}, [f"rm -f {JOIN_CONFIG} {BEGUN}"], id="all"
        ),
    ],
)
def test_only_what_an_interrupted_run_made_is_reset(
    monkeypatch: pytest.MonkeyPatch, there: set[str], commands: list[str]
) -> None:
    assert cleared(monkeypatch, there) == commands


@pytest.mark.parametrize("path", [KUBELET_CONF, KUBELET, API_SERVER, ETCD])
def test_another_cluster_is_left_alone(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (why,) = cleared(monkeypatch, {path})
    assert f"that Lockstep did not make: {path}. Nothing was changed. Next: " in why


@pytest.mark.parametrize("note", [set(), {BEGUN}], ids=["", "with the first note"])
@pytest.mark.parametrize(
    ("name", "path", "then"),
    [
        ("head1", ETCD, "(kubeadm init phase kubeconfig kubelet --config "),
        ("head1", API_SERVER, "(kubeadm init phase kubeconfig kubelet --config "),
        ("worker01", KUBELET, "--client-name system:node:worker01 "),
    ],
)
def test_a_member_whose_kubelet_lost_its_kubeconfig_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, then: str, note: set[str]
) -> None:
    (why,) = cleared(monkeypatch, {DONE, path, *note}, name)
    assert f"{KUBELET_CONF} is missing" in why
    assert f"{path}. Nothing was changed. Next: " in why
    assert then in why


def test_a_deploy_leaves_a_head_alone_whose_restore_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (why,) = cleared(monkeypatch, {RESTORING, BEGUN})
    assert "run deploys/restore_etcd.py again" in why


def test_folders_and_links_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "var/lib/etcd/member").mkdir(parents=True)
    (tmp_path / "etc/kubernetes").mkdir(parents=True)
    (tmp_path / "etc/kubernetes/kubelet.conf").symlink_to("nowhere")
    read_below(monkeypatch, tmp_path)
    assert asked(existing((ETCD, KUBELET_CONF, DONE))) == {ETCD, KUBELET_CONF}


def noted(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command between its notes, with the folders of a node below another root."""
    text = member._noted(PLAN.nodes["head1"], command)
    for folder in (STATE, ETCD_DATA):
        text = text.replace(folder, f"{root}{folder}")
    return subprocess.run(["sh", "-c", text], capture_output=True, text=True)


def notes(root: Path) -> set[str]:
    return {path for path in (BEGUN, DONE) if (root / path[1:]).exists()}


def test_no_note_is_made_where_another_etcd_has_data(tmp_path: Path) -> None:
    (tmp_path / "var/lib/etcd/default").mkdir(parents=True)
    (tmp_path / STATE[1:]).mkdir(parents=True)
    (tmp_path / DONE[1:]).touch()
    done = noted(tmp_path, "echo it ran")
    assert done.returncode == 1
    assert "/var/lib/etcd is not empty" in done.stderr
    assert "Next: " in done.stderr
    assert notes(tmp_path) == {DONE}


def test_the_notes_tell_how_far_kubeadm_came(tmp_path: Path) -> None:
    (tmp_path / "var/lib/etcd").mkdir(parents=True)
    (tmp_path / STATE[1:]).mkdir(parents=True)
    (tmp_path / DONE[1:]).touch()  # of a membership that a person has reset
    assert noted(tmp_path, "false").returncode == 1
    assert notes(tmp_path) == {BEGUN}
    # What a reset could not delete is this run's own.
    (tmp_path / "var/lib/etcd/member").mkdir()
    assert noted(tmp_path, "true").returncode == 0
    assert notes(tmp_path) == {DONE}
    endpoint = PLAN.nodes["head1"].kubernetes.endpoint
    assert (tmp_path / DONE[1:]).read_text(encoding="utf-8") == f"{endpoint}\n"


@pytest.mark.parametrize(
    ("network", "ready", "waits"),
    [("routed", "False", True), ("site", "False False", False), ("site", "False True", True)],
)
def test_a_new_head_waits_for_the_network_of_pods_only_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, ready: str, waits: bool
) -> None:
    found = three_heads()
    found["scheduler"]["network"] = network
    calls = noting("kubectl", tmp_path, monkeypatch)
    with (tmp_path / "bin" / "kubectl").open("a", encoding="utf-8") as program:
        program.write(f'case "$*" in *jsonpath*) echo "{ready}";; esac\n')
    command = member._spread(planned(found).nodes["head2"])
    assert subprocess.run(["sh", "-c", command]).returncode == 0
    assert ("wait node head2" in calls.read_text(encoding="utf-8")) is waits


def test_an_api_server_that_hangs_does_not_fail_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    noting("kubectl", tmp_path, monkeypatch)
    with (tmp_path / "bin" / "kubectl").open("a", encoding="utf-8") as program:
        program.write("sleep 9\n")
    monkeypatch.setattr(member, "ANSWER_S", 0.2)
    monkeypatch.setattr(member, "REGISTERED_S", 5.0)
    monkeypatch.setattr(member, "DONE", tmp_path)
    with caplog.at_level("INFO"):
        assert run(member.registered, plan=PLAN.nodes["worker01"]) == Done(True, 0, "")
    assert "unknown whether worker01 is registered: " in caplog.text


def test_a_token_lives_for_minutes_and_is_only_on_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kubeadm deletes nothing: the file with the token is removed, and the token ends by itself."""
    made: list[str] = []
    said: list[str] = []
    logged = SimpleNamespace(log=said.append, log_styled=lambda text, **_: said.append(text))
    monkeypatch.setattr(member, "host", SimpleNamespace(state=State(), **vars(logged)))
    monkeypatch.setattr(member, "connector_arguments", lambda host: {})
    monkeypatch.setattr(kubernetes_heads, "forget", lambda *_: None)
    monkeypatch.setattr(kubernetes_heads, "said", lambda *given: made.append(given[-1]))
    monkeypatch.setattr(member, "public_key_hash", lambda certificate: "sha256:00")
    secrets = cast("Secrets", SimpleNamespace(kubernetes={"ca.crt": b""}))
    (command,) = member._join(PLAN.nodes["worker01"], secrets)
    assert isinstance(command, StringCommand)
    document = json.loads(str(command.connector_arguments["_stdin"]))
    token = document["discovery"]["bootstrapToken"]["token"]
    secret = token.partition(".")[2]
    assert len(secret) == 16
    text = command.get_raw_value()
    assert secret not in text
    assert not any(secret in line for line in said)
    assert "umask 077" in text
    assert "rm -f $f" in text
    (manifest,) = made
    data = json.loads(manifest)["stringData"]
    assert data["token-secret"] == secret
    left = datetime.fromisoformat(data["expiration"]) - datetime.now(UTC)
    assert timedelta(minutes=5) < left <= timedelta(minutes=15)
