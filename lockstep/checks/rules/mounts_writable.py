"""Local file systems can be written to.

Why      After an error the kernel goes on with a disk that it only reads: jobs and logs fail
         there.
Blind    File systems that are read-only on all nodes: they are meant to be.
"""

from lockstep.checks.rule import Kind, Peers, Rule

RULE = Rule(
    id="mounts.writable",
    title="local file systems are writable like their peers'",
    reading="mounts.local",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    repair="drain {node}; dmesg says what the disk of {device} answered, then fsck or replace it",
    source="proc_pid_mounts(5); ext4(5), errors=remount-ro",
)
