"""The golden files of the example inventories; ``make generate`` writes them again.

Then read the difference: it is what the change does to every node of a production cluster.
"""

import json
from functools import cache
from pathlib import Path

from lockstep.files import managed
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.secrets import Secrets

GOLDEN = Path(__file__).resolve().parent
ROOT = GOLDEN.parent.parent

FAKE = Secrets(
    munge_key=b"not a key: the golden files hold no secret of any cluster.\n",
    database_password="not-a-password",
    module_key=b"not a key: the golden files hold no secret of any cluster.\n",
)

NODES = {
    "prod": ("head1", "head2", "worker01"),
    "small": ("head", "worker1"),
    "gb200": ("head1", "rack1-tray01"),
}
"""Inventory -> one node of each kind; the others differ in their name and addresses only."""


@cache
def plan_of(inventory: str) -> ClusterPlan:
    """The plan of an example inventory."""
    return load(str(ROOT / "inventories" / f"{inventory}.py"))


@cache
def expected() -> dict[str, bytes]:
    """Golden file, below this folder, -> its content as the plan gives it now."""
    files = {}
    for inventory, names in NODES.items():
        for name in names:
            node = plan_of(inventory).nodes[name]
            document = json.dumps(node.to_json(), indent=2) + "\n"
            files[f"{inventory}/{name}/plan.json"] = document.encode("utf-8")
            for file in managed(node, FAKE):
                if file.path.endswith(".py"):
                    continue  # a copy of our own source
                files[f"{inventory}/{name}/files{file.path}"] = file.content
    return files


def files() -> dict[str, bytes]:
    """Return the golden files below tests/golden."""
    return {f"tests/golden/{name}": content for name, content in expected().items()}
