"""What `lockstep check` says of one node, and what of it keeps the node out of service."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lockstep.facts.reboot import Unanswered
from lockstep.spec.names import expand

CHECK_S = 300.0
SAID = 3
"""Findings in a message; `lockstep check` shows them all."""
BOOT_BRINGS = ("kernel.release", "kernel.cmdline", "gpu.driver_version", "package.version")
"""Rules that compare with peers what a reboot changes: the first node differs from all others."""


def check(inventory: str, node: str) -> list[dict[str, Any]]:
    """Return the findings of ``lockstep check`` about a node.

    Raises:
        Unanswered: the check itself could not be made.
    """
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "lockstep", "check", inventory),
                *("--limit", node, "--json", "-"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=CHECK_S,
        )
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except subprocess.TimeoutExpired as late:
        raise Unanswered(f"lockstep check: not done within {CHECK_S:.0f} s") from late
    except (ValueError, KeyError) as error:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise Unanswered(f"lockstep check: status {done.returncode}: {said[-1]}") from error
    return findings


def objections(findings: list[dict[str, Any]], node: str) -> str:
    """Say what of the findings keeps a node out of service; "" for none.

    Not its state in Slurm, which is ours or a person's to change, not a warning, and not what it
    has in advance of peers that were not rebooted yet.
    """
    against = [
        finding
        for finding in findings
        if node in expand(finding["node"])
        and finding["rule"] != "slurm.state"
        and finding["severity"] != "warning"
        # "peers", or "peers: 4 of 7 nodes of class ..." where they have a majority.
        and not (finding["rule"] in BOOT_BRINGS and finding["reference"].startswith("peers"))
    ]
    said = ", ".join(
        f"{' '.join(filter(None, (f['rule'], f['device'])))} (found {f['found']}, "
        f"expected {f['expected']})"
        for f in against[:SAID]
    )
    return said + (f" and {len(against) - SAID} more" if len(against) > SAID else "")
