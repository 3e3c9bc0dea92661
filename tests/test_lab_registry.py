"""Filling the lab's registry: only what it lacks is uploaded, and a refusal is told."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from typing_extensions import override

from lab import proxy, shared_host
from lab.errors import LabError
from lab.kubernetes import oci, registry
from lab.kubernetes.oci import Artifact, Image


class Store(ThreadingHTTPServer):
    """What a registry keeps, by the OCI distribution specification, and what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.kept: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.full = False


class Handler(BaseHTTPRequestHandler):
    """The requests of a push."""

    protocol_version = "HTTP/1.1"
    server: Store

    def do_HEAD(self) -> None:
        found = self.server.kept.get(self.path)
        digest = f"sha256:{hashlib.sha256(found or b'').hexdigest()}"
        self.answer(404 if found is None else 200, {"Docker-Content-Digest": digest})

    def do_POST(self) -> None:
        self.answer(202, {"Location": f"http://{self.headers['Host']}{self.path}1?state=x"})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = urlsplit(self.path)
        path = parts.path
        if path.endswith("/uploads/1"):
            assert parse_qs(parts.query)["state"] == ["x"]
            (digest,) = parse_qs(parts.query)["digest"]
            path = path.replace("uploads/1", digest)
        self.server.asked.append(path)
        if self.server.full:
            self.answer(500, {})
            return
        self.server.kept[path] = body
        self.answer(201, {})

    def answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:  # its name there
        pass


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path / "lab"))
    with Store() as server:
        monkeypatch.setattr(proxy, "ADDRESS", "127.0.0.1")
        monkeypatch.setattr(registry, "PORT", server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def made(content: bytes) -> Artifact:
    """An image with one file."""
    return oci.ensure(Image("registry.invalid/folder/one", "v1", {"one": content}))


def test_only_what_is_missing_is_uploaded(store: Store) -> None:
    first, other = made(b"1"), made(b"2")
    registry.fill([first])
    blobs = [f"/v2/folder/one/blobs/{blob.digest}" for blob in first.blobs]
    assert store.asked == [*blobs, "/v2/folder/one/manifests/v1"]
    assert store.kept["/v2/folder/one/manifests/v1"] == first.manifest
    assert store.kept[blobs[1]] == first.blobs[1].file.read_bytes()
    store.asked.clear()
    registry.fill([first])
    assert store.asked == []
    registry.fill([replace(first, tag="v2")])
    assert store.asked == ["/v2/folder/one/manifests/v2"], "it has the blobs"
    registry.fill([other])
    assert store.kept["/v2/folder/one/manifests/v1"] == other.manifest, "the tag moves"


def test_a_refusal_names_the_address_and_the_log(store: Store) -> None:
    store.full = True
    with pytest.raises(LabError, match=r"status 500, expected 201; its log: .*registry\.log"):
        registry.fill([made(b"1")])


def test_a_registry_that_does_not_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PORT", 1)
    with pytest.raises(LabError, match="refused"):
        registry.fill([made(b"1")])


def test_it_runs_while_a_lab_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path / "lab"))
    limit = tmp_path / "limit"
    limit.write_text(f"{shared_host.LIMIT_WANTED}\n")
    monkeypatch.setattr(shared_host, "LIMIT", limit)
    told: list[str] = []
    for name, module in (("proxy", proxy), ("registry", registry)):
        monkeypatch.setattr(module, "start", lambda name=name: told.append(f"{name} starts"))
        monkeypatch.setattr(module, "stop", lambda name=name: told.append(f"{name} stops"))
    shared_host.join("slurm")
    assert told == ["proxy starts"]
    shared_host.join("one", with_registry=True)
    shared_host.join("two", with_registry=True)
    assert told[1:] == ["proxy starts", "registry starts"] * 2
    told.clear()
    shared_host.leave("one")
    assert told == []
    shared_host.leave("two")
    assert told == ["registry stops"]
    shared_host.leave("slurm")
    assert told == ["registry stops", "proxy stops"]
