"""Rules about Lockstep's files, leftovers of earlier plans, mounts and disks."""

from __future__ import annotations

from functools import partial
from typing import cast

from pydantic import JsonValue

from lockstep.checks.compare import number
from lockstep.checks.context import Items, View, shared
from lockstep.checks.looks import made
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.rule import (
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    as_text,
    at_most,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules.rdma import counted
from lockstep.manifest import UNREAD as COULD_NOT_READ
from lockstep.manifest import LeftOver, left_over
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.probe.record import Unread
from lockstep.report import fold


def _content(entry: JsonValue) -> JsonValue | Skip:
    if isinstance(entry, dict):
        return "absent" if "absent" in entry else entry.get("other", entry.get("sha256"))
    return entry


def _content_words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    # A SHA-256 digest has 64 hexadecimal digits. Any other text says why there is no digest.
    is_digest = isinstance(seen, str) and len(seen) == 64
    found = f"different content (sha256 {str(seen)[:12]})" if is_digest else str(seen)
    return found, f"the planned content (sha256 {str(expected)[:12]})"


def _mode(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict) or "sha256" not in entry:
        return Skip.SKIP  # file.content or munge.key checks it
    return f"{entry['mode']} {entry['user']}:{entry['group']}"


def _wrong_entries(view: View, seen: Items) -> Items:
    wrong: dict[str, JsonValue] = {
        name: [cast(JsonValue, seen.get(name, [])), addresses]
        for name, addresses in view.context.hosts.items()
        if seen.get(name) != addresses
    }
    return {fold(wrong) if wrong else "": wrong}


def _entries_words(wrong: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the addresses found and the addresses planned for hosts with wrong entries."""
    pairs = list(wrong.values()) if isinstance(wrong, dict) else []
    seen = {as_text(pair[0]) if isinstance(pair, list) else "" for pair in pairs}
    wanted = {as_text(pair[1]) if isinstance(pair, list) else "" for pair in pairs}
    found = "missing" if seen == {"none"} else ", ".join(sorted(seen))
    return found, wanted.pop() if len(wanted) == 1 else "their management addresses"


REMOVE = "pyinfra -y {inventory} deploys/remove.py --limit {node}"


def _left_over(view: View) -> tuple[LeftOver, ...]:
    """Return the leftover objects, or () on a node without a manifest."""
    reading, installed = view.read("manifest"), view.read("packages")
    if not isinstance(reading, dict):
        return ()
    return left_over(view.plan, reading, installed if isinstance(installed, dict) else ())


def _left_over_items(view: View, sections: tuple[str, ...]) -> Items:
    reading = view.read("manifest")
    if isinstance(reading, Unread):
        return {"": reading}
    installed = view.read("packages")
    if "packages" in sections and isinstance(installed, Unread):
        return {"": installed}
    return {
        one.name: Unread(unread=one.state.removeprefix(COULD_NOT_READ))
        if one.state.startswith(COULD_NOT_READ)
        else one.state
        for one in view.once(_left_over)
        if one.section in sections and one.state
    }


def _written_by(view: View, name: str) -> str:
    of = next((one for one in view.once(_left_over) if one.name == name), None)
    return f"written by role {of.role}" if of is not None and of.role else ""


def _left_over_rule(
    id: str,
    sections: tuple[str, ...],
    kind: ObjectKind,
    *,
    claim: str,
    why: str,
    blind: str,
    repair: str,
    explained_by: tuple[Cause, ...] = (Cause("left_over.file", device="", of=UNREAD),),
) -> Rule:
    return Rule(
        id=id,
        claim=claim,
        why=why,
        blind=blind,
        source="lockstep/manifest.py",
        reading="manifest",
        look=Look(partial(_left_over_items, sections=sections)),
        expected=same("removed"),
        text=Text(detail=_written_by),
        severity=WARNING,
        repair=by_hand(repair),
        explained_by=explained_by,
        objects=lambda view, name: (Object(kind, name),) if name else (),
    )


LEFT_OVER = (
    _left_over_rule(
        "left_over.file",
        ("files",),
        ObjectKind.FILE,
        claim="No file is left over from an earlier plan.",
        why=(
            "A forgotten drop-in or configuration file stays in effect, and a deploy does not "
            "remove it."
        ),
        blind=(
            "Files that Lockstep wrote before the node had a manifest, or before the manifest was "
            "lost. Files of unmanaged roles."
        ),
        repair=(
            f"{REMOVE}; if the file remains because someone changed it, remove it by hand, or add "
            "its role to the unmanaged roles in the description"
        ),
        explained_by=(),
    ),
    _left_over_rule(
        "left_over.unit",
        ("units", "masked"),
        ObjectKind.UNIT,
        claim="No unit is enabled or masked only because of an earlier plan.",
        why="An unplanned service still accepts connections and takes CPU time from jobs.",
        blind="Units that Lockstep did not enable or mask.",
        repair=REMOVE,
    ),
    _left_over_rule(
        "left_over.package",
        ("packages",),
        ObjectKind.PACKAGE,
        claim="No package is left over from an earlier plan.",
        why="The plan no longer pins the package, but an old hold may still block an upgrade.",
        blind="Packages that were installed as dependencies, or by hand.",
        repair=f"{REMOVE} --data packages={{device}}",
    ),
    _left_over_rule(
        "left_over.sysctl",
        ("sysctl",),
        ObjectKind.SYSCTL,
        claim="No kernel parameter keeps a value that is no longer in the plan.",
        why=("The old value stays in force until the next boot and then changes unnoticed."),
        blind="A value that was changed again after the earlier plan set it.",
        repair="deploy {node}, then reboot {node}; the kernel keeps the old value until the reboot",
    ),
    _left_over_rule(
        "left_over.user",
        ("users", "groups"),
        ObjectKind.USER,
        claim="No user or group is left over from an earlier plan.",
        why="The numeric ID stays in use, and the account keeps its permissions.",
        blind="Users and groups that packages created.",
        repair=f"{REMOVE} --data users={{device}}",
    ),
)


RULES = (
    Rule(
        id="file.content",
        claim="Every file that Lockstep writes has the planned content.",
        why=(
            "A manual change on one node is lost at the next deploy, and misleads people until "
            "then."
        ),
        blind=(
            "Files that Lockstep does not write. Files with secrets, if the secrets are missing on "
            "the machine that runs the check. The munge key, which munge.key checks."
        ),
        source="lockstep/files.py",
        reading="files",
        look=Look(pick=_content),
        expected=each(
            lambda view: {
                path: file.sha256
                for path, file in view.context.files_of(view.plan).items()
                if path != MUNGE_KEY
            }
        ),
        text=Text(
            words=_content_words,
            detail=lambda view, path: (
                f"written by role {view.context.files_of(view.plan)[path].role}"
            ),
        ),
        repair=by_role(
            "the role named in the detail",
            roles=lambda view, path: (view.context.files_of(view.plan)[path].role,),
        ),
        # hosts.entries names the wrong entries, which is clearer than a hash.
        explained_by=(Cause("hosts.entries", of=Effect(device="/etc/hosts")),),
    ),
    Rule(
        id="file.mode",
        claim="Every file that Lockstep writes has the planned mode and owner.",
        why=(
            "A key that other users can read is not secret. A script without its execute bit does "
            "not run."
        ),
        blind="Access control lists, file attributes and parent directories.",
        source="lockstep/files.py",
        reading="files",
        look=Look(pick=_mode),
        expected=each(
            lambda view: {
                path: f"{file.mode} {file.user}:{file.group}"
                for path, file in view.context.files_of(view.plan).items()
            }
        ),
        text=Text(
            detail=lambda view, path: (
                f"written by role {view.context.files_of(view.plan)[path].role}"
            )
        ),
        repair=by_role(
            "the role named in the detail",
            roles=lambda view, path: (view.context.files_of(view.plan)[path].role,),
        ),
        # One finding per path: the same deploy repairs both.
        explained_by=(Cause("file.content", at=SAME_DEVICE),),
    ),
    Rule(
        id="hosts.entries",
        claim="/etc/hosts maps every node's name to its management address.",
        why=(
            "Slurm and MPI connect by name. One wrong line sends a rank's traffic to the wrong "
            "node."
        ),
        blind="Other host names, and what DNS returns.",
        source="hosts(5)",
        reading="hosts.entries",
        look=Look(shared(made("hosts.entries", _wrong_entries), "hosts.entries")),
        expected=same({}),
        text=Text(words=_entries_words),
        repair=by_role("os_settings"),
        explained_by=(Cause("file.content", device="/etc/hosts", of=UNREAD),),
    ),
    Rule(
        id="mounts.fstab",
        claim="Every file system in /etc/fstab is mounted.",
        why=(
            "A job that finds an empty directory instead of its data fails, or fills the system "
            "disk."
        ),
        blind=(
            "File systems that are not in fstab, or that are mounted on demand. A file server "
            "that no longer answers."
        ),
        source="fstab(5)",
        reading="mounts.fstab",
        expected=same("mounted"),
        repair=by_hand(
            "on {node}: mount {device}; if the mount fails, read the status of its mount unit "
            "(systemctl status)"
        ),
    ),
    Rule(
        id="mounts.shared",
        claim="Shared file systems have the same mount options on all nodes of a hardware class.",
        why="A different block size or server, or fewer connections, can slow one node's reads.",
        blind="File systems that are not mounted. If they are in fstab, mounts.fstab reports them.",
        source="proc_pid_mounts(5), nfs(5)",
        reading="mounts.shared",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: make the line for {device} in /etc/fstab the same as on the peers, then "
            "remount {device}"
        ),
        explained_by=(Cause("mounts.fstab", at=SAME_DEVICE),),
    ),
    Rule(
        id="mounts.writable",
        claim="Local file systems are writable.",
        why=(
            "After a disk error the kernel may remount a file system read-only. Jobs and services "
            "can then no longer write to it."
        ),
        blind="File systems that are read-only on all nodes.",
        source="proc_pid_mounts(5); ext4(5), errors=remount-ro",
        reading="mounts.local",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "drain {node}; read the disk errors of {device} in dmesg, then run fsck or replace the "
            "disk"
        ),
    ),
    Rule(
        id="storage.inodes",
        claim="No local file system has nearly run out of inodes.",
        why="Without free inodes no file can be created, even if the disk has free space.",
        blind="File systems that create inodes as needed.",
        source="statvfs(3); the alerts that node_exporter proposes",
        reading="storage.inodes",
        kind=Kind.ABSOLUTE,
        expected=at_most(90),
        text=Text(lambda value: f"{number(value):g} % of the inodes used"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: find the folders with the most files (du -x --inodes -d2 {device}), and "
            "remove files from them"
        ),
        explained_by=(Cause("storage.space", at=SAME_DEVICE),),
    ),
    Rule(
        id="storage.nvme",
        claim="All nodes of a hardware class have the same NVMe disk models and firmware.",
        why="All nodes of a job wait for the slowest disk, for example one with older firmware.",
        blind="Wear and temperature. Which disk is in which slot.",
        source="kernel documentation, ABI/testing/sysfs-nvme",
        reading="storage.nvme",
        kind=Kind.MULTISET,
        peers=Peers.CLASS,
        text=Text(counted),
        severity=WARNING,
        repair=by_hand("on {node}: run nvme list, and flash or replace the disk that differs"),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="storage.space",
        claim="No local file system is nearly full.",
        why="When a disk is full, jobs fail, logs are lost, and services stop.",
        blind="Shared file systems, because reading their usage could hang.",
        source="statvfs(3); the alerts that node_exporter proposes",
        reading="storage.space",
        kind=Kind.ABSOLUTE,
        expected=at_most(90),
        text=Text(lambda value: f"{number(value):g} % full"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: find the largest folders (du -xh -d2 {device}), and remove files from them"
        ),
    ),
    *LEFT_OVER,
)
