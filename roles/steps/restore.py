"""Restores etcd from a snapshot: on the first head, which the other heads then join again.

Owns     the data of etcd, for this deploy; what was there stays beside it.
Restart  the control plane; pods on workers keep running.
"""

from __future__ import annotations

import shlex

from pyinfra import host
from pyinfra.api import deploy

from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import (
    BEGUN,
    CRICTL,
    DONE,
    ETCD_DATA,
    ETCD_PEER_PORT,
    MANIFESTS,
    RESTORING,
    STATE,
    STOPPED,
    first_control_plane,
)
from lockstep.roles.operations.declared import refused
from lockstep.roles.operations.kubernetes_certificates import ready_here
from lockstep.roles.operations.operation import Commands, operation, refusal
from lockstep.roles.operations.run import begins

WITHIN_S = 120
"""Seconds for the pods to stop, and for the API server to be ready."""
LIMIT_S = 420.0
CLIENTS = ("kube-controller-manager", "kube-scheduler")
PODS = ("etcd", "kube-apiserver", *CLIENTS)
"""The static pods of a head; the last two remember what the lost objects were."""
WORK = f"{STATE}/restore"
DONE_WITH = f"{STATE}/restored"
"""Folder with the data that etcd had before, by time."""
A_SECOND = 1000
"""etcd's revision after a restore is the time in seconds times this, whatever the snapshot has. A
client that knows a higher revision would wait for it, and see no change of any object until then
(etcd.io, Disaster recovery: restoring with revision bump). So a second restore must not give the
revision of the first one again. etcd writes fewer than a thousand revisions per second."""
FURTHER = 1_000_000_000
"""How much higher the revision is where etcd has written more than that."""


def _stopped(*names: str) -> str:
    """Return a command that waits until none of these pods runs."""
    crictl = f"{CRICTL} ps --state Running --quiet --name"
    pattern = f"'^({'|'.join(names)})$'"
    return (
        f'for i in $(seq {WITHIN_S}); do test -n "$({crictl} {pattern})" || break; sleep 1; done; '
        f'test -z "$({crictl} {pattern})" || {{ echo "{" or ".join(names)} did not stop within '
        f'{WITHIN_S} s. Next: journalctl -u kubelet" >&2; exit 1; }}'
    )


@operation(limit_s=LIMIT_S)
def stopped(plan: NodePlan) -> Commands:
    """Stop etcd and the API server of a head that will join again.

    The notes make kubeadm reset the node at its next deploy.

    Args:
        plan: the plan of a head other than the first.
    """
    state, first = host.state, first_control_plane(plan).name
    other = state.inventory.get_host(first, None)
    if state.is_executing and (other not in state.active_hosts or other in state.failed_hosts):
        yield refusal(f"{plan.name} was left alone, because {first} has not restored the snapshot")
        return
    yield (
        f"mkdir -p {STATE} && touch {BEGUN} && rm -f {DONE} {MANIFESTS}/*.yaml && sync {STATE}; "
        f"{_stopped(*PODS)}"
    )


