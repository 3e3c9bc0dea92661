"""A process that reads a share of the nodes, over pyinfra's ssh connections.

    python -m lockstep.fleet.shard NODES

``gather`` starts it. It is a separate process, because gevent must patch the standard library
before pyinfra is imported. NODES is not used; it only shows the nodes in the process list.
"""

from __future__ import annotations

from lockstep import fast_path
from lockstep.pyinfra_internals import registry


def main() -> None:
    """Read the nodes that the first line of standard input describes."""
    fast_path.collect_seldom()
    registry.apply(registry.READING)

    from gevent import monkey

    monkey.patch_all()

    from lockstep.fleet import read_nodes

    read_nodes.main()


if __name__ == "__main__":
    main()
