"""Readings of CDI specifications and of containers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.node.readers import collect, containers
from lockstep.node.readers.containers import CDI_SPEC
from lockstep.node.readers.gpu import DRIVER
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
    assert containers.cdi_devices(json.dumps(document), "nvidia.json") == DEVICES


def test_none_is_unread_and_not_an_empty_one(node: Node) -> None:
    seen = node.read()
    assert seen["cdi.devices"] == {
        "unread": "no CDI specification for nvidia.com/gpu in /etc/cdi or /var/run/cdi"
    }


ANSWER = (
    "device /dev/nvidia1 c3:1\ndevice /dev/nvidiactl c3:ff\ndevice /dev/infiniband/uverbs0 e7:c0\n"
    "library 550.163.01\nmemlock unlimited\nshm_kib 65536\ncpus 0-15\n"
)
SEEN = {
    "devices": {
        "/dev/nvidia1": "195:1",
        "/dev/nvidiactl": "195:255",
        "/dev/infiniband/uverbs0": "231:192",
    },
    "libraries": ["550.163.01"],
    "memlock": "unlimited",
    "shm_kib": "65536",
    "cpus": "0-15",
}


def test_a_container_says_what_it_sees(node: Node) -> None:
    node.tool("docker", f"printf '%s' '{ANSWER}'")
    seen = node.read(containers=["docker"], check_image="image")
    assert seen["containers"]["value"] == {"docker": SEEN}


def test_it_is_given_the_gpus_and_the_folders_that_were_named(node: Node) -> None:
    node.tool("podman", f'echo "$@" >{node.root}/asked')
    node.read(containers=["podman"], check_image="image", container_devices=["/dev/infiniband"])
    asked = (node.root / "asked").read_text()
    assert asked.startswith(
        "run --rm --network none --device=nvidia.com/gpu=all --device=/dev/infiniband image "
    )


CRICTL = """
shift 2
echo "$@" >>{root}/asked
case $1 in
runp) echo pod ;;
create) read -r container <"$3"; echo "$container" >{root}/container.json; echo made ;;
exec) {exec} ;;
esac
"""


def test_containerd_is_asked_through_its_cri(node: Node) -> None:
    look = f"printf '%s' '{ANSWER}'"
    node.tool("crictl", CRICTL.format(root=node.root, exec=look))
    seen = node.read(containers=["containerd"], check_image="image")
    assert seen["containers"]["value"] == {"containerd": SEEN}
    container = json.loads((node.root / "container.json").read_text())
    assert container["CDI_devices"] == [{"name": "nvidia.com/gpu=all"}]
    asked = [line.split()[0] for line in (node.root / "asked").read_text().splitlines()[:4]]
    assert asked == ["runp", "create", "start", "exec"]


def test_a_pod_is_removed_also_when_nothing_can_be_seen_in_it(node: Node) -> None:
    node.tool("crictl", CRICTL.format(root=node.root, exec="echo no shell >&2; exit 1"))
    seen = node.read(containers=["containerd"], check_image="image")
    assert seen["containers"]["value"]["containerd"] == {"unread": "crictl: exit 1: no shell"}
    assert (node.root / "asked").read_text().splitlines()[-1] == "rmp -f pod"


def test_an_engine_that_fails_is_unread_by_itself(node: Node) -> None:
    node.tool("docker", "echo 'unresolvable CDI devices nvidia.com/gpu=all' >&2; exit 125")
    node.tool("podman", f"printf '%s' '{ANSWER}'")
    seen = node.read(containers=["docker", "podman"], check_image="image")
    docker, podman = (seen["containers"]["value"][name] for name in ("docker", "podman"))
    assert docker == {"unread": "docker: exit 125: unresolvable CDI devices nvidia.com/gpu=all"}
    assert podman == SEEN


INFORMATION = "Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
GPUS = "/proc/driver/nvidia/gpus"


def test_the_kernel_module_says_which_gpu_is_behind_a_number(node: Node) -> None:
    known = INFORMATION.format(uuid="GPU-b3b2cbc8-999e-180e-f8dc-fb095330ce76", minor=1)
    node.file(f"{GPUS}/0000:1b:00.0/information", known)
    node.file(f"{GPUS}/0000:43:00.0/information", INFORMATION.format(uuid="GPU-????", minor=0))
    assert node.read()["driver.boards"]["value"] == {
        "195:1": "GPU-b3b2cbc8-999e-180e-f8dc-fb095330ce76",
        "195:0": {
            "unread": f"{GPUS}/0000:43:00.0/information contains no UUID, because no program has "
            "opened the GPU yet"
        },
    }


def test_a_gpu_without_its_file_makes_the_numbers_unread(node: Node) -> None:
    node.file(f"{GPUS}/0000:1b:00.0/registry", "")
    assert f"{GPUS}/0000:1b:00.0/information" in node.read()["driver.boards"]["unread"]


def test_the_capability_files_of_instances_are_known_by_their_minors(node: Node) -> None:
    folder = "/proc/driver/nvidia/capabilities"
    for path, minor in (("gi1/access", 12), ("gi1/ci0/access", 13), ("../../mig/config", 1)):
        text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
        node.file(f"{folder}/gpu0/mig/{path}".replace("/gpu0/mig/../../mig", "/mig"), text)
    assert node.read()["driver.instance_files"]["value"] == [
        "/dev/nvidia-caps/nvidia-cap12",
        "/dev/nvidia-caps/nvidia-cap13",
    ]


def test_no_container_is_started_unless_asked(node: Node) -> None:
    node.tool("docker", f"touch {node.root}/started")
    assert node.read()["containers"] == {"value": {}}
    assert not (node.root / "started").exists()


@pytest.mark.parametrize("reader", [containers.read_cdi, containers.read_containers])
def test_the_readers_are_part_of_the_probe(reader: object) -> None:
    assert reader in [row[0] for row in collect.READERS]


# -- what roles ask for


def asked(node: Node, reading: str, **request: Any) -> Any:
    return collect.collect(request, frozenset({reading}))["readings"][reading]


def test_a_cdi_specification_is_current_when_the_toolkit_would_write_the_same(node: Node) -> None:
    node.file(CDI_SPEC, "kind: nvidia.com/gpu\n")
    assert asked(node, "cdi.current") == {"value": False}, "no toolkit there"
    node.tool("nvidia-ctk", "echo 'kind: nvidia.com/gpu'")
    assert "would load the driver" in asked(node, "cdi.current", of_a_role=True)["unread"]
    node.file(DRIVER, "")
    assert asked(node, "cdi.current", of_a_role=True) == {"value": True}
    assert asked(node, "cdi.refused") == {"value": ""}
    node.tool("nvidia-ctk", "echo a warning >&2; echo GPU requires reset >&2; exit 1")
    assert asked(node, "cdi.current") == {"value": False}
    assert asked(node, "cdi.refused") == {"value": "GPU requires reset"}
    node.tool("nvidia-ctk", "echo 'kind: nvidia.com/gpu'; exit 1")
    assert asked(node, "cdi.current") == {"value": False}, "it failed"
    assert asked(node, "cdi.refused") == {"value": "exit status 1"}
    node.tool("nvidia-ctk", "true")
    node.file(CDI_SPEC, "")
    assert asked(node, "cdi.current") == {"value": False}, "an empty one"


def test_images_are_looked_for_in_engines_that_are_there_and_run(node: Node) -> None:
    images = ["docker i:1", "podman i:1", "containerd i:1"]
    node.tool("systemctl", "exit 3")
    node.tool("docker", f"touch {node.root}/asked")
    none = {"value": dict.fromkeys(images, False)}
    assert asked(node, "containers.images", images=images) == none
    assert asked(node, "docker.live_restore") == {"value": "stopped"}
    assert not (node.root / "asked").exists(), "a question would start it"
    node.tool("systemctl", "exit 0")
    node.tool("docker", '[ "$*" = "image inspect i:1" ] || echo false')
    node.tool("podman", "exit 1")
    node.tool("ctr", "echo i:1")
    found = {"docker i:1": True, "podman i:1": False, "containerd i:1": True}
    assert asked(node, "containers.images", images=images) == {"value": found}
    assert asked(node, "docker.live_restore") == {"value": "false"}
    node.tool("docker", "echo 'no permission' >&2; exit 1")
    assert asked(node, "docker.live_restore") == {"unread": "docker: exit 1: no permission"}
