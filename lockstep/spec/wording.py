"""Turns pydantic's errors into plain text: the values that a field allows."""

from __future__ import annotations

from functools import reduce
from typing import Annotated, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from lockstep.spec.model import Cluster

WORDS = {
    "missing": "a value: the field is required",
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "True or False",
    "bool_parsing": "True or False",
    "string_type": "text, in quotes",
    "string_too_short": "non-empty text",
    "string_too_long": "at most {max_length} characters",
    # The model has only one pattern, for names of classes, partitions, GPU models and releases.
    "string_pattern_mismatch": "a name of lower-case letters, digits, '-' and '_', "
    "beginning with a letter or digit",
    "tuple_type": "a list, in [ ]",
    "dict_type": "a dictionary, in {{ }}",
}
"""pydantic's error type -> the allowed values; names in braces are filled in from the error."""


def allowed(detail: ErrorDetails, model: type[BaseModel] = Cluster) -> str:
    """Return the allowed values of the field that caused an error."""
    kind = detail["type"]
    if kind == "literal_error" and detail["loc"][-2:] == ("[slurm]", "kind"):
        return "'slurm' or 'kubernetes'"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        return "one of " + _fields(model, detail["loc"][:-1])
    if kind in ("model_type", "model_attributes_type"):
        return "a dictionary, in { }, with " + _fields(model, detail["loc"])
    words = WORDS.get(kind)
    return detail["msg"] if words is None else words.format(**detail.get("ctx", {}))


def _fields(model: object, path: tuple[int | str, ...]) -> str:
    return ", ".join(getattr(reduce(_inner, path, model), "model_fields", {}))


def _inner(model: object, key: int | str) -> object:
    """Return the model of a field, or of an item of a list or dictionary.

    Where a field has several forms, each with a tag (``SCHEDULER_TAGS``), the next key is that tag.
    """
    tagged = [one for one in get_args(model) if _tag(one) == key]
    if tagged:
        return _model(tagged[0])
    annotation = getattr(model, "model_fields", {}).get(key)
    return _model(annotation.annotation if annotation is not None else model)


def _model(inner: object) -> object:
    while not hasattr(inner, "model_fields"):
        arguments = [a for a in get_args(inner) if a not in (type(None), ...)]
        if get_origin(inner) is Annotated:
            inner = arguments[0]
            continue
        if not arguments or all(map(_tag, arguments)):
            return inner
        inner = arguments[-1]
    return inner


def _tag(annotation: object) -> str:
    """Return the tag of one form of a field; "" if it has none."""
    given = getattr(annotation, "__metadata__", ())
    return next((one.tag for one in given if isinstance(one, Tag)), "")
