"""The values of the Helm chart of NVIDIA's GPU operator, taken from the plan.

Keys: deployments/gpu-operator/values.yaml and templates/ of github.com/NVIDIA/gpu-operator, v26.3.3
and v26.7.0. What the operator makes of them: controllers/ of v26.7.0.

The host keeps the driver, the container toolkit, containerd's configuration and the layout of MIG
devices. The operator brings what runs as pods: device plugin, gpu-feature-discovery, validator, the
MIG manager, and DCGM exporter where no host has it.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from lockstep.spec.hardware import Gpu

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

MigStrategy = Literal["none", "single", "mixed"]
"""mig.strategy (crds/nvidia.com_clusterpolicies.yaml)."""
NOT_DIVIDED = "all-disabled"
"""Layout of a node whose GPUs are not divided; the operator knows this name, too."""
MIG_LABEL = "nvidia.com/mig.config"
"""Label of a Node object with the name of its layout (mig-parted, cmd/nvidia-mig-manager)."""
LABEL_CHARACTERS = 63
MIG_CONFIG_MAP = "lockstep-mig-layouts"
COUNTERS_CONFIG_MAP = "lockstep-dcgm-counters"
CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
"""The hook in the package nvidia-container-toolkit-base. Without a toolkit of its own, the operator
leaves the programs' default, an older name (transformDevicePluginCtrForCDI)."""
HOST_ENGINE = "localhost:5555"
"""Where the role dcgm's host engine listens; the role dcgm_exporter uses it as well."""
EVERY_TAINT = ({"operator": "Exists", "effect": "NoSchedule"},)
"""The operands also stay on nodes that take no pods: a worker that is drained or unhealthy."""

COUNTERS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock in MHz."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock in MHz."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature in degrees Celsius."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature in degrees Celsius."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw in watts."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot in millijoules."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization in percent."),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization in percent."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Free GPU memory in MiB."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Used GPU memory in MiB."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Reserved GPU memory in MiB."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "The last Xid."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Corrected ECC errors since the driver loaded."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Uncorrected ECC errors since the driver loaded."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped: uncorrected errors."),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped: corrected errors."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether a row could not be remapped."),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink bandwidth counters of all lanes."),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "NVLink retries."),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "NVLink recoveries."),
    ("DCGM_FI_DRIVER_VERSION", "label", "Driver version."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time that a graphics engine is active."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles that a tensor pipe is active."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles that GPU memory transfers data."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe bytes sent per second."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe bytes received per second."),
)
"""DCGM field, type for Prometheus, help. The fields are those that are on in the exporter's own
file (etc/default-counters.csv of github.com/NVIDIA/dcgm-exporter, 4.5.3-4.8.2), without encoders,
decoders and vGPU, and with its counters of errors of ECC and NVLink."""


def values(node: NodePlan, strategy: MigStrategy | None = None) -> dict[str, Any]:
    """Return the values of the operator's chart: those that differ, or must not change.

    Args:
        node: a node of the control plane.
        strategy: mig.strategy; None: ``mig_strategy``.
    """
    return {
        # The operator's pods are privileged; it gives its namespace the labels that allow them.
        "psa": {"enabled": True},
        "cdi": {"enabled": True},
        "nfd": {"enabled": True},
        "node-feature-discovery": {"worker": {"tolerations": _tolerations()}},
        "daemonsets": {"tolerations": _tolerations()},
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "devicePlugin": {"enabled": True, "env": _environment(NVIDIA_CDI_HOOK_PATH=CDI_HOOK)},
        "gfd": {"enabled": True},
        # With a workload, it would wait for a free GPU at each start.
        "validator": {"plugin": {"env": _environment(WITH_WORKLOAD="false")}},
        "mig": {"strategy": strategy or mig_strategy(node)},
        "migManager": _mig_manager(node),
        # The host's engine serves all; a second one would compete for the profiling counters.
        "dcgm": {"enabled": False},
        "dcgmExporter": _exporter(node),
    }


def mig_strategy(node: NodePlan) -> MigStrategy:
    """Return how MIG devices become resources: by their profiles, if any class has a layout.

    "mixed" names them nvidia.com/mig-1g.18gb and so on. "single" would call both a whole GPU and a
    part of one nvidia.com/gpu. That only suits a cluster whose workers all have the same layout of
    one profile, so it is never chosen here.
    """
    return "mixed" if any(gpu.mig for gpu in _gpus(node).values()) else "none"


