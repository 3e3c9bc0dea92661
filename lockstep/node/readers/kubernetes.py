"""Kubernetes: the API server's view of the nodes, and what each node has of its own."""

from __future__ import annotations

import base64
import errno
import json
import re
import socket
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each, one
from lockstep.node.readers.tree import below, bytes_of, exists, found_by, in_memory, text_of

ADMIN_CONF = "/etc/kubernetes/admin.conf"
"""The administrator's kubeconfig, which only nodes of the control plane have (kubeadm init)."""
CONFS = ("admin", "controller-manager", "scheduler")
"""Kubeconfigs with a certificate in them; that of a kubelet names a file (kubeadm, design)."""
KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
MANIFESTS, YAML = "/etc/kubernetes/manifests", ".yaml"
API_S = 5.0
"""Seconds for one answer of the API server."""
AT_ONCE = 8
ROUTE_PROTOCOL = "76"
"""Protocol of the routes that the role kubernetes_node makes (ip-route(8), proto)."""
PROXY = (("::1", 10249), ("127.0.0.1", 10249))
"""Where kube-proxy tells its mode (Kubernetes, Debug Services: /proxyMode; metricsBindAddress)."""
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
CLUSTER_DNS = re.compile(r"^clusterDNS:\s*- \"?([\w.:]+)", re.MULTILINE)
FROM_DNS, SERVICE_PORT = -9, 443
"""The Service "kubernetes" has the first address of its network, and DNS the tenth (kubeadm,
constants.go: GetAPIServerVirtualIP, GetDNSIP)."""
DAY_S = 86400
VALIDITY = re.compile(
    rb"\x30.(?:\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)", re.DOTALL
)
"""A certificate's validity: two times (RFC 5280 4.1.2.5)."""
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([\w+/=\s]+)-----END CERTIFICATE-----")


class Conflict(Unread):
    """The object has changed since the resourceVersion that was sent with the change."""


class Api:
    """The API server, asked with the certificate of a kubeconfig."""

    def __init__(self, conf: str, server: str = "") -> None:
        """Read the kubeconfig.

        Args:
            conf: the path of the kubeconfig.
            server: the address and port to ask instead of the kubeconfig's.

        Raises:
            Unread: it lacks the address, or a certificate.
        """
        # Few nodes need these modules, whose import takes 30 ms.
        import ssl
        from urllib.parse import urlsplit

        text = text_of(conf)
        self.address = urlsplit(f"https://{server}" if server else _value(text, "server", conf))
        # create_default_context() demands an extension that older authorities lack.
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority = _decoded(text, "certificate-authority-data", conf).decode()
        self.context.load_verify_locations(cadata=authority)
        with ExitStack() as stack:
            if "client-certificate-data" in text:
                both = _decoded(text, "client-certificate-data", conf)
                both += b"\n" + _decoded(text, "client-key-data", conf)
                path = stack.enter_context(in_memory(both.decode()))
            else:  # a kubelet's, with its key (kubelet, certificate rotation)
                path = _value(text, "client-certificate", conf)
            self.context.load_cert_chain(path)

    def ask(self, path: str, method: str = "GET", body: Any = None, kind: str = "") -> Any:
        """Return an answer of the API server.

        Args:
            path: the path, such as /api/v1/nodes.
            method: the method of HTTP.
            body: what to send, as JSON.
            kind: the type of ``body``.

        Raises:
            Unread: there is no answer, or another status than 200.
            Conflict: the status is 409.
        """
        status, said = self.send(path, method, body, kind)
        if status != 200:
            kind_of = Conflict if status == 409 else Unread
            raise kind_of(f"the API server answered {status}: {_message(said)}")
        return json.loads(said)

    def send(
        self, path: str, method: str = "GET", body: Any = None, kind: str = ""
    ) -> tuple[int, bytes]:
        """Return the status and the text of an answer; the arguments are as in ``ask``.

        Raises:
            Unread: there is no answer.
        """
        from http.client import HTTPException, HTTPSConnection

        connection = HTTPSConnection(
            self.address.hostname or "", self.address.port, timeout=API_S, context=self.context
        )
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, content, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            raise Unread(f"the API server {self.address.netloc} does not answer: {error}") from None
        finally:
            connection.close()


