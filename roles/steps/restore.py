"""Restores etcd from a snapshot: on the first head, which the other heads then join again.

Owns     the data of etcd, for this deploy; what was there stays beside it.
Restart  the control plane; pods on workers keep running.
Order    the snapshot is verified, then the other heads stop, and then the first head gets the data.
         Heads that run on would have a majority of the old cluster, with the virtual address.
"""

from __future__ import annotations

import shlex
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, deploy

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
    control_planes,
    first_control_plane,
)
from lockstep.roles.operations.declared import refused
from lockstep.roles.operations.kubernetes_certificates import CLIENTS
from lockstep.roles.operations.kubernetes_turns import ready_here
from lockstep.roles.operations.operation import Commands, operation, refusal
from lockstep.roles.operations.run import begins

WITHIN_S = 120
"""Seconds for the pods to stop, and for the API server to be ready."""
LIMIT_S = 420.0
PODS = ("etcd", "kube-apiserver", *CLIENTS)
"""The static pods of a head; the last two remember what the lost objects were."""
ETCD = f"{MANIFESTS}/etcd.yaml"
VERIFIED, HAS_STOPPED, RESTORED = "verified", "stopped", "restored"
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


_notes: WeakKeyDictionary[State, set[tuple[str, str]]] = WeakKeyDictionary()
"""Name of a head, and what it has done in this run. pyinfra's order of the heads does not follow
from that of the operations with --serial and --no-wait."""


def _done(name: str, what: str) -> bool:
    return not host.state.is_executing or (name, what) in _notes.get(host.state, ())


def _note(name: str, what: str) -> FunctionCommand:
    def note(state: State, host: Host) -> bool:
        _notes.setdefault(state, set()).add((name, what))
        return True

    return FunctionCommand(note, (), {})


def _not_here(plan: NodePlan, lost: frozenset[str]) -> list[str]:
    """Return the heads that this run does not reach, apart from those that are off for good."""
    state = host.state
    found = {one.name: state.inventory.get_host(one.name, None) for one in control_planes(plan)}
    return [
        name
        for name, one in found.items()
        if name not in lost and (one not in state.active_hosts or one in state.failed_hosts)
    ]


@operation(limit_s=LIMIT_S)
def stopped(plan: NodePlan, lost: frozenset[str]) -> Commands:
    """Stop etcd and the API server of a head that will join again; what does not run is no fault.

    Its manifests wait where a deploy finds them, which then changes nothing on this head.

    Args:
        plan: the plan of a head other than the first.
        lost: names of the heads that are off for good.
    """
    first = first_control_plane(plan).name
    if not _done(first, VERIFIED):
        yield refusal(
            f"{plan.name} was not stopped, because {first} has not verified the snapshot. Next: "
            f"repair {first}, then run this again, without --limit, --serial and --no-wait"
        )
        return
    if host.state.is_executing and (missing := _not_here(plan, lost)):
        names, of_none = ", ".join(missing), ",".join(sorted({*missing, *lost}))
        yield refusal(
            f"{plan.name} was not stopped: {names} failed in this run or is not in it, and might "
            f"go on with the old data. Next: repair {names} and run this again, without --limit; "
            f"if it is off for good, add --data lost={of_none}"
        )
        return
    yield (
        f"set -eu; umask 077; mkdir -p {STOPPED}; for one in {MANIFESTS}/*.yaml; do "
        f"if test -e $one; then mv $one {STOPPED}/; fi; done; sync; {_stopped(*PODS)}; "
        # They run on without containerd, which crictl asks (/proc/PID/comm, proc(5)).
        "if grep -qxE 'etcd|kube-apiserver' /proc/[0-9]*/comm 2>/dev/null; then "
        f'echo "{plan.name} still runs etcd or its API server. Next: on {plan.name}: '
        'systemctl restart containerd kubelet; then run this again" >&2; exit 1; fi'
    )
    yield _note(plan.name, HAS_STOPPED)


