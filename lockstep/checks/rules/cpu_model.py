"""The CPUs of a hardware class are of one model.

Why      A slower CPU in one node slows every step that the job takes together.
Blind    Steppings; CPUs that differ between the sockets of all nodes alike.
"""

from lockstep.checks.rule import Cause, Peers, Rule

RULE = Rule(
    id="cpu.model",
    title="one model of CPU per hardware class",
    reading="cpu.model",
    peers=Peers.CLASS,
    repair="give {node} a hardware class of its own in the description, or replace its CPUs",
    explained_by=(Cause("platform.product"),),
    source="proc_cpuinfo(5)",
)
