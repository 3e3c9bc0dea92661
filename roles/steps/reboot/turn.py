"""One node's way through a rollout of reboots: drained, idle, rebooted, checked, resumed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

from pyinfra.api import Host

from lockstep.facts.gpus import Gpus
from lockstep.facts.reboot import Boot, Conversation, Hold, HoldState, Unanswered
from lockstep.plan import NodePlan
from lockstep.plan.reboot import Pending, listed
from lockstep.roles.steps.reboot.decision import HELD, OURS, OUT, Decision
from lockstep.roles.steps.reboot.driver import change_packages, unbuilt
from lockstep.roles.steps.reboot.objections import check, objections
from lockstep.roles.steps.reboot.rollout import Rollout
from lockstep.roles.steps.reboot.unresolved import remember, still

BUSY = {"ALLOCATED", "MIXED", "COMPLETING"}

POLL_S = 2.0
CHECK_EVERY_S = 10.0
"""A check reads the peers as well, and they are at work."""
REMIND_S = 600.0
SETTLE_S = 300.0
"""From the new boot: daemons start, chronyd needs up to 90 s, GPUs a minute more."""
RESUME_S = 60.0


class Failed(Exception):
    """Why the rollout ends at this node, in two parts: for the others, and what to do here."""

    def __init__(self, why: str, then: str) -> None:
        """Take a clause without the node's name, and a sentence."""
        super().__init__(why)
        self.then = then


class NotAgain(Failed):
    """Why this node alone fails: nothing was done to it, so nothing speaks against the others."""


