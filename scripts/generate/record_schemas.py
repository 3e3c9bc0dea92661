"""Generates the published JSON schemas of records from the models."""

from __future__ import annotations

import json
import runpy
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel

from lockstep.catalog.checks import READINGS
from lockstep.probe import record


def _described() -> dict[str, Any]:
    """Return the names of the record module; its models have their docstrings as descriptions."""
    with patch.dict(BaseModel.model_config, use_attribute_docstrings=True):
        return runpy.run_path(record.__file__)


_MODULE = _described()
PUBLISHED: dict[str, type[BaseModel]] = {
    "record.schema.json": _MODULE["Record"],
    "saved-records.schema.json": _MODULE["SavedRecords"],
}


def text(model: type[BaseModel]) -> str:
    """Return the published schema of a model."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = dialect | model.model_json_schema()
    of_record = schema["$defs"].get("Record", schema)
    # The current names are examples: a record with other names is valid, too.
    of_record["properties"]["readings"]["propertyNames"] = {"examples": list(READINGS)}
    return json.dumps(schema, indent=2) + "\n"


def files() -> dict[str, bytes]:
    """Return the schema files in docs/."""
    return {f"docs/{name}": text(model).encode("utf-8") for name, model in PUBLISHED.items()}
