"""The lab's package repository with the host's own apt and ldconfig, and its programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import repository
from lab.nvml import smi as nvidia_smi
from lab.nvml import state
from lab.repository import Repository
from lab.standins import toolkit
from lab.standins.library import shared_object
from lab.standins.packages import BROKEN, DRIVER, NEWER, packages
from lockstep.catalog.nvidia import PACKAGINGS
from tests.nvml.programs import CACHE, SimulatedNode

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS = ("gpg", "gpg-agent", "dpkg-deb", "apt-get")

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool, path=PATH) is None for tool in TOOLS),
    reason=f"needs {', '.join(TOOLS)}",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path_factory.mktemp("r")))
        yield repository.ensure()


def test_it_is_built_once_and_outdated_ones_go(built: Repository) -> None:
    before = (built.folder / "InRelease").stat()
    old = built.folder.with_name("0123456789ab")
    old.mkdir()
    assert repository.ensure() == built
    assert (built.folder / "InRelease").stat() == before
    assert not old.exists()


def test_no_agent_of_gpg_stays(built: Repository) -> None:
    home = str(built.folder.parents[1] / "gnupg")
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [command for command in commands if home.encode() in command]


def test_it_has_every_part_that_debian_has_not(built: Repository) -> None:
    versions = json.loads(built.versions.read_text())
    assert versions["nvidia-fabricmanager-550"] == [f"{v}-1" for v in (DRIVER, NEWER, BROKEN)]
    assert versions["datacenter-gpu-manager-4-core"] == ["1:4.4.1-1", "1:4.4.2-1"]
    packaging = PACKAGINGS["debian"]
    for part in packaging.parts:
        if part not in packaging.from_archive and part not in ("gdrcopy", "gds"):
            for name, _ in packaging.packages(part, DRIVER, DRIVER):
                assert len(versions[name]) >= 2, name


def unpacked(built: Repository, package: str, version: str, folder: Path) -> Path:
    """A package of the repository, with its scripts in DEBIAN."""
    deb = built.folder / f"{package}_{version}_amd64.deb"
    extract = ["dpkg-deb", "--raw-extract", str(deb), str(folder)]
    subprocess.run(extract, env={"PATH": PATH}, check=True)
    return folder


def test_the_container_toolkit_is_real(built: Repository, tmp_path: Path) -> None:
    older, newer = toolkit.VERSIONS
    runtime = tmp_path / "bin/runc"  # NVIDIA's runtime refuses every command without one
    runtime.parent.mkdir()
    runtime.write_text("#!/bin/sh\n")
    runtime.chmod(0o755)
    for version in (older, newer):
        base = "nvidia-container-toolkit-base"
        root = unpacked(built, base, f"{version}-1", tmp_path / version)
        hook = unpacked(built, "nvidia-container-toolkit", f"{version}-1", tmp_path / f"t{version}")
        for program, name in (
            (root / "usr/bin/nvidia-ctk", "NVIDIA Container Toolkit CLI"),
            (root / "usr/bin/nvidia-cdi-hook", "NVIDIA CDI Hook"),
            (root / "usr/bin/nvidia-container-runtime", "NVIDIA Container Runtime"),
            (hook / "usr/bin/nvidia-container-runtime-hook", "NVIDIA Container Runtime Hook"),
        ):
            assert program.read_bytes().startswith(b"\x7fELF")
            done = subprocess.run(
                [program, "--version"],
                stdout=subprocess.PIPE,
                env={"PATH": str(runtime.parent)},
                check=True,
            )
            assert done.stdout.decode().startswith(f"{name} version {version}\n")
        # What the package's script does: the default configuration, written by the real program.
        assert "nvidia-ctk --quiet config --config-file=" in (root / "DEBIAN/postinst").read_text()
        config = tmp_path / "config.toml"
        ctk = [str(root / "usr/bin/nvidia-ctk"), "--quiet", "config", f"--config-file={config}"]
        subprocess.run([*ctk, "--in-place"], check=True)
        assert "[nvidia-container-runtime]" in config.read_text()
        assert "License: Apache-2.0" in (root / f"usr/share/doc/{base}/copyright").read_text()
        drop_ins = sorted(path.parent.name for path in root.rglob("50-lockstep-lab.conf"))
        assert drop_ins == [f"{unit}.d" for unit in toolkit.UNITS]
    # Each release's own layout: the units moved, and the newer package takes the older file away.
    unit = "systemd/system/nvidia-cdi-refresh.service"
    for version, folder in ((older, "etc"), (newer, "lib")):
        text = (tmp_path / version / folder / unit).read_text()
        assert "ExecStart=/usr/bin/nvidia-ctk cdi generate\n" in text
    conffiles = (tmp_path / older / "DEBIAN/conffiles").read_text()
    assert f"/etc/{unit}\n" in conffiles
    for name in ("preinst", "postinst", "prerm", "postrm"):
        text = (tmp_path / newer / "DEBIAN" / name).read_text()
        assert f"rm_conffile /etc/{unit} {newer}-1~ {base} -- " in text
        assert "#DEBHELPER#" not in text
    for script in (tmp_path / newer / "DEBIAN").glob("p*"):
        subprocess.run(["/bin/sh", "-n", script], check=True)


def apt(root: Path, built: Repository, key: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The host's apt, told of nothing but this repository."""
    for folder in ("lists/partial", "cache/archives/partial", "sources", "preferences"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "status").touch()
    lines = "\n".join(f" {line or '.'}" for line in key.strip().splitlines())
    (root / "sources/lab.sources").write_text(
        f"Types: deb\nURIs: file:{built.folder}/\nSuites: /\nSigned-By:\n{lines}\n"
    )
    options = {
        "Dir::State": root,
        "Dir::State::Status": root / "status",
        "Dir::Cache": root / "cache",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": root / "sources",
        "Dir::Etc::PreferencesParts": root / "preferences",
        "APT::Sandbox::User": "root",
        "APT::Architecture": "amd64",
    }
    return subprocess.run(
        [words[0], *(f"-o{name}={value}" for name, value in options.items()), *words[1:]],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": PATH},
        check=False,
    )


