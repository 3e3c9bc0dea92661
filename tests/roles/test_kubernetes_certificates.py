"""Certificates of the control plane: which end soon, by what kubeadm itself lists."""

from __future__ import annotations

import json
import subprocess

import pytest

from lockstep.roles.operations.kubernetes_certificates import DAY_S, PODS, ending, restart
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
    assert ending(answer, 90) == [
        "apiserver (89 days)",
        "etcd-server (-1 days)",
        "front-proxy-client (missing)",
    ]


@pytest.mark.parametrize("answer", ["", "{}", listed(), '{"kind": "Status"}'])
def test_no_answer_is_not_an_answer_without_certificates(answer: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ending(answer, 90)


def test_the_command_that_restarts_pods_is_a_shell_command() -> None:
    command = restart(plan_of("kubernetes").nodes["head1"], PODS)
    subprocess.run(["sh", "-n"], input=command, text=True, check=True)
    assert "--server=https://[fd5a:7c1e:1000::11]:6443" in command, "not another head's"
