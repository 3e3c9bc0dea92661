"""Readings of Kubernetes: from a simulated API server, and from files of a node."""

from __future__ import annotations

import base64
import datetime
import errno
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from typing_extensions import override

from lockstep.certificates import PEM, completed
from lockstep.node.readers import kubernetes, kubernetes_devices
from lockstep.node.readers.reading import Unread
from lockstep.roles.kubernetes_node import PROTOCOL
from tests.probe.test_collect import Node, node

__all__ = ["node"]

NAMES = ("nodes", "kubelet_config", "routes", "certificates", "static_pods", "kube_proxy")
NODE: dict[str, Any] = {
    "metadata": {
        "name": "worker1",
        "labels": {"a": "b"},
        "annotations": {"lockstep/x": "1", "other": "2"},
    },
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"},
            {"type": "DiskPressure", "status": "True", "message": "full"},
        ],
        "nodeInfo": {"kubeletVersion": "v1.34.4", "containerRuntimeVersion": "containerd://1.7"},
        "allocatable": {"cpu": "2"},
        "capacity": {"cpu": "2"},
    },
}
LOST: dict[str, Any] = {
    "metadata": {"name": "worker2"},
    "spec": {"unschedulable": True},
    "status": {
        "conditions": [{"type": "Ready", "status": "Unknown", "message": "stopped posting"}],
        "nodeInfo": NODE["status"]["nodeInfo"],
    },
}
ANSWERS = {
    "/api/v1/nodes": {"items": [NODE, LOST]},
    "/api/v1/nodes/worker1/proxy/configz": {"kubeletconfig": {"maxPods": 110}},
}


READY = {"said": (200, "")}
"""What the API server answers if it is asked whether it is ready."""


