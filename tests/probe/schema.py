"""Published schemas, made from the models: `python -m tests.probe.schema` writes them."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from lockstep.catalog.checks import READINGS
from lockstep.probe.record import Record, SavedRecords

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED: dict[str, type[BaseModel]] = {
    "record.schema.json": Record,
    "saved-records.schema.json": SavedRecords,
}


def text(model: type[BaseModel]) -> str:
    """Return the schema of a model as it is published."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = dialect | model.model_json_schema()
    record = schema if model is Record else schema["$defs"]["Record"]
    # Names of today: a record with others is a record as well.
    record["properties"]["readings"]["propertyNames"] = {"examples": list(READINGS)}
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for name, model in PUBLISHED.items():
        (DOCS / name).write_text(text(model), encoding="utf-8")
