"""Upgrades Kubernetes by one minor release: heads one by one, then workers a few at a time.

Owns     the versions of kubeadm, kubelet and kubectl on nodes that have joined, and of the control
         plane's static pods.
Restart  the kubelet of a node, after its pods were evicted as their disruption budgets allow.
Stops    at the first node that fails: it stays cordoned, and no further node is touched. The next
         run goes on with it.
"""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host

from lockstep.facts.packages import package_state
from lockstep.facts.reading import connector_arguments
from lockstep.facts.reboot import Conversation, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import DONE, control_planes
from lockstep.plan.kubernetes_upgrade import configuration, objection
from lockstep.roles.operations.kubernetes_turns import NEXT, hindrance
from lockstep.roles.operations.operation import Commands, fail, operation, refusal
from lockstep.roles.operations.packages import change
from lockstep.roles.steps.reboot.failures import Failed
from lockstep.roles.steps.reboot.pods import Pods
from lockstep.roles.steps.reboot.rollout import Rollout, rollout_of
from lockstep.spec import NodeRole
from lockstep.spec.kubernetes import PACKAGES

WHY = "lockstep-upgrade: Kubernetes"
KUBEADM_S, PACKAGES_S, READY_S = 1200.0, 900.0, 300.0
"""Limits in seconds; kubeadm has limits of its own for each step."""
LONGEST = 400


@operation("Kubernetes can be upgraded to the planned version")
def allowed(plan: NodePlan) -> Commands:
    """Refuse an upgrade that skips a minor release, before anything is changed.

    Args:
        plan: the plan of a node of Kubernetes.
    """
    if not host.state.is_executing:
        return
    this: Host = host.state.inventory.get_host(plan.name)
    pods = Pods(host.state, plan, connector_arguments(host), this.log_styled)
    try:
        why = objection(_server(pods), plan.kubernetes.settings.version)
    except Unanswered as unanswered:
        yield refusal(f"{plan.name} was not upgraded: {unanswered}")
        return
    if why:
        yield refusal(f"{plan.name} was not upgraded: {why}")


@operation()
def upgraded(plan: NodePlan) -> Commands:
    """Wait for this node's turn, then upgrade it if it has another version.

    Args:
        plan: the plan of a node of Kubernetes.
    """
    state, name = host.state, plan.name
    if not state.is_executing:
        yield "kubeadm upgrade"
        return
    this: Host = state.inventory.get_host(name)
    rollout, arguments = rollout_of(state), connector_arguments(host)
    at_once = 1 if plan.role is NodeRole.HEAD else plan.spec.reboots.at_once
    with rollout.turn(name, list(plan.cluster.nodes).index(name), at_once) as stopped:
        if stopped:
            host.log_styled(f"left alone: {stopped}", fg="yellow")
            return
        turn = Turn(this, plan, arguments, rollout)
        yield FunctionCommand(lambda state, host: turn.run(), (), {})


