"""Rules about Lockstep's files, what it left over, mounts and disks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.compare import number
from lockstep.checks.context import Items, View, shared
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.repair import (
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    as_text,
    at_most,
    each,
    same,
)
from lockstep.checks.rules._rdma import counted
from lockstep.manifest import UNREAD as COULD_NOT_READ
from lockstep.manifest import LeftOver, left_over
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.probe.record import Unread
from lockstep.report import fold

DIGEST_LENGTH = 64
"""Of a SHA-256 in hex. Another text names what is there in place of a file."""


def _content_expected(view: View) -> dict[str, JsonValue]:
    files = view.context.files_of(view.plan)
    return {path: file.sha256 for path, file in files.items() if path != MUNGE_KEY}


def _content(entry: JsonValue) -> JsonValue | Skip:
    if isinstance(entry, dict):
        return "absent" if "absent" in entry else entry.get("other", entry.get("sha256"))
    return entry


def _content_words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    is_digest = isinstance(seen, str) and len(seen) == DIGEST_LENGTH
    found = f"other content (sha256 {str(seen)[:12]})" if is_digest else str(seen)
    return found, f"content of the plan (sha256 {str(expected)[:12]})"


def _mode_expected(view: View) -> dict[str, JsonValue]:
    files = view.context.files_of(view.plan)
    return {path: f"{file.mode} {file.user}:{file.group}" for path, file in files.items()}


def _mode(entry: JsonValue) -> JsonValue | Skip:
    if not isinstance(entry, dict) or "sha256" not in entry:
        return Skip.SKIP  # file.content or munge.key judges it
    return f"{entry['mode']} {entry['user']}:{entry['group']}"


@shared("hosts.entries")
def _entries_items(view: View) -> Items:
    seen = view.read("hosts.entries")
    if not isinstance(seen, dict):
        return {"": seen}
    wrong: dict[str, JsonValue] = {
        name: [seen.get(name, []), addresses]
        for name, addresses in view.context.hosts.items()
        if seen.get(name) != addresses
    }
    return {fold(wrong) if wrong else "": wrong}


def _entries_words(wrong: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the address of a single wrong name; of several names, that they are wrong."""
    pairs = list(wrong.values()) if isinstance(wrong, dict) else []
    seen = {as_text(pair[0]) if isinstance(pair, list) else "" for pair in pairs}
    wanted = {as_text(pair[1]) if isinstance(pair, list) else "" for pair in pairs}
    found = "missing" if seen == {"none"} else ", ".join(sorted(seen))
    return found, wanted.pop() if len(wanted) == 1 else "their management addresses"


REMOVE = "pyinfra -y {inventory} deploys/remove.py --limit {node}"


def _left_over(view: View) -> tuple[LeftOver, ...]:
    """Return what is left over; nothing on a node without a manifest."""
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


def _objects(kind: ObjectKind) -> Callable[[View, str], tuple[Object, ...]]:
    return lambda view, name: (Object(kind, name),) if name else ()


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
        objects=_objects(kind),
    )


LEFT_OVER = (
    _left_over_rule(
        "left_over.file",
        ("files",),
        ObjectKind.FILE,
        claim="No file of Lockstep is left that the plan does not have any more.",
        why="A forgotten drop-in or configuration file still counts, and no deploy corrects it.",
        blind="Files from before the node had a manifest. Files of a role in unmanaged.",
        repair=f"{REMOVE}; it leaves a file that somebody changed: remove that by hand, or name "
        "its role in unmanaged",
        explained_by=(),
    ),
    _left_over_rule(
        "left_over.unit",
        ("units", "masked"),
        ObjectKind.UNIT,
        claim="No unit is on or masked only because an earlier plan wanted it.",
        why="A service that is not planned any more still listens and takes CPU time from jobs.",
        blind="Units that Lockstep did not enable or mask.",
        repair=REMOVE,
    ),
    _left_over_rule(
        "left_over.package",
        ("packages",),
        ObjectKind.PACKAGE,
        claim="No package is left that only an earlier plan wanted.",
        why="It is not locked any more: its version drifts, and its hold may stop an upgrade.",
        blind="Packages that came as dependencies, or by hand.",
        repair=f"{REMOVE} --data packages={{device}}",
    ),
    _left_over_rule(
        "left_over.sysctl",
        ("sysctl",),
        ObjectKind.SYSCTL,
        claim="No kernel parameter keeps a value that the plan does not have any more.",
        why="The kernel keeps a value until it boots: the node runs with what it will not have.",
        blind="Another value that somebody set since.",
        repair="deploy {node}, then reboot it: the kernel keeps the value until it boots",
    ),
    _left_over_rule(
        "left_over.user",
        ("users", "groups"),
        ObjectKind.USER,
        claim="No user or group is left that only an earlier plan wanted.",
        why="Its number stays taken, and its rights stay valid.",
        blind="Users and groups that packages made.",
        repair=f"{REMOVE} --data users={{device}}",
    ),
)