@operation(limit_s=LIMIT_S)
def restored(plan: NodePlan, snapshot: str) -> Commands:
    """Give etcd the data of a snapshot, as its only member.

    The snapshot is read and verified before anything stops (etcdutl: its SHA-256).

    Args:
        plan: the plan of the first head.
        snapshot: path of the snapshot on this head.
    """
    name, file = shlex.quote(plan.name), shlex.quote(snapshot)
    url = f"https://{plan.endpoint(ETCD_PEER_PORT)}"
    ctr = "ctr --namespace k8s.io images"
    etcd = f"{MANIFESTS}/etcd.yaml"
    ready = ready_here(plan)
    yield (
        f"set -eu; umask 077; mkdir -p {STOPPED} {WORK} {DONE_WITH}; "
        f"test -s {file} || {{ echo {shlex.quote(_missing(plan, snapshot))} >&2; exit 1; }}; "
        # A run that was interrupted left the manifest there.
        f"m={etcd}; test -e $m || m={RESTORING}; "
        "image=$(sed -n 's/^ *image: *//p' $m); "
        f"rm -rf {WORK}/data; mkdir -p {WORK}/image; "
        f"if mountpoint -q {WORK}/image; then {ctr} unmount --rm {WORK}/image >/dev/null; fi; "
        f"{ctr} mount $image {WORK}/image >/dev/null; "
        f"trap '{ctr} unmount --rm {WORK}/image >/dev/null' EXIT; "
        f"etcdutl={WORK}/image/usr/local/bin/etcdutl; "
        f"known=$($etcdutl snapshot status {file} --write-out=json | "
        r"""sed -n 's/.*"revision": *\([0-9]*\).*/\1/p'); """
        f'test -n "$known" || {{ echo {file}: etcdutl names no revision >&2; exit 1; }}; '
        f"bump=$(( $(date +%s) * {A_SECOND} - known )); "
        f"if test $bump -lt 1; then bump={FURTHER}; fi; "
        f"$etcdutl snapshot restore {file} --data-dir {WORK}/data "
        f"--name {name} --initial-cluster {name}={url} --initial-advertise-peer-urls {url} "
        # Members of the cluster until now would take this one for the one they knew.
        "--initial-cluster-token lockstep-$(date +%s) "
        f"--bump-revision $bump --mark-compacted >/dev/null 2>{WORK}/said || "
        f"{{ tail -n 3 {WORK}/said >&2; exit 1; }}; "
        f"for one in {' '.join(PODS)}; do if test -e {MANIFESTS}/$one.yaml; then "
        f"mv {MANIFESTS}/$one.yaml {STOPPED}/; fi; done; "
        f"{_stopped(*PODS)}; "
        f"if test -e {ETCD_DATA}/member; then "
        f"mv {ETCD_DATA}/member {DONE_WITH}/member-$(date -u +%Y-%m-%dT%H-%M-%SZ); fi; "
        f"mkdir -p -m 700 {ETCD_DATA}; mv {WORK}/data/member {ETCD_DATA}/; sync; "
        f"{_back('kube-apiserver')}cp {RESTORING} {STOPPED}/.etcd; mv {STOPPED}/.etcd {etcd}; "
        # It forgets how long it waits before it starts pods that failed while etcd was lost.
        "systemctl restart kubelet.service; "
        f"for i in $(seq {WITHIN_S}); do if {ready} >/dev/null 2>&1; then break; fi; sleep 1; "
        f"done; {ready} >/dev/null; "
        # They start without a memory of the lost objects.
        f"{_back(*CLIENTS)}rm -rf {RESTORING} {WORK}/data"
    )


def _back(*names: str) -> str:
    return "".join(
        f"if test -e {STOPPED}/{one}.yaml; then mv {STOPPED}/{one}.yaml {MANIFESTS}/; fi; "
        for one in names
    )


def _missing(plan: NodePlan, snapshot: str) -> str:
    return (
        f"{snapshot}: no such file, or it is empty, on {plan.name}. Nothing was changed. Next: "
        "copy a snapshot of any head there"
    )


@deploy("Restore")
def apply(plan: NodePlan) -> None:
    """Restore the snapshot that ``--data snapshot=PATH`` names."""
    if not begins(host.state, plan.cluster):
        return
    snapshot = host.data.get("snapshot")
    if not snapshot or not str(snapshot).startswith("/"):
        refused(
            name="Snapshot",
            why=(
                "deploys/restore_etcd.py replaces all objects of the cluster, so it needs "
                "--data snapshot=PATH, the absolute path of a snapshot on "
                f"{first_control_plane(plan).name}. Nothing was changed. Next: "
                f"pyinfra --data snapshot=PATH {plan.cluster.inventory} deploys/restore_etcd.py"
            ),
        )
        return
    if first_control_plane(plan).name == plan.name:
        restored(name="etcd", plan=plan, snapshot=str(snapshot))
    else:
        stopped(name="Stop", plan=plan)
