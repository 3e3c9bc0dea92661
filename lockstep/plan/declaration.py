"""What a role declares: data and pure functions of the plan. Nothing here needs pyinfra.

From the declarations of all roles follow what is installed and held, what the check expects, which
role repairs a difference, the order of roles in a deploy, and what listens on the network.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lockstep.catalog.os import Release
    from lockstep.plan import NodePlan
    from lockstep.secrets import Secrets
    from lockstep.spec import Cluster, Problem

Condition = Callable[["NodePlan"], bool]
Paths = Callable[["NodePlan"], tuple[str, ...]]


def always(plan: NodePlan) -> bool:
    """Hold on every node."""
    return True


def debian(plan: NodePlan) -> bool:
    """Hold on nodes with Debian's paths: apt, /etc/default, /etc/chrony."""
    return plan.cluster.release.family == "debian"


def nothing(plan: NodePlan) -> tuple[str, ...]:
    """Name nothing, on any node."""
    return ()


class Phase(enum.Enum):
    """When a stage of a role runs in a deploy of the whole cluster."""

    BEFORE_HEADS = "before the heads"
    """On workers, before the heads name it to jobs."""
    MAIN = "main"
    AFTER_WORKERS = "after the workers"
    """On heads, once every worker is done."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that a role owns on a node."""

    path: str
    template: str = ""
    """Below templates/; ``<role>/<file>.j2``."""
    text: Callable[[NodePlan], str] | None = None
    """The content, where it is not a template's."""
    secret_content: Callable[[Secrets], bytes] | None = None
    """The content, where it is a secret itself."""
    mode: str = "644"
    owner: str = "root:root"
    secret: bool = False
    own: bool = False
    """The content names the node itself; of the others, nodes alike have the same."""
    validate: str = ""
    """Shell command; ``{new}`` is the candidate's path; "" where no program can judge it.

    With ``{every_new}`` in it, files in a row with the same command are judged at once.
    """
    wanted: Condition = always
    """Says whether the node has the file, beyond having the role."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A systemd unit that a role keeps enabled and running."""

    name: str
    """The canonical name: an alias would always look stopped."""
    program: str = ""
    """What it runs; a new one is a restart."""
    reads: Paths = nothing
    """Further files that it reads at its start, of this role or another one."""
    reads_own_files: bool = True
    """Whether it reads the files of its role, those apart that it reloads."""
    reloads: str = ""
    """Ending of the role's files that it reads again on ``systemctl reload``."""
    restart: Literal["changed", "never"] = "changed"
    """"never": a restart would end programs of jobs; what is new waits for the next start."""
    essential: bool = True
    """False: where it does not start, the deploy says so and goes on."""
    port: Callable[[NodePlan], int | None] | None = None
    """TCP port, or UDP, where peers reach it; None: it is not reached from there."""
    protocol: Literal["tcp", "udp"] = "tcp"
    runs_jobs: bool = False
    """Jobs and containers begin in it, so it reaches the jobs' CPUs."""
    wanted: Condition = always

    def starts_with(self, plan: NodePlan) -> tuple[str, ...]:
        """Return its program and what it reads at its start, beside the files of its role."""
        return (*((self.program,) if self.program else ()), *self.reads(plan))


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What a role only contributes: another role's file holds it, and a repair runs both."""

    sysctl: Callable[[NodePlan], Mapping[str, str]] | None = None
    """Keys for the file of os_settings."""
    kernel_args: Paths = nothing
    """Arguments for the file of boot_loader."""
    masked_units: Paths = nothing
    """Units that must never start; os_settings masks them."""
    forbidden_units: Paths = nothing
    """Units that must not run because the node lacks their hardware."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One moment of a deploy at which a role does something."""

    function: str = "apply"
    """In the role's module of operations; ``apply`` of a role without one is files and units."""
    title: str = ""
    """As pyinfra shows it; "": the role's."""
    phase: Phase = Phase.MAIN
    after: tuple[str, ...] = ()
    """Roles, or stages of roles (``time_sync.gate``), that come first on the same node."""
    late: bool = False
    """Of what could be next it is taken last: it waits for something that takes time."""
    nodes: Condition = always


@dataclass(frozen=True, kw_only=True, eq=False)
class Declaration:
    """A role: when a node has it, and what it owns there."""

    name: str
    """Its module's."""
    title: str
    """As pyinfra shows it."""
    when: Condition = always
    """Of the description, the node and its class only, never of other roles."""
    after: tuple[str, ...] = ()
    """Roles, or stages of roles, that come first on the same node."""
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Release (``debian_13``), else family (``debian``), else "" -> names."""
    more_packages: Paths = nothing
    """Those that depend on the description."""
    files: tuple[File, ...] = ()
    units: tuple[Unit, ...] = ()
    makes: tuple[str, ...] = ()
    """Paths that its operations write and that units of other roles read."""
    contributes: Contribution = Contribution()
    users: Paths = nothing
    """Users that its files or operations make."""
    groups: Paths = nothing
    """Groups that its files or operations make."""
    jobs_use: bool = False
    """Running jobs use what it owns: nothing of it is removed from a busy node."""
    operations: str = ""
    """Module with what does not follow from packages, files and units; loaded when it is applied.

    ``apply(plan)`` there takes the place of "files, then units".
    """
    stages: tuple[Stage, ...] = ()
    """Further moments than the main one."""
    problems: Callable[[Cluster], Iterable[Problem]] | None = None
    """What is wrong with a description, as far as it concerns this role."""
    settings: type[BaseModel] | None = None
    """Of a site's own role: the model of its part of ``extensions`` in the description."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """A part of a description that gives a node this role; tests need it."""

    def packages_on(self, release: Release) -> tuple[str, ...]:
        """Return the packages that every node with this role gets on a release."""
        for key in (release.name, release.family, ""):
            if key in self.packages:
                return self.packages[key]
        return ()

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The main one and the further ones."""
        return (Stage(after=self.after), *self.stages)


Step = tuple[Declaration, Stage]


def key(step: Step) -> str:
    """Return the name of a stage as ``after`` has it."""
    role, stage = step
    if stage.function == "apply":
        return role.name if stage.phase is Phase.MAIN else f"{role.name}.{stage.phase.value}"
    return f"{role.name}.{stage.function}"


def ordered(roles: Iterable[Declaration]) -> tuple[Step, ...]:
    """Return the stages of roles in the order of a deploy; by name where ``after`` leaves it open.

    Raises:
        ValueError: roles that each come after the other, or after one that is not there.
    """
    steps = {key((role, stage)): (role, stage) for role in roles for stage in role.all_stages}
    before = {
        name: {*stage.after, *(() if name == role.name else (role.name,))}
        for name, (role, stage) in steps.items()
        if stage.phase is Phase.MAIN
    }
    for name in sorted(before):
        unknown = sorted(before[name] - before.keys())
        if unknown:
            raise ValueError(
                f"{name} comes after {unknown[0]!r}; there is no role or stage of that name"
            )
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"roles come after each other: {' -> '.join(error.args[1])}") from error
    found: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted((*ready, *sorter.get_ready()), key=lambda name: (steps[name][1].late, name))
        found.append(ready.pop(0))
        sorter.done(found[-1])
    others = sorted(steps.keys() - before.keys())
    return tuple(steps[name] for name in (*found, *others))


def in_order(roles: Iterable[Declaration]) -> tuple[Declaration, ...]:
    """Return roles in the order of their main stages.

    Raises:
        ValueError: as ``ordered``.
    """
    return tuple(dict.fromkeys(role for role, stage in ordered(roles) if stage.function == "apply"))