def _value(text: str, key: str, path: str) -> str:
    found = re.search(rf"^\s*(?:- )?{key}:\s*\"?([^\s\"]+)", text, re.MULTILINE)
    if found is None:
        raise Unread(f"{path} has no {key}")
    return found.group(1)


def _decoded(text: str, key: str, path: str) -> bytes:
    return base64.b64decode(_value(text, key, path))


def _message(said: bytes) -> str:
    """Return the message of a Status (Kubernetes API, Status), or the text itself."""
    text = said.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["message"])[:200]
    except (ValueError, LookupError, TypeError):
        return text[:200]


def read_nodes(request: Request, commands: Commands) -> Readings:
    """The API server's view of every node, and each kubelet's running configuration."""
    if not exists(ADMIN_CONF):
        raise Unread(f"{ADMIN_CONF}: no such file, so the control plane is not here")
    from concurrent.futures import ThreadPoolExecutor

    api = Api(ADMIN_CONF)
    nodes = {item["metadata"]["name"]: _node(item) for item in api.ask("/api/v1/nodes")["items"]}
    ready = [name for name, node in nodes.items() if node["conditions"].get("Ready") == "True"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = dict(pool.map(partial(_configuration, api), ready))
    silent = {"unread": "the node is not Ready, so its kubelet was not asked"}
    return {
        "kubernetes.nodes": nodes,
        "kubernetes.kubelet_config": {name: told.get(name, silent) for name in nodes},
    }


def read_control_plane(request: Request, commands: Commands) -> Readings:
    """Whether the API server of this very head is ready: "ready", or what is wrong with it.

    It lists its checks; etcd and etcd-readiness ask etcd (k8s.io/apiserver, pkg/server/healthz and
    options/etcd.go), which is the member on the same head (kubeadm, phases/controlplane:
    etcd-servers).
    """
    if not request["api_server"] or not exists(ADMIN_CONF):
        raise Unread(f"{ADMIN_CONF}: no such file, or the control plane is not planned here")
    api = Api(ADMIN_CONF, request["api_server"][0])
    try:
        status, said = api.send("/readyz?verbose")
    except Unread as silent:
        return {"kubernetes.control_plane": str(silent)}
    failed = [one.decode() for one in re.findall(rb"^\[-\](\S+)", said, re.MULTILINE)]
    if failed:
        return {"kubernetes.control_plane": f"not ready: {', '.join(failed)}"}
    if status != 200 or b"[+]etcd ok" not in said:
        raise Unread(f"the API server answered {status}: {_message(said)}")
    return {"kubernetes.control_plane": "ready"}


def _node(item: dict[str, Any]) -> dict[str, Any]:
    """Return what matters of a Node (Kubernetes API, Node)."""
    spec, status = item["spec"], item["status"]
    conditions = status.get("conditions", [])
    return {
        "conditions": {row["type"]: row["status"] for row in conditions},
        "reasons": {
            row["type"]: row.get("message", "")[:200]
            for row in conditions
            if row["status"] != ("True" if row["type"] == "Ready" else "False")
        },
        "unschedulable": bool(spec.get("unschedulable")),
        "taints": sorted(
            f"{row['key']}={row.get('value', '')}:{row['effect']}" for row in spec.get("taints", ())
        ),
        "labels": item["metadata"].get("labels", {}),
        "annotations": {
            key: value
            for key, value in item["metadata"].get("annotations", {}).items()
            if key.startswith("lockstep/")
        },
        "version": status["nodeInfo"]["kubeletVersion"],
        "runtime": status["nodeInfo"]["containerRuntimeVersion"],
        "allocatable": status.get("allocatable", {}),
        "capacity": status.get("capacity", {}),
    }


def _configuration(api: Api, name: str) -> tuple[str, dict[str, Any]]:
    """Return a node's name, and the configuration that its kubelet runs with (/configz)."""
    path = f"/api/v1/nodes/{name}/proxy/configz"
    return name, one(lambda path: dict(api.ask(path)["kubeletconfig"]), path)


def read_routes(request: Request, commands: Commands) -> Readings:
    """Network of the pods of another node -> the router of the route that Lockstep made."""
    if not exists("/etc/kubernetes"):
        raise Unread("/etc/kubernetes: no such folder")
    found: dict[str, str] = {}
    for family in ("-4", "-6"):
        said = commands.run("ip", "-j", family, "route", "show", "proto", ROUTE_PROTOCOL)
        found.update({row["dst"]: row.get("gateway", "") for row in json.loads(said or "[]")})
    return {"kubernetes.routes": found}


def read_certificates(request: Request, commands: Commands) -> Readings:
    """Days until each certificate of this node ends; negative if it has ended."""
    files = [
        *found_by("/etc/kubernetes/pki/*.crt"),
        *found_by("/etc/kubernetes/pki/etcd/*.crt"),
        *(path for path in (f"/etc/kubernetes/{name}.conf" for name in CONFS) if exists(path)),
        *([KUBELET_CERTIFICATE] if exists("/etc/kubernetes/kubelet.conf") else ()),
    ]
    return {"kubernetes.certificates": each(files, _days)}


def _days(path: str) -> int:
    content = bytes_of(path)
    if path.endswith(".conf"):
        content = _decoded(content.decode(), "client-certificate-data", path)
    found = PEM.search(content)
    ends = VALIDITY.search(base64.b64decode(found.group(1))) if found else None
    if ends is None:
        raise Unread(f"{path} has no certificate")
    # UTCTime has two digits of the year, 50 to 99 of 1950 to 1999 (RFC 5280 4.1.2.5.1).
    text = ends.group(2) or (b"19" if ends.group(1) >= b"50" else b"20") + ends.group(1)
    return int((unix(text.decode(), "%Y%m%d%H%M%S") - time.time()) // DAY_S)


def unix(text: str, form: str) -> float:
    """Return a time in UTC as seconds since 1970.

    Args:
        text: the time.
        form: its directives (time.strptime).
    """
    import calendar

    return calendar.timegm(time.strptime(text, form))


def read_static_pods(request: Request, commands: Commands) -> Readings:
    """Name of a static pod's manifest -> its images.

    The kubelet runs every file whose name has no dot before it, whatever its ending is
    (pkg/kubelet/config/file.go, Kubernetes 1.34), so a copy is a second pod.
    """
    if not exists("/etc/kubernetes"):
        raise Unread("/etc/kubernetes: no such folder")
    return {
        "kubernetes.static_pods": {
            name[: -len(YAML)] if name.endswith(YAML) else name: sorted(
                set(re.findall(r"^\s*(?:- )?image: *(\S+)", text_of(f"{MANIFESTS}/{name}"), re.M))
            )
            for name in below(MANIFESTS)
            if not name.startswith(".")
        }
    }


def read_proxy_mode(request: Request, commands: Commands) -> Readings:
    """How kube-proxy, a pod of this node, serves Services: nftables or another; and its failure."""
    if not exists("/etc/kubernetes/kubelet.conf"):
        raise Unread("/etc/kubernetes/kubelet.conf: no such file")
    from http.client import HTTPConnection, HTTPException

    why = ""
    for host, port in PROXY:
        connection = HTTPConnection(host, port, timeout=2.0)
        try:
            connection.request("GET", "/proxyMode")
            mode = connection.getresponse().read(64).decode().strip()
            return {"kubernetes.kube_proxy": mode + _lost_service()}
        except (OSError, HTTPException) as error:
            why = str(error)
        finally:
            connection.close()
    raise Unread(f"kube-proxy does not answer on port {PROXY[0][1]}: {why}")


def _lost_service() -> str:
    """Return what is wrong if the Service of the API server does not answer on this node."""
    from ipaddress import ip_address

    found = CLUSTER_DNS.search(text_of(KUBELET_CONFIG))
    if found is None:
        raise Unread(f"{KUBELET_CONFIG} has no clusterDNS")
    address = str(ip_address(found.group(1)) + FROM_DNS)
    try:
        socket.create_connection((address, SERVICE_PORT), 2.0).close()
    except OSError as error:
        if error.errno == errno.ENETUNREACH:
            return ""  # the node has no route, so the packet never came to kube-proxy's rules
        return f", but the Service at {address} port {SERVICE_PORT} does not answer: {error}"
    return ""
