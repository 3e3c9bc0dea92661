"""Reads an inventory file outside pyinfra: the same file gives the plan of its cluster."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import NoReturn

from lockstep.plan import WRONG_USE, ClusterPlan, NodePlan


def load(path: str) -> ClusterPlan:
    """Return the plan of the cluster that an inventory file describes.

    Raises:
        SystemExit: with status 3, after a message, when the file is missing, describes no
            cluster, or describes one with problems.
    """
    file = Path(path)
    if not file.is_file():
        _refuse(f"{path}: no such file", "an inventory file such as inventories/prod.py")
    try:
        names = runpy.run_path(str(file), run_name="__inventory__")
    except SyntaxError as error:
        _refuse(f"{error.filename}:{error.lineno}: {error.msg}", "Python")
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


def _refuse(found: str, expected: str) -> NoReturn:
    print(f"ERROR {found}\n  expected  {expected}", file=sys.stderr)
    raise SystemExit(WRONG_USE)
