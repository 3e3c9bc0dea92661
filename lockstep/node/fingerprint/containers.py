"""What Docker and Podman know apart from their configuration files.

It is read from the engines' own files: their commands cost 20 to 100 ms, and start a daemon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lockstep.node.fingerprint.bolt import Bolt
from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.protected import shown_line
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import below, bytes_of, exists, found_by, text_of

DOCKER = "/var/lib/docker"
PODMAN = "/var/lib/containers/storage"
OF_ROOT = (
    *("/run/containers/0/auth.json", "/run/user/0/containers/auth.json"),
    *("/root/.apptainer/*.yaml", "/root/.apptainer/*.json"),
)
"""Files of root's registries that are outside of the homes' dotfiles (containers-auth.json(5))."""
RANDOM = re.compile(r"[0-9a-f]{64}")
NETWORK = ("networkType", "enableIPv6", "internal", "attachable", "ingress", "scope", "ipamType")
"""Settings of a network (libnetwork, network.go)."""
EXCEPTIONS_OF_ENGINES = tuple(
    Exempt("engine", "docker network bridge", field,
           "Docker fills it in when it starts again (seen with 26.1); the address of docker0 and "
           "daemon.json are compared.")
    for field in ("ipamV4Config", "ipamV6Config")
)  # fmt: skip


def read_engines(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield images by name, networks, volumes, and containers that start by themselves."""
    yield from _docker_images()
    yield from _docker_networks()
    yield from _docker_containers()
    for name in below(f"{DOCKER}/volumes"):
        if name not in ("metadata.db", "backingFsBlockDev") and not RANDOM.fullmatch(name):
            options = text_of(f"{DOCKER}/volumes/{name}/opts.json", "")
            yield Entry(f"docker volume {name}", {"options": Secret(options)})
    for name in below(f"{DOCKER}/plugins"):
        if RANDOM.fullmatch(name):
            found = _json(f"{DOCKER}/plugins/{name}/config.json")
            about = found.get("plugin", {})
            fields = {
                "enabled": str(about.get("Enabled")),
                "settings": Secret(_text(about.get("Settings"))),
            }
            yield Entry(f"docker plugin {about.get('Name', '')}", fields)
    if exists(f"{DOCKER}/swarm/docker-state.json"):
        yield Entry("docker swarm", {"member": "yes"})
    yield from _podman()
    for path in OF_ROOT:
        for file in found_by(path):
            yield Entry(f"file {file}", {"content": Secret(text_of(file))})


def _json(path: str) -> Any:
    try:
        return json.loads(text_of(path))
    except (Unread, ValueError):
        return {}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _docker_images() -> Iterator[Entry]:
    for path in found_by(f"{DOCKER}/image/*/repositories.json"):
        for names in _json(path).get("Repositories", {}).values():
            for name, digest in names.items():
                if "@" not in name:
                    yield Entry(f"docker image {name}", {"id": str(digest)})


def _docker_networks() -> Iterator[Entry]:
    path = f"{DOCKER}/network/files/local-kv.db"
    with suppress(Unread):
        for keys, value in Bolt(bytes_of(path)).pairs():
            if b"docker/network/v1.0/network/" not in keys[-1]:
                continue
            # libkv writes a serial number of 8 bytes before the value.
            about = json.loads(value[value.index(b"{") :])
            fields: Fields = {name: str(about[name]) for name in NETWORK if name in about}
            options = about.get("generic", {}).get("com.docker.network.generic", {})
            fields["options"] = _text({
                name: option for name, option in options.items()
                if name not in ("ID", "BridgeIfaceCreator")
                and not (name == "BridgeName" and str(option).startswith("br-"))
            })  # fmt: skip
            for version in ("ipamV4Config", "ipamV6Config"):
                fields[version] = str(about.get(version, ""))
            yield Entry(f"docker network {about.get('name', '')}", fields)


def _docker_containers() -> Iterator[Entry]:
    for folder in found_by(f"{DOCKER}/containers/*"):
        host, about = _json(f"{folder}/hostconfig.json"), _json(f"{folder}/config.v2.json")
        policy = host.get("RestartPolicy", {}).get("Name", "")
        if policy in ("always", "unless-stopped", "on-failure"):
            inside = about.get("Config", {})
            yield Entry(
                f"docker container {str(about.get('Name', '')).lstrip('/')}",
                {
                    "restart": policy,
                    "image": str(inside.get("Image", "")),
                    "command": shown_line(
                        " ".join([*(inside.get("Entrypoint") or ()), *(inside.get("Cmd") or ())])
                    ),
                    "binds": _text(sorted(host.get("Binds") or ())),
                    "network": str(host.get("NetworkMode", "")),
                    "ports": _text(host.get("PortBindings")),
                    "privileged": str(host.get("Privileged", "")),
                    "runtime": str(host.get("Runtime", "")),
                    "should run": str(not about.get("HasBeenManuallyStopped", False)),
                },
            )


def _podman() -> Iterator[Entry]:
    for path in found_by(f"{PODMAN}/*-images/images.json"):
        for image in _json(path) or ():
            for name in image.get("names") or ():
                yield Entry(f"podman image {name}", {"id": str(image.get("id", ""))})
    for path in found_by("/etc/containers/networks/*.json"):
        about = _json(path)
        fields = {
            name: value if isinstance(value, str) else _text(value)
            for name, value in about.items()
            if name not in ("id", "created", "name")
        }
        yield Entry(f"podman network {about.get('name', '')}", fields)
    secrets = _json(f"{PODMAN}/secrets/secrets.json").get("secrets", {})
    contents = _json(f"{PODMAN}/secrets/filedriver/secretsdata.json")
    for id, about in secrets.items():  # containers/common, pkg/secrets
        fields = {"driver": str(about.get("driver", "")), "content": Secret(contents.get(id, ""))}
        yield Entry(f"podman secret {about.get('name', '')}", fields)
    for name in below(f"{PODMAN}/volumes"):
        if not RANDOM.fullmatch(name):
            yield Entry(f"podman volume {name}", {"exists": "yes"})


ENGINES = (Domain("engine", read_engines),)
