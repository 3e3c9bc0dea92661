"""Objects of the domains ``engine``, ``slurmd`` and ``login``."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from lockstep.node.fingerprint.bolt import MAGIC, META, PAGE, Bolt
from lockstep.node.fingerprint.entry import Secret
from tests.node.fingerprint.daemon_node import Node, node

__all__ = ["node"]
ID = "6a0b81bad1d1f372467f73130556c2ed3bfe4932f91f1fe21054ff6c2244ef95"


def leaf(*pairs: tuple[bytes, bytes, bool], kind: int = 2) -> bytes:
    """One page of bbolt, as page.go lays it out."""
    headers, data = b"", b""
    for number, (key, value, bucket) in enumerate(pairs):
        position = 16 * (len(pairs) - number) + len(data)
        headers += struct.pack("<IIII", int(bucket), position, len(key), len(value))
        data += key + value
    return PAGE.pack(0, kind, len(pairs), 0) + headers + data


def bolt(*pages: bytes, root: int = 2) -> bytes:
    def meta(number: int, transaction: int) -> bytes:
        values = (MAGIC, 2, 4096, 0, root, 0, 0, 0, transaction, 0)
        return (PAGE.pack(number, 4, 0, 0) + META.pack(*values)).ljust(4096, b"\0")

    return meta(0, 1) + meta(1, 2) + b"".join(page.ljust(4096, b"\0") for page in pages)


def test_a_database_with_an_inner_bucket_a_page_of_its_own_and_a_branch() -> None:
    inner = struct.pack("<QQ", 0, 0) + leaf((b"k", b"v", False))
    outer = struct.pack("<QQ", 4, 0)
    branch = PAGE.pack(0, 1, 1, 0) + struct.pack("<IIQ", 16, 1, 3) + b"a"
    first = leaf((b"a", inner, True), (b"b", outer, True), (b"c", b"plain", False))
    data = bolt(branch, first, leaf((b"x", b"1", False), (b"y", b"2", False)))
    assert list(Bolt(data).pairs()) == [
        ((b"a", b"k"), b"v"), ((b"b", b"x"), b"1"), ((b"b", b"y"), b"2"), ((b"c",), b"plain"),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\0" * 9000, bolt()])
def test_no_database(data: bytes) -> None:
    with pytest.raises(ValueError, match="bbolt"):
        list(Bolt(data).pairs())


def networks(node: Node, **more: Any) -> None:
    about = {"name": "lab", "id": "77", "created": "2026", "networkType": "bridge",
             "internal": False, "ipamV4Config": "[]",
             "generic": {"com.docker.network.generic": {"BridgeName": "br-77", "MTU": 1500}},
             **more}  # fmt: skip
    value = b"\0" * 8 + json.dumps(about).encode()
    bucket = struct.pack("<QQ", 0, 0) + leaf((b"docker/network/v1.0/network/77/", value, False))
    target = node.file("/var/lib/docker/network/files/local-kv.db")
    target.write_bytes(bolt(leaf((b"libnetwork", bucket, True))))


def test_networks_of_docker(node: Node) -> None:
    networks(node)
    before = node.read("engine")
    assert before["docker network lab"]["networkType"] == "bridge"
    networks(node, id="78", created="2027")
    assert node.read("engine") == before
    networks(node, ipamV4Config='[{"PreferredPool": "10.9.0.0/24"}]')
    assert node.read("engine") != before
    networks(node, name="bridge")
    first = node.read("engine")
    networks(node, name="bridge", ipamV4Config='[{"PreferredPool": "172.17.0.0/16"}]')
    assert node.read("engine") == first, "Docker fills in the pool of its default network"
    networks(node, internal=True)
    assert node.read("engine")["docker network lab"]["internal"] == "True"


def test_images_volumes_and_containers(node: Node) -> None:
    digest = f"tool@sha256:{ID}"
    names = {"Repositories": {"tool": {"tool:1": f"sha256:{ID}", digest: f"sha256:{ID}"}}}
    node.file("/var/lib/docker/image/overlay2/repositories.json", json.dumps(names))
    node.file("/var/lib/docker/volumes/data/_data/x")
    node.file(f"/var/lib/docker/volumes/{ID}/_data/x")
    node.file("/var/lib/docker/volumes/metadata.db")
    for name, policy in (("agent", "always"), ("trial", "no")):
        folder = f"/var/lib/docker/containers/{name}"
        node.file(f"{folder}/hostconfig.json", json.dumps({"RestartPolicy": {"Name": policy}}))
        node.file(f"{folder}/config.v2.json",
                  json.dumps({"Name": f"/{name}", "Config": {"Image": "tool:1"}}))  # fmt: skip
    node.file("/run/containers/0/auth.json", '{"auths": {"site": {}}}')
    storage = "/var/lib/containers/storage"
    node.file(f"{storage}/overlay-images/images.json", json.dumps([{"id": ID, "names": ["t:1"]}]))
    network = {"name": "site", "id": "5", "created": "x", "driver": "bridge"}
    node.file("/etc/containers/networks/site.json", json.dumps(network))
    secret = {"name": "pull", "id": "9", "driver": "file", "createdAt": "x"}
    node.file(f"{storage}/secrets/secrets.json", json.dumps({"secrets": {"9": secret}}))
    node.file(f"{storage}/secrets/filedriver/secretsdata.json", json.dumps({"9": "eA=="}))
    seen = node.read("engine")
    assert sorted(seen) == [
        "docker container agent", "docker image tool:1", "docker volume data",
        "file /run/containers/0/auth.json", "podman image t:1", "podman network site",
        "podman secret pull",
    ]  # fmt: skip
    assert seen["podman network site"] == {"driver": "bridge"}
    content = seen["podman secret pull"]["content"]
    assert (content, type(content)) == ("eA==", Secret)
    assert isinstance(seen["file /run/containers/0/auth.json"]["content"], Secret)
    assert seen["docker container agent"]["restart"] == "always"


SLURMD = """Active Steps             = 7.0
Actual CPUs              = 2
Actual real memory       = 24105 MB
Boot time                = 2026-11-23T23:55:22
Slurmd PID               = 4572
Slurmd Debug             = {debug}
Version                  = 24.11.5
"""


def test_slurmd_is_asked_only_where_it_runs_and_has_its_file(node: Node) -> None:
    node.tool("scontrol", f"cat <<E\n{SLURMD.format(debug=3)}E")
    assert node.read("slurmd") == {}
    node.file("/run/slurm/conf/slurm.conf")
    assert node.read("slurmd") == {}
    node.group("system.slice/slurmd.service", 900)
    assert node.read("slurmd") == {
        "slurmd": {"Actual CPUs": "2", "Slurmd Debug": "3", "Version": "24.11.5"}
    }
    node.tool("scontrol", f"cat <<E\n{SLURMD.format(debug=7)}E")
    assert node.read("slurmd")["slurmd"]["Slurmd Debug"] == "7"


def test_a_login_shell(node: Node) -> None:
    out = ("Welcome\\n0027\\n==\\nalias ll='ls -l'\\n==\\nhashall on\\nvi off\\n==\\n"
           "declare -f module\\n==\\nPATH=/bin\\0_=x\\0API_KEY=7\\0")  # fmt: skip
    node.tool("env", f'printf "{out}"')
    seen = node.read("login")
    assert seen == {
        "login shell of root": {
            "umask": "0027", "profile prints": "Welcome", "alias ll": "'ls -l'",
            "options": "hashall", "functions": "module",
            "environment PATH": "/bin", "environment API_KEY": "7",
        }
    }  # fmt: skip
    assert isinstance(seen["login shell of root"]["environment API_KEY"], Secret)
    # A session would start a service manager.
    node.tool("runuser", 'shift 3; "$@"')
    node.file("/etc/pam.d/runuser", "session required pam_limits.so\n")
    assert len(node.read("login")) == 2
    node.file("/etc/pam.d/runuser", "session optional pam_systemd.so\n")
    assert len(node.read("login")) == 1
