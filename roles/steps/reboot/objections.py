"""The findings of `lockstep check` about one node, and those that keep it out of service."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lockstep.facts.reboot import Unanswered
from lockstep.spec.names import expand

CHECK_S = 300.0
SAID = 3
"""Maximum number of findings in a message; ``lockstep check`` shows all of them."""
BOOT_BRINGS = ("kernel.release", "kernel.cmdline", "gpu.driver_version", "package.version")
"""Rules for values that a reboot changes, so the first node to reboot differs from its peers."""


def check(inventory: str, node: str, *options: str) -> list[dict[str, Any]]:
    """Return the findings of ``lockstep check`` about a node, or about nodes in hostlist notation.

    Raises:
        Unanswered: the check itself failed.
    """
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "lockstep", "check", inventory),
                *("--limit", node, "--json", "-", *options),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=CHECK_S,
        )
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except subprocess.TimeoutExpired as late:
        raise Unanswered(f"lockstep check did not finish within {CHECK_S:.0f} s") from late
    except (ValueError, KeyError) as error:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise Unanswered(
            f"lockstep check failed with exit status {done.returncode}: {said[-1]}"
        ) from error
    return findings


def objections(findings: list[dict[str, Any]], node: str, *, everything: bool = False) -> str:
    """Return, as text, the findings that keep a node out of service; "" for none.

    The state in Slurm does not count, because the caller or an administrator changes it. Unless
    ``everything`` is asked for, warnings do not count either, nor do differences from peers, which
    may not have been rebooted yet. Notices never count.
    """
    against = [
        finding
        for finding in findings
        if node in expand(finding["node"])
        and finding["rule"] != "slurm.state"
        and finding["severity"] != "notice"
        and (everything or not _may_pass(finding))
    ]
    said = ", ".join(
        f"{' '.join(filter(None, (f['rule'], f['device'])))} (found {f['found']}, "
        f"expected {f['expected']})"
        for f in against[:SAID]
    )
    return said + (f" and {len(against) - SAID} more" if len(against) > SAID else "")


def _may_pass(finding: dict[str, Any]) -> bool:
    """Return whether a finding is a warning, or may be gone once all nodes have been rebooted."""
    rule: str = finding["rule"]
    # "peers", or "peers: 4 of 7 nodes of class ..." if they have a majority.
    of_peers = finding["reference"].startswith("peers")
    compared = rule in BOOT_BRINGS or rule.startswith("fingerprint.")
    return finding["severity"] == "warning" or (compared and of_peers)
