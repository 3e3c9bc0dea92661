"""A role's declaration: data, and pure functions of the plan. Nothing here needs pyinfra.

The declarations of all roles determine the packages of a node, the values that the check expects,
the role that repairs a difference, the order of roles in a deploy and the listening ports.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lockstep.catalog.os import Release
    from lockstep.plan.node import NodePlan
    from lockstep.plan.site_lines import Keys
    from lockstep.question import Question
    from lockstep.secrets import Secrets
    from lockstep.spec import Cluster, Problem

Condition = Callable[["NodePlan"], bool]
Paths = Callable[["NodePlan"], tuple[str, ...]]
Asks = Callable[["NodePlan"], "Iterable[Question[Any]]"]


def always(plan: NodePlan) -> bool:
    """Return True for every node."""
    return True


def debian(plan: NodePlan) -> bool:
    """Return whether a node's release belongs to the Debian family (apt, /etc/default)."""
    return plan.release.family == "debian"


def rhel(plan: NodePlan) -> bool:
    """Return whether a node's release belongs to the RHEL family (dnf, SELinux)."""
    return plan.release.family == "rhel"


def nothing(plan: NodePlan) -> tuple[()]:
    """Return an empty tuple for every node."""
    return ()


# Shell commands that check a new file with the program that reads it (``File.validate``).
SHELL = "sh -n {new}"

TMPFILES = (
    # The root is an empty folder, so that only the syntax is checked.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; systemd-tmpfiles --create --root="$d" {new}'
)


def drop_in(unit: str, name: str = "50-lockstep.conf") -> str:
    """Return a command that checks a unit's drop-in with systemd-analyze."""
    return _judged(unit, f'mkdir "$d/{unit}.d"; cp {{new}} "$d/{unit}.d/{name}"')


def whole_unit(unit: str) -> str:
    """Return a command that checks a complete unit file with systemd-analyze."""
    return _judged(unit, f'cp {{new}} "$d/{unit}"')


def _judged(unit: str, put: str) -> str:
    return (
        'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
        f"{put}; "
        # verify also fails because of other units, so only its messages about this file count.
        f'said="$(SYSTEMD_UNIT_PATH="$d:" systemd-analyze verify --man=no {unit} 2>&1 || true)"; '
        'case "$said" in *"$d"*) echo "$said" >&2; exit 1;; esac'
    )


