"""Fingerprints of public keys, and the key of NVIDIA's repository, before a node is contacted."""

import base64
from typing import Any

import pytest

from lockstep import spec
from lockstep.catalog.nvidia.repositories import REPOSITORIES, of_vendor
from lockstep.plan import notes
from lockstep.roles import declared
from lockstep.spec.openpgp import NotAKey, fingerprints
from tests.golden.write import ROOT
from tests.spec.nvidia_example import description
from tests.spec.racks import description as racks

KEYS = ROOT / "inventories" / "keys"
NVIDIA = (KEYS / "nvidia-debian13.asc").read_text(encoding="ascii")
OTHER = (KEYS / "example.net.asc").read_text(encoding="ascii")
URI = "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"
WANTED = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
# gpg --show-keys prints these two fingerprints of the same files.
ANOTHER = "97F4B05195AA7F6087BD69F81F3006671A98B1A9"


def refused(key: str, uri: str = URI, suite: str = "/") -> list[tuple[Any, ...]]:
    """Field, value and allowed value of each problem of a description with this repository."""
    wanted = description()
    wanted["software"]["repositories"][0].update(key=key, uri=uri, suite=suite)
    return [(one.path, one.value, one.allowed) for one in spec.load(wanted, declared())[1]]


def test_fingerprints_are_those_that_gpg_prints() -> None:
    assert fingerprints(NVIDIA) == (WANTED,)
    assert fingerprints(OTHER) == (ANOTHER,)
    assert fingerprints(NVIDIA + OTHER) == (WANTED, ANOTHER)


def test_armor_headers_and_a_missing_checksum_change_nothing() -> None:
    begin, _, rest = NVIDIA.partition("\n")
    body = "".join(line for line in rest.splitlines(True) if not line.startswith("="))
    assert fingerprints(f"{begin}\nVersion: GnuPG v2\nComment: x: y\n{body}") == (WANTED,)


@pytest.mark.parametrize(
    "text",
    ["", "no key", NVIDIA.replace("mQINBG", "mQINB"), NVIDIA.replace("mQINBG", "AAAABG"),
     "\n".join(NVIDIA.splitlines()[:8]) + "\n-----END PGP PUBLIC KEY BLOCK-----\n",
     NVIDIA.replace("mQINBG", "mQIN!!"),
     "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmAEF\n-----END PGP PUBLIC KEY BLOCK-----\n"],
)  # fmt: skip
def test_a_damaged_key_is_none(text: str) -> None:
    with pytest.raises(NotAKey):
        fingerprints(text)


def test_nvidias_repository_takes_nvidias_key() -> None:
    assert refused(NVIDIA) == []
    assert refused(NVIDIA, f"{URI}/") == []


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (OTHER, ANOTHER),
        (NVIDIA + OTHER, f"{WANTED}, {ANOTHER}"),
        (NVIDIA.replace("mQINBG", "mQINB"), "the key is damaged"),
    ],
)
@pytest.mark.parametrize("uri", [URI, f"{URI}/", URI.replace("https", "http")])
def test_nvidias_repository_takes_no_other_key(key: str, found: str, uri: str) -> None:
    allowed = (
        f"only {WANTED}, NVIDIA's key for this repository; download it from {URI}/8793F200.pub"
    )
    assert refused(key, uri) == [(("software", "repositories", 0, "key"), found, allowed)]


BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


@pytest.mark.parametrize(
    "begin", [f"{BEGIN} ", f"{BEGIN}\t", "-----BEGIN PGP PRIVATE KEY BLOCK-----"]
)
def test_a_block_that_is_not_read_is_refused(begin: str) -> None:
    """gpg also reads a block whose first line ends in blanks."""
    text = NVIDIA + OTHER.replace(BEGIN, begin)
    with pytest.raises(NotAKey, match="2 armored blocks, of which 1 is a public key"):
        fingerprints(text)
    assert [path for path, _, _ in refused(text)] == [("software", "repositories", 0, "key")]


def test_a_key_that_is_too_long_for_a_fingerprint_is_refused() -> None:
    packet = b"\xc6\xff" + (1 << 16).to_bytes(4, "big") + b"\x04" + bytes((1 << 16) - 1)
    body = base64.b64encode(packet).decode("ascii")
    with pytest.raises(NotAKey, match="a key of 65536 bytes"):
        fingerprints(f"{BEGIN}\n\n{body}\n-----END PGP PUBLIC KEY BLOCK-----\n")


