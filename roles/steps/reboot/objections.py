"""The findings of `lockstep check` about one node, and those that keep it out of service."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lockstep.facts.reboot import Unanswered
from lockstep.plan import NodePlan
from lockstep.spec.names import expand

CHECK_S = 300.0
LONGEST_REASON = 200
"""Characters of a drain reason that are kept."""
SAID = 3
"""Maximum number of findings in a message; ``lockstep check`` shows all of them."""
BOOT_BRINGS = ("kernel.release", "kernel.cmdline", "gpu.driver_version", "package.version")
"""Rules for values that a reboot changes, so the first node to reboot differs from its peers."""
FINGERPRINT = "fingerprint."
PENDING = "pending reboot"
"""Status of a finding that a reboot resolves (docs/outputs.md)."""
UNDECIDED = "undecided"
"""Status of a difference of which nobody knows the right side (docs/outputs.md)."""
CORDONED = "cordoned"
"""Beginning of what the rule kubernetes.node found, if a node is cordoned and nothing else."""
SETTLED = "--settled"
"""Option of ``lockstep check``: nodes that are about to change have no vote."""


def check(inventory: str, node: str) -> list[dict[str, Any]]:
    """Return the findings of ``lockstep check`` about a node, or about nodes in hostlist notation.

    They are compared with settled nodes of their class.

    Raises:
        Unanswered: the check itself failed.
    """
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "lockstep", "check", inventory),
                *("--limit", node, SETTLED, "--json", "-"),
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


def against(findings: list[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    """Return the findings that keep a node out of service.

    They name the node as the wrong side, as an error or a warning, or say that a value of it could
    not be read. Notices do not count, nor does a difference of which nobody knows the right side.
    Neither do the state in Slurm, a cordon in Kubernetes, and Deployments without pods, which may
    wait for a cordoned node: the caller or an administrator changes them.
    """
    return [one for one in _about(findings, node) if one["status"] != UNDECIDED]


def undecided(findings: list[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    """Return the differences between a node and its peers of which nobody knows the right side."""
    return [one for one in _about(findings, node) if one["status"] == UNDECIDED]


def lasting(findings: list[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    """Return the findings of ``against`` that count after a reboot.

    Kernel and driver of the first nodes to reboot are ahead of their peers. Warnings of rules do
    not count: a node has most of them for other reasons than a reboot.
    """
    return [
        one
        for one in against(findings, node)
        if one["rule"].startswith(FINGERPRINT)
        or not (
            one["severity"] == "warning"
            or (one["rule"] in BOOT_BRINGS and one["reference"].startswith("peers"))
        )
    ]


def are_warnings(findings: list[dict[str, Any]]) -> bool:
    """Return whether all findings are warnings."""
    return all(one["severity"] == "warning" for one in findings)


def may_settle(finding: dict[str, Any]) -> bool:
    """Return whether a finding may go away by itself.

    Findings of rules may; the configuration of a node does not change without a cause.
    """
    return not finding["rule"].startswith(FINGERPRINT) and finding["status"] != PENDING


def stay(findings: list[dict[str, Any]]) -> bool:
    """Return whether there are findings, of which none may go away by itself.

    After a reboot, ask only for findings that two checks have made: a service may have written its
    files during the first one.
    """
    return bool(findings) and not any(map(may_settle, findings))


def _about(findings: list[dict[str, Any]], node: str) -> list[dict[str, Any]]:
    return [
        one
        for one in findings
        if node in expand(one["node"]) and not _of_scheduler(one) and one["severity"] != "notice"
    ]


def _of_scheduler(finding: dict[str, Any]) -> bool:
    """Return whether a finding only says that a node takes no jobs or pods, or that pods wait.

    Pods that only a head may run wait while the only head is cordoned.
    """
    rule, found = finding["rule"], str(finding["found"])
    return (
        rule == "slurm.state"
        or (rule == "kubernetes.node" and found.startswith(CORDONED))
        or (rule == "kubernetes.unavailable" and finding["status"] == "differs")
    )


def as_text(findings: list[dict[str, Any]]) -> str:
    """Return findings as text, with their values; "" for none."""
    return _first(
        [f"{_object(f)} (found {f['found']}, expected {f['expected']})" for f in findings]
    )


def in_doubt(plan: NodePlan, others: str, findings: list[dict[str, Any]], then: str = "") -> str:
    """Return a message about differences of which nobody knows the right side; "" for none.

    Args:
        plan: the plan of the node.
        others: the nodes that it differs from, such as its class.
        findings: the findings of ``check``.
        then: a sentence that follows the differences.
    """
    doubtful = undecided(findings, plan.name)
    if not doubtful:
        return ""
    return (
        f"{plan.name} differs from its {others}, and the right value is not known: "
        f"{as_text(doubtful)}. {then}Next: run lockstep check {plan.cluster.inventory} --limit "
        f"{plan.name}, and decide which value is right"
    )


def reason_of(mark: str, findings: list[dict[str, Any]]) -> str:
    """Return the reason of a drain, which everybody can read.

    It names objects and who knows the right values, not the values. It is as Slurm keeps it: one
    line, without quotes, not longer than ``sinfo -R`` shows.
    """
    text = _first([f"{_object(f)} (from: {f['reference']})" for f in findings])
    printable = "".join(c for c in text if c.isprintable() and c not in "'\"")
    return f"{mark} {printable}"[:LONGEST_REASON].strip()


def _object(finding: dict[str, Any]) -> str:
    return " ".join(filter(None, (finding["rule"], finding["device"])))


def _first(texts: list[str]) -> str:
    more = f" and {len(texts) - SAID} more" if len(texts) > SAID else ""
    return ", ".join(texts[:SAID]) + more