class Turn:
    """One node's way through the rollout."""

    def __init__(
        self,
        host: Host,
        plan: NodePlan,
        talk: Conversation,
        decision: Decision,
        rollout: Rollout,
        look: Callable[[], Pending],
    ) -> None:
        """Take what was decided, and what says it anew; nothing happens yet."""
        self.look = look
        self.host, self.plan, self.talk = host, plan, talk
        self.decision, self.rollout = decision, rollout
        self.ours = decision.leftover
        inventory = plan.cluster.inventory
        self.again = f"pyinfra -y {inventory} deploys/reboot.py --limit {plan.name}"

    def run(self) -> bool:
        """Do all of it; False when the node failed. The rollout ends here if it did anything."""
        name = self.plan.name
        over = False
        try:
            self._steps()
            over = True
        except Failed as failed:
            over = True
            if not isinstance(failed, NotAgain):
                self.rollout.stop(name, str(failed))
            kept = " It stays drained." if self.ours else ""
            self._log(f"{name} {failed}.{kept} Next: {failed.then}", fg="red", bold=True)
            return False
        finally:
            if not over:  # a bug of ours, or Ctrl-C: pyinfra says which
                self.rollout.stop(name, "ended by an error of Lockstep itself")
        return True

    def _steps(self) -> None:
        decision = self.decision
        self._log(decision.why(self.plan))
        if decision.pending.in_vain:
            self._not_again()
            return
        if not decision.pending.change:
            self._modules_built()
        if decision.worker and decision.pending.reasons:
            self._drain()
            if not self._idle():
                return
        if decision.pending.change:
            self._free()
            self._change()
            self._modules_built()
        if decision.pending.reasons:
            self._reboot()
        if decision.worker and not self.ours:
            # Why it was taken out may well show in the check: that is not the rollout's to judge.
            wrong = self._settled(self._still) or self._unregistered() or self._findings()
            if wrong:
                self._log(f"what the check says of it, just booted: {wrong}")
            self._log(f"not resumed: taken out by {decision.hold.reason or 'somebody else'!r}")
            return
        began = time.monotonic()
        wrong = self._settled(lambda: self._unregistered() or self._still() or self._findings())
        if wrong:
            raise Failed(
                f"is not in order {SETTLE_S:.0f} s after its reboot: {wrong}",
                f"lockstep check {self.plan.cluster.inventory} --limit {self.plan.name}; "
                f"when that is clean: {self.again}",
            )
        self._log(f"checked: in order after {time.monotonic() - began:.0f} s")
        if self.ours:
            self._resume()

    def _drain(self) -> None:
        """Drain the node; a drain that somebody else began stays theirs."""
        hold = self.decision.hold
        if not hold.states:
            raise Failed(
                "was not drained: the controller does not answer",
                f"see slurmctld on {self.plan.controller_host}, then {self.again}",
            )
        if hold.states & HELD:
            return
        reason = f"{OURS} {self.decision.pending.kinds}"
        self._scontrol(f"State=DRAIN Reason={shlex.quote(reason)}", "drained")
        self.ours = True
        self._log(f"drained ({reason})")

    def _idle(self) -> bool:
        """Wait until no job runs on the node; False when the rollout ended meanwhile."""
        limit_s = self.plan.spec.reboots.drain_timeout_s
        began = shown_at = time.monotonic()
        shown: tuple[str, ...] = ()
        answered = began
        while True:
            hold = self._hold()
            if hold is not None:
                answered = time.monotonic()
            elif time.monotonic() - answered > self.plan.spec.reboots.return_timeout_s:
                raise Failed(
                    "stopped answering while its jobs were awaited; not rebooted",
                    f"look at its console; when it is up: {self.again}",
                )
            if self.rollout.stopped:
                self._let_go()
                return False
            if hold is not None and hold.states and not hold.states & HELD:
                self.ours = False
                raise Failed(
                    "was put back into service while its jobs were awaited; not rebooted",
                    f"agree on who decides over it, then {self.again}",
                )
            jobs = None if hold is None else hold.jobs
            # Both have to say it: squeue leaves a job out before its node is clean.
            if hold is not None and hold.states and jobs == () and not hold.states & BUSY:
                return True
            waited = time.monotonic() - began
            if waited >= limit_s:
                raise Failed(
                    f"still has {_jobs(jobs)} after {limit_s} s (drain_timeout_s); not rebooted",
                    f"wait for the jobs, then {self.again}: it goes on from here",
                )
            if jobs and (jobs != shown or time.monotonic() - shown_at >= REMIND_S):
                self._log(f"waiting for {_jobs(jobs)}, {limit_s - waited:.0f} s at most")
                shown, shown_at = jobs, time.monotonic()
            time.sleep(min(POLL_S, limit_s))

    def _let_go(self) -> None:
        """Undo our drain of a node that was not rebooted yet."""
        fresh = self.ours and not self.decision.leftover
        if fresh:
            self._scontrol("State=RESUME", "resumed")
        self._log(f"not rebooted{', resumed' if fresh else ''}: {self.rollout.stopped}")

    def _free(self) -> None:
        """Make sure that no process is on a board: not all work is Slurm's."""
        try:
            boards = self.talk.read(Gpus)
        except Unanswered as unanswered:
            raise Failed(f"was not changed: {unanswered}", self.again) from unanswered
        busy = [board.uuid for board in boards.every if board.busy]
        if busy:
            raise Failed(
                f"has processes on {len(busy)} GPUs that are no job of Slurm ({busy[0]}...)",
                f"nvidia-smi on {self.plan.name} names them; when they are gone: {self.again}",
            )

    def _modules_built(self) -> None:
        """Make sure that the next boot has the driver: DKMS may have failed, or had no headers."""
        driver = self.decision.pending.driver
        if driver is None or not self.decision.pending.reasons:
            return
        try:
            why = unbuilt(self.talk, driver)
        except Unanswered as unanswered:
            raise Failed(f"was not rebooted: {unanswered}", self.again) from unanswered
        if why:
            name = self.plan.name
            raise Failed(why, f"deploy {name}, which has DKMS build it; then {self.again}")

    def _change(self) -> None:
        """Change the packages that never change under a job."""
        plan, names = self.plan, self.decision.pending.change
        self._log(f"changing {', '.join(names)}")
        began = time.monotonic()
        try:
            change_packages(self.talk, plan, names)
        except Unanswered as unanswered:
            raise Failed(
                f"could not change its packages: {unanswered}",
                f"apt-get check and dpkg --audit on {plan.name}, then {self.again}",
            ) from unanswered
        self._log(f"changed after {time.monotonic() - began:.0f} s")

    def _reboot(self) -> None:
        """Reboot, and wait until another boot answers."""
        name, limit_s = self.plan.name, self.plan.spec.reboots.return_timeout_s
        self._log("rebooting")
        began = time.monotonic()
        try:
            # The echo tells a refusal from a session that went down with the node.
            _, output = self.talk.say("systemctl reboot; echo asked $?", within_s=30)
        except Unanswered:
            output = None
        asked = [] if output is None else [o for o in output.stdout_lines if o.startswith("asked")]
        if output is not None and asked and asked != ["asked 0"]:
            said = " ".join(output.stderr_lines).strip()[:200]
            raise Failed(
                f"refused to reboot: systemctl reboot: {said or asked[0]}",
                f"reboot {name} by hand, then {self.again}",
            )
        last = "no answer yet"
        while (left_s := began + limit_s - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left_s))
            try:
                self.talk.connect(within_s=max(1.0, min(20.0, left_s)))
                if self.talk.read(Boot).boot != self.decision.boot:
                    self._log(f"back after {time.monotonic() - began:.0f} s")
                    return
                last = "it answers, but it is still the old boot"
            except Unanswered as unanswered:
                last = str(unanswered)
        raise Failed(
            f"did not come back within {limit_s} s of its reboot (return_timeout_s): {last}",
            f"look at its console; when it is up: {self.again}",
        )

    def _not_again(self) -> None:
        """Fail for a node that waits for what no reboot brings; not for one held out."""
        if self.decision.hold.states & HELD and not self.ours:
            return
        raise NotAgain(
            f"was not rebooted again: {self.decision.stands}",
            f"find out why and repair it; reboot {self.plan.name} by hand, then {self.again}",
        )

    def _settled(self, look: Callable[[], str]) -> str:
        """Wait until a look finds nothing; return what it still finds after a while."""
        began = time.monotonic()
        shown = ""
        while wrong := look():
            left_s = SETTLE_S - (time.monotonic() - began)
            if left_s <= 0:
                break
            if wrong != shown:
                self._log(f"not in order yet ({left_s:.0f} s left): {wrong}")
                shown = wrong
            time.sleep(CHECK_EVERY_S)
        try:
            remember(self.talk, still(self.look, self.decision.pending) if wrong else ())
        except Unanswered as unanswered:
            self._log(f"what the reboot did not end is not known: {unanswered}")
        return wrong

    def _still(self) -> str:
        """Say what the reboot was made for and did not end."""
        try:
            stands = still(self.look, self.decision.pending)
        except Unanswered as unanswered:
            return str(unanswered)
        return f"still waits for a reboot ({listed(stands)})" if stands else ""

    def _unregistered(self) -> str:
        """Say what the controller still misses of this boot's slurmd."""
        if not self.decision.worker:
            return ""
        hold = self._hold()
        if hold is None or not hold.states:
            return "the controller does not answer"
        before = self.decision.hold.slurmd_started
        rebooted = bool(self.decision.pending.reasons)
        if (rebooted and hold.slurmd_started == before) or hold.states & {
            "NOT_RESPONDING",
            "UNKNOWN",
        }:
            return (
                f"slurmd has not registered with the controller ({'+'.join(sorted(hold.states))})"
            )
        return ""

    def _findings(self) -> str:
        """Compare the node with the plan; what is found, in a few words."""
        try:
            found = check(self.plan.cluster.inventory, self.plan.name)
        except Unanswered as unanswered:
            return str(unanswered)
        return objections(found, self.plan.name)

    def _resume(self) -> None:
        """Give the node its jobs back, unless a person has taken it over meanwhile."""
        began = time.monotonic()
        hold = self._hold()
        while True:
            if hold is not None and hold.states:
                if not hold.states & OUT:
                    self._log("resumed")
                    return
                if hold.states & HELD and not hold.reason.startswith(OURS):
                    self._log(f"not resumed: taken out meanwhile by {hold.reason!r}")
                    return
            if time.monotonic() - began >= RESUME_S:
                states = "+".join(sorted(hold.states)) if hold is not None else "no answer"
                raise Failed(
                    f"is in order, but Slurm does not take it back within {RESUME_S:.0f} s "
                    f"({states or 'no answer'})",
                    f"scontrol show node {self.plan.name}; then {self.again}",
                )
            if hold is not None and hold.states & HELD:
                # It also ends a DOWN that Slurm gave for the reboot; our reason stays with it.
                self._scontrol("State=RESUME", "resumed")
            time.sleep(POLL_S / 2)
            hold = self._hold()

    def _hold(self) -> HoldState | None:
        try:
            hold: HoldState = self.talk.read(Hold, node=self.plan.name)
        except Unanswered:
            return None
        return hold

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
                f"was not {done}: scontrol: {said or 'no answer within 30 s'}",
                f"see slurmctld on {self.plan.controller_host}, then {self.again}",
            )

    def _log(self, text: str, **style: Any) -> None:
        self.host.log_styled(text, **style)


def _jobs(jobs: tuple[str, ...] | None) -> str:
    if jobs is None:
        return "an unknown number of jobs (the controller does not answer)"
    if not jobs:
        return "a job that is ending"
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} ({', '.join(jobs)})"
