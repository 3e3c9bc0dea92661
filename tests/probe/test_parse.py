from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockstep.node.readers.collect import MARKER as PRINTED
from lockstep.probe.lines import MARKER, ProbeFormatError
from lockstep.probe.parse import dumps, loads, parse, record
from lockstep.probe.parse import text as written
from lockstep.probe.record import Record, Unreachable, Unread

CAPTURES = Path(__file__).parent.parent / "captures" / "records"
EMPTY = {"format": 1, "taken_at": 0.0, "duration_s": 0.1, "readings": {}}


def test_the_probe_and_the_parser_agree_on_the_marker() -> None:
    assert PRINTED == MARKER


def test_a_greeting_before_the_record_is_ignored() -> None:
    text = f"Welcome!\n{MARKER}\n{json.dumps(EMPTY)}\n"
    assert parse(text).duration_s == 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"the output has no .* line\. Output: \(empty\)"),
        ("bash: python3: command not found", r"the output has no .* line\. Output: bash: python3"),
        (MARKER, "ends before the record"),
        (f"{MARKER}\n{{", "invalid JSON: Expecting property name"),
        (f'{MARKER}\n{{"format": 2}}', "format"),
        (f"{MARKER}\n[]", "should be a valid dictionary"),
        (f"{MARKER}\n{'[' * 5000}", "recursion"),
        (
            f'{MARKER}\n{json.dumps(EMPTY)[:-3]}{{"x":{{"value":{"[" * 5000}{"]" * 5000}}}}}}}',
            "recursion",
        ),
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
    assert record.items("a") == Unread(unread="the value is not a map: None")


def test_records_survive_a_file() -> None:
    reading: dict[str, Record | Unreachable] = {
        "a": Record.model_validate(EMPTY),
        "b": Unreachable("ssh: timed out"),
    }
    assert loads(dumps(reading)) == reading


def test_a_record_is_written_as_it_was_read() -> None:
    readings = {
        "a.names": {"value": ["/tmp/\udc80", "ü"]},
        "b": {"value": {"x": {"unread": "y"}, "n": 2**70, "f": 1.5, "none": None}},
        "c": {"unread": "no"},
    }
    run = {"argv": ["a"], "status": None, "duration_s": 0.5, "timed_out": True}
    for left_out in ((), ("a.names",)):
        kept = {name: got for name, got in readings.items() if name not in left_out}
        wanted = {**EMPTY, "readings": kept, "commands": [run]}
        assert json.loads(written(record(json.dumps(wanted)))) == wanted


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', '{"format": 1, "nodes": {"a": {}}}'])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ProbeFormatError):
        loads(text)


def test_a_refusal_names_the_place() -> None:
    text = json.dumps({"format": 1, "nodes": {"a": {"record": {**EMPTY, "format": 0}}}})
    with pytest.raises(ProbeFormatError, match=r"nodes\.a\.record\.format: Input should be 1"):
        loads(text)


def test_records_of_format_1_stay_readable() -> None:
    """The file was written by the first release: it is never written anew."""
    reading = loads((CAPTURES / "format-1.json").read_text(encoding="utf-8"))
    assert reading["worker2"] == Unreachable("ssh: Could not connect (timed out)")
    head, worker = reading["head1"], reading["worker1"]
    assert isinstance(head, Record)
    assert isinstance(worker, Record)
    assert worker.taken_at == 1795200065.588
    assert worker.entry("gpu.power.enforced_w", "gpu3") == 700.0
    assert worker.get("cpuset.system_slice") == Unread(unread="system.slice: no cpuset controller")
    assert head.get("gpu.count") == Unread(unread="nvidia-smi: not installed")
    assert worker.commands[0].status == 0
    assert loads(dumps(reading)) == reading
