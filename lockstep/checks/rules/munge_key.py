"""All nodes have the cluster's munge key.

Why      A node with another key can neither send nor take a job.
Blind    A key that was changed after munged read it: munge.round_trip sees that.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Peers, Rule


def has_munge(view: View) -> bool:
    """Apply to the nodes that take part in Slurm."""
    return "munge" in view.plan.capabilities


def _show(value: JsonValue) -> str:
    return "absent" if value == "absent" else f"a key (sha256 {str(value)[:12]})"


RULE = Rule(
    id="munge.key",
    title="one munge key on all nodes",
    reading="munge.key_sha256",
    expected=lambda view: view.context.munge_key_sha256,
    peers=Peers.OS,
    show=_show,
    applies=has_munge,
    owner="munge",
    source="munged(8)",
)
