"""What fstab lists is mounted.

Why      A job that finds an empty folder in place of its data ends, or writes to the system's
         disk.
Blind    File systems that fstab does not list; a server that no longer answers.
"""

from lockstep.checks.rule import Rule

RULE = Rule(
    id="mounts.fstab",
    title="the file systems of fstab are mounted",
    reading="mounts.fstab",
    expected=lambda view: "mounted",
    repair="on {node}: mount {device}; systemctl status of its unit says why it is not",
    source="fstab(5)",
)
