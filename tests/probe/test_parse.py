from __future__ import annotations

import json

import pytest

from lockstep.probe.collect import MARKER as PRINTED
from lockstep.probe.parse import MARKER, ProbeFormatError, dumps, loads, parse
from lockstep.probe.record import Record, Unreachable, Unread

EMPTY = {"format": 1, "taken_at": 0.0, "duration_s": 0.1, "readings": {}}


def test_the_probe_and_the_parser_agree_on_the_marker() -> None:
    assert PRINTED == MARKER


def test_a_greeting_before_the_record_is_ignored() -> None:
    text = f"Welcome!\n{MARKER}\n{json.dumps(EMPTY)}\n"
    assert parse(text).duration_s == 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with: nothing"),
        ("bash: python3: command not found", "begins with: bash: python3"),
        (MARKER, "ends before the record"),
        (f"{MARKER}\n{{", "EOF"),
        (f'{MARKER}\n{{"format": 2}}', "format"),
        (f"{MARKER}\n[]", "should be an object"),
    ],
)
def test_anything_else_is_one_kind_of_error(text: str, message: str) -> None:
    with pytest.raises(ProbeFormatError, match=message):
        parse(text)


def test_a_reading_is_a_value_or_a_reason() -> None:
    readings = {"a": {"value": None}, "b": {"unread": "no"}, "c": {"value": {"x": {"unread": "y"}}}}
    record = Record.model_validate({**EMPTY, "readings": readings})
    assert record.get("a") is None
    assert record.get("b") == Unread(unread="no")
    assert record.get("z") == Unread(unread="not in the record")
    assert record.items("c") == {"x": Unread(unread="y")}
    assert record.items("a") == Unread(unread="not a map: None")


def test_records_survive_a_file() -> None:
    reading: dict[str, Record | Unreachable] = {
        "a": Record.model_validate(EMPTY),
        "b": Unreachable("ssh: timed out"),
    }
    assert loads(dumps(reading)) == reading


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', '{"format": 1, "nodes": {"a": {}}}'])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ProbeFormatError):
        loads(text)
