"""Certificates and keys of a node; those of another node are compared."""

from __future__ import annotations

import base64

import pytest

from lockstep.node.fingerprint.certificates import Certificates
from lockstep.node.fingerprint.files import read_files
from lockstep.node.readers.commands import Commands
from tests.node.fingerprint.conftest import Root

KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


def certificate(name: str, tag: int = 0x0C, before: bytes = b"x") -> str:
    binary = before + bytes([tag, len(name)]) + name.encode() + b"y"
    text = base64.encodebytes(binary).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


def is_own(text: str) -> bool:
    return Certificates(["n1"]).shared("/etc/x.pem", text.encode()) != text.encode()


@pytest.mark.parametrize("tag", [0x0C, 0x13, 0x16, 0x82])
@pytest.mark.parametrize("name", ["n1", "n1.example.org"])
def test_it_has_the_name_of_the_node(name: str, tag: int) -> None:
    assert is_own(certificate(name, tag))


@pytest.mark.parametrize("name", ["n2", "n10", "n1-old", "an1", "x.n1", "example.org"])
def test_the_certificate_of_another_node_is_compared(name: str) -> None:
    assert not is_own(certificate(name))


@pytest.mark.parametrize("text", ["n1\n", "-----BEGIN CERTIFICATE-----\n!\n", KEY, "-----BEGIN X"])
def test_what_is_no_certificate_is_compared(text: str) -> None:
    assert not is_own(text)


def test_a_file_with_a_key_beside_its_certificate_is_compared() -> None:
    assert not is_own(KEY + certificate("n1"))


TEXT = (
    "Certificate:\n    Data:\n        Serial Number: {0}\n    Signature Value:\n        0{0}:a1\n"
)


def test_what_else_is_in_the_file_of_a_certificate_is_compared() -> None:
    own, authority = certificate("n1"), certificate("authority")
    found = Certificates(["n1"]).shared(
        "/etc/x.pem", f"verb 3\n<cert>\n{own}</cert>\n{authority}{own}".encode()
    )
    own = "<certificate of this node>\n"
    assert found.decode() == f"verb 3\n<cert>\n{own}</cert>\n{authority}{own}"


def test_the_text_of_a_certificate_belongs_to_it() -> None:
    texts = [
        Certificates([name]).shared("/x", f"a\n{TEXT.format(n)}{certificate(name)}b\n".encode())
        for n, name in enumerate(("n1", "n2"))
    ]
    assert texts == [b"a\n<certificate of this node>\nb\n"] * 2
    other = TEXT.format(1) + certificate("n2")
    assert not is_own(other)


def test_what_else_is_in_the_file_of_a_key_is_compared(root: Root) -> None:
    root.file("/etc/site/tls.crt", certificate("n1"))
    root.file("/etc/site/tls.key", f"# by hand\n{KEY}{certificate('authority')}option\n", 0o600)
    assert contents(root)["/etc/site/tls.key"] == (
        "# by hand\n<key of a certificate of this node>\n" + certificate("authority") + "option\n"
    )


def contents(root: Root) -> dict[str, str]:
    found = read_files({"own": [("name", "n1")]}, Commands())
    return {one.name: one.fields["content"] for one in found if "content" in one.fields}


@pytest.mark.parametrize(
    ("key", "beside", "own"),
    [
        ("/etc/site/tls.key", "/etc/site/tls.crt", True),
        ("/etc/ssl/private/n.key", "/etc/ssl/certs/n.pem", True),
        ("/etc/ssl/private/n.key", "/etc/ssl/certs/other.pem", False),
        ("/etc/site/tls.key", "/etc/other/tls.crt", False),
    ],
)
def test_a_key_belongs_to_the_certificate_with_its_name(
    root: Root, key: str, beside: str, own: bool
) -> None:
    root.file(key, KEY, 0o600)
    root.file(beside, certificate("n2"))
    assert contents(root)[key] == KEY
    root.file(beside, certificate("n1"))
    assert contents(root)[beside] == "<certificate of this node>\n"
    assert (contents(root)[key] != KEY) == own
