"""Turns an inventory's description into a cluster plan, for pyinfra and Lockstep's commands."""

from __future__ import annotations

import runpy
import shlex
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NoReturn

from lockstep import site_files, spec
from lockstep.plan import ClusterPlan, NodePlan, plan
from lockstep.plan.declaration import Declaration
from lockstep.report import ExitStatus
from lockstep.roles import declared
from lockstep.spec import Cluster, Problem

OWN_DEPLOYS = Path(__file__).resolve().parent / "deploys"
"""The folder of Lockstep's own deploys; in a checkout, a link to its folder ``deploys``."""


def planned(
    cluster: Cluster, inventory: str = "", roles: Iterable[Declaration] = ()
) -> ClusterPlan:
    """Return the plan of a valid cluster, with Lockstep's own roles and the site's.

    Args:
        cluster: as ``spec.load`` returned it.
        inventory: path of the inventory file, as the user gave it.
        roles: the site's own roles.
    """
    deploys = deploy_files(inventory) if inventory else None
    return plan(cluster, (*declared(), *roles), inventory, deploys)


def deploy_files(inventory: str) -> dict[str, str]:
    """Return name -> path of each deploy, for commands that run in the current folder.

    A site's own deploy is used if it is in a folder ``deploys`` beside the inventory or beside the
    inventory's folder; otherwise Lockstep's.
    """
    folder = Path(inventory).resolve().parent
    own = (folder / "deploys", folder.parent / "deploys")
    found = {}
    for path in sorted(OWN_DEPLOYS.glob("[!_]*.py")):
        sites = (one / path.name for one in own)
        found[path.stem] = shlex.quote(_shown(str(next(filter(Path.is_file, sites), path))))
    return found


def plan_or_problems(
    description: Mapping[str, object], file: str, roles: Collection[Declaration] = ()
) -> tuple[ClusterPlan | None, list[Problem]]:
    """Return the plan of a description, or all its problems with their lines in ``file``.

    Args:
        description: the dictionary from an inventory.
        file: the inventory file.
        roles: the site's own roles.
    """
    cluster = None
    names = {role.name for role in declared()}
    problems = [
        Problem(("roles",), repr(role.name), "a name that no built-in role has")
        for role in roles
        if role.name in names
    ]
    if not problems:
        cluster, problems = spec.load(description, (*declared(), *roles))
    if cluster is not None:
        made = planned(cluster, inventory=_shown(file), roles=roles)
        problems = [*_contradictions(made), *_ports(made), *site_files.problems(made)]
        if not problems:
            return made, []
    return None, spec.located(problems, Path(file))


def _contradictions(made: ClusterPlan) -> Iterator[Problem]:
    """Yield a problem for each unit that one role keeps running and another masks."""
    for node in {one.kind: one for one in made.nodes.values()}.values():
        for unit in set(node.system.units) & set(node.system.masked_units):
            masks = [
                name
                for name, role in node.roles.items()
                if unit in role.contributes.masked_units(node)
            ]
            yield Problem(
                ("hardware", node.node.hardware),
                f"{unit}: started by {node.system.role_of_unit[unit]}, masked by "
                f"{', '.join(masks)}",
                "a unit that is either started or masked: change one of the roles, or list one of "
                "them in unmanaged",
                node.name,
            )


def _ports(made: ClusterPlan) -> Iterator[Problem]:
    """Yield a problem for each port that two programs of a node would listen on."""
    monitoring = made.spec.monitoring
    of_fields: dict[tuple[str | int, ...], object] = {
        **{
            ("monitoring", field): value
            for field, value in monitoring
            if field.endswith("_port") and field in monitoring.model_fields_set
        },
        ("access", "port"): made.spec.access.port,
    }
    found: set[tuple[str | int, ...]] = set()
    for node in {one.kind: one for one in made.nodes.values()}.values():
        first: dict[tuple[str, int], str] = {}
        for one in node.system.listeners:
            other = first.setdefault((one.protocol, one.port), one.unit)
            field = next((path for path, port in of_fields.items() if port == one.port), ("nodes",))
            if other != one.unit and field not in found:
                found.add(field)
                allowed = f"a port of its own for {one.unit}: {other} has it on the same node"
                yield Problem(field, str(one.port), allowed, node.name)


