"""Every node has an ssh host key of its own.

Why      Who holds one node's key can pose as all the others.
Blind    Keys of other kinds than ed25519, where a node has that one.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Rule


def _look(view: View) -> Items:
    """Return one key: a copied node has all of them."""
    keys = view.items("os.host_keys")
    return {"": keys[min(keys, key=lambda kind: (kind != "ed25519", kind))]} if keys else {}


RULE = Rule(
    id="os.host_keys",
    title="every node has its own ssh host key",
    reading="os.host_keys",
    look=_look,
    kind=Kind.UNIQUE,
    show=lambda value: f"host key {str(value)[:12]}",
    repair="on all of {node} but one: rm /etc/ssh/ssh_host_*, ssh-keygen -A, restart ssh",
    explained_by=(Cause("os.machine_id"),),
    source="ssh-keygen(1), -A",
)