class Phase(enum.Enum):
    """The phase of a whole-cluster deploy in which a stage runs."""

    BEFORE_HEADS = "before the heads"
    """The stage runs on workers before heads are deployed, because jobs may need its results."""
    MAIN = "main"
    AFTER_WORKERS = "after the workers"
    """The stage runs on heads after all workers are deployed."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that a role owns on a node."""

    path: str
    template: str = ""
    """Path below templates/: ``<role>/<file>.j2``."""
    text: Callable[[NodePlan], str] | None = None
    """The content, if it does not come from a template."""
    data: Callable[[NodePlan], bytes] | None = None
    """The content, if it is not text."""
    secret_content: Callable[[Secrets], bytes | None] | None = None
    """The content, if the whole file is a secret, such as a key; None if this machine lacks it."""
    mode: str = "644"
    owner: str = "root:root"
    secret: bool = False
    own: bool = False
    """Whether the content is specific to the node; otherwise, all nodes of a kind share it."""
    validate: str = ""
    """Shell command that checks the new file, ``{new}``; empty if no program can check it.

    With ``{every_new}``, consecutive files with the same command are checked together.
    """
    wanted: Condition = always
    """Whether a node that has the role gets the file."""
    keys: Keys | None = field(default=None, compare=False)
    """Returns the keys that a line sets; None: the site can add no lines (``files``)."""
    values: Mapping[str, object] = field(default_factory=dict, compare=False)
    """Further values for the template, by name; the same on all nodes of a kind."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A systemd unit that a role keeps enabled and running."""

    name: str
    """The canonical name; a unit named by an alias would always appear to be stopped."""
    program: str = ""
    """The program that the unit runs; a new version of it requires a restart."""
    reads: Paths = nothing
    """Other files that the unit reads when it starts; they may belong to any role."""
    reads_own_files: bool = True
    """Whether the unit reads its role's files at startup, except files with suffix ``reloads``."""
    reloads: str = ""
    """Suffix of the role's files that the unit reads again on ``systemctl reload``."""
    restart: Literal["changed", "never"] = "changed"
    """``never`` if a restart would kill job processes; changes then wait for the next start."""
    essential: bool = True
    """If False and the unit does not start, the deploy only reports that and does not fail."""
    port: Callable[[NodePlan], int | None] | None = None
    """The port on which other nodes reach the unit; None if there is no such port."""
    protocol: Literal["tcp", "udp"] = "tcp"
    runs_jobs: bool = False
    """Whether the unit starts processes of jobs or containers, and so may use the workload CPUs."""
    wanted: Condition = always

    def on(self, release: Release) -> Unit:
        """Return the unit with the names that it, its program and its files have on a release."""
        read = self.reads
        return replace(
            self,
            name=release.local(self.name),
            program=release.local(self.program),
            reads=lambda plan: tuple(map(release.local, read(plan))),
        )

    def starts_with(self, plan: NodePlan) -> tuple[str, ...]:
        """Return the unit's program and the other files that it reads when it starts."""
        return (*((self.program,) if self.program else ()), *self.reads(plan))


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """Settings that a role contributes to another role; to repair them, both roles must run."""

    sysctl: Callable[[NodePlan], Mapping[str, str]] = lambda plan: {}
    """Sysctls that os_settings writes to its file: key -> value."""
    kernel_args: Paths = nothing
    """Kernel arguments that boot_loader writes to its file."""
    masked_units: Paths = nothing
    """Units that must never start; os_settings masks them."""
    forbidden_units: Paths = nothing
    """Units that must not run, because their hardware is missing or their feature is off."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of a role in a deploy."""

    function: str = "apply"
    """Function in the role's operations module; the default ``apply`` installs files and units."""
    title: str = ""
    """Title in pyinfra's output; if empty, the role's title is used."""
    phase: Phase = Phase.MAIN
    after: tuple[str, ...] = ()
    """Roles, or stages of roles (``time_sync.gate``), that must run earlier on the same node."""
    late: bool = False
    """Whether the stage runs as late as the order allows, because it waits for something slow."""
    nodes: Condition = always
    asks: Asks = nothing
    """Questions that the stage's operations ask, as in ``Declaration.asks``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Declaration:
    """A role: which nodes have it, and what it owns on them."""

    name: str
    """The role's name, which is also the name of its module."""
    title: str
    """Title in pyinfra's output."""
    when: Condition = always
    """Whether a node has the role; depends only on the description, the node and its class."""
    after: tuple[str, ...] = ()
    """Roles, or stages of roles, that must run earlier on the same node."""
    before_packages: bool = False
    """Whether the main stage comes before the role ``packages``, because package scripts read the
    role's files."""
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Release, family (``debian``) or "" (any) -> package names; the most specific key is used."""
    more_packages: Paths = nothing
    """Additional packages, which depend on the description."""
    files: tuple[File, ...] = ()
    more_files: Callable[[NodePlan], tuple[File, ...]] = nothing
    """Additional files, which depend on the description: one per interface, for example. Nodes of a
    kind have the same paths."""
    units: tuple[Unit, ...] = ()
    makes: tuple[str, ...] = ()
    """Paths of files that the role's operations write and other roles' units read."""
    contributes: Contribution = Contribution()
    users: Paths = nothing
    """Users that the role's files or operations create."""
    groups: Paths = nothing
    """Groups that the role's files or operations create."""
    jobs_use: bool = False
    """Whether jobs may use the role's files or packages; if so, removal waits for running jobs."""
    operations: str = ""
    """Module with additional operations, which is imported when the role is applied.

    Its ``afterwards(plan)`` runs after the role's files and units are in place. If the
    module defines ``apply(plan)``, only that function is called.
    """
    unchecked: Mapping[str, str] = field(default_factory=dict)
    """Operation in the ``operations`` module -> why no rule checks its result."""
    stages: tuple[Stage, ...] = ()
    """Stages in addition to the main one."""
    asks: Asks = nothing
    """Questions that the role's operations ask, besides those about its files and units.

    The first command on a host answers all of them, and must not start anything: it runs
    nvidia-smi only if the driver is loaded, and Docker's client only if Docker is running.
    """
    problems: Callable[[Cluster], Iterable[Problem]] | None = None
    """Function that validates a description for this role; None if there is nothing to validate."""
    settings: type[BaseModel] | None = None
    """The model of a site role's settings in ``extensions``; None if the role has no settings."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """A fragment of a description that gives a node this role; for tests."""

    def packages_on(self, release: Release) -> tuple[str, ...]:
        """Return the packages that every node with this role gets on a release."""
        keys = (release.name, release.family, "")
        return next((self.packages[key] for key in keys if key in self.packages), ())

    def on(self, release: Release) -> Declaration:
        """Return the role with the names that its files and units have on a release."""
        if not release.names:
            return self
        local = release.local
        return replace(
            self,
            files=tuple(
                replace(file, path=local(file.path), validate=local(file.validate))
                for file in self.files
            ),
            units=tuple(unit.on(release) for unit in self.units),
            makes=tuple(map(local, self.makes)),
        )

    def files_on(self, plan: NodePlan) -> tuple[File, ...]:
        """Return the files that a node with this role gets."""
        return tuple(file for file in (*self.files, *self.more_files(plan)) if file.wanted(plan))

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The main stage, then the additional stages."""
        return (Stage(after=self.after), *self.stages)


