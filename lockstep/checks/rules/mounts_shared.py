"""Shared file systems are mounted with the same options.

Why      Another block size, one connection in place of eight, or another server: one node reads
         slowly.
Blind    File systems that are mounted on demand: a node without one is not compared.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule

RULE = Rule(
    id="mounts.shared",
    title="shared file systems have the same options",
    reading="mounts.shared",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    repair="on {node}: make its line in /etc/fstab like its peers', then mount it anew",
    explained_by=(Cause("mounts.fstab", same_device=True),),
    source="proc_pid_mounts(5), nfs(5)",
)
