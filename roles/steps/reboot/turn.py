"""The steps of one node in a rolling reboot: drain, wait, reboot, check, resume."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyinfra.api import Host

from lockstep.facts.reboot import Conversation, HoldState, Unanswered, boot_state, hold_state
from lockstep.plan import NodePlan
from lockstep.plan.reboot import Pending, listed
from lockstep.roles.operations.kubernetes_turns import NEXT, hindrance
from lockstep.roles.operations.operation import fail
from lockstep.roles.steps.reboot import driver as drivers
from lockstep.roles.steps.reboot.decision import HELD, OURS, OUT, Decision, is_ours, remember, still
from lockstep.roles.steps.reboot.failures import Alone, Failed, NotAgain, in_words
from lockstep.roles.steps.reboot.objections import (
    are_warnings,
    as_text,
    check,
    in_doubt,
    lasting,
    reason_of,
    stay,
)
from lockstep.roles.steps.reboot.pods import Pods, unready
from lockstep.roles.steps.reboot.rollout import Rollout

BUSY = {"ALLOCATED", "MIXED", "COMPLETING"}
POLL_S = 2.0
CHECK_EVERY_S = 10.0
"""Seconds between checks; each check also reads the node's peers, which are running jobs."""
REMIND_S = 600.0
SETTLE_S = 300.0
"""Seconds that the checks after a reboot may take: chronyd needs up to 90, GPUs 60 more."""
RESUME_S = 60.0


