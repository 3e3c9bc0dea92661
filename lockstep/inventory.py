"""Reads an inventory file outside pyinfra: the same file gives the plan of its cluster."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from lockstep.plan import WRONG_USE, ClusterPlan, NodePlan


def load(path: str) -> ClusterPlan:
    """Return the plan of the cluster that an inventory file describes.

    Raises:
        SystemExit: with status 3, after a message, when the file is missing, does not run,
            describes no cluster, or describes one with problems.
    """
    file = Path(path)
    if not file.is_file():
        _refuse(f"{path}: no such file", "an inventory file such as inventories/prod.py")
    try:
        names = runpy.run_path(str(file), run_name="__inventory__")
    except SyntaxError as error:
        _refuse(f"{error.filename or path}:{error.lineno or 1}: {error.msg}", "Python")
    except Exception as error:  # the file is the user's own code, and may raise anything
        _refuse(f"{_place(path, error)}: {_said(error)}", "an inventory that runs as Python")
    plans = [value for value in names.values() if isinstance(value, ClusterPlan)]
    plans += [plan.cluster for plan in _host_plans(names)]
    if not plans:
        _refuse(
            f"{path}: no cluster in it",
            "a call of lockstep.plan.plan_or_exit and groups made from it",
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
    """Return the line of the inventory that raised, or called what did."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(Path(path))]
    return f"{path}:{lines[-1]}" if lines else path


def _said(error: Exception) -> str:
    return " ".join(traceback.format_exception_only(error)[-1].split())


def _refuse(found: str, expected: str) -> NoReturn:
    print(f"ERROR {found}\n  expected  {expected}", file=sys.stderr)
    raise SystemExit(WRONG_USE)
