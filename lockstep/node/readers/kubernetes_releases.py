"""Helm releases in Kubernetes: their charts, values and objects.

Helm keeps each revision of a release in a Secret, "sh.helm.release.v1.NAME.vN", as JSON that is
compressed and encoded twice (helm.sh/helm/v4, pkg/storage/driver/secrets.go and util.go). So helm
itself is not run.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.kubernetes_objects import (
    ADMIN_CONF,
    KUBECTL,
    LABEL,
    Object,
    differences,
    documents,
    of_text,
)
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import exists, text_of

FOLDER = "/etc/kubernetes/lockstep-releases"
"""Where the values of each release are: NAME.yaml, in JSON after comments."""
MANAGER = "helm"
"""Helm's field manager is the name of its program (pkg/kube/client.go)."""
MISSING = "missing"


def read_releases(request: Request, commands: Commands) -> Readings:
    """The Helm releases that Lockstep installs, and their objects that are not as Helm made them.

    The value has an entry for each release, "namespace/name". ``status`` is Helm's: "deployed",
    "failed", "pending-install" and so on, or "missing" if Helm knows no such release; then nothing
    else is there. ``chart`` is the chart's name and version ("nvidia-device-plugin-0.19.3").
    ``values`` is "as planned", or "differ" if the release was not made with the values in
    /etc/kubernetes/lockstep-releases. ``objects`` has the objects that are "missing" or "differs: "
    with the paths of fields, as in kubernetes.objects; it is empty if nobody changed them. What is
    right is ``lockstep.plan.kubernetes_releases.Release.planned``. The value is empty on nodes that
    install no releases.
    """
    names = request["releases"]
    if names and not exists(ADMIN_CONF):
        raise Unread(f"{ADMIN_CONF}: no such file; kubeadm has not made the control plane")
    return {"kubernetes.releases": {one: _release(one, commands) for one in names}}


def _release(source: str, commands: Commands) -> Object:
    """Return the state of a release, "namespace/name"."""
    namespace, _, name = source.partition("/")
    said = commands.run(
        *(*KUBECTL, f"--namespace={namespace}", "get", "secrets"),
        *(f"--selector=owner=helm,name={name}", "-o", "json"),
    )
    revisions = documents(said)
    if not revisions:
        return {"status": MISSING}
    newest = max(revisions, key=lambda one: int(one["metadata"]["labels"]["version"]))
    made = _decoded(newest["data"]["release"], source)
    about = made["chart"]["metadata"]
    planned = [
        _marked(one, namespace, name)
        for one in of_text(made["manifest"], f"the release {source}", commands, namespace)
    ]
    return {
        "chart": f"{about['name']}-{about['version']}",
        "status": made["info"]["status"],
        "values": "as planned" if _planned_values(name) == made.get("config", {}) else "differ",
        "objects": dict(sorted(differences(planned, commands, MANAGER).items())),
    }


def _marked(one: Object, namespace: str, name: str) -> Object:
    """Return an object with what Helm adds to it (helm.sh/helm/v4, pkg/action/validate.go)."""
    about = one["metadata"]
    notes = {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}
    about["annotations"] = {**(about.get("annotations") or {}), **notes}
    about["labels"] = {**(about.get("labels") or {}), LABEL: "Helm"}
    return one


def _decoded(text: str, source: str) -> Any:
    """Return a revision. Kubernetes encodes the data of each Secret, and Helm its own."""
    try:
        return json.loads(gzip.decompress(base64.b64decode(base64.b64decode(text))))
    except (ValueError, OSError, EOFError, binascii.Error) as error:
        raise Unread(f"{source}: Helm's record of the release is not readable: {error}") from None


def _planned_values(name: str) -> Any:
    """Return the values on this node; None if there is no such file yet."""
    path = f"{FOLDER}/{name}.yaml"
    if not exists(path):
        return None
    lines = text_of(path).splitlines()
    try:
        return json.loads("\n".join(line for line in lines if not line.startswith("#")))
    except ValueError:
        return None
