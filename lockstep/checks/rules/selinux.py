"""Rules about SELinux, on releases that have it."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, View, has_role
from lockstep.checks.looks import made
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.rule import (
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Pending,
    Rule,
    by_role,
    each,
    some,
)
from lockstep.node.readers.reading import ABSENT
from lockstep.plan.selinux import GDRCOPY_SOURCE, POLICY, RDMA_SOURCE

MODE, MODULES = "selinux.mode", "selinux.modules"
BOOLEANS, LABELS = "selinux.booleans", "selinux.labels"
NO_LABELS = Effect(unread=True)
OBJECTS = {
    "running": Object(ObjectKind.SYSTEM_FILE, "/sys/fs/selinux/enforce"),
    "persisted": Object(ObjectKind.FILE, "/etc/selinux/config"),
    "policy": Object(ObjectKind.FILE, "/etc/selinux/config"),
}
"""Item of selinux.mode -> its file, whose difference in the fingerprint it explains."""


def _mode(view: View) -> dict[str, JsonValue]:
    mode = view.plan.selinux.mode
    return {"running": mode, "persisted": mode, "policy": POLICY} if mode else {}


def _off_until_boot(view: View, item: str) -> bool:
    """Return whether only a boot is missing: SELinux cannot be turned on in a running kernel."""
    found = view.items(MODE)
    planned = _mode(view)
    return (
        item == "running"
        and found.get("running") == "disabled"
        and found.get("persisted") == planned.get("persisted")
    )


def _sums(view: View) -> dict[str, JsonValue]:
    """Return the SHA256 of each module: that of its source."""
    files, plan = view.context.files_of(view.plan), view.plan.selinux
    return {
        name: files[plan.loaded[name]].sha256 if name in plan.loaded else ABSENT
        for name in plan.modules
    }


def _boolean_items(view: View, read: Items) -> Items:
    """Return two items of each boolean: ``NAME`` and ``NAME (next boot)``."""
    items: Items = {}
    for name in view.plan.selinux.booleans:
        value = read.get(name)
        if isinstance(value, dict):
            items[name], items[f"{name} (next boot)"] = value["running"], value["persisted"]
        elif value is not None:
            items[name] = value
    return items


def _on(view: View) -> dict[str, JsonValue]:
    return {
        item: "on" for name in view.plan.selinux.booleans for item in (name, f"{name} (next boot)")
    }


def _label_items(view: View, read: Items) -> Items:
    """Return the types; for a path that does not exist, which other rules report, the planned."""
    planned = view.plan.selinux.labels
    return {path: planned.get(path) if kind == ABSENT else kind for path, kind in read.items()}


RULES = (
    Rule(
        id=MODE,
        claim="SELinux is in the declared mode, now and after a boot; undeclared, all nodes agree.",
        why=(
            "A node that denies what the others allow fails jobs that run elsewhere; one that "
            "allows more is an open door."
        ),
        blind="Domains that are permissive by themselves (semanage permissive). The kernel "
        "argument enforcing=0, which kernel.cmdline compares.",
        source="selinux(8), selinux_config(5); Red Hat, Using SELinux, chapter 2",
        reading=MODE,
        kind=Kind.SLOTS,
        expected=some(_mode),
        peers=Peers.CLASS,
        repair=by_role(
            "selinux",
            pending=Pending(
                when=_off_until_boot,
                note="SELinux is disabled in the running kernel, and the file has the mode",
                repair="reboot {node} when it is idle; the first boot labels all files",
            ),
        ),
        explained_by=(Cause("file.content", device="/etc/selinux/config"),),
        objects=lambda view, item: (OBJECTS[item],) if item in OBJECTS else (),
    ),
    Rule(
        id="selinux.module",
        claim="The policy has the planned modules of Lockstep, and no other of them.",
        why=(
            "Without its module, a container cannot open RDMA devices, and NCCL falls back to TCP; "
            "or it cannot open GDRCopy's device."
        ),
        blind="Modules of others. Rules that a later module denies again.",
        source="semodule(8), --checksum: the SHA256 of a module's source in CIL",
        reading=MODULES,
        expected=each(_sums),
        repair=by_role("selinux"),
        applies=has_role("selinux"),
        explained_by=tuple(
            Cause("file.content", device=source) for source in (GDRCOPY_SOURCE, RDMA_SOURCE)
        ),
    ),
    Rule(
        id="selinux.boolean",
        claim="The planned booleans of the policy are on, now and after a boot.",
        why="Without them, containers cannot open the GPUs' device files.",
        blind="All other booleans, which the fingerprint compares while the node runs.",
        source="booleans(8), container_selinux(8)",
        reading=BOOLEANS,
        look=Look(made(BOOLEANS, _boolean_items)),
        expected=each(_on),
        repair=by_role("selinux"),
        applies=has_role("selinux"),
    ),
    Rule(
        id="selinux.label",
        claim="Files of munge and Slurm, and GDRCopy's device file, have the labels of the policy.",
        why=(
            "systemd starts a program with another label in the wrong domain or not at all, and "
            "confined services such as logrotate cannot use the files. Containers cannot open "
            "/dev/gdrdrv with the label of /dev."
        ),
        blind="Files below the folders. Other paths, which restorecon -Rnv shows.",
        source="the policy of RHEL 9 (selinux-policy, branch c9s), asked with matchpathcon(8)",
        reading=LABELS,
        look=Look(made(LABELS, _label_items)),
        expected=each(lambda view: dict(view.plan.selinux.labels)),
        severity=WARNING,
        repair=by_role("selinux"),
        applies=has_role("selinux"),
        explained_by=(Cause(MODE, device="running", of=NO_LABELS),),
    ),
)
