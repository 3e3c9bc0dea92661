"""Secrets are generated once, readable by their owner only, and never shown."""

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from lockstep.secrets import (
    MUNGE_KEY_BYTES,
    Secrets,
    SecretsUnsafe,
    complete,
    existing,
    obtain,
    store,
)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("LOCKSTEP_STATE", raising=False)


def encoded(made: Secrets) -> str:
    return base64.b64encode(made.munge_key).decode("ascii")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_they_lie_in_one_file_per_cluster_below_the_state_folder(tmp_path: Path) -> None:
    assert store("unit") == tmp_path / "lockstep" / "unit" / "secrets.json"
    assert store("unit") != store("other")


def test_a_file_that_cannot_be_read_is_refused() -> None:
    """A folder cannot be read by root either."""
    store("unit").mkdir(parents=True, mode=0o700)
    with pytest.raises(SecretsUnsafe, match=r"secrets\.json: Is a directory\. Try again"):
        existing("unit")


def test_a_folder_of_the_spec_wins(tmp_path: Path) -> None:
    assert store("unit", str(tmp_path / "mine")) == tmp_path / "mine" / "secrets.json"
    made = obtain("unit", str(tmp_path / "mine"))
    assert existing("unit", str(tmp_path / "mine")) == made
    assert existing("unit") is None


def test_none_are_there_before_they_are_made() -> None:
    assert existing("unit") is None
    assert not store("unit").parent.exists()


def test_only_the_owner_can_read_them_whatever_the_umask() -> None:
    before = os.umask(0)
    try:
        obtain("unit")
    finally:
        os.umask(before)
    assert mode(store("unit")) == 0o600
    assert mode(store("unit").parent) == 0o700
    assert os.listdir(store("unit").parent) == ["secrets.json"]


def test_they_are_made_once_and_stay() -> None:
    made = obtain("unit")
    written = store("unit").stat().st_mtime_ns
    assert obtain("unit") == existing("unit") == made
    assert store("unit").stat().st_mtime_ns == written


def test_two_clusters_have_different_ones() -> None:
    one, other = obtain("one"), obtain("other")
    assert one.munge_key != other.munge_key
    assert one.database_password != other.database_password


def test_the_key_has_the_length_of_mungekey_and_the_password_needs_no_quoting() -> None:
    made = obtain("unit")
    assert len(made.munge_key) == MUNGE_KEY_BYTES
    assert len(made.database_password) >= 32
    assert made.database_password.replace("-", "").replace("_", "").isalnum()
    assert made.munge_key_sha256 == hashlib.sha256(made.munge_key).hexdigest()


MAKER = """
import sys
from lockstep.secrets import obtain
sys.stdin.read()  # ends when the test lets all makers go
secret, *clusters = sys.argv[1:]
for cluster in clusters:
    print(cluster, getattr(obtain(cluster), secret))
"""


def at_the_same_time(secret: str, clusters: list[str]) -> set[str]:
    """What eight makers print that are let go together; one element if they agree."""
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER, secret, *clusters], stdin=PIPE, stdout=PIPE, text=True
        )
        for _ in range(8)
    ]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.close()
        maker.stdin = None
    printed = {maker.communicate(timeout=60)[0] for maker in makers}
    assert [maker.returncode for maker in makers] == [0] * 8
    return printed


def test_makers_at_the_same_time_get_the_same() -> None:
    clusters = [f"unit{number}" for number in range(6)]
    printed = at_the_same_time("munge_key_sha256", clusters)
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 2 * len(clusters)
    for cluster in clusters:
        assert os.listdir(store(cluster).parent) == ["secrets.json"]


def test_makers_that_complete_a_file_at_the_same_time_get_the_same() -> None:
    clusters = [f"unit{number}" for number in range(6)]
    key = encoded(obtain("another"))
    for cluster in clusters:
        store(cluster).parent.mkdir(parents=True)
        store(cluster).touch(mode=0o600)
        store(cluster).write_text(json.dumps({"munge_key": key}), encoding="ascii")
    printed = at_the_same_time("database_password", clusters)
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 2 * len(clusters)
    for cluster in clusters:
        assert os.listdir(store(cluster).parent) == ["secrets.json"]


def test_nothing_of_them_shows() -> None:
    made = obtain("unit")
    shown = f"{made!r} {made} {[made]!r}"
    assert shown.split()[0] == "Secrets()"
    for hidden in (made.database_password, encoded(made), repr(made.munge_key)):
        assert hidden not in shown