Step = tuple[Declaration, Stage]
FIRST = "packages"
"""The role that runs first, because the units and users of other roles need its packages."""


def key(step: Step) -> str:
    """Return the name of a stage, as used in ``after``."""
    role, stage = step
    if stage.function == "apply":
        return role.name if stage.phase is Phase.MAIN else f"{role.name}.{stage.phase.value}"
    return f"{role.name}.{stage.function}"


def ordered(roles: Iterable[Declaration]) -> tuple[Step, ...]:
    """Return the stages of all given roles in deploy order; ties are broken by name.

    Every other role implicitly comes after ``packages``, except with ``before_packages``; then only
    its additional stages do.

    Raises:
        ValueError: the declared order has a cycle, or names a role or stage that does not exist.
    """
    steps = {key((role, stage)): (role, stage) for role in roles for stage in role.all_stages}
    first = steps.keys() & {FIRST}
    earlier = {role.name for role, _ in steps.values() if role.before_packages}
    before = {
        name: {
            *stage.after,
            *({role.name, *(() if name in earlier else first)} - {name}),
            *(earlier if name == FIRST else ()),
        }
        for name, (role, stage) in steps.items()
        if stage.phase is Phase.MAIN
    }
    unknown = sorted((name, one) for name in before for one in before[name] - before.keys())
    if unknown:
        raise ValueError(
            "{} must come after {!r}, but no role or stage has that name".format(*unknown[0])
        )
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"the order of roles has a cycle: {' -> '.join(error.args[1])}") from error
    found: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted((*ready, *sorter.get_ready()), key=lambda name: (steps[name][1].late, name))
        found.append(ready.pop(0))
        sorter.done(found[-1])
    return tuple(steps[name] for name in (*found, *sorted(steps.keys() - before.keys())))


def in_order(roles: Iterable[Declaration]) -> tuple[Declaration, ...]:
    """Return roles in the order of their main stages.

    Raises:
        ValueError: as in ``ordered``.
    """
    return tuple(dict.fromkeys(role for role, stage in ordered(roles) if stage.function == "apply"))
