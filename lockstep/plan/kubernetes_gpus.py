"""How the GPUs of workers become resources of Kubernetes.

Every worker with GPUs has a runtime handler "nvidia", which gives containers the host's driver
(nvidia-container-runtime, mode CDI). The device plugin runs with it. Other pods get their GPUs as
CDI devices, so they need no runtime class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.plan import kubernetes_operator
from lockstep.plan.kubernetes import STATE
from lockstep.plan.kubernetes_objects import Object
from lockstep.spec.kubernetes_gpus import KubernetesGpus

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

NAMESPACE = "gpu-operator"
"""NVIDIA's documentation of the operator uses this name."""
LAYOUTS = f"{STATE}/mig-layouts"
"""The layouts of MIG devices with which the device plugin has started, on the first head."""
RUNTIME = "nvidia"
"""Name of the runtime class, and of containerd's handler (the operator's operator.runtimeClass)."""
RUNTIME_PROGRAM = "/usr/bin/nvidia-container-runtime"
"""Of the package nvidia-container-toolkit-base."""
SMI_LINK = "/usr/local/bin/nvidia-smi"
SMI_TARGET = "../../lib/nvidia/current/nvidia-smi"
"""Debian's package nvidia-smi has the program there; /usr/bin/nvidia-smi is an absolute link."""


def settings(plan: NodePlan) -> KubernetesGpus | None:
    """Return how the cluster's pods get GPUs; None if Lockstep has nothing to do for it."""
    found = plan.spec.kubernetes
    if found is None or found.gpus.deploy == "none" or not gpu_workers(plan):
        return None
    return found.gpus


def has_gpus(plan: NodePlan) -> bool:
    """Return whether a node gives GPUs to pods."""
    return plan.takes_pods and plan.gpu is not None and settings(plan) is not None


def runtimes(plan: NodePlan) -> dict[str, str]:
    """Return containerd's runtime handlers of a node: name -> program; empty: containerd's own.

    containerd has no handler "runc" any more once a file declares another one.
    """
    return {"runc": "", **({RUNTIME: RUNTIME_PROGRAM} if has_gpus(plan) else {})}


def gpu_workers(plan: NodePlan) -> tuple[NodePlan, ...]:
    """Return the cluster's workers of Kubernetes that have NVIDIA's GPUs."""
    made = plan.cluster.made
    if gpu_workers not in made:
        nodes = plan.cluster.nodes.values()
        made[gpu_workers] = tuple(one for one in nodes if one.takes_pods and one.gpu is not None)
    found: tuple[NodePlan, ...] = made[gpu_workers]
    return found


def links_program(plan: NodePlan) -> bool:
    """Return whether a node needs a relative link to nvidia-smi.

    The device plugin looks for the program below the host's root, which its container has in
    another folder, where Debian's absolute link leads nowhere (nvidia-container-toolkit,
    internal/lookup/executable.go). Then pods would not have nvidia-smi.
    """
    return has_gpus(plan) and plan.nvidia is not None and plan.nvidia.spec.packaging == "debian"


def layouts(plan: NodePlan) -> str:
    """Return the MIG layouts of the hardware classes as text."""
    found = {one.hardware.name: one.gpu.mig for one in gpu_workers(plan) if one.gpu}
    return " ".join(f"{name}={','.join(mig) or 'off'}" for name, mig in sorted(found.items()))


def values(plan: NodePlan) -> dict[str, Any]:
    """Return the values of the chart that the description chooses."""
    found = settings(plan)
    operator = found is not None and found.deploy == "operator"
    return kubernetes_operator.values(plan) if operator else _of_plugin(plan)


def _of_plugin(plan: NodePlan) -> dict[str, Any]:
    """Return values of the chart nvidia-device-plugin (its values.yaml, version 0.19.3)."""
    classes = sorted({one.hardware.name for one in gpu_workers(plan)})
    on_workers = {"key": "lockstep/hardware-class", "operator": "In", "values": classes}
    return {
        # Not by a label of node-feature-discovery: GPUs that are not in sysfs have none.
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [on_workers]}]
                }
            }
        },
        "cdi": {"nvidiaHookPath": kubernetes_operator.CDI_HOOK},
        "deviceListStrategy": "cdi-cri",
        "gfd": {"enabled": True},
        "migStrategy": kubernetes_operator.mig_strategy(plan),
        "nvidiaDriverRoot": "/",
        "runtimeClassName": RUNTIME,
    }


def objects(plan: NodePlan) -> list[Object]:
    """Return the namespace, whose pods are privileged, and the runtime class.

    The operator makes the runtime class itself.
    """
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            # Kubernetes, Pod Security Admission.
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
    }
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": RUNTIME,
    }
    found = settings(plan)
    return [namespace, *([runtime] if found is not None and found.deploy == "operands" else [])]