def test_apt_reads_it_with_its_key_and_with_no_other(built: Repository, tmp_path: Path) -> None:
    key = built.key.read_text()
    updated = apt(tmp_path, built, key, "apt-get", "update", "--error-on=any")
    assert updated.returncode == 0, updated.stderr
    names = ("libcuda1", "datacenter-gpu-manager-4-cuda12")
    shown = apt(tmp_path, built, key, "apt-cache", "madison", *names).stdout
    assert [line.split(" | ")[1].strip() for line in shown.splitlines()] == [
        f"{BROKEN}-1",
        f"{NEWER}-1",
        "1:4.4.2-1",
        "1:4.4.1-1",
    ]
    # The only one that needs no other package: none is installed in this folder.
    wanted = ["apt-get", "install", "--simulate", "libnvidia-nscq-550=550.163.01-*"]
    assert f"Inst libnvidia-nscq-550 ({DRIVER}-1" in apt(tmp_path, built, key, *wanted).stdout
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(other), "--batch", "--quiet", "--pinentry-mode", "loopback"]
    make = ["--passphrase", "", "--quick-gen-key", "other", "ed25519", "sign", "0"]
    subprocess.run([*gpg, *make], check=True)
    exported = subprocess.run([*gpg, "--armor", "--export"], stdout=subprocess.PIPE, check=True)
    subprocess.run(["gpgconf", "--homedir", str(other), "--kill", "all"], check=True)
    refused = apt(tmp_path / "2", built, exported.stdout.decode(), "apt-get", "update")
    assert refused.returncode != 0
    assert "is not signed" in refused.stderr


