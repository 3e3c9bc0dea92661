"""The container registry of the labs with Kubernetes: Debian's docker-registry.

It has the proxy's address and a port of its own. The nodes' containerd asks it in place of
registry.k8s.io, nvcr.io and docker.io.
"""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from lab import places, proxy
from lab.errors import LabError
from lab.kubernetes.oci import MANIFEST, Artifact, Blob
from lab.listening import answers, start_listening
from lab.processes import ProcessRecord, alive, kill
from lab.removal import remove_tree

PORT = 31421
ADDRESS = f"[{proxy.ADDRESS}]:{PORT}"
URI = f"http://{ADDRESS}"
USER = "docker-registry"
PROGRAM = "docker-registry"
REQUEST_TIMEOUT_S = 60.0


def _folder() -> Path:
    return places.state_folder() / ".registry"


def _record_path() -> Path:
    return _folder() / "process.json"


def _log_path() -> Path:
    return _folder() / "registry.log"


def _record() -> ProcessRecord | None:
    if not _record_path().exists():
        return None
    return ProcessRecord.model_validate_json(_record_path().read_text())


def _save_record(record: ProcessRecord) -> None:
    _record_path().write_text(record.model_dump_json() + "\n")


def start() -> None:
    """Start the registry if it does not run. The caller must hold the lock of ``lab.shared_host``.

    The proxy must run: it has the address.

    Raises:
        LabError: the registry does not answer, or another process uses its port.
    """
    if alive(_record()):
        return
    if answers(proxy.ADDRESS, PORT):
        raise LabError(
            f"{ADDRESS} is in use by a process that is not recorded in "
            f"{_record_path()} (a lab with another {places.BASE_VARIABLE}?)",
            f"ss -ltnp 'sport = {PORT}'",
        )
    storage = places.cache_folder() / "kubernetes" / "registry"
    storage.mkdir(parents=True, exist_ok=True)
    shutil.chown(storage, USER, USER)
    _folder().mkdir(parents=True, exist_ok=True)
    configuration = _folder() / "config.yml"
    # distribution's docs/configuration.md, version 2.8.
    configuration.write_text(
        "version: 0.1\n"
        "log: {level: warn, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {storage}}}, delete: {{enabled: true}}}}\n"
        f'http: {{addr: "{ADDRESS}"}}\n'
    )
    argv = [
        *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"),
        *(PROGRAM, "serve", str(configuration)),
    ]
    start_listening("container registry", proxy.ADDRESS, PORT, argv, _save_record, _log_path())


def stop() -> None:
    """Stop the registry; idempotent. What it stores stays."""
    record = _record()
    if record is not None:
        kill(record)
    remove_tree(_folder())


def fill(artifacts: Iterable[Artifact]) -> None:
    """Upload what the registry lacks.

    Raises:
        LabError: the registry refused something.
    """
    connection = http.client.HTTPConnection(proxy.ADDRESS, PORT, timeout=REQUEST_TIMEOUT_S)
    try:
        with places.locked(".registry"):
            for one in artifacts:
                _upload(connection, one)
    except OSError as broken:
        raise LabError(f"{URI}: {broken}; its log: {_log_path()}") from broken
    finally:
        connection.close()


def _upload(connection: http.client.HTTPConnection, one: Artifact) -> None:
    """Upload one artifact (OCI distribution specification 1.1, "Pushing manifests")."""
    manifest = f"/v2/{one.repository}/manifests/{one.tag}"
    status, headers = _ask(connection, "HEAD", manifest, {"Accept": MANIFEST})
    if status == 200 and headers.get("Docker-Content-Digest") == one.digest:
        return
    for blob in one.blobs:
        _upload_blob(connection, one.repository, blob)
    status, _ = _ask(connection, "PUT", manifest, {"Content-Type": MANIFEST}, one.manifest)
    _expect(status, 201, manifest)


def _upload_blob(connection: http.client.HTTPConnection, repository: str, blob: Blob) -> None:
    path = f"/v2/{repository}/blobs"
    status, _ = _ask(connection, "HEAD", f"{path}/{blob.digest}")
    if status == 200:
        return
    status, headers = _ask(connection, "POST", f"{path}/uploads/")
    _expect(status, 202, f"{path}/uploads/")
    location = urlsplit(headers["Location"])
    query = "&".join(part for part in (location.query, urlencode({"digest": blob.digest})) if part)
    target = f"{location.path}?{query}"
    content = {"Content-Type": "application/octet-stream"}
    status, _ = _ask(connection, "PUT", target, content, blob.file.read_bytes())
    _expect(status, 201, target)


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, http.client.HTTPMessage]:
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.headers


def _expect(status: int, wanted: int, path: str) -> None:
    if status != wanted:
        raise LabError(
            f"{URI}{path}: the registry answered with status {status}, expected {wanted}; "
            f"its log: {_log_path()}"
        )