def plan_or_exit(
    description: Mapping[str, object], file: str, roles: Iterable[Declaration] = ()
) -> ClusterPlan:
    """Return the plan of an inventory's description, or print all problems and exit with status 3.

    For inventory files: ``_cluster = plan_or_exit({...}, __file__)``.

    Raises:
        SystemExit: the description has problems. pyinfra prints no traceback for it.
    """
    if _reading.get():
        raise _Found(Description(description, file, tuple(roles)))
    made, problems = plan_or_problems(description, file, tuple(roles))
    if made is None:
        print(spec.message(problems, _shown(file)), file=sys.stderr)
        raise SystemExit(int(ExitStatus.WRONG_USE))
    return made


@dataclass(frozen=True)
class Description:
    """What an inventory file gives to ``plan_or_exit``, as it stands there."""

    values: Mapping[str, object]
    file: str
    roles: tuple[Declaration, ...] = ()
    """The site's own roles."""


class _Found(BaseException):
    """Ends an inventory file at its call of ``plan_or_exit``; no handler in the file catches it."""

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.description = description


_reading: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether ``described`` runs an inventory file."""


def described(path: str) -> Description:
    """Return the description in an inventory file, neither validated nor planned.

    The lines of the file after its call of ``plan_or_exit`` are not run.

    Raises:
        SystemExit: as ``load``, but an invalid description is no error.
    """
    before = _reading.set(True)
    try:
        _run(path)
    except _Found as found:
        return found.description
    finally:
        _reading.reset(before)
    return _refuse(
        f"{path}: the file describes no cluster", "a call to lockstep.inventory.plan_or_exit"
    )


def _shown(file: str) -> str:
    path, here = Path(file).resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def load(path: str) -> ClusterPlan:
    """Return the plan of the cluster that an inventory file describes.

    Raises:
        SystemExit: with status 3, after an error message, when the file is missing, fails to
            run, describes no cluster, or describes an invalid cluster.
    """
    names = _run(path)
    hosts = chain.from_iterable(one for one in names.values() if isinstance(one, list | tuple))
    plans = []
    for value in (*names.values(), *hosts):
        match value:
            case ClusterPlan():
                plans.append(value)
            case [_, {"plan": NodePlan() as node}]:
                plans.append(node.cluster)
    if not plans:
        _refuse(
            f"{path}: the file describes no cluster",
            "a call to lockstep.inventory.plan_or_exit, and host groups made from its result",
        )
    return plans[0]


def _run(path: str) -> dict[str, object]:
    """Run an inventory file and return its names."""
    file = Path(path)
    if not file.is_file():
        _refuse(f"{path}: no such file", "an inventory file such as inventories/prod.py")
    try:
        return runpy.run_path(str(file), run_name="__inventory__")
    except SyntaxError as error:
        _refuse(f"{error.filename or path}:{error.lineno or 1}: {error.msg}", "valid Python")
    except Exception as error:  # the file is the user's own code, and may raise anything
        text = " ".join(traceback.format_exception_only(error)[-1].split())
        _refuse(f"{_place(path, error)}: {text}", "an inventory that runs without errors")


def _place(path: str, error: Exception) -> str:
    """Return the innermost line of the inventory in an error's traceback, as ``file:line``."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(Path(path))
    ]
    return f"{path}:{lines[-1]}" if lines else path


def _refuse(found: str, expected: str) -> NoReturn:
    print(f"ERROR {found}\n  expected  {expected}", file=sys.stderr)
    raise SystemExit(int(ExitStatus.WRONG_USE))
