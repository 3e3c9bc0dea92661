"""Drains a node of Kubernetes in a rollout: cordons it, evicts its pods, and uncordons it.

A node that a person has cordoned is not uncordoned. A cordon of the node check belongs to the
rollout until it ends, and then to the node check again: kubectl drain would cordon a node again
that the node check uncordons meanwhile, and nothing would uncordon that. Pods are evicted
(Kubernetes, API-initiated eviction), so their disruption budgets and grace periods count; a pod
without a controller would not come back elsewhere, so the rollout waits until it ends (kubectl
drain, without --force).
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyinfra.api import State

from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.facts.slurm import OURS
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import CORDONED, KUBECTL, control_planes
from lockstep.roles.steps.reboot.failures import Failed
from lockstep.roles.steps.reboot.rollout import Rollout

ROLLOUTS = "lockstep-"
"""Beginning of the reasons of rollouts; those of the node check, as in Slurm."""
CHECK = OURS
REASONS = ("Cannot evict", "cannot delete")
"""Words of the lines in which kubectl drain says why it leaves a pod (kubectl, drain.go)."""
ONCE_S = 20
"""Seconds of one call of kubectl drain; the rollout may have stopped meanwhile."""
ANSWER_S = 60.0
PATIENCE_S = 60.0
"""Seconds in which a failed call is repeated: a rollout restarts API servers, which refuse
connections, or users whose rights they have not read yet."""
AGAIN_AFTER_S = 2.0
UNREADY_S = 300.0
"""Seconds that a kubelet may be not Ready while its pods end; pods accept as much of a node
(Kubernetes, DefaultTolerationSeconds: default-not-ready-toleration-seconds)."""
REMIND_S = 600.0
LONGEST = 300
"""Characters of a message of kubectl that are shown."""


@dataclass(frozen=True)
class Seen:
    """A Node object, as far as a rollout needs it."""

    exists: bool = False
    cordoned: bool = False
    mark: str = ""
    """The reason, if Lockstep cordoned it; "" if another program or a person did."""
    ready: bool = False
    version: str = ""
    """Version of the kubelet, such as v1.34.4."""

    @property
    def ours(self) -> bool:
        """Whether a rollout has cordoned it."""
        return self.cordoned and self.mark.startswith(ROLLOUTS)

    @property
    def of_check(self) -> bool:
        """Whether the node check has cordoned it."""
        return self.cordoned and self.mark.startswith(CHECK)


def parsed(text: str) -> Seen:
    """Return what the JSON of a Node object says; "" stands for no object."""
    if not text.strip():
        return Seen()
    found = json.loads(text)
    conditions = found.get("status", {}).get("conditions", ())
    return Seen(
        True,
        bool(found["spec"].get("unschedulable")),
        found["metadata"].get("annotations", {}).get(CORDONED, ""),
        any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
        found.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""),
    )


class Pods:
    """The Node object of one node, which a rollout reads and changes on a head."""

    def __init__(
        self,
        state: State,
        plan: NodePlan,
        arguments: dict[str, Any],
        log: Callable[[str], None],
    ) -> None:
        """Store pyinfra's run, the node, pyinfra's arguments (``_sudo``), and what shows a text."""
        self._state, self._plan, self._arguments, self._log = state, plan, arguments, log
        self._name = shlex.quote(plan.name)
        self.ours = False
        """Whether a rollout has cordoned the node: this one, or one that did not finish."""
        self._taken_over = ""
        """The node check's reason, if the rollout has taken over its cordon."""

    def kubectl(self, command: str, within_s: float = ANSWER_S) -> tuple[bool, list[str]]:
        """Run kubectl on the first head that answers; return whether it succeeded, and its lines.

        Another head comes first: the node itself may be about to reboot.

        Raises:
            Unanswered: no head answered.
        """
        heads = sorted(control_planes(self._plan), key=lambda head: head.name == self._plan.name)
        why = []
        for head in heads:
            other = self._state.inventory.get_host(head.name, None)
            if other is None:
                why.append(f"{head.name}: it is not in the inventory")
                continue
            try:
                worked, output = Conversation(other, self._arguments).say(
                    f"{KUBECTL} {command}", within_s=within_s
                )
            except Unanswered as error:
                why.append(f"{head.name}: {error}")
                continue
            return worked, list(output.stdout_lines if worked else output.stderr_lines)
        raise Unanswered(f"no head of Kubernetes' control plane answered ({'; '.join(why)})")

    def said(self, command: str) -> str:
        """Return the output of kubectl, which may fail for a minute.

        Raises:
            Unanswered: no head answered, or kubectl failed until the end of the minute.
        """
        until = time.monotonic() + PATIENCE_S
        while True:
            worked, lines = self.kubectl(command)
            if worked:
                return "\n".join(lines)
            if time.monotonic() > until:
                raise Unanswered(f"kubectl {' '.join(command.split()[:2])}: {_last(lines)}")
            time.sleep(AGAIN_AFTER_S)

    def look(self) -> Seen:
        """Read the Node object. Raises Unanswered."""
        text = self.said(f"get node {self._name} --ignore-not-found --output json")
        try:
            found = parsed(text)
        except (ValueError, KeyError) as error:
            raise Unanswered(f"kubectl get node: not understood ({error!r})") from error
        self.ours = found.ours
        return found

    def emptied(self, why: str, limit_s: float, rollout: Rollout, again: str) -> bool:
        """Cordon the node and evict its pods; return False if the rollout stopped meanwhile.

        Args:
            why: the reason, for the annotation.
            limit_s: seconds that the pods may take.
            rollout: the rollout, which may stop meanwhile.
            again: the command that repeats it.

        Raises:
            Failed: pods are left, or no head answered.
        """
        try:
            found = self.look()
            if not found.exists:
                return True
            if not found.cordoned or found.of_check:
                self._taken_over = found.mark if found.of_check else ""
                self._patch({CORDONED: why}, True)
                self.ours = True
                was = f", which the node check had cordoned: {found.mark}" if found.of_check else ""
                self._log(f"cordoned ({why}){was}")
            if self._drained(limit_s, rollout, again):
                return True
            if not found.ours:
                self.uncordon()
        except Unanswered as unanswered:
            raise Failed(
                f"{self._plan.name} was not drained: {unanswered}",
                f"check the API server of Kubernetes, then run: {again}",
            ) from unanswered
        self._log(f"left alone: {rollout.stopped}")
        return False

    def released(self, again: str) -> None:
        """Uncordon the node if a rollout has cordoned it.

        Raises:
            Failed: no head answered.
        """
        try:
            self.uncordon()
        except Unanswered as unanswered:
            raise Failed(
                f"{self._plan.name} passed its checks, but was not uncordoned: {unanswered}",
                f"check the API server of Kubernetes, then run: {again}",
            ) from unanswered

    def _drained(self, limit_s: float, rollout: Rollout, again: str) -> bool:
        """Evict the pods until none is left; return False if the rollout stopped meanwhile.

        Raises:
            Failed: pods are left after ``limit_s`` seconds.
            Unanswered: no head answered.
        """
        began = shown_at = ready_at = time.monotonic()
        shown = ""
        while True:
            if rollout.stopped:
                return False
            mine, found = self.ours, self.look()  # which notes whose cordon it is
            if found.ready:
                ready_at = time.monotonic()
            if mine and not found.cordoned:
                raise Failed(
                    f"{self._plan.name} was uncordoned before its pods had ended",
                    f"ask the administrators why, then run: {again}",
                )
            left_s = limit_s - (time.monotonic() - began)
            once_s = max(1, min(ONCE_S, int(left_s)))
            worked, lines = self.kubectl(
                f"drain {self._name} --ignore-daemonsets --delete-emptydir-data "
                f"--timeout={once_s}s",
                within_s=once_s + ANSWER_S,
            )
            if worked:
                return True
            why = _last([one for one in lines if any(word in one for word in REASONS)] or lines)
            if time.monotonic() - began >= limit_s:
                raise Failed(
                    f"{self._plan.name} still has pods after {limit_s:.0f} s (drain_timeout_s): "
                    f"{why}",
                    f"wait until they have ended, then run: {again}",
                )
            if time.monotonic() - ready_at >= UNREADY_S:
                raise Failed(
                    f"{self._plan.name} still has pods, and they cannot end, because its kubelet "
                    f"has not been Ready for {UNREADY_S:.0f} s: {why}",
                    f"deploy {self._plan.name}, or reboot it by hand; then run: {again}",
                )
            if why != shown or time.monotonic() - shown_at >= REMIND_S:
                self._log(f"waiting for its pods, {max(left_s, 0):.0f} s at most: {why}")
                shown, shown_at = why, time.monotonic()
            time.sleep(1)

    def uncordon(self) -> None:
        """Uncordon the node if a rollout has cordoned it, or give it back to the node check.

        Raises:
            Unanswered: no head answered.
        """
        if not self.look().ours:
            return
        if self._taken_over:
            self._patch({CORDONED: self._taken_over}, True)
            self._log("left cordoned: the node check uncordons it when it finds no failure")
        else:
            self._patch({CORDONED: None}, None)
            self._log("uncordoned")
        self.ours, self._taken_over = False, ""

    def _patch(self, annotations: dict[str, str | None], unschedulable: bool | None) -> None:
        patch = {
            "metadata": {"annotations": annotations},
            "spec": {"unschedulable": unschedulable},
        }
        self.said(f"patch node {self._name} --type=merge --patch {shlex.quote(json.dumps(patch))}")


def unready(pods: Pods | None) -> str:
    """Return a message if the node belongs to Kubernetes and is not Ready; otherwise ""."""
    try:
        found = Seen() if pods is None else pods.look()
    except Unanswered as unanswered:
        return str(unanswered)
    return "" if found.ready or not found.exists else "its Node object is not Ready"


def _last(lines: list[str]) -> str:
    """Return the last line that says something."""
    said = [one.strip() for one in lines if one.strip()]
    return (said or ["no message"])[-1][:LONGEST]
