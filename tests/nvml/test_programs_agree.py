"""NVIDIA's Python bindings read the same values as nvidia-smi."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.nvml.programs import SimulatedNode

READ = """
import json, pynvml as n
n.nvmlInit()
found = []
for index in range(n.nvmlDeviceGetCount()):
    gpu = n.nvmlDeviceGetHandleByIndex(index)
    fabric = n.c_nvmlGpuFabricInfo_t()
    n.nvmlDeviceGetGpuFabricInfo(gpu, __import__("ctypes").byref(fabric))
    links = [n.nvmlDeviceGetNvLinkState(gpu, link) for link in range(18)]
    found.append({
        "uuid": n.nvmlDeviceGetUUID(gpu),
        "pci.bus_id": n.nvmlDeviceGetPciInfo(gpu).busId,
        "memory.total": n.nvmlDeviceGetMemoryInfo(gpu, version=n.nvmlMemory_v2).total >> 20,
        "power.limit": n.nvmlDeviceGetPowerManagementLimit(gpu) / 1000,
        "enforced.power.limit": n.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
        "clocks.sm": n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM),
        "temperature.gpu": n.nvmlDeviceGetTemperatureV(gpu, n.NVML_TEMPERATURE_GPU),
        "ecc.errors.uncorrected.volatile.total": n.nvmlDeviceGetTotalEccErrors(
            gpu, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC),
        "pcie.link.width.current": n.nvmlDeviceGetCurrPcieLinkWidth(gpu),
        "links": sum(links),
        "fabric": fabric.state,
        "remapped": list(n.nvmlDeviceGetRemappedRows(gpu)),
    })
print(json.dumps(found))
"""
OTHERS = ("links", "fabric", "remapped")


def test_nvidia_ml_py_reads_what_nvidia_smi_prints(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path, count=4)
    node.set("1", "power.limit=350", "ecc.errors.uncorrected.volatile.total=3")
    node.set("2", "nvlink.5.speed=<inactive>", "remapped_rows.pending=Yes", "temperature.gpu=77")
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env=node.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    names = [name for name in found[0] if name not in OTHERS]
    printed = node.smi(f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits").stdout
    rows = [line.split(", ") for line in printed.splitlines()]
    read = [[gpu[name] for name in names] for gpu in found]
    assert [
        [type(b)(a) for a, b in zip(*pair, strict=True)] for pair in zip(rows, read, strict=True)
    ] == read
    assert [gpu["power.limit"] for gpu in found] == [700, 350, 700, 700]
    assert [gpu["ecc.errors.uncorrected.volatile.total"] for gpu in found] == [0, 3, 0, 0]
    assert found[2]["temperature.gpu"] == 77
    assert [gpu["links"] for gpu in found] == [18, 18, 17, 18]
    assert [gpu["remapped"][2] for gpu in found] == [0, 0, 1, 0]
    assert {gpu["fabric"] for gpu in found} == {3}, "completed"


def test_a_wrong_version_of_a_structure_is_refused(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path, count=1)
    code = (
        "import ctypes, pynvml as n; n.nvmlInit(); gpu = n.nvmlDeviceGetHandleByIndex(0)\n"
        "info = n.c_nvmlMemory_v2_t(); info.version = 0x7000028\n"
        "print(n._nvmlGetFunctionPointer('nvmlDeviceGetMemoryInfo_v2')(gpu, ctypes.byref(info)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=node.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "25", "NVML_ERROR_ARGUMENT_VERSION_MISMATCH"
