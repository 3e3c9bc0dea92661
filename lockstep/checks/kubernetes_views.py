"""What rules look at of Kubernetes: a node as the API server sees it, and what it has itself.

Expected values come from the plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import made
from lockstep.checks.rule import Look
from lockstep.checks.rules.boot import own_kernel
from lockstep.checks.slurm_states import OUR_MARK
from lockstep.plan.kubernetes import CORDONED, SANDBOX_IMAGE, control_planes
from lockstep.plan.kubernetes_gpus import has_gpus
from lockstep.plan.kubernetes_releases import releases
from lockstep.probe.record import MISSING, Unread, item
from lockstep.spec import Service
from lockstep.spec.names import cpus

SILENT, OURS = "silent", "ours"
OUR_CONDITION = "LockstepHealthy"
"""The condition of a Node that Lockstep's node check sets. The reasons of its cordons begin as in
Slurm (``OUR_MARK``); those of rollouts begin otherwise."""
AUTOMATIC = ("node.kubernetes.io/", "lockstep/")
"""Prefixes of taints that follow from a node's state (Kubernetes, Taints and Tolerations)."""
UNITS = {"": 1, "m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS |= {f"{unit}i": 1 << 10 * power for power, unit in enumerate("KMGT", 1)}
MIB = 1 << 20
GPU = "nvidia.com/gpu"
"""The resource of whole GPUs (k8s-device-plugin)."""


def quantity(text: str) -> float:
    """Return a number of Kubernetes, such as 1500m or 24684092Ki (Kubernetes API, Quantity)."""
    match = re.fullmatch(r"([\d.]+)([A-Za-z]*)", text)
    if match is None or match.group(2) not in UNITS:
        raise ValueError(f"{text!r} is no quantity")
    return float(match.group(1)) * UNITS[match.group(2)]


def concerned(view: View) -> bool:
    """Return whether a node belongs to Kubernetes."""
    return view.plan.runs_kubelet


def controls(view: View) -> bool:
    """Return whether a node runs Kubernetes' control plane."""
    return view.plan.runs(Service.KUBERNETES_CONTROL_PLANE)


def seen(view: View, reading: str = "kubernetes.nodes") -> Value:
    """Return the entry of a node in what the first head that answers says of all nodes."""
    reason = "there is no record of the control plane"
    for plan in control_planes(view.plan):
        head = view.context.views.get(view.context.labelled(plan.name))
        value = MISSING if head is None else head.read(reading)
        if isinstance(value, dict):
            unknown = Unread(unread="the API server does not know the node")
            return item(value[view.plan.name]) if view.plan.name in value else unknown
        if head is not None and isinstance(value, Unread):
            reason = f"on {plan.name}: {value.unread}"
    return Unread(unread=reason)


def of_entry(
    shown: Callable[[View, dict[str, JsonValue]], Items], reading: str = "kubernetes.nodes"
) -> Look:
    """Return a ``Look`` at the API server's entry for a node.

    If the API server did not answer, the look has one item that could not be read.
    """

    def look(view: View) -> Items:
        entry = seen(view, reading)
        return shown(view, entry) if isinstance(entry, dict) else {"": entry}

    return Look(look)


def _map(entry: dict[str, JsonValue], key: str) -> dict[str, JsonValue]:
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def state(view: View, entry: dict[str, JsonValue]) -> Items:
    """Return whether a node is Ready, and what keeps pods away from it."""
    reasons = _map(entry, "reasons")
    wrong = []
    for kind, status in _map(entry, "conditions").items():
        good = "True" if kind in ("Ready", OUR_CONDITION) else "False"
        if status != good:
            said = str(reasons.get(kind) or "")
            name = "not Ready" if kind == "Ready" else f"{kind} is {status}"
            wrong.append(name + (f" ({said})" if said else ""))
    if "Ready" not in _map(entry, "conditions"):
        wrong.append("it has no condition Ready")
    if entry.get("unschedulable"):
        why = _cordoned_because(entry)
        by = "by its own node check" if why.startswith(OUR_MARK) else f"by a rollout: {why}"
        wrong.append(f"cordoned {by}" if why else "cordoned")
    return {"": ", ".join(wrong) or "takes pods"}


def _cordoned_because(entry: dict[str, JsonValue]) -> str:
    return str(_map(entry, "annotations").get(CORDONED) or "")


def state_tags(view: View, device: str) -> frozenset[str]:
    """Return whether a node is silent, or Lockstep's node check took it out; none if cordoned."""
    entry = seen(view)
    if not isinstance(entry, dict):
        return frozenset()
    if entry.get("unschedulable") and not _cordoned_because(entry).startswith(OUR_MARK):
        return frozenset()
    conditions = _map(entry, "conditions")
    silent = {SILENT} if conditions.get("Ready") != "True" else set()
    return frozenset(silent | ({OURS} if conditions.get(OUR_CONDITION) == "False" else set()))


def configured(view: View) -> dict[str, JsonValue]:
    """Return what the drop-in sets (templates/kubernetes_node/kubelet.yaml.j2), as it is shown."""
    plan = view.plan.kubernetes
    settings = plan.settings.kubelet
    found: dict[str, JsonValue] = {
        "cgroupDriver": plan.cgroup_driver,
        "failSwapOn": plan.own_swap,
        "maxPods": settings.max_pods,
        "imageGCHighThresholdPercent": settings.image_gc_high_percent,
        "imageGCLowThresholdPercent": settings.image_gc_low_percent,
        "containerLogMaxSize": f"{settings.log_max_size_mib}Mi",
        "containerLogMaxFiles": settings.log_max_files,
        "rotateCertificates": True,
        "resolvConf": "/etc/kubernetes/lockstep-resolv.conf",
    }
    if not plan.confines:
        return found | {
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": "none",
            "localStorageCapacityIsolation": False,
        }
    found |= {
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": settings.topology_policy,
        "memoryManagerPolicy": "Static",
        "systemReserved": f"memory {plan.system_reserved_mib} MiB",
        "evictionHard": "imagefs.available 15%, imagefs.inodesFree 5%, memory.available 100 MiB, "
        "nodefs.available 10%, nodefs.inodesFree 5%",
        "reservedMemory": ", ".join(
            f"node{node} {mib} MiB" for node, mib in sorted(plan.reserved_memory_mib.items())
        ),
    }
    if plan.reserved_cpus:
        # The kubelet writes their number over what its files have (cmd/kubelet/app/server.go).
        number = len(cpus(plan.reserved_cpus))
        reserved = f"cpu {number}, {found['systemReserved']}"
        return found | {"reservedSystemCPUs": plan.reserved_cpus, "systemReserved": reserved}
    return found | {"kubeReserved": "cpu 1"}


def _size(value: JsonValue) -> str:
    """Return sizes of memory in MiB, whichever unit they have; other values as they are."""
    text = str(value)
    return f"{quantity(text) / MIB:g} MiB" if re.fullmatch(r"\d+[KMGT]i", text) else text


def running(view: View, entry: dict[str, JsonValue]) -> Items:
    """Return the running values of what the plan sets, in the same form."""
    found: Items = {}
    for key in configured(view):
        value = entry.get(key, "not set")
        if key == "reservedMemory" and isinstance(value, list):
            rows = {
                int(str(row["numaNode"])): _size(_map(row, "limits").get("memory"))
                for row in value
                if isinstance(row, dict)
            }
            value = ", ".join(f"node{node} {size}" for node, size in sorted(rows.items()))
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        elif isinstance(value, dict):
            value = ", ".join(f"{name} {_size(value[name])}" for name in sorted(value))
        found[key] = value
    return found


def _resource(size: str) -> str:
    """Return the name of a size of huge pages as a resource: 2M -> hugepages-2Mi."""
    return f"hugepages-{size}i"


def allocatable(view: View, entry: dict[str, JsonValue]) -> Items:
    """Return what a node offers of the planned resources: a number of CPUs, or MiB of pages."""
    there = _map(entry, "allocatable")
    found: Items = {}
    for name in allocatable_expected(view):
        value = quantity(str(there.get(name, 0)))
        found[name] = int(value / MIB) if name.startswith("hugepages-") else round(value, 3)
    return found


def allocatable_expected(view: View) -> dict[str, JsonValue]:
    """Return the CPUs without the reserved ones, the size of the planned huge pages, and the GPUs.

    MIG devices are resources with the names of their profiles (k8s-device-plugin 0.19.3,
    internal/rm/rm.go, AddDefaultResourcesToConfig).
    """
    plan, hardware = view.plan.kubernetes, view.plan.hardware
    reserved = 0
    if plan.confines:
        reserved = len(cpus(plan.reserved_cpus)) if plan.reserved_cpus else 1
    found: dict[str, JsonValue] = {"cpu": float(hardware.hardware.cpus - reserved)}
    for size, nodes in hardware.hugepages.items() if own_kernel(view) else ():
        found[_resource(size)] = sum(nodes.values()) * int(quantity(f"{size}i") / MIB)
    gpu = view.plan.gpu
    if gpu is not None and offers_gpus(view):
        found[GPU] = float(gpu.count)
    if gpu is not None and has_gpus(view.plan):
        for profile, number in Counter(gpu.mig).items():
            found[f"nvidia.com/mig-{profile.replace('+', '.')}"] = float(gpu.count * number)
    return found


def offers_gpus(view: View) -> bool:
    """Return whether the kubelet of a node has whole GPUs from a device plugin."""
    gpu = view.plan.gpu
    return concerned(view) and gpu is not None and not gpu.mig and has_gpus(view.plan)


def knows_nodes(view: View) -> bool:
    """Return whether the rules judge here which nodes the API server has: on one head."""
    return concerned(view) and control_planes(view.plan)[0].name == view.plan.name


def _unknown(view: View, nodes: Items) -> Items:
    members = {name for name, node in view.plan.cluster.nodes.items() if node.runs_kubelet}
    return {name: "a Node object" for name in nodes if name not in members}


unknown_nodes = made("kubernetes.nodes", _unknown)
"""The Node objects that no node of the description has."""


def unknown_expected(view: View) -> dict[str, JsonValue]:
    """Return that the description has a node of each of these names."""
    return dict.fromkeys(unknown_nodes(view), "a node of Kubernetes in the description")


def labels_of(view: View, entry: dict[str, JsonValue]) -> Items:
    """Return the planned labels as they are."""
    labels = _map(entry, "labels")
    return {key: labels.get(key, "absent") for key in labels_expected(view)}


def labels_expected(view: View) -> dict[str, JsonValue]:
    """Return the planned labels, and that of kubeadm (kubeadm init, mark-control-plane)."""
    own: dict[str, JsonValue] = dict(view.plan.kubernetes.labels)
    if controls(view):
        own["node-role.kubernetes.io/control-plane"] = ""
    return own


def taints_of(view: View, entry: dict[str, JsonValue]) -> Items:
    """Return the taints that do not follow from the state of a node."""
    taints = entry.get("taints")
    listed = taints if isinstance(taints, list) else []
    return {"": [one for one in map(str, listed) if not one.startswith(AUTOMATIC)]}


def taints_expected(view: View) -> JsonValue:
    """kubeadm keeps pods away from the control plane (kubeadm init, mark-control-plane)."""
    control = controls(view)
    return ["node-role.kubernetes.io/control-plane=:NoSchedule"] if control else []


def routed(view: View) -> bool:
    """Return whether a node has routes to the pods of the others."""
    settings = view.plan.spec.kubernetes
    return settings is not None and view.plan.runs_kubelet and settings.network == "routed"


route_items = made(
    "kubernetes.routes",
    lambda view, routes: {
        **dict.fromkeys(dict(view.plan.kubernetes.routes), "no route"),
        **routes,
    },
)


def routes_expected(view: View) -> dict[str, JsonValue]:
    """Return the planned routes; further ones must not be there."""
    routes = view.read("kubernetes.routes")
    there = routes if isinstance(routes, dict) else {}
    return {**dict.fromkeys(there, "no route"), **dict(view.plan.kubernetes.routes)}


def _static_pods(view: View, pods: Items) -> Items:
    """Return the images of the static pods; without the tag where kubeadm chooses it."""
    found = {**dict.fromkeys(static_pods_expected(view), "absent"), **pods}
    images = found.get("etcd")
    if isinstance(images, list) and not view.plan.kubernetes.settings.images.etcd:
        found["etcd"] = [str(image).rpartition(":")[0] for image in images]
    return found


static_pod_items = made("kubernetes.static_pods", _static_pods)


def _release_text(state: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {state[key]}" for key in sorted(state) if key != "objects")


def _releases(view: View, found: Items) -> Items:
    items: Items = {}
    for name, state in found.items():
        if not isinstance(state, dict):
            items[name] = state
            continue
        items[name] = _release_text(state)
        changed = _map(state, "objects")
        items.update({f"{name} {one}": how for one, how in changed.items()})
    return items


releases_of = made("kubernetes.releases", _releases)
"""Each Helm release in one text, and each of its objects that differs."""


def releases_expected(view: View) -> dict[str, JsonValue]:
    """Return the planned state of each Helm release; none of its objects may differ."""
    return {
        **{name: "as Helm made it" for name in releases_of(view) if " " in name},
        **{one.source: _release_text(one.planned) for one in releases(view.plan)},
    }


def static_pods_expected(view: View) -> dict[str, JsonValue]:
    """Return the images of the control plane; other static pods must not be there."""
    there = view.read("kubernetes.static_pods")
    found: dict[str, JsonValue] = dict.fromkeys(there if isinstance(there, dict) else (), "absent")
    if controls(view):
        settings, registry = view.plan.kubernetes.settings, SANDBOX_IMAGE.rpartition("/")[0]
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            found[name] = [f"{registry}/{name}:v{settings.version}"]
        tag = settings.images.etcd
        found["etcd"] = [f"{registry}/etcd" + (f":{tag}" if tag else "")]
    return found