@pytest.mark.parametrize("unsafe", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(unsafe: int) -> None:
    obtain("unit")
    path = store("unit")
    path.chmod(unsafe)
    with pytest.raises(SecretsUnsafe) as refused:
        existing("unit")
    assert str(refused.value) == (f"{path}: mode 0{unsafe:o}; expected 0600. Run: chmod 600 {path}")
    with pytest.raises(SecretsUnsafe):
        obtain("unit")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', '{"munge_key": 5, "database_password": "x"}',
     '{"munge_key": "AAAA"}', '{"munge_key": "€", "database_password": "x"}',
     '{"munge_key": "AAAA", "database_password": null}',
     '{"munge_key": "AAAA", "database_password": "short-key"}'],
)  # fmt: skip
def test_a_damaged_file_is_refused_and_kept(text: str) -> None:
    path = store("unit")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(SecretsUnsafe) as refused:
        obtain("unit")
    assert str(refused.value) == (
        f"{path}: the file is damaged. Restore it from a backup, or remove it: "
        "the next deploy of the whole cluster then generates new secrets"
    )
    assert path.read_text(encoding="utf-8") == text


def test_what_is_stored_is_what_is_given(tmp_path: Path) -> None:
    made = obtain("unit")
    document = json.loads(store("unit").read_text(encoding="ascii"))
    assert document == {
        "munge_key": encoded(made),
        "database_password": made.database_password,
    }
    assert Secrets(made.munge_key, made.database_password) == made


def test_a_maker_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        obtain("unit")
    assert os.listdir(store("unit").parent) == []


def test_only_what_is_missing_is_made() -> None:
    assert complete("unit") == ("munge_key", "database_password")
    assert complete("unit") == ()
    made = obtain("unit")
    path = store("unit")
    path.write_text(json.dumps({"munge_key": encoded(made)}), encoding="ascii")
    with pytest.raises(SecretsUnsafe, match=r"has no database password\. Next: lockstep secrets"):
        existing("unit")
    assert complete("unit") == ("database_password",)
    completed = obtain("unit")
    assert completed.munge_key == made.munge_key
    assert completed.database_password != made.database_password
    assert (mode(path), os.listdir(path.parent)) == (0o600, ["secrets.json"])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, str]:
    """A key for kernel modules, and its certificate."""
    key, certificate = tmp_path / "modules.key", tmp_path / "modules.pem"
    subprocess.run(
        [
            *("openssl", "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048"),
            *("-subj", "/CN=unit", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    return key, certificate.read_text()


def test_the_key_for_modules_stays_in_its_own_file(pair: tuple[Path, str]) -> None:
    key, certificate = pair
    made = obtain("unit", None, (str(key), certificate))
    assert made.module_key == key.read_bytes()
    key.write_bytes(b"Bag Attributes\r\n" + key.read_bytes().replace(b"\n", b"\r\n"))
    assert obtain("unit", None, (str(key), certificate)) == made, "nodes get the key alone"
    assert "PRIVATE" not in store("unit").read_text() + repr(made)
    key.unlink()
    found = existing("unit", None, (str(key), certificate))
    assert found is not None
    assert found.module_key is None


def test_a_key_for_modules_that_cannot_sign_is_refused(pair: tuple[Path, str]) -> None:
    key, certificate = pair
    obtain("unit")

    def refused() -> str:
        with pytest.raises(SecretsUnsafe) as error:
            existing("unit", None, (str(key), certificate))
        assert "PRIVATE" not in str(error.value)
        return str(error.value)

    key.chmod(0o640)
    assert refused() == f"{key}: mode 0640; expected 0600. Run: chmod 600 {key}"
    key.chmod(0o600)
    own = key.read_bytes()
    encrypted = [*("openssl", "pkey", "-aes256", "-passout", "pass:word"), "-in", str(key)]
    key.write_bytes(subprocess.run(encrypted, check=True, capture_output=True).stdout)
    assert "the key has a passphrase, which DKMS cannot enter" in refused()
    key.write_bytes(own[:300] + own[400:])
    assert "not a private key in PEM format" in refused()
    unknown = ["openssl", "ecparam", "-name", "secp112r1", "-genkey", "-noout"]
    key.write_bytes(subprocess.run(unknown, check=True, capture_output=True).stdout)
    assert "expected an RSA key" in refused()
    other = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    key.write_bytes(subprocess.run(other, check=True, capture_output=True).stdout)
    assert "this is not the key of the certificate" in refused()


def test_the_key_of_api_servers_is_made_for_a_file_that_lacks_it() -> None:
    complete("unit", kubernetes=True)
    found = json.loads(store("unit").read_text(encoding="ascii"))
    first = found.pop("kubernetes/encryption-key")
    assert len(base64.b64decode(first)) == 32
    store("unit").write_text(json.dumps(found), encoding="ascii")
    assert complete("unit", kubernetes=True) == ("kubernetes",)
    now = json.loads(store("unit").read_text(encoding="ascii"))
    assert now.pop("kubernetes/encryption-key") != first
    assert now == found
    assert complete("unit", kubernetes=True) == ()
