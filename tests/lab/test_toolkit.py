"""The real nvidia-ctk over the simulated NVML: what containers get, without a machine."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import gpus
from lab.nvml import build as nvml
from lab.programs import build
from lab.programs.build import Family
from lab.standins import toolkit
from lab.standins.library import shared_object
from lab.standins.package import LIBRARIES, python
from lockstep.node.readers.containers import cdi_devices
from tests.nvml.programs import CACHE, SimulatedNode

VERSION = "550.163.01"
CURRENT = f"{LIBRARIES}/nvidia/current"
STATE = f"/{gpus.STATE}"
# nvidia-ctk looks for the driver's files there, in a mount namespace of its own.
GENERATE = """
mount -t tmpfs lockstep-test /proc/driver
if [ -n "$MINORS" ]; then
    mkdir /proc/driver/nvidia-caps
    printf "$MINORS" >/proc/driver/nvidia-caps/mig-minors
fi
exec "$@" --quiet cdi generate --driver-root="$ROOT" --dev-root="$ROOT" --format="$FORMAT"
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="device files and mounts need root; the lab needs it, too"
)


class Driver(SimulatedNode):
    """The files of a driver in a folder, as nvidia-ctk looks for them."""

    def __init__(self, folder: Path, programs: dict[str, Path]) -> None:
        super().__init__(folder)
        self.root = folder / "root"
        self.programs = programs
        current = self.root / CURRENT
        current.mkdir(parents=True)
        shutil.copyfile(nvml.library(CACHE), current / f"libnvidia-ml.so.{VERSION}")
        (current / f"libcuda.so.{VERSION}").write_bytes(shared_object("libcuda.so.1"))
        for name in ("libnvidia-ml", "libcuda"):
            (current / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
        self.device("nvidia0", 195, 0)
        self.device("nvidia1", 195, 1)
        self.device("nvidiactl", 195, 255)

    def device(self, name: str, major: int, minor: int) -> None:
        path = self.root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))

    def generate(self, minors: str = "", form: str = "yaml") -> subprocess.CompletedProcess[str]:
        """Run ``nvidia-ctk cdi generate``."""
        shell = ["unshare", "--mount", "sh", "-euc", GENERATE, "sh"]
        return subprocess.run(
            [*shell, str(self.programs["nvidia-ctk"])],
            env={**self.environment, "ROOT": str(self.root), "MINORS": minors, "FORMAT": form},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def specification(self, minors: str = "") -> dict[str, Any]:
        done = self.generate(minors, "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module", params=toolkit.FAMILIES, ids=toolkit.VERSIONS)
def programs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    family: Family = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKSTEP_LAB_DIR", str(tmp_path_factory.mktemp("programs")))
        return build.ensure(family).programs()


@pytest.fixture
def driver(tmp_path: Path, programs: dict[str, Path]) -> Driver:
    return Driver(tmp_path, programs)


def nodes(specification: dict[str, Any]) -> dict[str, list[str]]:
    """Device -> its device files, without the folder of the test."""
    return {
        device["name"]: [one["path"] for one in device["containerEdits"]["deviceNodes"]]
        for device in specification["devices"]
    }


def test_each_gpu_is_a_device_by_index_and_uuid(driver: Driver) -> None:
    uuids = [
        line.partition(" = ")[2]
        for line in driver.state.read_text().splitlines()
        if line.startswith("uuid = ")
    ]
    text = driver.generate().stdout
    expected = {
        **{name: [f"/dev/nvidia{n}"] for n in (0, 1) for name in (str(n), uuids[n])},
        "all": ["/dev/nvidia0", "/dev/nvidia1"],
    }
    assert nodes(driver.specification()) == expected
    # Lockstep reads the same from the YAML, line by line.
    assert cdi_devices(text, "nvidia.yaml") == expected
    # The deploy compares the file with what nvidia-ctk would write now.
    assert driver.generate().stdout == text
    (driver.root / "dev/nvidia1").unlink()
    driver.set("1", "present=no")
    assert nodes(driver.specification())["all"] == ["/dev/nvidia0"]


def test_the_state_file_comes_along_by_a_link_beside_the_libraries(driver: Driver) -> None:
    """How a container's library reads the node's state, without any setting."""
    state = driver.root / STATE[1:]
    state.parent.mkdir(parents=True)
    state.write_text("")
    (driver.root / f"{gpus.STATE_LINK}.{VERSION}").symlink_to(state)
    edits = driver.specification()["containerEdits"]
    mounts = {one["containerPath"]: one["hostPath"] for one in edits["mounts"]}
    assert mounts[STATE] == str(state)
    assert set(mounts) == {
        STATE,
        *(f"/{CURRENT}/{name}.so.{VERSION}" for name in ("libcuda", "libnvidia-ml")),
    }


def test_mig_devices_need_the_drivers_list_of_capabilities(driver: Driver) -> None:
    driver.set("0", "mig.mode.current=Enabled", "mig.mode.pending=Enabled")
    driver.set("0", "mig.instances=1:9:4:4 1/0:2:0:4")
    refused = driver.generate()
    assert refused.returncode == 1
    assert "error getting MIG capability device paths" in refused.stderr
    driver.device("nvidia-caps/nvidia-cap12", 240, 12)
    driver.device("nvidia-caps/nvidia-cap13", 240, 13)
    found = nodes(driver.specification("config 1\\ngpu0/gi1/access 12\\ngpu0/gi1/ci0/access 13\\n"))
    capabilities = [f"/dev/nvidia-caps/nvidia-cap{number}" for number in (12, 13)]
    assert found["0:0"] == ["/dev/nvidia0", *capabilities]
    assert found["1"] == ["/dev/nvidia1"]
    assert "0" not in found


@pytest.mark.parametrize(("modifies", "status"), [("0", 0), ("1", 1)])
def test_a_container_starts_without_the_drivers_files_in_its_proc(
    programs: dict[str, Path], tmp_path: Path, modifies: str, status: int
) -> None:
    """Hooks run on the node, which has the files; the container's /proc has none in the lab."""
    (tmp_path / "rootfs/proc").mkdir(parents=True)
    (tmp_path / "config.json").write_text('{"ociVersion": "1.0.0", "root": {"path": "rootfs"}}')
    assert "ModifyDeviceFiles: 0\\n" in (gpus.ON_NODE / "load_driver.py").read_text()
    parameters = tmp_path / "params"
    parameters.write_text(f"EnableMSI: 1\nModifyDeviceFiles: {modifies}\n")
    script = "mount -t tmpfs lockstep-test /proc/driver; mkdir /proc/driver/nvidia; "
    script += 'cp "$1" /proc/driver/nvidia/params; shift; exec "$@"'
    hook = [str(programs["nvidia-cdi-hook"]), "disable-device-node-modification"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script, "sh", str(parameters), *hook],
        input=json.dumps({"ociVersion": "1.0.0", "id": "1", "bundle": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    if status:
        assert "proc/driver/nvidia/params: no such file or directory" in done.stderr


def test_without_a_driver_there_is_no_specification(driver: Driver) -> None:
    driver.set("node", "driver=not_loaded")
    done = driver.generate()
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed to initialize NVML" in done.stderr


def test_container_cli_mounts_what_the_capabilities_name(tmp_path: Path) -> None:
    """The simulated one, for enroot: GPU 1 is missing, so index 1 is /dev/nvidia2."""
    for number in (0, 2):
        information = tmp_path / f"gpus/{number}/information"
        information.parent.mkdir(parents=True)
        information.write_text(f"GPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\n")
    smi = tmp_path / "smi"
    smi.write_text("#!/bin/sh\nprintf 'GPU-0\\nGPU-2\\n'\n")
    smi.chmod(0o755)
    state = tmp_path / "gpus.ini"
    state.write_text("")
    libraries = tmp_path / "node"
    (libraries / "current").mkdir(parents=True)
    for name in ("libnvidia-ml", "libcuda"):
        (libraries / f"current/{name}.so.{VERSION}").write_text(name)
        (libraries / f"{name}.so.1").symlink_to(f"current/{name}.so.{VERSION}")
    text = python("nvidia_container_cli", VERSION)
    for real, here in (
        ("/usr/bin/nvidia-smi", smi),
        ("/usr/lib/x86_64-linux-gnu", libraries),
        ("/proc/driver/nvidia/gpus", tmp_path / "gpus"),
        ("/var/lib/lockstep-standin/gpus.ini", state),
    ):
        text = text.replace(f'"{real}', f'"{here}')
    (tmp_path / "cli").write_text(text)
    rootfs = tmp_path / "rootfs"
    script = "mount -t tmpfs lockstep-test /dev; touch /dev/nvidia0 /dev/nvidia2 /dev/nvidiactl; "
    script += '"$0" "$1" configure --device=1 --utility "$2"; find "$2" ! -type d'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script, sys.executable, tmp_path / "cli", rootfs],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert sorted(line.removeprefix(str(rootfs)) for line in done.stdout.splitlines()) == [
        "/dev/nvidia2",
        "/dev/nvidiactl",
        str(state),
        f"{libraries}/libnvidia-ml.so.1",
        f"{libraries}/libnvidia-ml.so.{VERSION}",
        str(smi),
    ]
    assert os.readlink(f"{rootfs}{libraries}/libnvidia-ml.so.1") == f"libnvidia-ml.so.{VERSION}"
