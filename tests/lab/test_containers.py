"""GPUs in containers: real engines and CDI, stand-in GPUs that no driver serves.

A program that opens such a GPU gets as far as the kernel's list of drivers, or is refused before
that by the container's control group: the two errors tell whether the container has the GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.labs import Lab
from tests.lab.test_cluster import wait_until_idle
from tests.lab.test_nvidia import WORKERS, changed

pytestmark = [
    *(pytest.mark.lab, pytest.mark.slow),
    pytest.mark.usefixtures("booted_anew_afterwards"),  # packages of the engines stay
]

IMAGE = "localhost/lockstep-check:1"
REACHED, REFUSED = "No such device or address", "Operation not permitted"
LOOK = 'for d in /dev/nvidia[0-9]*; do echo "$d $( (true <"$d") 2>&1 )"; done'
ENGINES = ("docker", "podman", "podman without root", "containerd")
RUN = {
    "docker": "sudo docker",
    "podman": "sudo podman",
    # As in scripts/job_container.sh.
    "podman without root": "podman --log-level error --cgroup-manager cgroupfs",
}
# A user's folder of run-time files: it stays as long as the containers, unlike a login session's.
SHELL = "set -e; export XDG_RUNTIME_DIR=/tmp/ops; mkdir -p -m 700 /tmp/ops\n"
POD = {
    "metadata": {"name": "boards", "uid": "1", "namespace": "test"},
    "linux": {"security_context": {"namespace_options": {"network": 2}}},
}


def shell(lab: Lab, node: str, script: str, check: bool = True) -> str:
    """Run a script as a user does, over ssh."""
    return lab.lab("ssh", node, "--", "sh", "-s", stdin=SHELL + script, check=check).stdout


@dataclass(frozen=True)
class Container:
    """A running container of one engine."""

    lab: Lab
    engine: str
    id: str

    def gpus(self) -> dict[int, str]:
        """Return the GPUs in it, and what a program gets that opens one."""
        execute = RUN.get(self.engine, "sudo crictl") + " exec"
        execute += " -s" if self.engine == "containerd" else ""
        said = shell(self.lab, "worker1", f"{execute} {self.id} /bin/busybox sh -c '{LOOK}'")
        rows = [line.partition(" ") for line in said.splitlines()]
        return {
            int(path.removeprefix("/dev/nvidia")): text.rpartition(": ")[2]
            for path, _, text in rows
        }

    def scope(self) -> str:
        """Return the control group that systemd keeps for a container of Docker."""
        return f"docker-{self.id}.scope"


def start(lab: Lab, engine: str, gpus: tuple[int, ...]) -> Container:
    """Start a container with some GPUs."""
    names = [f"nvidia.com/gpu={gpu}" for gpu in gpus]
    if engine != "containerd":
        devices = " ".join(f"--device {name}" for name in names)
        run = f"{RUN[engine]} run -d --rm --network none {devices} {IMAGE}"
        return Container(
            lab, engine, shell(lab, "worker1", f"{run} /bin/busybox sleep 600").strip()
        )
    container = {
        "metadata": {"name": "boards"},
        "image": {"image": IMAGE},
        "command": ["/bin/busybox", "sleep", "600"],
        "CDI_devices": [{"name": name} for name in names],
    }
    script = f"""
        cd "$(mktemp -d)"
        echo '{json.dumps(POD)}' >pod
        echo '{json.dumps(container)}' >container
        container="$(sudo crictl create "$(sudo crictl runp pod)" container pod)"
        sudo crictl start "$container"
    """
    return Container(lab, engine, shell(lab, "worker1", script).strip())


def end_all(lab: Lab) -> None:
    """End every container on the node."""
    shell(
        lab,
        "worker1",
        f"""
        for c in $(sudo docker ps -q); do sudo docker rm -f "$c"; done
        sudo podman rm -a -f -t 0
        {RUN["podman without root"]} rm -a -f -t 0
        for p in $(sudo ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==sandbox')
        do sudo crictl rmp -f "$p"; done
        """,
    )


@pytest.fixture(scope="module")
def engines(cluster: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """All engines on all workers, and an inventory that says so."""
    inventory = changed(
        tmp_path_factory.mktemp("engines"),
        ('"engines": ["docker", "podman"]', '"engines": ["docker", "podman", "containerd"]'),
    )
    wait_until_idle(cluster)
    deployed = cluster.deploy("deploys/worker.py", inventory=inventory)
    assert deployed.status == 0, deployed.errors
    for node in WORKERS:
        # What Kubernetes brings along: crictl, and the image that every pod begins with.
        shell(
            cluster,
            node,
            "sudo apt-get -q -y install cri-tools >/dev/null\n"
            f"sudo ctr -n k8s.io images tag --force {IMAGE} registry.k8s.io/pause:3.8",
        )
    image = f"tar -C /usr -c bin/busybox | {RUN['podman without root']} import -q - {IMAGE}"
    shell(cluster, "worker1", image)
    yield inventory
    end_all(cluster)
    assert cluster.deploy("deploys/worker.py").status == 0


def test_a_second_deploy_changes_nothing(cluster: Lab, engines: str) -> None:
    assert cluster.deploy("deploys/worker.py", inventory=engines).changed == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_container_has_the_gpus_it_was_given_and_no_other(
    cluster: Lab, engines: str, engine: str
) -> None:
    container = start(cluster, engine, (1, 4, 6))
    try:
        assert container.gpus() == dict.fromkeys((1, 4, 6), REACHED)
    finally:
        end_all(cluster)


def test_check_finds_nothing_in_containers_of_every_engine(cluster: Lab, engines: str) -> None:
    checked = cluster.check("--containers", inventory=engines)
    assert checked.named == set(), checked.text


def test_a_gpu_under_a_wrong_number_is_named_by_every_engine(cluster: Lab, engines: str) -> None:
    specification = "/var/run/cdi/nvidia.yaml"
    edit = r"/name: all/,$ {/nvidia5$/,+3 s/minor: 5/minor: 4/}"
    cluster.on("worker1", f"sed -i '{edit}' {specification}")
    checked = cluster.check("--containers", inventory=engines)
    assert checked.named == {
        ("container.uuids", "worker1", engine) for engine in ("containerd", "docker", "podman")
    }, checked.text
    assert cluster.deploy("deploys/worker.py", inventory=engines).status == 0
    assert cluster.check("--containers", inventory=engines).named == set()


def test_containers_keep_their_gpus_over_reloads_and_restarts(cluster: Lab, engines: str) -> None:
    gpus = {engine: (number, number + 4) for number, engine in enumerate(ENGINES)}
    running = [start(cluster, engine, given) for engine, given in gpus.items()]
    wanted = {engine: dict.fromkeys(given, REACHED) for engine, given in gpus.items()}
    try:
        assert {one.engine: one.gpus() for one in running} == wanted
        for restart in (
            "systemctl daemon-reload",
            "systemctl restart containerd.service",
            "systemctl restart docker.service",
            "systemctl daemon-reload",
        ):
            shell(cluster, "worker1", f"sudo {restart}")
            assert {one.engine: one.gpus() for one in running} == wanted, restart
    finally:
        end_all(cluster)


def test_a_gpu_that_a_running_container_lost_is_seen(cluster: Lab, engines: str) -> None:
    """What a reload does to GPUs that were injected behind systemd's back."""
    container = start(cluster, "docker", (3,))
    try:
        assert container.gpus() == {3: REACHED}
        shell(
            cluster,
            "worker1",
            f"sudo systemctl set-property --runtime {container.scope()} DeviceAllow=",
        )
        assert container.gpus() == {3: REFUSED}
    finally:
        end_all(cluster)


def test_containerd_gives_gpus_although_the_distributions_file_says_nothing_of_them(
    cluster: Lab, engines: str
) -> None:
    """The lab's own file in conf.d has the whole section, so it is left out here."""
    ours = "sed '/conf.d/d' /etc/containerd/lockstep.toml >/tmp/ours.toml"
    dump = "containerd --config /tmp/ours.toml config dump"
    said = shell(cluster, "worker1", f"{ours}; {dump}")
    assert "enable_cdi = true" in said
    assert 'bin_dir = "/usr/lib/cni"' in said