@operation(limit_s=LIMIT_S)
def verified(plan: NodePlan, snapshot: str) -> Commands:
    """Verify a snapshot and unpack it beside etcd's data (etcdutl: its SHA-256); nothing stops.

    Args:
        plan: the plan of the first head.
        snapshot: path of the snapshot on this head.
    """
    name, file = shlex.quote(plan.name), shlex.quote(snapshot)
    url = f"https://{plan.endpoint(ETCD_PEER_PORT)}"
    ctr = "ctr --namespace k8s.io images"
    yield (
        f"set -eu; umask 077; mkdir -p {STOPPED} {WORK} {DONE_WITH}; "
        f"test -s {file} || {{ echo {shlex.quote(_missing(plan, snapshot))} >&2; exit 1; }}; "
        # A run that was interrupted left the manifest there.
        f"m={ETCD}; test -e $m || m={RESTORING}; "
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
        f"{{ tail -n 3 {WORK}/said >&2; exit 1; }}"
    )
    yield _note(plan.name, VERIFIED)


@operation(limit_s=LIMIT_S)
def restored(plan: NodePlan, lost: frozenset[str]) -> Commands:
    """Give etcd the data of the verified snapshot, as its only member, once all others stopped.

    Args:
        plan: the plan of the first head.
        lost: names of the heads that are off for good.
    """
    others = [one.name for one in control_planes(plan)[1:] if one.name not in lost]
    if running := [name for name in others if not _done(name, HAS_STOPPED)]:
        yield refusal(
            f"{plan.name} was not restored, because {', '.join(running)} did not stop in this run. "
            "Heads that stopped stay stopped, with their data. Next: repair "
            f"{', '.join(running)}, then run this again, without --limit, --serial and --no-wait"
        )
        return
    ready = ready_here(plan)
    yield (
        f"set -eu; umask 077; test -d {WORK}/data/member; "
        f"for one in {' '.join(PODS)}; do if test -e {MANIFESTS}/$one.yaml; then "
        f"mv {MANIFESTS}/$one.yaml {STOPPED}/; fi; done; "
        f"{_stopped(*PODS)}; "
        f"if test -e {ETCD_DATA}/member; then "
        f"mv {ETCD_DATA}/member {DONE_WITH}/member-$(date -u +%Y-%m-%dT%H-%M-%SZ); fi; "
        f"mkdir -p -m 700 {ETCD_DATA}; mv {WORK}/data/member {ETCD_DATA}/; sync; "
        f"{_back('kube-apiserver')}cp {RESTORING} {STOPPED}/.etcd; mv {STOPPED}/.etcd {ETCD}; "
        # It forgets how long it waits before it starts pods that failed while etcd was lost.
        "systemctl restart kubelet.service; "
        f"for i in $(seq {WITHIN_S}); do if {ready} >/dev/null 2>&1; then break; fi; sleep 1; "
        f"done; {ready} >/dev/null; "
        # They start without a memory of the lost objects.
        f"{_back(*CLIENTS)}rm -rf {RESTORING} {WORK}/data"
    )
    yield _note(plan.name, RESTORED)


@operation()
def follows(plan: NodePlan) -> Commands:
    """Have kubeadm reset this head at its next deploy, now that the first one has the snapshot.

    Until then its etcd keeps its data, which may be the last that there is.

    Args:
        plan: the plan of a head other than the first.
    """
    first = first_control_plane(plan).name
    if not _done(first, RESTORED):
        yield refusal(
            f"{plan.name} stays stopped, with its data, because {first} has not restored the "
            "snapshot. Next: run this again once the cause is repaired"
        )
        return
    yield (
        f"mkdir -p {STATE} && touch {BEGUN} && rm -f {DONE} {MANIFESTS}/*.yaml && sync {STATE} && "
        f"rm -rf {STOPPED}"
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
    """Restore the snapshot that ``--data snapshot=PATH`` names.

    ``--data lost=NAME,NAME`` names the heads that are off for good.
    """
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
    lost = frozenset(filter(None, str(host.data.get("lost") or "").split(",")))
    is_first = first_control_plane(plan).name == plan.name
    if is_first:
        verified(name="Snapshot", plan=plan, snapshot=str(snapshot))
    else:
        stopped(name="Stop", plan=plan, lost=lost)
    if is_first:
        restored(name="etcd", plan=plan, lost=lost)
    else:
        follows(name="Join again", plan=plan)