PARENT = URI.removesuffix("/x86_64")


@pytest.mark.parametrize(
    ("uri", "suite"),
    [
        (PARENT, "x86_64/"),
        (f"{PARENT}/", "/x86_64/"),
        (PARENT.removesuffix("/debian13"), "debian13/x86_64/"),
        (URI, "./"),
        (f"{URI}//", "/"),
        (URI.replace("/repos/", "//repos/./"), "/"),
        (URI.replace("developer", "Developer"), "/"),
        (URI.replace(".com/", ".COM:443/"), "/"),
        (URI.replace(".com/", ".com./"), "/"),
        (URI.replace("/cuda/", "/%63uda/"), "/"),
    ],
)
def test_every_spelling_of_nvidias_repository_takes_only_nvidias_key(uri: str, suite: str) -> None:
    assert [value for _, value, _ in refused(OTHER, uri, suite)] == [ANOTHER]
    assert refused(NVIDIA, uri, suite) == []


def test_an_architecture_that_apt_inserts_is_part_of_the_address() -> None:
    toolkit = "https://nvidia.github.io/libnvidia-container/stable/deb"
    assert of_vendor(f"{toolkit}/$(ARCH)") is REPOSITORIES[f"{toolkit}/amd64"]


def test_an_address_that_cannot_be_parsed_is_not_nvidias() -> None:
    assert of_vendor("https://[x/debian") is None


@pytest.mark.parametrize("version", ["latest", "2.9.4", "3.2.1"])
def test_each_repository_of_doca_takes_the_key_that_signs_all_versions(version: str) -> None:
    uri = f"https://linux.mellanox.com/public/repo/doca/{version}/ubuntu24.04/x86_64"
    signed = of_vendor(uri, "./")
    assert signed is not None
    assert signed.fingerprint == "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"
    assert signed.key.startswith(f"{uri}/doca_keyring.gpg")
    assert [value for _, value, _ in refused(OTHER, uri, "./")] == [ANOTHER]
    assert of_vendor(uri.replace("ubuntu24.04", "debian12"), "./") is None


def test_a_repository_of_the_site_takes_any_key() -> None:
    assert refused(OTHER, "https://packages.example.net/debian") == []


SBSA = "https://developer.download.nvidia.com/compute/cuda/repos/{}/sbsa"


@pytest.mark.parametrize(
    ("release", "key"),
    [
        *((name, "3bf863cc") for name in ("debian12", "ubuntu2204", "ubuntu2404")),
        ("rhel9", "D42D0685"),
    ],
)
def test_a_repository_for_arm64_has_the_key_of_the_one_for_x86(release: str, key: str) -> None:
    signed = of_vendor(SBSA.format(release))
    other = of_vendor(SBSA.format(release).replace("sbsa", "x86_64"))
    assert signed is not None
    assert other is not None
    assert signed.fingerprint == other.fingerprint
    assert signed.key == f"{SBSA.format(release)}/{key}.pub"
    # The name of the file is the end of the fingerprint.
    assert signed.fingerprint.endswith(key.upper())


@pytest.mark.parametrize(("release", "noted"), [("debian13", True), ("ubuntu2404", False)])
def test_a_key_of_nvidia_that_is_not_known_is_noted(release: str, noted: bool) -> None:
    wanted = racks()
    uri = SBSA.format(release)
    wanted["software"]["repositories"][0].update(
        key=OTHER, uri=uri, suite="/", architectures=["arm64"]
    )
    found = notes.not_verified(spec.Cluster.model_validate(wanted))
    assert any(f"the key of NVIDIA's repository {uri}: " in one for one in found) is noted


def test_the_keys_of_the_catalogue_have_fingerprints_and_addresses() -> None:
    page = (ROOT / "docs/nvidia.md").read_text(encoding="utf-8")
    for uri, signed in REPOSITORIES.items():
        key = signed.key.rpartition("/")[2]
        assert f"| `{uri}` | `{key}` | `{signed.fingerprint}` |" in page
        assert of_vendor(uri) is signed
        assert len(bytes.fromhex(signed.fingerprint)) == 20
        assert signed.key.startswith("https://")