class Server(BaseHTTPRequestHandler):
    """Answers as the API server does, to whoever has a certificate of the authority."""

    def do_GET(self) -> None:
        if self.path == "/readyz?verbose":
            status, text = READY["said"]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())
            return
        found = ANSWERS.get(self.path)
        said = {"message": f"{self.path} is forbidden"} if found is None else found
        self.send_response(403 if found is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def certificate(authority: dict[str, str], days: float) -> bytes:
    """Return a certificate for 127.0.0.1, with its key, that ends in some days."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    signer = load_pem_private_key(authority["ca.key"].encode(), None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    issuer = x509.load_pem_x509_certificate(authority["ca.crt"].encode()).subject
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=400))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([address]), critical=True)
        .sign(signer, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM) + key.private_bytes(*PEM)


@pytest.fixture(scope="module")
def authority() -> dict[str, str]:
    return completed({})


@pytest.fixture(scope="module")
def address(authority: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a simulated API server listens."""
    folder: Path = tmp_path_factory.mktemp("api")
    (folder / "server.pem").write_bytes(certificate(authority, 5))
    (folder / "ca.crt").write_text(authority["ca.crt"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def kubeconfig(address: str, ca: str, both: bytes) -> str:
    def encoded(text: bytes) -> str:
        return base64.b64encode(text).decode()

    first, mark, key = both.partition(b"-----BEGIN RSA")
    return (
        "clusters:\n- cluster:\n"
        f"    certificate-authority-data: {encoded(ca.encode())}\n    server: {address}\n"
        f"users:\n- user:\n    client-certificate-data: {encoded(first)}\n"
        f"    client-key-data: {encoded(mark + key)}\n"
    )


def readings(node: Node) -> dict[str, Any]:
    found = node.read()
    return {name: found[f"kubernetes.{name}"] for name in NAMES}


def test_a_node_without_kubernetes_has_no_such_readings(node: Node) -> None:
    found = readings(node)
    assert found.pop("certificates") == {"value": {}}
    assert all("unread" in one for one in found.values())


def test_the_control_plane_says_what_it_sees(
    node: Node, address: str, authority: dict[str, str]
) -> None:
    conf = kubeconfig(address, authority["ca.crt"], certificate(authority, 40.5))
    node.file("/etc/kubernetes/admin.conf", conf)
    found = readings(node)
    one, other = (found["nodes"]["value"][name] for name in ("worker1", "worker2"))
    assert one == {
        "conditions": {"Ready": "True", "DiskPressure": "True"},
        "reasons": {"DiskPressure": "full"},
        "unschedulable": False,
        "taints": ["k=:NoSchedule"],
        "labels": {"a": "b"},
        "annotations": {"lockstep/x": "1"},
        "version": "v1.34.4",
        "runtime": "containerd://1.7",
        "allocatable": {"cpu": "2"},
        "capacity": {"cpu": "2"},
    }
    assert (other["unschedulable"], other["reasons"]) == (True, {"Ready": "stopped posting"})
    assert found["kubelet_config"]["value"] == {
        "worker1": {"maxPods": 110},
        "worker2": {"unread": "the node is not Ready, so its kubelet was not asked"},
    }
    assert found["certificates"]["value"] == {"/etc/kubernetes/admin.conf": 40}


def ready(node: Node, *servers: str) -> Any:
    """Return what a head says of its own API server at this address and port."""
    return node.read(api_server=servers)["kubernetes.control_plane"]


def test_a_head_asks_its_own_api_server_whether_it_is_ready(
    node: Node, address: str, authority: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(status: int, text: str) -> None:
        monkeypatch.setitem(READY, "said", (status, text))

    here = address.rpartition("/")[2]
    assert "no such file" in ready(node, here)["unread"]
    both = certificate(authority, 1)
    # The kubeconfig has the virtual address, which may lead to another head.
    elsewhere = kubeconfig("https://127.0.0.1:9", authority["ca.crt"], both)
    node.file("/etc/kubernetes/admin.conf", elsewhere)
    # Forms of k8s.io/apiserver, pkg/server/healthz/healthz.go.
    answers(200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n")
    assert ready(node, here) == {"value": "ready"}
    assert "not planned here" in ready(node)["unread"]
    withheld = "failed: reason withheld"
    answers(500, f"[+]ping ok\n[-]etcd {withheld}\n[-]poststarthook/a {withheld}\nreadyz check")
    assert ready(node, here) == {"value": "not ready: etcd, poststarthook/a"}
    answers(200, "ok")
    assert ready(node, here) == {"unread": "the API server answered 200: ok"}
    answers(401, '{"message": "Unauthorized"}')
    assert ready(node, here) == {"unread": "the API server answered 401: Unauthorized"}
    silent = ready(node, "127.0.0.1:9")["value"]
    assert silent.startswith("the API server 127.0.0.1:9 does not answer: ")


def test_a_server_of_another_authority_is_not_asked(
    node: Node, address: str, authority: dict[str, str]
) -> None:
    other = completed({})["ca.crt"]
    node.file("/etc/kubernetes/admin.conf", kubeconfig(address, other, certificate(authority, 1)))
    assert "certificate verify failed" in readings(node)["nodes"]["unread"]


def test_what_the_server_refuses_is_said(
    address: str, authority: dict[str, str], node: Node
) -> None:
    conf = kubeconfig(address, authority["ca.crt"], certificate(authority, 1))
    node.file("/etc/kubernetes/admin.conf", conf)
    with pytest.raises(Unread, match="answered 403: /x is forbidden"):
        kubernetes.Api(kubernetes.ADMIN_CONF).ask("/x")


def test_days_that_certificates_have_left(node: Node, authority: dict[str, str]) -> None:
    for name, days in (("a", 10.5), ("b", -1.5), ("etcd/c", 40000.5)):
        node.file(f"/etc/kubernetes/pki/{name}.crt", certificate(authority, days).decode())
    node.file("/etc/kubernetes/pki/d.crt", "nothing")
    found = readings(node)["certificates"]["value"]
    folder = "/etc/kubernetes/pki"
    assert found.pop(f"{folder}/d.crt") == {"unread": f"{folder}/d.crt has no certificate"}
    assert found == {f"{folder}/a.crt": 10, f"{folder}/b.crt": -2, f"{folder}/etcd/c.crt": 40000}


def test_static_pods_are_manifests_with_their_images(node: Node) -> None:
    folder = "/etc/kubernetes/manifests"
    node.file(f"{folder}/etcd.yaml", "spec:\n  containers:\n  - image: r/etcd:3\n    name: etcd\n")
    node.file(f"{folder}/.hidden.yaml", "  image: x\n")  # the kubelet skips it (file.go)
    node.file(f"{folder}/etcd.yaml.bak", "  - image: r/etcd:2\n")
    pods = {"etcd": ["r/etcd:3"], "etcd.yaml.bak": ["r/etcd:2"]}
    assert readings(node)["static_pods"] == {"value": pods}


def test_routes_are_those_with_lockstep_s_protocol(node: Node) -> None:
    assert str(PROTOCOL) == kubernetes.ROUTE_PROTOCOL
    node.file("/etc/kubernetes/x", "")
    rows = '[{"dst":"fd00:1::/80","gateway":"fd00::7","dev":"eno1"}]'
    node.tool("ip", f"case \"$*\" in *-6*'proto 76'*) echo '{rows}';; *) echo '[]';; esac")
    assert readings(node)["routes"] == {"value": {"fd00:1::/80": "fd00::7"}}


GPU = "nvidia.com/gpu"


def offered(node: Node, content: str | None) -> Any:
    """Return the reading of two GPUs, with this content of the kubelet's file."""
    if content is not None:
        node.file(kubernetes_devices.CHECKPOINT, content)
    return kubernetes_devices.offered({"gpu0": "GPU-a", "gpu1": "GPU-b"})


def checkpoint(registered: dict[str, list[str]]) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": registered}})


def test_gpus_that_the_kubelet_may_give_to_pods(node: Node) -> None:
    both = offered(node, checkpoint({GPU: ["GPU-b", "GPU-a"]}))
    assert both == {"gpu0": "healthy", "gpu1": "healthy"}
    one = offered(node, checkpoint({GPU: ["GPU-b::0", "GPU-b::1"]}))
    assert one == {"gpu0": "unhealthy", "gpu1": "healthy"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such file"),
        ("", "has no RegisteredDevices"),
        ("{}", "has no RegisteredDevices"),
        (checkpoint({}), "no device plugin has told"),
        (checkpoint({GPU: []}), "no device plugin has told"),
        (checkpoint({"other/gpu": ["x"]}), "no device plugin has told"),
    ],
)
def test_gpus_of_which_the_kubelet_knows_nothing(node: Node, content: str | None, why: str) -> None:
    found = offered(node, content)
    assert isinstance(found, Unread)
    assert why in str(found)


def test_kube_proxy_tells_its_mode(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxy(Server):
        @override
        def do_GET(self) -> None:
            assert self.path == "/proxyMode"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"nftables")

    node.file("/etc/kubernetes/kubelet.conf", "")
    server = ThreadingHTTPServer(("127.0.0.2", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(kubernetes, "PROXY", (("::1", 9), ("127.0.0.2", server.server_port)))
    # Its own port stands for that of the API server's Service, whose address is DNS' less nine.
    monkeypatch.setattr(kubernetes, "SERVICE_PORT", server.server_port)
    dns = "clusterDNS:\n- 127.0.0.{}\nclusterDomain: cluster.local\n"
    node.file("/var/lib/kubelet/config.yaml", dns.format(11))
    assert readings(node)["kube_proxy"] == {"value": "nftables"}
    node.file("/var/lib/kubelet/config.yaml", dns.format(12))
    lost = readings(node)["kube_proxy"]["value"]
    assert lost.startswith("nftables, but the Service at 127.0.0.3 port ")
    with monkeypatch.context() as patched:

        def no_route(*_: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        patched.setattr(socket, "create_connection", no_route)
        assert kubernetes._lost_service() == ""
    node.file("/var/lib/kubelet/config.yaml", "maxPods: 9\n")
    assert "has no clusterDNS" in readings(node)["kube_proxy"]["unread"]
    server.shutdown()
    server.server_close()
    monkeypatch.setattr(kubernetes, "PROXY", (("127.0.0.1", 9),))
    assert "does not answer" in readings(node)["kube_proxy"]["unread"]
