"""Operations of the role time_sync."""

from __future__ import annotations

from shlex import quote

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.clock import LOST_AFTER_S, LOST_INTERVALS, OWN_CLOCK, clock_offset
from lockstep.facts.reading import connector_arguments
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation
from lockstep.roles.operations.workers_alone import lacks_controller

WAIT_TRIES = 90
"""Number of tries, one per second; a new chronyd is in sync about 10 s after its first samples."""

HEARD = (
    "chronyc -n -c tracking | "
    f"awk -F, -v own={OWN_CLOCK} -v least={LOST_AFTER_S:.0f} -v times={LOST_INTERVALS} "
    '-v now="$(date +%s)" \'{ if (times * $13 > least) least = times * $13 } '
    '$1 != own && now - $4 > least { printf "chronyd used its last measurement %d s ago: no server '
    'answers. Next: run chronyc sources on this node\\n", now - $4 >"/dev/stderr"; exit 1 }\''
)
"""Command that fails if no server has answered for a long time, which waitsync does not notice."""


ANSWER_S = 10
"""Seconds within which a time server must answer; chronyd sends its first requests every 2 s."""
UNHEARD = (
    # Field 6 of a source is its reachability register: 0 if none of the last requests was answered.
    f"for i in $(seq {ANSWER_S}); do "
    "chronyc -n -c sources | awk -F, '$6 != 0 { n++ } END { exit !n }' && exit 1; sleep 1; "
    "done; exit 0"
)
"""Command that succeeds if no time server answers (chronyc(1), sources)."""

BURST = "chronyc burst 4/8 >/dev/null"
"""Command that measures at once (chronyc(1)). A server that did not answer is asked more and more
rarely, up to every 17 minutes (chrony.conf(5), maxpoll)."""
UNTIL_HEARD = "lockstep-first-sync.service"
IS_ASKING = f"systemctl is-active --quiet {UNTIL_HEARD}"
KEEP_ASKING = (
    f"{IS_ASKING} || systemd-run --quiet --collect "
    f"--unit={UNTIL_HEARD} sh -c 'until chronyc waitsync 1 >/dev/null; do {BURST}; sleep 10; done'"
)
"""Command that makes chronyd ask its servers every 10 s, until the clock is synchronized."""


@operation()
def clock_is_right(plan: NodePlan, reference: bool, max_offset_s: float) -> CommandsOrReason:
    """Wait until the clock is close enough to its source; fail if that takes too long.

    A worker whose heads are not deployed yet passes: it has no time source, and no controller with
    which munge would need one.

    Args:
        plan: the plan of the node.
        reference: True if the node is the cluster's time source and follows no server.
        max_offset_s: the largest accepted offset of the clock, in seconds.
    """
    if reference:
        return "this node is the cluster's time source"
    offset_s = ask(clock_offset())
    if offset_s is None or not abs(offset_s) <= max_offset_s:  # not a number: wait
        if plan.is_worker and lacks_controller(plan):
            unheard, _ = host.run_shell_command(StringCommand(UNHEARD), **connector_arguments(host))
            if unheard:
                asks, _ = host.run_shell_command(
                    StringCommand(IS_ASKING), **connector_arguments(host)
                )
                if not asks:
                    yield KEEP_ASKING
                host.log_styled(
                    f"no time server answers yet ({', '.join(plan.time.servers)}): chronyd sets "
                    "the clock when the heads are deployed",
                    fg="yellow",
                )
                return "chronyd asks its servers until one answers"
        # chronyc(1): waitsync [max-tries [max-correction [max-skew [interval]]]]; 0 = no limit.
        waited = f"chronyc waitsync {WAIT_TRIES} {max_offset_s} 0 1"
        late = (
            f"the clock is not right after {WAIT_TRIES} s: the time servers are "
            f"{', '.join(plan.time.servers)}. Next: run chronyc sources on this node; if it lists "
            "none, the node does not know their names (getent hosts NAME)"
        )
        yield f"{BURST} && {{ {waited} || {{ echo {quote(late)} >&2; exit 1; }}; }} && {HEARD}"
    return "the clock follows its source"


def gate(plan: NodePlan) -> None:
    """Wait until the clock is right; the roles before this gate do not need a correct clock."""
    clock_is_right(
        name="Gate: the clock is right",
        plan=plan,
        reference=plan.time.reference,
        max_offset_s=plan.spec.time.max_offset_s,
    )
