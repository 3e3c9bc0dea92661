"""The published schemas of records, made from the models."""

from __future__ import annotations

import json
import runpy
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel

from lockstep.catalog.checks import READINGS
from lockstep.probe import record


def _described() -> dict[str, Any]:
    """Return the module of the records, its models with docstrings as descriptions."""
    with patch.dict(BaseModel.model_config, use_attribute_docstrings=True):
        return runpy.run_path(record.__file__)


_MODULE = _described()
PUBLISHED: dict[str, type[BaseModel]] = {
    "record.schema.json": _MODULE["Record"],
    "saved-records.schema.json": _MODULE["SavedRecords"],
}


def text(model: type[BaseModel]) -> str:
    """Return the schema of a model as it is published."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = dialect | model.model_json_schema()
    of_record = schema["$defs"].get("Record", schema)
    # Names of today: a record with others is a record as well.
    of_record["properties"]["readings"]["propertyNames"] = {"examples": list(READINGS)}
    return json.dumps(schema, indent=2) + "\n"


def files() -> dict[str, bytes]:
    """Return the schemas below docs/."""
    return {f"docs/{name}": text(model).encode("utf-8") for name, model in PUBLISHED.items()}
