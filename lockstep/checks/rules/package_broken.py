"""No package is half installed.

Why      dpkg was interrupted: the next deploy fails on this node, and on no other.
Blind    A package that is complete and whose files were changed afterwards.
"""

from lockstep.checks.rule import Cause, Rule

RULE = Rule(
    id="package.broken",
    title="no package is half installed",
    reading="packages.broken",
    expected=lambda view: [],
    repair="on {node}: dpkg --configure -a, then pyinfra -y {inventory} deploys/{role}.py "
    "--limit {node}",
    explained_by=(Cause("package.present", device=""),),
    source="dpkg(1), --audit",
)
