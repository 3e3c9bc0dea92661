"""Executes the parts of a deploy in steps, within one run of pyinfra.

pyinfra executes operation after operation, each on all hosts that have not failed. It asks the
state for the order of the operations, and for each operation it asks the inventory for the hosts. A
walk answers both: it names the operations of a part once for each step, and only the hosts of that
step.
"""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback, StateOperationHostData
from typing_extensions import override

from lockstep.connection import is_lost
from lockstep.facts.reboot import Unanswered
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.canary import steps
from lockstep.report import count, fold
from lockstep.roles.steps.canary.verdict import Verdict
from lockstep.roles.steps.reboot.objections import as_text

SHOWN = 4
"""Number of steps that are listed before a part begins."""
REASON = 300
"""Characters of a reason that the last message repeats."""

Part = tuple[str, ...]
"""The hashes of operations that each step executes before the next one begins."""


class Walk(BaseStateCallback):
    """The steps of a run, and why it stopped."""

    def __init__(self, state: State, plan: ClusterPlan) -> None:
        """Take over the order of the operations and the choice of their hosts.

        Args:
            state: the run.
            plan: the plan of the cluster.
        """
        self.ends: set[str] = set()
        """Hashes of the operations with which parts end."""
        self._state, self._plan = state, plan
        self._verdict = Verdict(plan.inventory)
        self._begun = False
        self._now: frozenset[Host] | None = None
        """The hosts of this step; None: all hosts."""
        self._reached: set[Host] = set()
        """The hosts of this step and of the steps before it in this part."""
        self._parts: list[Part] = []
        """This part and those that follow."""
        self._reasons: dict[Host, str] = {}
        self._judging = threading.Lock()
        self._judged: dict[str, str] | None = None
        """Node -> why it ends the deploy, for this step; None: not checked yet."""
        self._usual_order = state.get_op_order
        self._usual_hosts = state.inventory.get_active_hosts
        setattr(state, "get_op_order", self._order)  # noqa: B010  # for mypy a method
        setattr(state.inventory, "get_active_hosts", self._hosts)  # noqa: B010

    @override
    def operation_host_error(  # type: ignore[override]  # pyinfra calls it on an instance
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        during = ", ".join(state.get_op_meta(op_hash).names)
        how = "stopped answering during" if is_lost(host) else "failed in"
        self._reasons.setdefault(host, f'{how} "{during}"')

    def judged(self, host: Host) -> str:
        """Return why a node of this step ends the deploy; "" if it has no new finding.

        The first caller reads the nodes, for the others as well.
        """
        with self._judging:
            if self._judged is None:
                self._judged = self._judge()
        return self._judged.get(_plan_of(host).name, "")

    def _judge(self) -> dict[str, str]:
        """Return the nodes that end the deploy, with the reasons; check only after a change."""
        hosts = self._hosts()
        changed = [host for host in hosts if self._has_changed(host)]
        if not changed:
            return {}
        # A node that waits for its step of this part differs from the others in what it lacks.
        reached = [host for host in self._usual_hosts() if host in self._reached]
        names = [_plan_of(host).name for host in reached if self._has_changed(host)]
        logger.info(f"--> Canary: checking {fold(names)} after the change")
        again = f"Next: repair it, then run: {_command()}"
        try:
            found = self._verdict.new(names)
        except Unanswered as unanswered:
            self._reasons[changed[0]] = f"the check failed: {unanswered}"
            return {_plan_of(changed[0]).name: f"the check failed: {unanswered}. {again}"}
        said = {
            name: f"{name} has findings that it did not have before this deploy: {as_text(wrong)}"
            for name, wrong in found.items()
        }
        by_name = {_plan_of(host).name: host for host in hosts}
        for name, why in said.items():
            # A finding of an earlier step fails a host of this one, because only they execute this.
            host = by_name.get(name, changed[0])
            self._reasons[host] = why.removeprefix(f"{name} ")
        return {
            _plan_of(by_name.get(name, changed[0])).name: f"{why}. {again}"
            for name, why in said.items()
        }

    def _hosts(self) -> list[Host]:
        active = self._usual_hosts()
        return active if self._now is None else [host for host in active if host in self._now]

    def _order(self) -> Iterable[str]:
        order: Sequence[str] = self._usual_order()  # type: ignore[no-untyped-call]  # pyinfra's
        if not self._state.is_executing or self._begun:
            return order
        self._begun = True
        _refuse_other_orders()
        if self._state.should_raise_failed_hosts is not None:
            # A failure stops the steps, so pyinfra need not ask whether to go on.
            self._state.config.FAIL_PERCENT = None
        return self._walk(order)

    def _walk(self, order: Sequence[str]) -> Iterator[str]:
        self._parts = [*_parts(order, self.ends)]
        hosts = self._in_order()
        if not any(self._will_change(host, part) for host in hosts for part in self._parts):
            logger.info("--> Canary: no node needs a change, so there are no steps")
            yield from order
            return
        with self._interrupted():
            self._begin()
            while self._parts:
                part = self._parts[0]
                self._reached = set()
                found = self._steps(part)
                for number, names in enumerate(found, start=1):
                    yield from self._step(part, names)
                    failed = {host for host in self._now or () if host in self._state.failed_hosts}
                    if failed:
                        self._stop(failed, number, len(found))
                        return
                self._now = None
                del self._parts[0]

    def _begin(self) -> None:
        """Check the nodes before the first change.

        Raises:
            PyinfraError: the check itself failed.
        """
        names = [_plan_of(host).name for host in self._in_order()]
        logger.info(f"--> Canary: checking {count(len(names), 'node')} before the first change")
        try:
            self._verdict.begin(names)
        except Unanswered as unanswered:
            raise PyinfraError(
                f"nothing was changed, because the check before the deploy failed: {unanswered}. "
                f"Next: run lockstep check {self._plan.inventory}, or deploy without steps: "
                f"{_command()} --data canary=no"
            ) from unanswered

    def _steps(self, part: Part) -> tuple[tuple[str, ...], ...]:
        hosts = {_plan_of(host).name: host for host in self._in_order()}
        # What an earlier part has changed may change more than was foreseen.
        everyone = any(map(self._has_changed, hosts.values()))
        changing = [
            name
            for name, host in hosts.items()
            if self._will_change(host, part) or (everyone and self._is_concerned(host, part))
        ]
        kinds = {name: _plan_of(host).kind for name, host in hosts.items()}
        found = steps(kinds, changing, self._plan.spec.deploys.share)
        if len(found) > 1:
            # The others are in the last step, where nothing is to be done for them.
            shown = [[name for name in names if name in changing] for names in found]
            logger.info(f"--> Canary: {_as_text(shown)}")
        return found

    def _step(self, part: Part, names: Collection[str]) -> Iterator[str]:
        self._judged = None
        self._now = frozenset(host for host in self._in_order() if _plan_of(host).name in names)
        self._reached |= self._now
        for operation in part:
            if any(operation in self._state.ops[host] for host in self._now):
                yield operation

    def _stop(self, failed: Collection[Host], step: int, of: int) -> None:
        """Say why the steps end here, and forget the operations that will not be executed."""
        names = sorted(_plan_of(host).name for host in failed)
        first = next(host for host in self._in_order(failed) if _plan_of(host).name == names[0])
        why = self._reasons.get(first, "failed")
        if len(why) > REASON:
            why = f"{why[:REASON]}..."
        others = f" ({fold(names[1:])} failed, too)" if names[1:] else ""
        where = f" after step {step} of {of}" if of > 1 else ""
        logger.info(
            click.style(
                f"--> Canary: stopped{where}, because {names[0]} {why}{others}. {self._rest()}"
                f"Next: repair {fold(names)}, then run: {_command()}",
                fg="red",
                bold=True,
            )
        )
        for host in self._usual_hosts():  # pyinfra would count them as errors
            of_host = self._state.ops[host]
            for operation, one in [*of_host.items()]:
                if not one.operation_meta.is_complete():
                    del of_host[operation]

    def _rest(self) -> str:
        """Return the nodes that have not been deployed, as sentences."""
        waiting = [
            host
            for host in self._in_order()
            if any(
                self._will_change(host, part) and not self._is_done(host, part)
                for part in self._parts[self._now is not None and host in self._now :]
            )
        ]
        begun = [_plan_of(host).name for host in waiting if self._has_changed(host)]
        untouched = [_plan_of(host).name for host in waiting if not self._has_changed(host)]
        return "".join(
            f"{label}: {fold(names)}. "
            for label, names in (("Untouched", untouched), ("Not finished", begun))
            if names
        )

    def _in_order(self, among: Iterable[Host] | None = None) -> list[Host]:
        """Return the hosts that have not failed, or others, in the order of the description."""
        place = {name: number for number, name in enumerate(self._plan.nodes)}
        hosts = self._usual_hosts() if among is None else among
        return sorted(hosts, key=lambda host: place[_plan_of(host).name])

    def _operations(self, host: Host, part: Part) -> Iterator[StateOperationHostData]:
        of_host = self._state.ops[host]
        return (of_host[operation] for operation in part if operation in of_host)

    def _will_change(self, host: Host, part: Part) -> bool:
        return any(one.operation_meta.will_change for one in self._operations(host, part))

    def _is_done(self, host: Host, part: Part) -> bool:
        return all(one.operation_meta.is_complete() for one in self._operations(host, part))

    def _has_changed(self, host: Host) -> bool:
        return any(one.operation_meta.executed for one in self._state.ops[host].values())

    def _is_concerned(self, host: Host, part: Part) -> bool:
        """Return whether a host has more to do in a part than to wait at barriers."""
        of_hosts = [{*part} & {*self._state.ops[other]} for other in self._usual_hosts()]
        common = set.intersection(*of_hosts)
        every = set.union(*of_hosts)
        return common == every or bool(({*part} & {*self._state.ops[host]}) - common)

    @contextmanager
    def _interrupted(self) -> Iterator[None]:
        """Say on Ctrl-C which nodes are incomplete, and end with exit status 1."""

        def handle(number: int, frame: FrameType | None) -> None:
            working = [one for one in self._hosts() if self._will_change(one, self._parts[0])]
            names = fold(_plan_of(host).name for host in working)
            when = (
                f"while deploying {names} (may be incomplete)" if self._now else "before a change"
            )
            logger.info(f"--> Canary: interrupted {when}. {self._rest()}Next: run: {_command()}")
            sys.exit(1)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def walk_of(state: State) -> Walk | None:
    """Return the walk of a run; None if it does not go in steps."""
    return next((one for one in state.callback_handlers if isinstance(one, Walk)), None)


def _plan_of(host: Host) -> NodePlan:
    plan: NodePlan = host.data.plan
    return plan


def _parts(order: Sequence[str], ends: Collection[str]) -> Iterator[Part]:
    part: list[str] = []
    for operation in order:
        part.append(operation)
        if operation in ends:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)


def _as_text(found: Sequence[Collection[str]]) -> str:
    """Return the steps of a part as text."""
    first, *others = found
    named = [fold(names) for names in others[:SHOWN]]
    if more := len(others) - SHOWN:
        named += [f"{count(more, 'more step')}"] if more > 0 else []
    return f"{fold(first)} first, then {', then '.join(named)}"


def _command() -> str:
    """Return the command line of this run."""
    return shlex.join(["pyinfra", *sys.argv[1:]])


def _refuse_other_orders() -> None:
    """Refuse options with which pyinfra does not execute operation after operation.

    Raises:
        PyinfraError: one of them was given.
    """
    context = click.get_current_context(silent=True)  # the context of the command `pyinfra`
    for option in ("serial", "no_wait"):
        if context is not None and context.params.get(option):
            raise PyinfraError(
                f"--{option.replace('_', '-')} cannot be used for a deploy that goes in steps "
                "(deploys.canary). Nothing was changed. Next: run without this option, or with "
                "--data canary=no"
            )
