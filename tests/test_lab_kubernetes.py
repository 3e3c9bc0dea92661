"""Parts of a lab's Kubernetes that need no machine: images, state, command line, containers."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab import gpus, lifecycle, node_files, places, providers, state, wishes
from lab.disk_image import ROLES
from lab.errors import LabError, WrongUseError
from lab.kubernetes import charts, families, images, machine, oci, prepared
from lab.kubernetes.oci import Image
from lab.nspawn import Nspawn
from lab.programs import build
from lab.programs.build import Built
from lab.provider import Provider
from lab.qemu import Qemu
from lab.state import Hardware, Kubernetes, KubernetesRelease, LabState, Node, Served

LIGHT_CONTAINER = gpus.ON_NODE / "light_container.py"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path / "lab"))


def kubernetes(*series: str) -> Kubernetes:
    """What a lab with these releases has."""
    return Kubernetes(
        releases=[
            KubernetesRelease(
                series=one,
                version=f"{one}.4",
                packages=Served(uri="http://x/", key=f"/{one}/key.asc", versions="/versions.json"),
            )
            for one in series
        ],
        registry="http://[::1]:1",
        images={},
        charts={},
        versions={},
    )


def lab(with_kubernetes: Kubernetes | None = None) -> LabState:
    """A lab without nodes."""
    hardware = Hardware(
        sockets=1, cores_per_socket=2, threads_per_core=1, numa_nodes=1, memory_mib=1
    )
    return LabState(
        name="test-one",
        os="debian_13",
        prefix="fd00::/64",
        fabric_prefix="fd01::/64",
        ssh_key="/key",
        known_hosts="/known_hosts",
        ssh_config="/ssh_config",
        archive_versions="/packages.json",
        repository_uri="http://x/",
        repository_key="/own/key.asc",
        repository_versions="/versions.json",
        image="/image",
        hardware={"head": hardware, "worker": hardware},
        nodes=[],
        kubernetes=with_kubernetes,
    )


# --- state and command line -----------------------------------------------------------------------


def test_a_state_from_before_kubernetes_is_readable() -> None:
    old = json.loads(lab().model_dump_json())
    del old["kubernetes"]
    assert LabState.model_validate(old).kubernetes is None


def test_repositories_of_kubernetes_are_in_use_also_for_another_version() -> None:
    made = lab(kubernetes("1.33", "1.34"))
    state.save(made)
    assert state.repository_keys("test-one") == ["/1.33/key.asc", "/1.34/key.asc"]
    assert [one.key for one in made.every_repository()] == ["/1.33/key.asc", "/1.34/key.asc"]
    newer = json.loads(made.model_dump_json()) | {"a_later_field": 1}
    state.path_of("test-one").write_text(json.dumps(newer))
    assert state.repository_keys("test-one") == ["/1.33/key.asc", "/1.34/key.asc"]
    assert state.repository_keys("test-other") == []


def test_releases_of_the_command_line() -> None:
    known = list(families.KUBERNETES)
    assert prepared.read_series(",".join(reversed(known))) == known
    with pytest.raises(WrongUseError, match=r"--kubernetes 1\.20: expected minor releases"):
        prepared.read_series("1.20")


def test_kubeadm_of_each_release_finds_its_pause_image() -> None:
    """kubeadm pulls the one that it was built with, also where containerd starts another."""
    assert list(images.PAUSES) == list(families.KUBERNETES)
    assert images.tags()["registry.k8s.io/pause"] == images.PAUSES["1.34"]


def test_an_existing_lab_keeps_its_releases() -> None:
    made = lab(kubernetes("1.34"))
    wishes.check_against(made, None, None, None, None)
    wishes.check_against(made, None, None, None, ["1.34"])
    for other, wanted in ((lab(), ["1.34"]), (made, ["1.33", "1.34"])):
        with pytest.raises(WrongUseError, match="requires all nodes to be recreated"):
            wishes.check_against(other, None, None, None, wanted)


# --- images ---------------------------------------------------------------------------------------


def test_an_image_is_one_layer_with_its_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/nft").write_text("nft")
    (tree / "bin").symlink_to("usr/bin")
    program = tmp_path / "proxy"
    program.write_text("program")
    image = Image(
        "registry.invalid/a/proxy",
        "v1",
        {"usr/local/bin/proxy": program},
        links={"usr/bin/sh": "nft"},
        tree=tree,
        entrypoint=("/usr/local/bin/proxy",),
        command=("--help",),
        user="1:1",
    )
    made = oci.ensure(image)
    assert (made.repository, made.tag) == ("a/proxy", "v1")
    manifest = json.loads(made.manifest)
    config, layer = made.blobs
    assert [manifest["config"]["digest"], manifest["layers"][0]["digest"]] == [
        config.digest,
        layer.digest,
    ]
    for blob in made.blobs:
        assert blob.digest == f"sha256:{hashlib.sha256(blob.file.read_bytes()).hexdigest()}"
    plain = gzip.decompress(layer.file.read_bytes())
    described = json.loads(config.file.read_bytes())
    assert described["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
    running = described["config"]
    assert (running["Entrypoint"], running["Cmd"], running["User"]) == (
        ["/usr/local/bin/proxy"],
        ["--help"],
        "1:1",
    )
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        entries = {entry.name.removeprefix("./"): entry for entry in archive}
    assert entries["usr/local/bin/proxy"].mode == 0o755
    assert entries["bin"].linkname == "usr/bin"
    assert entries["usr/bin/sh"].linkname == "nft"
    assert entries["tmp"].mode == 0o1777
    assert all(entry.uid == entry.gid == entry.mtime == 0 for entry in entries.values())
    assert oci.ensure(image) == made


def test_a_chart_is_packed_as_helm_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = tmp_path / "source" / families.CHART
    (chart / "charts").mkdir(parents=True)
    described = 'apiVersion: v2\nname: plugin\nversion: "0.1.2"\ndependencies:\n  - name: other\n'
    (chart / "Chart.yaml").write_text(described)
    (chart / "charts/sub.tgz").write_bytes(b"packed")
    monkeypatch.setattr(build, "ensure", lambda family: Built(tmp_path))
    made = charts.device_plugin()
    assert (made.repository, made.tag) == ("charts/plugin", "0.1.2")
    config, content = made.blobs
    assert json.loads(config.file.read_bytes()) == {
        "apiVersion": "v2",
        "name": "plugin",
        "version": "0.1.2",
    }
    with tarfile.open(content.file) as archive:
        assert archive.getnames() == ["plugin/Chart.yaml", "plugin/charts/sub.tgz"]
        kept = archive.extractfile("plugin/Chart.yaml")
        assert kept is not None
        assert kept.read().decode() == described
    assert charts.device_plugin() == made
    (chart / "Chart.yaml").write_text("name: plugin\n")
    with pytest.raises(LabError, match="has no version"):
        charts.device_plugin()


# --- machines -------------------------------------------------------------------------------------


def changed(
    tmp_path: Path,
    spec: Mapping[str, object],
    *options: str,
    controllers: str = "",
    driver: Path | None = None,
) -> dict[str, object]:
    """Run the lab's change of a container's specification on a machine with these controllers."""
    file, script = tmp_path / "controllers", tmp_path / "script.py"
    file.write_text(f"{controllers}\n")
    text = LIGHT_CONTAINER.read_text()
    text = text.replace("/sys/fs/cgroup/cgroup.controllers", str(file))
    script.write_text(text.replace('"/proc/driver"', f'"{driver or tmp_path}"'))
    (tmp_path / "config.json").write_text(json.dumps(spec))
    folder = "/" if "--bundle" in " ".join(options) else tmp_path
    subprocess.run([sys.executable, "-I", script, *options], check=True, cwd=folder)
    found: dict[str, object] = json.loads((tmp_path / "config.json").read_text())
    return found


def test_the_oom_value_is_one_that_the_machine_may_set(tmp_path: Path) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    spec = {"process": {"oomScoreAdj": -1000}, "hostname": "pod"}
    wanted = {"process": {"oomScoreAdj": own}, "hostname": "pod"}
    options = ("--log", "/log", "create", "--bundle", str(tmp_path), "name")
    assert changed(tmp_path, spec, *options) == wanted
    assert changed(tmp_path, spec, "run", "name") == wanted, "the bundle is the working folder"
    higher: dict[str, object] = {"process": {"oomScoreAdj": own + 1}}
    assert changed(tmp_path, higher, "create", f"--bundle={tmp_path}", "name") == higher


def test_limits_go_where_the_machine_has_no_controllers(tmp_path: Path) -> None:
    devices = {"devices": [{"allow": False}]}
    spec = {"linux": {"resources": {**devices, "cpu": {"shares": 2}}}}
    assert changed(tmp_path, spec, "create", "x") == {"linux": {"resources": devices}}
    assert changed(tmp_path, spec, "create", "x", controllers="cpu memory") == spec


def test_containers_see_the_simulated_driver(tmp_path: Path) -> None:
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    other = {"path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook"]}
    spec = {"mounts": mounts, "root": {"path": "rootfs"}, "hooks": {"createContainer": [other]}}
    driver = tmp_path / "driver"
    assert changed(tmp_path, spec, "create", "x", driver=driver) == spec, "it is not loaded"
    (driver / "nvidia").mkdir(parents=True)
    found = changed(tmp_path, spec, "create", "x", driver=driver)
    mount = ["mount", "--bind", str(driver), f"{tmp_path}/rootfs{driver}"]
    hooks = {"createContainer": [{"path": "/usr/bin/mount", "args": mount}, other]}
    assert found == {**spec, "hooks": hooks}
    without: dict[str, object] = {**spec, "mounts": []}
    assert changed(tmp_path, without, "create", "x", driver=driver) == without


def test_every_light_machine_of_a_lab_with_kubernetes_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_files, "_generate_key", lambda path, comment: None)
    for made, expected in ((lab(), False), (lab(kubernetes("1.34")), True)):
        root = tmp_path / f"root-{expected}"
        for name in ("etc/ssh", "home/ops"):
            (root / name).mkdir(parents=True)
        (root / "etc/machine-id").write_text("id\n")
        for name in ("etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_ed25519_key.pub"):
            (root / name).write_text("key\n")
        made.ssh_key = str(tmp_path / "id")
        (tmp_path / "id.pub").write_text("public\n")
        places.node_folder(made.name, "head").mkdir(parents=True, exist_ok=True)
        node = Node(name="head", role="head", address="fd00::1", fabric_address=None)
        node_files.write_identity(made, node, root)
        for name in (machine.RUNC, machine.LIGHT_CONTAINER, machine.PREPARE):
            assert (root / name).exists() == expected
            assert not expected or (root / name).stat().st_mode & 0o777 == 0o755
        wants = root / "etc/systemd/system/sysinit.target.wants" / machine.UNIT
        assert wants.is_symlink() == expected


@pytest.mark.parametrize("text", [machine.RUNC_TEXT, machine.PREPARE_TEXT])
def test_the_shell_scripts_are_valid(text: str) -> None:
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(("heads", "described"), [(2, False), (0, False), (3, True)])
def test_another_number_of_heads_is_refused(heads: int, described: bool) -> None:
    with pytest.raises(WrongUseError, match=f"--heads {heads}: expected 1 or 3"):
        wishes.check_wishes(None, None, heads, described)


def test_heads_have_addresses_of_their_own() -> None:
    made = [lifecycle._node(lab(), number) for number in (0, -1, -2, 1)]
    assert [(one.name, one.role) for one in made] == [
        ("head", "head"),
        ("head2", "head"),
        ("head3", "head"),
        ("worker1", "worker"),
    ]
    assert [one.address for one in made] == ["fd00::10", "fd00::11", "fd00::12", "fd00::101"]


def test_the_number_of_heads_of_a_lab_stays() -> None:
    there = lab(kubernetes("1.34"))
    there.nodes = [lifecycle._node(there, 0)]
    wishes.check_against(there, None, None, None, None, 1)
    with pytest.raises(WrongUseError, match="has 1 heads; --heads 3 requires all nodes"):
        wishes.check_against(there, None, None, None, None, 3)


@pytest.mark.parametrize(
    ("releases", "kinds"), [((), (Qemu, Qemu)), (("1.34",), (Nspawn, Qemu))], ids=["Slurm", "pods"]
)
def test_with_kubernetes_only_workers_have_kernels_of_their_own(
    releases: tuple[str, ...], kinds: tuple[type[Provider], ...]
) -> None:
    made = lab(kubernetes(*releases) if releases else None)
    made.kernel, made.accelerator = "own", "tcg"
    of_all = providers.provider_of(made)
    for role, kind in zip(ROLES, kinds, strict=True):
        of_role = of_all.of(role) if isinstance(of_all, providers.ByRole) else of_all
        assert isinstance(of_role, kind)
