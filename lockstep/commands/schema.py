"""``lockstep schema``: prints the JSON schema of a description, for editors and other programs."""

from __future__ import annotations

import argparse
import ast
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from lockstep import spec
from lockstep.commands import Command
from lockstep.report import ExitStatus
from lockstep.spec import Cluster


def _run(arguments: argparse.Namespace) -> int:
    print(json.dumps(schema(), indent=2))
    return ExitStatus.CONSISTENT


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a description, with a sentence on each field.

    It has types, ranges and names. The relations between fields are validated by Lockstep only.
    """
    found: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Cluster.model_json_schema(),
    }
    texts = _texts()
    for name, part in {**found["$defs"], Cluster.__name__: found}.items():
        for field, value in part.get("properties", {}).items():
            if text := texts.get((name, field)):
                value["description"] = text
    return found


def _texts() -> dict[tuple[str, str], str]:
    """Return the text below each field: class and field -> text on one line."""
    found = {}
    for file in sorted(Path(spec.__file__).parent.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for before, after in pairwise(node.body if isinstance(node, ast.ClassDef) else ()):
                match before, after:
                    case (
                        ast.AnnAssign(target=ast.Name(id=field)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found[node.name, field] = " ".join(text.split())  # type: ignore[attr-defined]
    return found


COMMAND = Command(
    run=_run,
    help="print the JSON schema of a description",
    arguments=(),
)