class Turn:
    """The steps of one node in the rollout."""

    def __init__(
        self,
        host: Host,
        plan: NodePlan,
        talk: Conversation,
        decision: Decision,
        rollout: Rollout,
        look: Callable[[], Pending],
        pods: Pods | None = None,
    ) -> None:
        """Store the arguments; ``look`` reads the node again and returns its pending reboot.

        ``pods``: the node's Node object; None: it does not belong to Kubernetes.
        """
        self.pods = pods
        self.look, self.host, self.plan, self.talk = look, host, plan, talk
        self.decision, self.rollout = decision, rollout
        self.ours = decision.leftover
        self.found: list[dict[str, Any]] = []
        """The findings of the last check that keep the node out of service."""
        self.doubtful = ""
        self.again = f"{plan.cluster.deploy_command('reboot')} --limit {plan.name}"

    def run(self) -> bool:
        """Run all steps; return False if the node failed. ``Alone`` does not end the rollout."""
        name = self.plan.name
        try:
            self._steps()
        except Failed as failed:
            if not isinstance(failed, Alone):
                self.rollout.stop(str(failed))
            kept = " It stays drained." if self.ours else ""
            kept += " It stays cordoned." if self.pods is not None and self.pods.ours else ""
            return fail(self.host, f"{failed}.{kept} Next: {failed.then}")
        except BaseException:  # a bug in Lockstep, or Ctrl-C: pyinfra shows which
            self.rollout.stop(f"Ctrl-C or an internal error in Lockstep ended the turn of {name}")
            raise
        return True

    def _steps(self) -> None:
        decision = self.decision
        self._log(decision.why(self.plan))
        if decision.pending.in_vain:
            self._not_again()
            return
        drivers.trusted(self.talk, self.plan, self.again, decision.pending.change)
        if not decision.pending.change:
            self._modules_built()
            drivers.loadable(self.talk, self.plan, self.again)
        if decision.pending.reasons:
            self._others_ready()
        if decision.worker and decision.pending.reasons:
            self._drain()
            if not self._idle():
                return
        if decision.pending.reasons and not self._emptied():
            return
        if decision.pending.change:
            drivers.free(self.talk, self.plan.name, self.again)
            self._change()
            self._modules_built()
        if decision.pending.reasons:
            self._others_ready()  # draining may have taken long
            self._reboot()
        if decision.worker and not self.ours:
            # The fault that took the node out of service may persist, so this is not a failure.
            wrong = self._settled(self._still) or self._unregistered() or self._findings()
            if wrong:
                self._log(f"the checks failed after the reboot: {wrong}")
            self._log(
                f"not resumed: already out of service: {decision.hold.reason or 'no reason'!r}"
            )
            return
        began = time.monotonic()
        wrong = self._settled(
            lambda: self._unregistered() or unready(self.pods) or self._still() or self._findings()
        )
        if wrong:
            if self.ours and self.found and is_ours((self._hold() or HoldState()).reason):
                what = f"State=DRAIN Reason={shlex.quote(reason_of(OURS, self.found))}"
                self._scontrol(what, "given the finding as its drain reason")
            # A difference that can only slow this node says nothing about the others.
            failure = Alone if self.found and are_warnings(self.found) else Failed
            raise failure(
                f"{self.plan.name} was still failing its checks after its reboot: {wrong}",
                f"run lockstep check {self.plan.cluster.inventory} --limit {self.plan.name} and "
                f"fix what it reports, then run: {self.again}",
            )
        self._log(f"the checks passed after {time.monotonic() - began:.0f} s")
        if self.doubtful:
            self._log(self.doubtful, fg="yellow")
        if self.ours:
            self._resume()
        if self.pods is not None:
            self.pods.released(self.again)

    def _others_ready(self) -> None:
        """Fail if this head may be one that etcd's majority needs: another head is not ready."""
        name = self.plan.name
        try:
            other, why = hindrance(self.plan, self.talk)
        except Unanswered as unanswered:
            raise Alone(f"{name} was not rebooted: {unanswered}", f"run: {self.again}") from None
        if other:
            raise Alone(
                f"{name} was not rebooted, because the API server of {other} is not ready: {why}",
                NEXT.format(head=other),
            )

    def _drain(self) -> None:
        """Drain the node, unless it is already out of service."""
        hold = self.decision.hold
        if not hold.states:
            raise Failed(
                f"{self.plan.name} was not drained: the controller did not answer",
                f"check slurmctld on {self.plan.cluster.controller_host}, then run: {self.again}",
            )
        if hold.states & HELD:
            return
        reason = f"{OURS} {self.decision.pending.kinds}"
        self._scontrol(f"State=DRAIN Reason={shlex.quote(reason)}", "drained")
        self.ours = True
        self._log(f"drained ({reason})")

    def _idle(self) -> bool:
        """Wait until no job is running on the node; return False if the rollout ended meanwhile."""
        name, limit_s = self.plan.name, self.plan.spec.reboots.drain_timeout_s
        began = shown_at = time.monotonic()
        shown: tuple[str, ...] = ()
        answered = began
        while True:
            hold = self._hold()
            if hold is not None:
                answered = time.monotonic()
            elif time.monotonic() - answered > self.plan.spec.reboots.return_timeout_s:
                raise Failed(
                    f"{name} stopped answering before its jobs had ended, so it was not rebooted",
                    f"look at the console of {name}; when the node is up again, run: {self.again}",
                )
            if self.rollout.stopped:
                self._let_go()
                return False
            if hold is not None and hold.states and not hold.states & HELD:
                self.ours = False
                raise Failed(
                    f"{name} was resumed before its jobs had finished, so it was not rebooted",
                    f"ask the administrators why the node was resumed, then run: {self.again}",
                )
            jobs = None if hold is None else hold.jobs
            # Both must agree: squeue can drop a job before the node has cleaned up after it.
            if hold is not None and hold.states and jobs == () and not hold.states & BUSY:
                return True
            waited = time.monotonic() - began
            if waited >= limit_s:
                raise Failed(
                    f"{name} still has {in_words(jobs)} after {limit_s} s (drain_timeout_s), so it "
                    "was not rebooted",
                    f"wait until the jobs have ended, then run: {self.again}",
                )
            if jobs and (jobs != shown or time.monotonic() - shown_at >= REMIND_S):
                self._log(f"waiting for {in_words(jobs)}, {limit_s - waited:.0f} s at most")
                shown, shown_at = jobs, time.monotonic()
            time.sleep(min(POLL_S, limit_s))

    def _emptied(self) -> bool:
        """Evict the node's pods; return False if the rollout ended meanwhile."""
        limit_s, why = self.plan.spec.reboots.drain_timeout_s, self.decision.pending.kinds
        return self.pods is None or self.pods.emptied(
            f"{OURS} {why}", limit_s, self.rollout, self.again
        )

    def _let_go(self) -> None:
        """Resume the node if this rollout drained it and has not rebooted it yet."""
        fresh = self.ours and not self.decision.leftover
        if fresh:
            self._scontrol("State=RESUME", "resumed")
        self._log(f"not rebooted{', resumed' if fresh else ''}: {self.rollout.stopped}")

    def _modules_built(self) -> None:
        """Fail if the next boot would lack the driver because DKMS could not build its modules."""
        name, driver = self.plan.name, self.decision.pending.driver
        if driver is None or not self.decision.pending.reasons:
            return
        try:
            why = drivers.unbuilt(self.talk, driver)
        except Unanswered as unanswered:
            raise Failed(
                f"{name} was not rebooted: {unanswered}", f"run: {self.again}"
            ) from unanswered
        if why:
            raise Failed(
                f"{name} was not rebooted: {why}",
                f"deploy {name}, so that DKMS builds the module; then run: {self.again}",
            )

    def _change(self) -> None:
        """Change the packages that must not change while jobs are running."""
        plan, names = self.plan, self.decision.pending.change
        self._log(f"changing {', '.join(names)}")
        began = time.monotonic()
        try:
            drivers.change_packages(self.talk, plan, names)
        except Unanswered as unanswered:
            raise Failed(
                f"the driver packages of {plan.name} could not be changed: {unanswered}",
                f"run {drivers.CHECKS_PACKAGES[plan.release.family]} on {plan.name} and fix "
                f"what it reports, then run: {self.again}",
            ) from unanswered
        self._log(f"changed after {time.monotonic() - began:.0f} s")

    def _reboot(self) -> None:
        """Reboot the node, and wait until it answers from a new boot."""
        name, limit_s = self.plan.name, self.plan.spec.reboots.return_timeout_s
        self._log("rebooting")
        began = time.monotonic()
        with suppress(Unanswered):
            # The echo distinguishes a refusal from a session that went down with the node.
            _, output = self.talk.say("systemctl reboot; echo asked $?", within_s=30)
            asked = [line for line in output.stdout_lines if line.startswith("asked")]
            if asked not in ([], ["asked 0"]):
                said = " ".join(output.stderr_lines).strip()[:200]
                raise Failed(
                    f"{name} refused to reboot: systemctl reboot: {said or asked[0]}",
                    f"reboot {name} by hand, then run: {self.again}",
                )
        last = "no answer yet"
        while (left_s := began + limit_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            try:
                self.talk.connect(within_s=max(1.0, min(20.0, left_s)))
                if self.talk.ask(boot_state()).boot != self.decision.boot:
                    self._log(f"back after {time.monotonic() - began:.0f} s")
                    return
                last = "the node answers, but it has not rebooted yet"
            except Unanswered as unanswered:
                last = str(unanswered)
        raise Failed(
            f"{name} did not come back within {limit_s} s of its reboot (return_timeout_s): {last}",
            f"look at the console of {name}; when the node is up again, run: {self.again}",
        )

    def _not_again(self) -> None:
        """Fail if an earlier reboot did not help, unless the node was already out of service."""
        if self.decision.hold.states & HELD and not self.ours:
            return
        raise NotAgain(
            f"{self.plan.name} was not rebooted again: {self.decision.stands}",
            f"fix the cause on {self.plan.name} and reboot it by hand, then run: {self.again}",
        )

    def _settled(self, look: Callable[[], str]) -> str:
        """Repeat a check until it finds nothing or the time is up; return its last finding."""
        began, shown = time.monotonic(), ""
        while wrong := look():
            left_s = SETTLE_S - (time.monotonic() - began)
            if left_s <= 0 or (wrong == shown and stay(self.found)):
                break
            if wrong != shown:
                self._log(f"the checks have not passed yet ({left_s:.0f} s left): {wrong}")
                shown = wrong
            time.sleep(CHECK_EVERY_S)
        try:
            remember(self.talk, still(self.look, self.decision.pending) if wrong else ())
        except Unanswered as unanswered:
            self._log(f"could not read or store the reasons for another reboot: {unanswered}")
        return wrong

    def _still(self) -> str:
        """Return, as text, the reasons to reboot that still apply; "" for none."""
        try:
            stands = still(self.look, self.decision.pending)
        except Unanswered as unanswered:
            return str(unanswered)
        return f"the node still needs a reboot ({listed(stands)})" if stands else ""

    def _unregistered(self) -> str:
        """Return a message if slurmd has not registered since the reboot; otherwise ""."""
        self.found = []
        if not self.decision.worker:
            return ""
        hold = self._hold()
        if hold is None or not hold.states:
            return "the controller is not responding"
        before = self.decision.hold.slurmd_started if self.decision.pending.reasons else None
        if hold.slurmd_started == before or hold.states & {"NOT_RESPONDING", "UNKNOWN"}:
            return (
                f"slurmd has not registered with the controller ({'+'.join(sorted(hold.states))})"
            )
        return ""

    def _findings(self) -> str:
        """Run ``lockstep check`` on the node; return the findings in a few words."""
        name = self.plan.name
        try:
            found = check(self.plan.cluster.inventory, name)
        except Unanswered as unanswered:
            return str(unanswered)
        self.found, self.doubtful = lasting(found, name), in_doubt(self.plan, "peers", found)
        return as_text(self.found)

    def _resume(self) -> None:
        """Resume the node, unless an administrator has taken it out of service meanwhile."""
        began = time.monotonic()
        while True:
            hold = self._hold() or HoldState()
            if hold.states and not hold.states & OUT:
                self._log("resumed")
                return
            if hold.states & HELD and not is_ours(hold.reason):
                self._log(f"not resumed: taken out of service meanwhile: {hold.reason!r}")
                return
            if time.monotonic() - began >= RESUME_S:
                raise Failed(
                    f"{self.plan.name} passed its checks, but Slurm did not resume it within "
                    f"{RESUME_S:.0f} s ({'+'.join(sorted(hold.states)) or 'no answer'})",
                    f"run scontrol show node {self.plan.name} to see why, then run: {self.again}",
                )
            if hold.states & HELD:
                # This also clears a DOWN state that the reboot caused; the rollout's reason stays.
                self._scontrol("State=RESUME", "resumed")
            time.sleep(POLL_S / 2)

    def _hold(self) -> HoldState | None:
        try:
            return self.talk.ask(hold_state(self.plan.name))
        except Unanswered:
            return None

    def _scontrol(self, what: str, done: str) -> None:
        try:
            ok, output = self.talk.say(
                f"timeout 30 scontrol update NodeName={shlex.quote(self.plan.name)} {what}"
            )
            said = " ".join((*output.stderr_lines, *output.stdout_lines)).strip()
        except Unanswered as unanswered:
            ok, said = False, str(unanswered)
        if not ok:
            raise Failed(
                f"{self.plan.name} was not {done}: scontrol: {said or 'no answer within 30 s'}",
                f"check slurmctld on {self.plan.cluster.controller_host}, then run: {self.again}",
            )

    def _log(self, text: str, **style: Any) -> None:
        self.host.log_styled(text, **style)