def mig_layout(hardware: str, gpu: Gpu) -> str:
    """Return the name of the layout of a hardware class, the value of ``MIG_LABEL``.

    A label's value has at most 63 characters, and ends with a letter or a digit (Kubernetes, Labels
    and Selectors).

    Args:
        hardware: the name of the class.
        gpu: its GPUs.
    """
    if not gpu.mig:
        return NOT_DIVIDED
    name = f"{hardware}-mig"
    if len(name) <= LABEL_CHARACTERS:
        return name
    return f"{hardware[:50]}-{crc32(hardware.encode()):08x}-mig"


def operator_labels(node: NodePlan) -> dict[str, str]:
    """Return the labels that the operator needs on a node: its layout, where a class has one.

    Args:
        node: any node of Kubernetes.
    """
    if not node.takes_pods or node.gpu is None or mig_strategy(node) == "none":
        return {}
    return {MIG_LABEL: mig_layout(node.hardware.name, node.gpu)}


def _gpus(node: NodePlan) -> dict[str, Gpu]:
    """Return the hardware classes of Kubernetes' workers that have NVIDIA's GPUs."""
    return {
        one.hardware.name: one.gpu
        for one in node.cluster.nodes.values()
        if one.takes_pods and one.gpu is not None
    }


def _mig_manager(node: NodePlan) -> dict[str, Any]:
    """Return the settings of the MIG manager: off without layouts, else the planned ones.

    The host makes the MIG devices at boot. The manager finds that a node has its layout already,
    and changes nothing (pkg/mig/reconfigure of mig-parted asserts first). With the chart's default
    layout, "all-disabled", the operator would label each node that has no label, and the manager
    would remove its MIG devices. The empty one leaves such nodes alone; no other is accepted
    (MIGPartedConfigSpec in api/nvidia/v1).
    """
    gpus = _gpus(node)
    if not any(gpu.mig for gpu in gpus.values()):
        return {"enabled": False}
    layouts: dict[str, list[dict[str, Any]]] = {
        NOT_DIVIDED: [{"devices": "all", "mig-enabled": False}]
    }
    for hardware, gpu in sorted(gpus.items()):
        if gpu.mig:
            made = dict(sorted(Counter(gpu.mig).items()))
            one = {"devices": "all", "mig-enabled": True, "mig-devices": made}
            layouts[mig_layout(hardware, gpu)] = [one]
    # JSON is YAML, too.
    text = json.dumps({"version": "v1", "mig-configs": layouts}, indent=2)
    return {
        "enabled": True,
        "env": _environment(NVIDIA_CDI_HOOK_PATH=CDI_HOOK),
        "config": {
            "create": True,
            "name": MIG_CONFIG_MAP,
            "default": "",
            "data": {"config.yaml": f"{text}\n"},
        },
    }


def _exporter(node: NodePlan) -> dict[str, Any]:
    """Return the settings of DCGM exporter: off where the hosts have it, else with our counters.

    Two exporters would give each GPU two series. The host's one maps GPUs to pods, too (role
    dcgm_exporter).
    """
    stack = node.spec.software.nvidia
    if stack is not None and stack.dcgm_exporter is not None:
        return {"enabled": False}
    engine = stack is not None and stack.dcgm is not None
    return {
        "enabled": True,
        # The host engine listens on the loopback interface only.
        "hostNetwork": engine,
        "env": _environment(
            DCGM_EXPORTER_KUBERNETES="true",
            DCGM_EXPORTER_INTERVAL=str(node.spec.monitoring.scrape_interval_s * 1000),
            **({"DCGM_REMOTE_HOSTENGINE_INFO": HOST_ENGINE} if engine else {}),
        ),
        # It belongs to the Prometheus operator, which Lockstep does not install.
        "serviceMonitor": {"enabled": False},
        "config": {"create": True, "name": COUNTERS_CONFIG_MAP, "data": _counters()},
    }


def _counters() -> str:
    return "".join(f"{name}, {kind}, {text}\n" for name, kind, text in COUNTERS)


def _tolerations() -> list[dict[str, str]]:
    return [dict(one) for one in EVERY_TAINT]


def _environment(**variables: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]
