"""A report on 2,000 nodes with many different findings; always the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lockstep.forms import Run
from lockstep.forms.text import text
from lockstep.report import Finding, Report, Severity, Status, fold

NODES = tuple(f"worker{number:04}" for number in range(1, 2001))
UNREAD = NODES[19::50]
RUN = Run(
    "prod.py",
    "lockstep check prod.py",
    1_790_000_000.0,
    41.25,
    cluster="prod",
    titles={"gpu.ecc": "All GPUs have ECC on.", "os.locale": "Nodes have the declared locale."},
    unread=UNREAD,
)
DEPLOY = "pyinfra -y prod.py deploys/worker.py --limit {}"
WARNING = Severity.WARNING.value


def large() -> Report:
    """Return forty rules broken on one to three hundred nodes, and two that are kept."""
    findings = [*_known(), *_others()]
    rules = dict.fromkeys([*(f.rule for f in findings), "os.locale", "os.hostname"])
    return Report(NODES, tuple(rules), findings)


def finding(rule: str, node: str, device: str, found: str, expected: str, **more: Any) -> Finding:
    """Return one finding, repaired by a deploy unless said otherwise."""
    return Finding(
        rule=rule,
        node=node,
        device=device,
        field=more.pop("field", rule),
        found=found,
        expected=expected,
        reference=more.pop("reference", "spec"),
        repair=more.pop("repair", DEPLOY).format(node),
        **more,
    )


def _known() -> Iterable[Finding]:
    capped = {"field": "gpu.power.enforced_w", "reference": "device"}
    for node in NODES[2::125]:
        for gpu in range(8):
            yield finding("gpu.power_limit", node, f"gpu{gpu}", "350 W", "700 W", **capped)
    yield finding("gpu.power_limit", NODES[42], "gpu3", "300 W", "700 W", **capped)
    for number, node in enumerate(NODES[5:305]):
        old, new = "96.00.74.00.0D", "96.00.A5.00.03"
        flash = "have the vendor's firmware flashed on {}"
        device = f"gpu{number % 8}"
        yield finding("gpu.vbios", node, device, old, new, severity=WARNING, repair=flash)
    for node in UNREAD:
        reason = "ssh: Could not connect (timed out)"
        yield finding("node.reachable", node, "", reason, "a record of the node", repair="ssh {}")
    for node in NODES[600:720]:
        pending = {"status": Status.PENDING_REBOOT.value}
        yield finding("kernel.args", node, "", "not in force: iommu=pt", "iommu=pt", **pending)
    for number, node in enumerate(NODES[7::80]):
        found = f"{number}.5 ms"
        yield finding("time.offset", node, "", found, "at most 1 ms", severity=WARNING)
    sides = f"28.39 on {fold(NODES[:1000])}; 28.41 on {fold(NODES[1000:])}"
    tie = {"status": Status.UNDECIDED.value, "reference": "peers", "severity": WARNING}
    yield finding("rdma.firmware", fold(NODES), "", sides, "one value on all nodes", **tie)
    for node in NODES[9:40]:
        unread = {"status": Status.UNKNOWN.value, "repair": "find out on {} why"}
        yield finding("gpu.ecc", node, "gpu1", "not read: no answer", "a reading", **unread)
    for path in ("/etc/gai.conf", "/etc/hosts"):
        yield finding("file.content", NODES[70], path, "absent", "content of the plan")


def _others() -> Iterable[Finding]:
    for number in range(32):
        for node in NODES[number :: 1900 // (1 + number // 4)]:
            yield finding(f"topic.rule{number:02}", node, "", "wrong", "right")


def dated() -> Report:
    """Return GPUs of two nodes that are alike, found since different checks."""
    places = [(node, gpu) for node in NODES[:2] for gpu in ("gpu0", "gpu1")]
    gpus = [finding("gpu.ecc", *place, "off", "on") for place in places]
    rows = (("2026-11-20 18:40 UTC", 2), ("", 0), ("2026-11-20 12:00 UTC", 9), ("", 0))
    found = [
        replace(gpu, since=since, checks=checks)
        for gpu, (since, checks) in zip(gpus, rows, strict=True)
    ]
    note = "growth: 2 of 2 nodes have no earlier record of this boot"
    return Report(NODES[:2], ("gpu.ecc",), found, (note,))


def files() -> dict[str, bytes]:
    """Return what ``make generate`` writes: the report as a person reads it."""
    return {"tests/forms/large.txt": text(large(), RUN).encode("utf-8")}
