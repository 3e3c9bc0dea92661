"""Waits until all Prometheus targets of a cluster are up, and prints them."""

from __future__ import annotations

import json
import sys
import time
import urllib.request

from lockstep.inventory import load
from lockstep.spec import Service

WAIT_S = 60
TARGETS = {
    "node_exporter": 1,
    "dcgm_exporter": 1,
    "kubernetes_node": 2,
    "kubernetes_control_plane": 1,
    "kubernetes_metrics": 1,
}
"""Role -> targets that it brings."""


def main(inventory: str) -> int:
    """Return 0 if all targets are up within ``WAIT_S`` seconds, else 1."""
    plan = load(inventory)
    head = plan.running(Service.PROMETHEUS)
    if head is None:
        print(f"ERROR {inventory}: no node runs prometheus", file=sys.stderr)
        return 1
    url = f"http://{head.endpoint(plan.spec.monitoring.prometheus_port)}/api/v1/targets"
    # Prometheus itself, and what each node has. A kubelet has its own metrics and those of pods.
    expected = 1 + sum(
        number
        for node in plan.nodes.values()
        for role, number in TARGETS.items()
        if role in node.roles
    )
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            # Use no proxy from the environment: it cannot reach the nodes.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=10) as answer:
                targets = json.load(answer)["data"]["activeTargets"]
        except OSError as error:
            targets = []
            print(f"    {url}: {error}", file=sys.stderr)
        healthy = [target for target in targets if target["health"] == "up"]
        if len(healthy) == expected or time.monotonic() > deadline:
            break
        time.sleep(1)
    for target in sorted(targets, key=lambda t: str(t["labels"])):
        labels = target["labels"]
        node = labels.get("node", "-")
        print(f"    {target['health']:8}{labels['job']:20}{node:12}{labels['instance']}")
    print(f"    {len(healthy)} of {expected} targets are up")
    return 0 if len(healthy) == expected else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