RULES = (
    Rule(
        id="file.content",
        claim="Every file of Lockstep has the content of the plan.",
        why="A change by hand on one node lasts until the next deploy and misleads until then.",
        blind=(
            "Files that the description does not declare. Files with secrets, where this "
            "machine does not have the secrets. munge.key judges the munge key."
        ),
        source="lockstep/files.py",
        reading="files",
        look=Look(pick=_content),
        expected=each(_content_expected),
        text=Text(
            words=_content_words,
            detail=lambda view, path: (
                f"owned by role {view.context.files_of(view.plan)[path].role}"
            ),
        ),
        repair=by_role(
            "the role named in the detail",
            roles=lambda view, path: (view.context.files_of(view.plan)[path].role,),
        ),
        # Wrong names are clearer than a hash.
        explained_by=(Cause("hosts.entries", of=Effect(device="/etc/hosts")),),
    ),
    Rule(
        id="file.mode",
        claim="Every file of Lockstep has the planned mode and owner.",
        why=(
            "A key that other users can read is no secret. A script without its execute bit "
            "does not run."
        ),
        blind="Access lists, attributes and the directories above.",
        source="lockstep/files.py",
        reading="files",
        look=Look(pick=_mode),
        expected=each(_mode_expected),
        text=Text(
            detail=lambda view, path: f"owned by role {view.context.files_of(view.plan)[path].role}"
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
        blind="Other names, and what a name server answers.",
        source="hosts(5)",
        reading="hosts.entries",
        look=Look(_entries_items),
        expected=same({}),
        text=Text(words=_entries_words),
        repair=by_role("os_settings"),
        explained_by=(Cause("file.content", device="/etc/hosts", of=UNREAD),),
    ),
    Rule(
        id="mounts.fstab",
        claim="Every file system of fstab is mounted.",
        why=(
            "A job that finds an empty directory in place of its data ends, or fills the "
            "system's disk."
        ),
        blind="File systems that are not in fstab. A server that no longer answers.",
        source="fstab(5)",
        reading="mounts.fstab",
        expected=same("mounted"),
        repair=by_hand(
            "on {node}: mount {device}; systemctl status of its unit shows why it is not mounted"
        ),
    ),
    Rule(
        id="mounts.shared",
        claim="Shared file systems have the same mount options in a hardware class.",
        why="Another block size, fewer connections or another server slow the reads of one node.",
        blind="File systems that are mounted on demand: a node without one is not compared.",
        source="proc_pid_mounts(5), nfs(5)",
        reading="mounts.shared",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: correct its line in /etc/fstab as on its peers, then mount it again"
        ),
        explained_by=(Cause("mounts.fstab", at=SAME_DEVICE),),
    ),
    Rule(
        id="mounts.writable",
        claim="Local file systems are writable.",
        why=(
            "After a disk error the kernel makes a file system read-only: jobs and logs fail there."
        ),
        blind="File systems that are read-only on all nodes.",
        source="proc_pid_mounts(5); ext4(5), errors=remount-ro",
        reading="mounts.local",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "drain {node}; read the disk errors of {device} in dmesg, then fsck or replace the disk"
        ),
    ),
    Rule(
        id="storage.inodes",
        claim="No local file system runs out of inodes.",
        why="Without free inodes no file can be created, although the disk has space.",
        blind="File systems that create inodes as needed.",
        source="statvfs(3); the proposal of node_exporter's own alerts",
        reading="storage.inodes",
        kind=Kind.ABSOLUTE,
        expected=at_most(90),
        text=Text(lambda value: f"{number(value):g} % of the inodes taken"),
        severity=WARNING,
        repair=by_hand("on {node}: du -x --inodes -d2 {device}"),
        explained_by=(Cause("storage.space", at=SAME_DEVICE),),
    ),
    Rule(
        id="storage.nvme",
        claim="The NVMe disks of a hardware class have the same model and firmware.",
        why="Another model, or old firmware, is slower when all nodes read at once.",
        blind="Wear and temperature. Which slot has which disk.",
        source="kernel documentation, ABI/testing/sysfs-nvme",
        reading="storage.nvme",
        kind=Kind.MULTISET,
        peers=Peers.CLASS,
        text=Text(counted),
        severity=WARNING,
        repair=by_hand("on {node}: nvme list; flash or replace the disk that differs"),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="storage.space",
        claim="No local file system is nearly full.",
        why="A full disk ends jobs, loses logs and stops services.",
        blind="Shared file systems: a read of them could hang.",
        source="statvfs(3); the proposal of node_exporter's own alerts",
        reading="storage.space",
        kind=Kind.ABSOLUTE,
        expected=at_most(90),
        text=Text(lambda value: f"{number(value):g} % full"),
        severity=WARNING,
        repair=by_hand("on {node}: du -xh -d2 {device}"),
    ),
    *LEFT_OVER,
)
