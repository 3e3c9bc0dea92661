"""What the probe reads of CDI specifications, and of what a container sees."""

from __future__ import annotations

import json

import pytest

from lockstep.probe import collect
from lockstep.probe.collect import cdi_devices
from tests.probe.test_collect import Node, node

__all__ = ["node"]

YAML = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              major: 195
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
            - path: /dev/nvidia1
containerEdits:
    deviceNodes:
        - path: /dev/nvidiactl
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.01
"""
DEVICES = {"0": ["/dev/nvidia0"], "all": ["/dev/nvidia0", "/dev/nvidia1"]}


def test_a_specification_is_read_name_by_name(node: Node) -> None:
    node.file("/var/run/cdi/nvidia.yaml", YAML)
    node.file("/etc/cdi/other.yaml", "kind: vendor.example/nic\n")
    seen = node.read()
    assert seen["cdi.devices"]["value"] == DEVICES
    assert seen["cdi.libraries"]["value"] == ["550.163.01"]


def test_the_same_specification_as_json() -> None:
    document = {
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}
            for name, paths in DEVICES.items()
        ],
    }
    assert cdi_devices(json.dumps(document), "nvidia.json") == DEVICES


def test_none_is_unread_and_not_an_empty_one(node: Node) -> None:
    seen = node.read()
    assert seen["cdi.devices"] == {
        "unread": "no specification of nvidia.com/gpu in /etc/cdi or /var/run/cdi"
    }


ANSWER = "device /dev/nvidia1\ndevice /dev/nvidiactl\ndevice /dev/nvidia0\nlibrary 550.163.01\n"


def test_a_container_says_what_it_sees(node: Node) -> None:
    node.tool("docker", f"printf '%s' '{ANSWER}memlock unlimited\ncpus 0-15\n'")
    seen = node.read(containers=["docker"], check_image="image")
    assert seen["containers"]["value"] == {
        "docker": {
            "boards": ["/dev/nvidia0", "/dev/nvidia1"],
            "libraries": ["550.163.01"],
            "memlock": "unlimited",
            "cpus": "0-15",
        }
    }


def test_an_engine_that_fails_is_unread_by_itself(node: Node) -> None:
    node.tool("docker", "echo 'unresolvable CDI devices nvidia.com/gpu=all' >&2; exit 125")
    node.tool("podman", f"printf '%s' '{ANSWER}'")
    seen = node.read(containers=["docker", "podman"], check_image="image")
    docker, podman = (seen["containers"]["value"][name] for name in ("docker", "podman"))
    assert docker == {"unread": "docker: exit 125: unresolvable CDI devices nvidia.com/gpu=all"}
    assert podman["boards"] == ["/dev/nvidia0", "/dev/nvidia1"]


def test_no_container_is_started_unless_asked(node: Node) -> None:
    node.tool("docker", f"touch {node.root}/started")
    assert node.read()["containers"] == {"value": {}}
    assert not (node.root / "started").exists()


@pytest.mark.parametrize("reader", [collect.read_cdi, collect.read_containers])
def test_the_readers_are_part_of_the_probe(reader: object) -> None:
    assert reader in [row[0] for row in collect.READERS]
