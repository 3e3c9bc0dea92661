"""Certificates of the control plane: which end soon, by what kubeadm itself lists."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.roles.operations import kubernetes_certificates as certificates
from lockstep.roles.operations import operation as of_operations
from lockstep.roles.operations.kubernetes_certificates import (
    CLIENTS,
    DAY_S,
    PODS,
    RENEWING,
    ending,
    made,
    restart,
)
from tests.golden.write import plan_of


def listed(*rows: tuple[str, int, dict[str, bool]]) -> str:
    """An answer in the form of ``kubeadm certs check-expiration --output json``, 1.34.4."""
    return json.dumps(
        {
            "kind": "CertificateExpirationInfo",
            "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
            "certificates": [
                {
                    "name": name,
                    "expirationDate": "2027-11-28T13:20:00Z",
                    "residualTime": seconds,
                    "externallyManaged": False,
                    "caName": "ca",
                    "missing": False,
                    **more,
                }
                for name, seconds, more in rows
            ],
            "certificateAuthorities": [{"name": "ca", "residualTime": 1}],
        }
    )


def test_certificates_that_end_soon_are_named_and_authorities_are_not() -> None:
    answer = listed(
        ("admin.conf", 90 * DAY_S, {}),
        ("apiserver", 90 * DAY_S - 1, {}),
        ("etcd-server", -DAY_S, {}),
        ("front-proxy-client", 0, {"missing": True}),
        ("of-the-site", 0, {"externallyManaged": True}),
    )
    assert ending(answer, 90) == {
        "apiserver": "89 days",
        "etcd-server": "-1 days",
        "front-proxy-client": "missing",
    }


def test_a_kubeconfig_that_heads_do_not_get_when_they_join_is_not_missing() -> None:
    assert ending(listed(("super-admin.conf", 0, {"missing": True})), 90) == {}
    found = ending(listed(("super-admin.conf", DAY_S, {})), 90)
    assert found == {"super-admin.conf": "1 days"}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (
            "apiserver",
            "rm -f /etc/kubernetes/pki/apiserver.key && kubeadm init phase certs apiserver",
        ),
        (
            "etcd-server",
            "rm -f /etc/kubernetes/pki/etcd/server.key && kubeadm init phase certs etcd-server",
        ),
        ("scheduler.conf", "kubeadm init phase kubeconfig scheduler"),
    ],
)
def test_a_missing_certificate_is_made_because_renewing_leaves_it_out(
    name: str, command: str
) -> None:
    assert made(name).startswith(f"{command} --config ")


@pytest.mark.parametrize("answer", ["", "{}", listed(), '{"kind": "Status"}'])
def test_no_answer_is_not_an_answer_without_certificates(answer: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ending(answer, 90)


def test_the_command_that_restarts_pods_is_a_shell_command() -> None:
    command = restart(plan_of("kubernetes").nodes["head1"], PODS)
    subprocess.run(["sh", "-n"], input=command, text=True, check=True)
    assert "--server=https://[fd5a:7c1e:1000::11]:6443" in command, "not another head's"


def commands(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """The commands of a head whose answer has these lines."""
    output = SimpleNamespace(stdout_lines=list(lines), stderr_lines=[])
    say = SimpleNamespace(say=lambda command, within_s: (True, output))
    inventory = SimpleNamespace(get_host=lambda name: name)
    state = SimpleNamespace(is_executing=True, inventory=inventory)
    monkeypatch.setattr(
        certificates, "turn", lambda *_, **given: nullcontext(given.get("stop", ""))
    )
    host = SimpleNamespace(name="head1", state=state, log=lambda text: None)
    monkeypatch.setattr(certificates, "host", host)
    monkeypatch.setattr(certificates, "connector_arguments", lambda host: {})
    monkeypatch.setattr(certificates, "Conversation", lambda name, arguments: say)
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    node = plan_of("kubernetes").nodes["head1"]
    return [str(one) for one in certificates.renewed._inner(plan=node)]


LONG, SOON = (listed(("apiserver", days * DAY_S, {})) for days in (91, 1))


def test_a_run_that_was_killed_after_the_renewal_restarts_the_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert commands(monkeypatch, LONG) == []
    note, renew, restarted, end = commands(monkeypatch, SOON)
    assert note.startswith(f"touch {RENEWING}")
    assert "certs renew all" in renew
    assert end == f"rm {RENEWING}"
    assert commands(monkeypatch, RENEWING, LONG) == [note, restarted, end]
    assert len(commands(monkeypatch, RENEWING, SOON)) == 4


RUNS = """
crictl() {{
    case "$5" in
        stop) shift 5; echo "stopped $*" >>{folder}/log;;
        *) cat {folder}/running 2>/dev/null; true;;
    esac
}}
systemctl() {{ echo "systemctl $*" >>{folder}/log; }}
kubectl() {{ echo asked >>{folder}/log; {ready}; }}
sleep() {{ echo slept >>{folder}/log; {meanwhile}; }}
"""


@pytest.mark.parametrize(
    ("meanwhile", "ready", "status", "said"),
    [
        ("printf 'c\\nd\\n' >{folder}/running", "true", 0, ""),
        ("printf 'c\\n' >{folder}/running", "true", 1, "not running again after 90 s"),
        ("printf 'b\\nd\\n' >{folder}/running", "true", 1, "not running again after 90 s"),
        ("printf 'c\\nd\\n' >{folder}/running", "false", 1, ""),
    ],
)
def test_a_restart_waits_for_each_new_container_and_not_for_ever(
    tmp_path: Path, meanwhile: str, ready: str, status: int, said: str
) -> None:
    (tmp_path / "running").write_text("a\nb\n")
    with_folder = meanwhile.format(folder=tmp_path)
    functions = RUNS.format(folder=tmp_path, ready=ready, meanwhile=with_folder)
    command = restart(plan_of("kubernetes").nodes["head1"], (CLIENTS,))
    done = subprocess.run(
        ["sh", "-c", functions + command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0] == "stopped a b"
    assert log.count("slept") <= 2 * 90
    restarts = log.count("systemctl restart kubelet.service")
    assert restarts == (1 if "not running" in said else 0)


@pytest.mark.parametrize(("group", "stopped"), [(("etcd",), 2), (("kube-apiserver",), 1)])
def test_no_api_server_without_etcd_keeps_a_kubelet_waiting_that_starts(
    tmp_path: Path, group: tuple[str, ...], stopped: int
) -> None:
    (tmp_path / "running").write_text("a\n")
    functions = RUNS.format(folder=tmp_path, ready="true", meanwhile="true")
    command = restart(plan_of("kubernetes").nodes["head1"], (group,))
    subprocess.run(["sh", "-c", functions + command], capture_output=True, check=False)
    log = (tmp_path / "log").read_text().splitlines()
    assert log.count("stopped a") == stopped
    assert log[log.index("systemctl restart kubelet.service") - 1] == (
        "stopped a" if stopped == 2 else "slept"
    )
