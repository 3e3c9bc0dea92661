"""Objects of Kubernetes: whether they are as the manifests on this node have them.

A manifest is applied with server-side apply (Kubernetes, Server-Side Apply), so only the fields
that a manifest has are compared: the API server itself tells what an object would become, in a dry
run. What kubeadm installs (kube-proxy, CoreDNS) is compared in the same way.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from typing import Any

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.kubernetes import unix
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import exists, text_of

ADMIN_CONF = "/etc/kubernetes/admin.conf"
KUBECTL = (
    "kubectl",
    f"--kubeconfig={ADMIN_CONF}",
    "--request-timeout=8s",
    # Without a home, kubectl would make a folder in the current one.
    "--cache-dir=/run/lockstep/kubectl",
)
OWNER = "lockstep"
"""The field manager, and the value of ``LABEL``."""
LABEL = "app.kubernetes.io/managed-by"
"""Kubernetes, Recommended Labels."""
OF_KUBEADM = "kubeadm:"
"""Begins a name in the request that is kubeadm's configuration file, not a manifest."""
KINDS = (
    *("namespaces", "resourcequotas", "limitranges", "configmaps", "secrets", "serviceaccounts"),
    *("services", "deployments.apps", "daemonsets.apps", "statefulsets.apps"),
    *("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
    *("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
    *("priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io"),
    "runtimeclasses.node.k8s.io",
)
"""The kinds whose left-over objects are found. Kubernetes itself copies labels to objects of other
kinds, such as EndpointSlices and ReplicaSets."""
MISSING = "missing"
LEFT_OVER = "left over"
DIFFERS = "differs: "
FIXED = "differs: in fields that cannot change"
REPLICAS = "spec.replicas"
COREDNS = "Deployment kube-system/coredns"
SETTLED_S = 60
"""Time that pods have to start, such as after a deploy or a reboot, before they count as
unavailable."""
REFUSED = ("is invalid:", "is forbidden:", "cannot change")
"""What kubectl says of a change that the API server refuses."""
NOT_COMPARED = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
"""Fields of metadata that the API server sets."""
COUNTED = ("deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision")
"""Annotations in which the API server counts the changes."""
MOST_FIELDS = 5

Object = dict[str, Any]
Key = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def read_objects(request: Request, commands: Commands) -> Readings:
    """The managed objects that are not as the manifests have them, or lack available pods.

    ``kubernetes.objects`` has an entry for each object that is not as planned, "Kind
    namespace/name" or "Kind name" for one without a namespace: "missing", "differs: " and the paths
    of its fields with commas ("differs: spec.hard.pods"), or "left over", if it has Lockstep's
    label and no manifest has it. ``kubernetes.unavailable`` has the Deployments that had too few
    available pods for a minute, with their number: "0 of 2 pods" (Kubernetes, Deployment, condition
    Available). Both are empty if everything is as planned, and on nodes without manifests.
    """
    names = request["manifests"]
    if not names:
        return {"kubernetes.objects": {}, "kubernetes.unavailable": {}}
    if not exists(ADMIN_CONF):
        raise Unread(f"{ADMIN_CONF}: no such file; kubeadm has not made the control plane")
    planned = _by_key(_planned(names, commands))
    live = _live(planned, commands)
    found = _differences(planned, live, commands, OWNER)
    for key in _labelled(commands):
        if key not in planned:
            found[_shown(key)] = LEFT_OVER
    return {
        "kubernetes.objects": dict(sorted(found.items())),
        "kubernetes.unavailable": dict(sorted(_unavailable(live.values()).items())),
    }


def differences(objects: list[Object], commands: Commands, manager: str) -> dict[str, str]:
    """Return the objects that are missing or differ, as ``read_objects`` has them.

    Args:
        objects: the objects as they are planned.
        commands: runs kubectl.
        manager: who applies them with server-side apply.
    """
    planned = _by_key(objects)
    return _differences(planned, _live(planned, commands), commands, manager)


def _differences(
    planned: dict[Key, Object], live: dict[Key, Object], commands: Commands, manager: str
) -> dict[str, str]:
    found = {_shown(key): MISSING for key in planned if key not in live}
    there = {key: one for key, one in planned.items() if key in live}
    for key, merged in _merged(there, commands, manager).items():
        if merged is None:
            found[_shown(key)] = FIXED
            continue
        paths = list(dict.fromkeys(different(_compared(live[key]), _compared(merged))))
        # A site may choose the number of CoreDNS' pods, but it cannot be 0.
        if _shown(key) == COREDNS and live[key]["spec"].get("replicas") == 0:
            paths = list(dict.fromkeys((REPLICAS, *paths)))
        if paths:
            more = ["..."] if len(paths) > MOST_FIELDS else []
            found[_shown(key)] = DIFFERS + ", ".join([*paths[:MOST_FIELDS], *more])
    return found


def _unavailable(live: Iterable[Object]) -> dict[str, str]:
    """Return the Deployments without enough available pods (``read_objects``)."""
    found = {}
    for one in live:
        if one["kind"] != "Deployment":
            continue
        status = one.get("status") or {}
        conditions = {of["type"]: of for of in status.get("conditions") or ()}
        available = conditions.get("Available", {"status": "Unknown"})
        progress = conditions.get("Progressing", {"status": "Unknown"})
        # A rollout may wait for workers that join; progressDeadlineSeconds ends it (600 s).
        rolls_out = progress["status"] == "True" and progress["reason"] != "NewReplicaSetAvailable"
        if available["status"] != "False" or rolls_out:
            continue
        since = unix(available["lastTransitionTime"], "%Y-%m-%dT%H:%M:%SZ")
        if time.time() - since >= SETTLED_S:
            available_pods = status.get("availableReplicas", 0)
            found[_shown(_key(one))] = f"{available_pods} of {one['spec']['replicas']} pods"
    return found


def _planned(names: list[str], commands: Commands) -> list[Object]:
    """Return the objects of the manifests, and those that kubeadm would install."""
    found: list[Object] = []
    for name in names:
        if name.startswith(OF_KUBEADM):
            found += _of_kubeadm(name[len(OF_KUBEADM) :], commands)
        else:
            found += of_text(text_of(name), name, commands)
    return found


def of_text(text: str, name: str, commands: Commands, namespace: str = "") -> list[Object]:
    """Return the objects of a manifest: one document in JSON after comments, or any YAML.

    Args:
        text: the manifest.
        name: what it is, for a message.
        commands: runs kubectl, which reads YAML.
        namespace: the namespace of objects that name none, in YAML.
    """
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    try:
        document = json.loads(body)
    except ValueError:
        within = (f"--namespace={namespace}",) if namespace else ()
        status, out, err = commands.outcome(
            *(*KUBECTL, *within),
            *("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"),
            text=text,
        )
        if status != 0:
            said = (err.strip() or "no message").splitlines()[0]
            raise Unread(f"{name}: kubectl cannot read this manifest: {said[:200]}") from None
        return documents(out)
    return _flat(document)


def _of_kubeadm(config: str, commands: Commands) -> list[Object]:
    """Return what kubeadm installs besides the control plane: kube-proxy and CoreDNS.

    kubeadm keeps the number of CoreDNS' replicas that it finds (phases/addons/dns/dns.go).
    """
    found = []
    for addon in ("kube-proxy", "coredns"):
        said = commands.run(
            *("kubeadm", "init", "phase", "addon", addon, "--config", config, "--print-manifest")
        )
        # A message of kubeadm's may come first.
        text = said[said.index("---") :] if "---" in said else said
        found += of_text(text, f"kubeadm's {addon}", commands)
    for one in found:
        if one["kind"] == "Deployment":
            one["spec"].pop("replicas", None)
    return found


def documents(text: str) -> list[Object]:
    """Return the objects of a text with any number of JSON documents."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        one, at = decoder.raw_decode(text, at)
        found += _flat(one)
    return found


def _flat(document: Object) -> list[Object]:
    """Return the objects of a List, or the object itself."""
    return document["items"] if document.get("kind") == "List" else [document]


def _by_key(objects: list[Object]) -> dict[Key, Object]:
    return {_key(one): one for one in objects}


def _key(one: Object) -> Key:
    about = one["metadata"]
    group = one["apiVersion"].rpartition("/")[0]
    return group, one["kind"], about.get("namespace", ""), about["name"]


def _shown(key: Key) -> str:
    _, kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _list(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _live(planned: dict[Key, Object], commands: Commands) -> dict[Key, Object]:
    """Return the planned objects that exist; none of a kind that the API server does not know."""
    asked = [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "metadata": {
                name: value
                for name, value in one["metadata"].items()
                if name in ("name", "namespace")
            },
        }
        for one in planned.values()
    ]
    unknown: set[str] = set()
    while True:
        left = [one for one in asked if one["kind"] not in unknown]
        status, out, err = commands.outcome(
            *(*KUBECTL, "get", "--ignore-not-found", "--show-managed-fields=false"),
            *("-o", "json", "-f", "-"),
            text=_list(left),
        )
        if status == 0:
            return {_key(one): one for one in documents(out)}
        kinds = set(re.findall(r'no matches for kind "(\w+)"', err)) - unknown
        if not kinds:
            raise failure("kubectl get", status, "", err)
        unknown |= kinds


def _merged(there: dict[Key, Object], commands: Commands, manager: str) -> dict[Key, Object | None]:
    """Return what existing objects would become; None if the API server refuses the change.

    It changes nothing in a dry run.
    """
    if not there:
        return {}
    status, out, err = commands.outcome(
        *(*KUBECTL, "apply", "--server-side", "--dry-run=server", "--force-conflicts"),
        *(f"--field-manager={manager}", "-o", "json", "-f", "-"),
        text=_list(list(there.values())),
    )
    if status == 0:
        return {_key(one): one for one in documents(out)}
    if len(there) > 1:
        parts = [_merged({key: one}, commands, manager) for key, one in there.items()]
        return {key: merged for part in parts for key, merged in part.items()}
    if not any(word in err for word in REFUSED):
        raise failure("kubectl apply", status, "", err)
    return dict.fromkeys(there)


def _labelled(commands: Commands) -> list[Key]:
    """Return the objects with Lockstep's label."""
    said = commands.run(
        *(*KUBECTL, "get", ",".join(KINDS), "--all-namespaces", f"--selector={LABEL}={OWNER}"),
        *("-o", "json"),
    )
    return [_key(one) for one in documents(said)]


def _compared(one: Object) -> Object:
    """Return the fields of an object that are compared."""
    about = {name: value for name, value in one["metadata"].items() if name not in NOT_COMPARED}
    notes = about.get("annotations") or {}
    about["annotations"] = {name: notes[name] for name in notes if name not in COUNTED}
    return {**{name: one[name] for name in one if name != "status"}, "metadata": about}


def different(live: Any, wanted: Any, path: str = "") -> list[str]:
    """Return the paths at which two values differ; values themselves may be secret."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        return [
            found
            for name in sorted({*live, *wanted})
            for found in different(live.get(name), wanted.get(name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        return [
            found
            for number, one in enumerate(live)
            for found in different(one, wanted[number], f"{path}[{_named(one, number)}]")
        ]
    return [] if live == wanted else [path]


def _named(one: Any, number: int) -> str:
    """Return the name of an element of a list, such as a container's, or its number."""
    return str(one.get("name", number)) if isinstance(one, dict) else str(number)