class Turn:
    """The upgrade of one node."""

    def __init__(
        self, this: Host, plan: NodePlan, arguments: dict[str, Any], rollout: Rollout
    ) -> None:
        """Store the node, its plan, pyinfra's arguments for commands, and the rollout."""
        self.host, self.plan, self.rollout = this, plan, rollout
        self.talk = Conversation(this, arguments)
        self.pods = Pods(this.state, plan, arguments, this.log_styled)
        self.wanted = f"v{plan.kubernetes.settings.version}"
        self.again = plan.cluster.deploy_command("upgrade")

    def run(self) -> bool:
        """Upgrade the node; return False if that failed, which stops the rollout."""
        try:
            self._steps()
        except (Failed, Unanswered) as error:
            self.rollout.stop(str(error))
            kept = " It stays cordoned." if self.pods.ours else ""
            then = error.then if isinstance(error, Failed) else f"run: {self.again}"
            return fail(self.host, f"{error}.{kept} Next: {then}")
        except BaseException:
            self.rollout.stop(f"the turn of {self.plan.name} was ended")
            raise
        return True

    def _steps(self) -> None:
        name, head = self.plan.name, not self.plan.takes_pods
        if self._say(f"test -e {shlex.quote(DONE)} && echo yes || echo no", 60) != ["yes"]:
            self.host.log_styled("it has not joined Kubernetes yet: deploy it")
            return
        seen = self.pods.look()
        if seen.version == self.wanted and (not head or self._static(name) == self.wanted):
            self.pods.released(self.again)
            self.host.log_styled(f"runs {self.wanted} already")
            return
        if not head:
            self._heads_first()
        other, why = hindrance(self.plan, self.talk)
        if other:
            raise Failed(
                f"{name} was not upgraded, because the API server of {other} is not ready: {why}",
                NEXT.format(head=other),
            )
        self.host.log_styled(f"{seen.version or 'unknown'} -> {self.wanted}")
        self._install("kubeadm")
        # The cluster's configuration has the new version once one head has been upgraded.
        what = "node" if not head or self._configured() == self.wanted else "apply --yes"
        self._say(
            f"said=$(kubeadm upgrade {what} --config /dev/stdin 2>&1) || "
            '{ echo "$said" | tail -n 5 >&2; exit 1; }',
            KUBEADM_S,
            _stdin=[configuration(self.plan)],
        )
        self.host.log_styled(f"kubeadm upgrade {what.split()[0]} is done")
        limit_s = self.plan.spec.reboots.drain_timeout_s
        if not self.pods.emptied(WHY, limit_s, self.rollout, self.again):
            return
        self._install(*PACKAGES)
        self._say("systemctl daemon-reload && systemctl restart kubelet.service", 120)
        began = time.monotonic()
        while not (now := self.pods.look()).ready or now.version != self.wanted:
            if time.monotonic() - began > READY_S:
                raise Failed(
                    f"the kubelet of {name} is not Ready with {self.wanted} after {READY_S:.0f} s",
                    f"on {name}: journalctl --unit kubelet; then run: {self.again}",
                )
            time.sleep(2)
        self.pods.released(self.again)

    def _install(self, *names: str) -> None:
        software = self.plan.software
        found = self.talk.read(package_state, names=names)
        for command in change(found, names, software.versions, software.held):
            self._say(command, PACKAGES_S)

    def _heads_first(self) -> None:
        """Check that every head of the plan runs the new API server, also those not in this run.

        A kubelet must not be newer than any API server (Kubernetes, Version Skew Policy: kubelet).

        Raises:
            Failed: a head runs another one, or none.
            Unanswered: no head answered.
        """
        found = {one.name: self._static(one.name) for one in control_planes(self.plan)}
        older = {name: version for name, version in found.items() if version != self.wanted}
        if older:
            heads = ", ".join(
                f"{name} runs the API server {version or 'of no known version'}"
                for name, version in older.items()
            )
            raise Failed(
                f"{self.plan.name} was not upgraded: {heads}, and {self.wanted} has to be on all "
                "heads before a worker gets it",
                f"repair {', '.join(older)}, then run, without --limit: {self.again}",
            )

    def _static(self, head: str) -> str:
        """Return the version of a head's API server; "" if it has none."""
        return self.pods.said(
            f"--namespace kube-system get pod kube-apiserver-{shlex.quote(head)} "
            "--ignore-not-found --output jsonpath='{.spec.containers[0].image}'"
        ).rpartition(":")[2]

    def _configured(self) -> str:
        """Return the version in kubeadm's configuration of the cluster."""
        text = self.pods.said(
            "--namespace kube-system get configmap kubeadm-config "
            "--output jsonpath='{.data.ClusterConfiguration}'"
        )
        lines = (line.partition(": ") for line in text.splitlines())
        return next((value for key, _, value in lines if key == "kubernetesVersion"), "")

    def _say(self, command: str, within_s: float, **further: Any) -> list[str]:
        worked, output = self.talk.say(command, within_s=within_s, **further)
        if not worked:
            said = " ".join(output.stderr_lines).strip()[-LONGEST:] or "no message"
            raise Failed(f"{self.plan.name} was not upgraded: {said}", f"run: {self.again}")
        return list(output.stdout_lines)


def _server(pods: Pods) -> str:
    """Return the version of the API server. Raises Unanswered."""
    text = pods.said("get --raw /version")
    try:
        return str(json.loads(text)["gitVersion"])
    except (ValueError, KeyError) as error:
        raise Unanswered(f"kubectl get --raw /version: not understood ({error!r})") from error
