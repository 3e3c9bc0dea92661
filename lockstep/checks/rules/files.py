"""Rules: files."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.compare import number
from lockstep.checks.context import Items, View, shared
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
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.report import fold

DIGEST_LENGTH = 64
"""Of a SHA-256 in hex; what else stands in its place says what is there instead of a file."""


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
        return Skip.SKIP  # file.content or munge.key says so
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
    """Return what one name leads to; of several, that they are wrong."""
    pairs = list(wrong.values()) if isinstance(wrong, dict) else []
    seen = {as_text(pair[0]) if isinstance(pair, list) else "" for pair in pairs}
    wanted = {as_text(pair[1]) if isinstance(pair, list) else "" for pair in pairs}
    found = "missing" if seen == {"none"} else ", ".join(sorted(seen))
    return found, wanted.pop() if len(wanted) == 1 else "their management addresses"


RULES = (
    Rule(
        id="file.content",
        claim="Every file we own has exactly the content that the plan renders.",
        why=(
            "A change made by hand on one node lasts until the next deploy and confuses until then."
        ),
        blind=(
            "Files nobody declared. Files with secrets, where this machine does not hold the "
            "secrets. The munge key has a rule of its own."
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
        # The names that are wrong say more than a hash.
        explained_by=(Cause("hosts.entries", of=Effect(device="/etc/hosts")),),
    ),
    Rule(
        id="file.mode",
        claim="Every file we own has the planned mode and owner.",
        why="A key that others can read is no secret; a script that cannot run does nothing.",
        blind="Access lists, attributes and the folders above.",
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
        why="Slurm and MPI connect by name; one wrong line sends a rank's traffic elsewhere.",
        blind="What a name server answers for other names.",
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
        claim="What fstab lists is mounted.",
        why=(
            "A job that finds an empty folder in place of its data ends, or writes to the "
            "system's disk."
        ),
        blind="File systems that fstab does not list; a server that no longer answers.",
        source="fstab(5)",
        reading="mounts.fstab",
        expected=same("mounted"),
        repair=by_hand(
            "on {node}: mount {device}; systemctl status of its unit says why it is not"
        ),
    ),
    Rule(
        id="mounts.shared",
        claim="Shared file systems are mounted with the same options.",
        why=(
            "Another block size, one connection in place of eight, or another server: one node "
            "reads slowly."
        ),
        blind="File systems that are mounted on demand: a node without one is not compared.",
        source="proc_pid_mounts(5), nfs(5)",
        reading="mounts.shared",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: make its line in /etc/fstab like its peers', then mount it anew"
        ),
        explained_by=(Cause("mounts.fstab", at=SAME_DEVICE),),
    ),
    Rule(
        id="mounts.writable",
        claim="Local file systems can be written to.",
        why=(
            "After an error the kernel goes on with a disk that it only reads: jobs and logs "
            "fail there."
        ),
        blind="File systems that are read-only on all nodes: they are meant to be.",
        source="proc_pid_mounts(5); ext4(5), errors=remount-ro",
        reading="mounts.local",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "drain {node}; dmesg says what the disk of {device} answered, then fsck or replace it"
        ),
    ),
    Rule(
        id="storage.inodes",
        claim="No local file system runs out of inodes.",
        why="With no inode left nothing new can be written, although the disk has space.",
        blind="File systems that make inodes as they need them.",
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
        claim="The NVMe disks of a hardware class are of one make and firmware.",
        why=(
            "A disk of another make, or old firmware, is slower where all nodes read their "
            "data at once."
        ),
        blind="Wear and temperature; which slot has which.",
        source="kernel documentation, ABI/testing/sysfs-nvme",
        reading="storage.nvme",
        kind=Kind.MULTISET,
        peers=Peers.CLASS,
        text=Text(counted),
        severity=WARNING,
        repair=by_hand("on {node}: nvme list; flash or replace the one that differs"),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="storage.space",
        claim="No local file system is nearly full.",
        why="A full disk ends jobs, loses logs and stops services, mostly at night.",
        blind="Shared file systems: asking them could hang.",
        source="statvfs(3); the proposal of node_exporter's own alerts",
        reading="storage.space",
        kind=Kind.ABSOLUTE,
        expected=at_most(90),
        text=Text(lambda value: f"{number(value):g} % full"),
        severity=WARNING,
        repair=by_hand("on {node}: du -xh -d2 {device}"),
    ),
)