def test_ldconfig_takes_a_library_for_one(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.550.163.02").write_bytes(shared_object("libnvidia-ml.so.1"))
    done = subprocess.run(
        ["ldconfig", "-n", str(tmp_path)],
        capture_output=True,
        env={"PATH": PATH},
        check=True,
    )
    assert done.stderr == b""
    assert os.readlink(tmp_path / "libnvidia-ml.so.1") == "libnvidia-ml.so.550.163.02"


# --- the programs ---------------------------------------------------------------------------------


class Machine:
    """A folder that programs of the repository take for a node."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.node = SimulatedNode(root, count=8)
        self.loaded = root / "version"
        self.pid_file = root / "run/daemon.pid"
        self.load(DRIVER)
        environment = " ".join(f"{name}={value}" for name, value in self.node.environment.items())
        smi = root / "nvidia-smi"
        smi.write_text(
            f'#!/bin/sh\nexec env {environment} {nvidia_smi.program("550", CACHE)} "$@"\n'
        )
        smi.chmod(0o755)

    def load(self, version: str) -> None:
        """Load a kernel module."""
        self.loaded.write_text(f"NVRM version: NVIDIA UNIX Kernel Module  {version}  Release\n")

    def smi(self, *arguments: str) -> str:
        """Call nvidia-smi."""
        done = [str(self.root / "nvidia-smi"), *arguments]
        return subprocess.run(done, stdout=subprocess.PIPE, text=True, check=True).stdout

    def program(self, package: str, path: str) -> list[str]:
        """A program at its first version, with the paths of this machine."""
        found = next(p for p in packages() if p.name == package)
        text = str(found.files[path])
        for real, here in (
            ("/usr/bin/nvidia-smi", self.root / "nvidia-smi"),
            ("/var/lib/lockstep-standin/gpus.ini", self.node.state),
            ("/usr/lib/lockstep-standin", Path(state.__file__).parent),
            ("/proc/driver/nvidia/version", self.loaded),
            ("/var/run/nvidia-fabricmanager/nv-fabricmanager.pid", self.pid_file),
        ):
            text = text.replace(real, str(here))
        program = self.root / Path(path).name
        program.write_text(text)
        return [sys.executable, str(program)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_every_program_says_its_version(machine: Machine) -> None:
    for package, path, version in (
        ("nvidia-fabricmanager-550", "usr/bin/nv-fabricmanager", DRIVER),
        ("nvidia-imex-550", "usr/bin/nvidia-imex", DRIVER),
        ("datacenter-gpu-manager-4-core", "usr/bin/nv-hostengine", "4.4.1"),
        ("datacenter-gpu-manager-exporter", "usr/bin/dcgm-exporter", "4.4.1"),
    ):
        words = [*machine.program(package, path), "--version"]
        said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert said.endswith(f"{version}\n"), path


def test_fabric_manager(machine: Machine) -> None:
    manager = [
        *machine.program("nvidia-fabricmanager-550", "usr/bin/nv-fabricmanager"),
        *("-c", "/usr/share/nvidia/nvswitch/fabricmanager.cfg"),
    ]

    def fails() -> str:
        done = subprocess.run(manager, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    machine.load(NEWER)
    assert f"version {DRIVER} don't match with driver version {NEWER}" in fails()
    machine.load(DRIVER)
    machine.node.set("node", "nvswitches=0")
    assert "[NV_WARN_NOTHING_TO_DO]" in fails()
    machine.node.set("node", "nvswitches=4")
    machine.node.set("all", "fabric.state=In Progress")
    subprocess.run(manager, stdout=subprocess.DEVNULL, check=True)
    os.kill(int(machine.pid_file.read_text()), signal.SIGTERM)
    states = machine.smi("--query-gpu=fabric.state,fabric.status", "--format=csv,noheader")
    assert states == "state  Completed, status Success\n" * 8, "as branch 550 prints it"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def answer(uri: str, process: subprocess.Popen[bytes]) -> str:
    """What a server says that is just starting."""
    while True:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(uri, timeout=5) as said:
                text: str = said.read().decode()
                return text
        except urllib.error.HTTPError:
            raise
        except (ConnectionError, urllib.error.URLError):  # it does not listen yet
            time.sleep(0.05)


def test_exporter_tells_of_the_gpus_and_needs_the_host_engine(machine: Machine) -> None:
    package = "datacenter-gpu-manager-exporter"
    program = machine.program(package, "usr/bin/dcgm-exporter")
    counters = machine.root / "counters.csv"
    found = next(p for p in packages() if p.name == package)
    counters.write_text(str(found.files["etc/dcgm-exporter/default-counters.csv"]))
    engine, port = free_port(), free_port()
    words = [*program, "-f", str(counters), "-r", f"localhost:{engine}", "-a", f"[::1]:{port}"]
    words += ["-c", "10"]
    alone = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "Error connecting to nv-hostengine" in alone.stderr
    host_engine = machine.program("datacenter-gpu-manager-4-core", "usr/bin/nv-hostengine")
    with subprocess.Popen(
        [*host_engine, "-n", "-p", str(engine)], stdout=subprocess.PIPE
    ) as serving:
        try:
            assert serving.stdout is not None
            serving.stdout.readline()
            with subprocess.Popen(words) as exporter:
                try:
                    text = answer(f"http://[::1]:{port}/metrics", exporter)
                    machine.node.set("2", "temperature.gpu=77")
                    time.sleep(0.02)
                    later = answer(f"http://[::1]:{port}/metrics", exporter)
                finally:
                    exporter.kill()
        finally:
            serving.kill()
    samples = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_POWER_USAGE{")]
    assert len(samples) == 8
    uuid = machine.smi("--query-gpu=uuid", "--format=csv,noheader").splitlines()[7]
    assert f'{{gpu="7",UUID="{uuid}",' in samples[7]
    assert 'device="nvidia7",modelName="NVIDIA H200",Hostname="' in samples[7]
    hot = [line for line in later.splitlines() if line.startswith('DCGM_FI_DEV_GPU_TEMP{gpu="2"')]
    assert hot[0].endswith(" 77")
