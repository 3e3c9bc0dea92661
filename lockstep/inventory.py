"""Inventories: from a description to the plan of its cluster, within pyinfra and outside of it."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from lockstep import spec
from lockstep.plan import ClusterPlan, NodePlan, plan
from lockstep.plan.declaration import Declaration
from lockstep.report import ExitStatus
from lockstep.roles import declared
from lockstep.spec import Cluster, Problem, located
from lockstep.spec import message as problem_message

WRONG_USE = int(ExitStatus.WRONG_USE)


def planned(
    cluster: Cluster, inventory: str = "", roles: Iterable[Declaration] = ()
) -> ClusterPlan:
    """Return the plan of a valid cluster with all roles of Lockstep.

    Args:
        cluster: as ``spec.load`` returned it.
        inventory: the file with the description, as the user named it.
        roles: the site's own, beside those of Lockstep.
    """
    return plan(cluster, (*declared(), *roles), inventory)


def plan_or_problems(
    description: Mapping[str, object], file: str, roles: Iterable[Declaration] = ()
) -> tuple[ClusterPlan | None, list[Problem]]:
    """Return the plan of a description, or all its problems with their lines in ``file``.

    Args:
        description: as an inventory has it.
        file: the inventory.
        roles: the site's own, beside those of Lockstep.
    """
    cluster, problems = spec.load(description, (*declared(), *roles))
    if cluster is None:
        return None, located(problems, Path(file))
    return planned(cluster, inventory=_shown(file), roles=roles), []


def plan_or_exit(
    description: Mapping[str, object], file: str, roles: Iterable[Declaration] = ()
) -> ClusterPlan:
    """Return the plan of an inventory's description, or print every problem and exit with 3.

    For inventory files: ``_cluster = plan_or_exit({...}, __file__)``.

    Raises:
        SystemExit: the description has problems; pyinfra lets it pass without a traceback.
    """
    made, problems = plan_or_problems(description, file, tuple(roles))
    if made is None:
        print(problem_message(problems, _shown(file)), file=sys.stderr)
        raise SystemExit(WRONG_USE)
    return made


def _shown(file: str) -> str:
    path = Path(file).resolve()
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def load(path: str) -> ClusterPlan:
    """Return the plan of the cluster that an inventory file describes.

    Raises:
        SystemExit: with status 3, after an error message, when the file is missing, fails to
            run, describes no cluster, or describes an invalid cluster.
    """
    file = Path(path)
    if not file.is_file():
        _refuse(f"{path}: no such file", "an inventory file such as inventories/prod.py")
    try:
        names = runpy.run_path(str(file), run_name="__inventory__")
    except SyntaxError as error:
        _refuse(f"{error.filename or path}:{error.lineno or 1}: {error.msg}", "valid Python")
    except Exception as error:  # the file is the user's own code, and may raise anything
        _refuse(f"{_place(path, error)}: {_text(error)}", "an inventory that runs without errors")
    plans = [value for value in names.values() if isinstance(value, ClusterPlan)]
    plans += [plan.cluster for plan in _host_plans(names)]
    if not plans:
        _refuse(
            f"{path}: the file describes no cluster",
            "a call of lockstep.inventory.plan_or_exit, and host groups made from its result",
        )
    return plans[0]


def _host_plans(names: dict[str, object]) -> list[NodePlan]:
    found = []
    for group in names.values():
        for host in group if isinstance(group, list | tuple) else ():
            data = host[1] if isinstance(host, tuple) and len(host) == 2 else None
            if isinstance(data, dict) and isinstance(data.get("plan"), NodePlan):
                found.append(data["plan"])
    return found


def _place(path: str, error: Exception) -> str:
    """Return the inventory's line in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(Path(path))]
    return f"{path}:{lines[-1]}" if lines else path


def _text(error: Exception) -> str:
    return " ".join(traceback.format_exception_only(error)[-1].split())


def _refuse(found: str, expected: str) -> NoReturn:
    print(f"ERROR {found}\n  expected  {expected}", file=sys.stderr)
    raise SystemExit(WRONG_USE)
