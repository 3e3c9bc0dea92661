"""Static pods of Kubernetes' control plane, compared with what kubeadm would write now."""

from __future__ import annotations

import os
import tempfile

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import exists, text_of

MANIFESTS = "/etc/kubernetes/manifests"
DONE = "/var/lib/lockstep/kubernetes/done"
"""Exists once kubeadm has made this node a member."""
MISSING = "missing"
MOST_LINES = 3


def read_manifests(request: Request, commands: Commands) -> Readings:
    """The static pods whose manifests are not as kubeadm's configuration has them.

    The value has an entry for each such pod, by name: "missing", or "differs: " with the lines that
    the manifest lacks or has beyond. It is empty if all are as planned, and on nodes without a
    control plane. In a dry run kubeadm writes the manifests to the folder of an environment
    variable (kubeadm, constants.go: EnvVarInitDryRunDir).
    """
    found = {}
    for config in request["kubeadm"]:
        if not exists(DONE):
            raise Unread(f"{DONE}: no such file; kubeadm has not made the control plane")
        with tempfile.TemporaryDirectory(prefix="lockstep-", dir="/run") as folder:
            commands.run(
                *("env", f"KUBEADM_INIT_DRYRUN_DIR={folder}", "kubeadm", "init", "phase"),
                *("control-plane", "all", "--config", config, "--dry-run"),
            )
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    wanted = file.read()
                is_now = text_of(f"{MANIFESTS}/{name}", "")
                if is_now != wanted:
                    found[name.rpartition(".")[0]] = difference(is_now, wanted)
    return {"kubernetes.manifests": found}


def difference(is_now: str, wanted: str) -> str:
    """Return how a manifest differs from the wanted one."""
    if not is_now:
        return MISSING
    now, then = is_now.splitlines(), wanted.splitlines()
    lines = [
        *(f"lacks {line.strip()!r}" for line in then if line not in now),
        *(f"has {line.strip()!r}" for line in now if line not in then),
    ]
    more = ["..."] if len(lines) > MOST_LINES else []
    return "differs: " + (", ".join([*lines[:MOST_LINES], *more]) or "the order of its lines")
