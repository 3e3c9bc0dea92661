"""Events of the simulated NVML: each Xid is told once to each set that waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.nvml.programs import SimulatedNode

TIMEOUT = 10
"""NVML_ERROR_TIMEOUT of nvml.h."""
WAITS = """
import ctypes, sys

class Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p), ("type", ctypes.c_ulonglong), ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint),
    ]

nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, events = ctypes.c_void_p(), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
assert nvml.nvmlEventSetCreate(ctypes.byref(events)) == 0
xid_critical_error = ctypes.c_ulonglong(8)
assert nvml.nvmlDeviceRegisterEvents(device, xid_critical_error, events) == 0
print("ready", flush=True)
for line in sys.stdin:
    event = Event()
    status = nvml.nvmlEventSetWait_v2(events, ctypes.byref(event), 200)
    print(status, event.data, flush=True)
"""


def test_each_xid_is_one_event(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path)
    node.set("1", "xid=none")  # as after a boot, or after an earlier fault
    program = [sys.executable, "-c", WAITS]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program, env=node.environment, stdin=pipe, stdout=pipe, text=True
    ) as waits:
        assert waits.stdin is not None
        assert waits.stdout is not None
        assert waits.stdout.readline() == "ready\n"
        seen = []
        for numbers in ("none", "79", "79", "79 48", "none", "79"):
            node.set("1", f"xid={numbers}")
            print(file=waits.stdin, flush=True)
            seen.append(waits.stdout.readline().strip())
        waits.stdin.close()
    none = f"{TIMEOUT} 0"
    assert seen == [none, "0 79", none, "0 48", none, "0 79"]
