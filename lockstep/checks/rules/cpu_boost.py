"""The CPUs may clock above their base frequency, or may not, alike.

Why      Without turbo a core computes a third slower, and nothing says so.
Blind    Turbo that the firmware forbids: the driver then shows other limits.
"""

from pydantic import JsonValue

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE, joined


def _words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    return f"no_turbo, boost: {found}", f"no_turbo, boost: {expected}"


RULE = Rule(
    id="cpu.boost",
    title="turbo is on or off alike in a hardware class",
    reading="cpu.frequency",
    look=joined("cpu.frequency", "no_turbo", "boost"),
    peers=Peers.CLASS,
    words=_words,
    repair="on {node}: find what wrote intel_pstate/no_turbo or cpufreq/boost (tuned, cpupower)",
    explained_by=(Cause("cpu.frequency_driver"), *OTHER_MACHINE),
    source="kernel documentation, admin-guide/pm/intel_pstate (no_turbo), cpufreq (boost)",
)
