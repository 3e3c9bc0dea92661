"""``lockstep kubeconfig``: a file of mode 0600 with a certificate of the cluster's authority."""

from __future__ import annotations

import base64
import datetime
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from lockstep.__main__ import main
from lockstep.secrets import complete
from tests.golden.write import plan_of

INVENTORY = "inventories/kubernetes.py"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def written(path: Path, *options: str) -> Any:
    assert main(["kubeconfig", INVENTORY, str(path), *options]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return json.loads(path.read_text(encoding="ascii"))


def certificate(found: Any) -> x509.Certificate:
    (user,) = found["users"]
    return x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))


def test_the_administrator_and_each_user_get_a_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    complete(plan_of("kubernetes").spec.name, kubernetes=True)
    admin, ada = (
        written(tmp_path / "admin"),
        written(tmp_path / "ada", "--user", "ada", "--days", "7"),
    )
    assert [
        one.rfc4514_string() for one in (certificate(admin).subject, certificate(ada).subject)
    ] == [
        "CN=kubernetes-admin,O=kubeadm:cluster-admins",
        "CN=ada,O=vision",
    ]
    (cluster,) = ada["clusters"]
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    certificate(ada).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    found = certificate(ada)
    assert found.not_valid_after_utc - found.not_valid_before_utc == datetime.timedelta(days=7)
    assert cluster["cluster"]["server"] == "https://[fd5a:7c1e:1000::10]:6443"
    said = "".join(capsys.readouterr())
    (user,) = ada["users"]
    assert user["user"]["client-key-data"] not in said


@pytest.mark.parametrize(
    ("inventory", "options", "said"),
    [
        (INVENTORY, [], "no certificate authority of Kubernetes on this machine"),
        (INVENTORY, ["--user", "adda"], "unknown user 'adda'"),
        (INVENTORY, ["--days", "366"], "expected  1 to 365"),
        ("inventories/small.py", [], "the cluster has no Kubernetes"),
    ],
)
def test_it_says_why_there_is_no_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    inventory: str,
    options: list[str],
    said: str,
) -> None:
    assert main(["kubeconfig", inventory, str(tmp_path / "file"), *options]) == 3
    assert said in capsys.readouterr().err
    assert not (tmp_path / "file").exists()
