"""gevent's plugins are called as gevent calls them, and looked up once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gevent import events

from lockstep.pyinfra_internals import gevent_plugins

PLUGIN = """
import sys
from importlib import metadata
from collections import Counter
from lockstep.pyinfra_internals import registry

opened = Counter()
def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith("entry_points.txt"):
        opened[arguments[0]] += 1
sys.addaudithook(note)
registry.apply(registry.READING)
from gevent import monkey
monkey.patch_all()
import plugin
print(len(plugin.told), len(set(plugin.told)), set(opened.values()))
"""


@pytest.mark.parametrize("fast", ["1", "0"])
def test_a_plugin_is_told_the_same_and_entry_points_are_read_once(
    fast: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin.py").write_text("told = []\ndef tell(event): told.append(str(event))\n")
    metadata = tmp_path / "plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    groups = ("will_patch_module", "did_patch_module", "will_patch_all", "did_patch_all")
    (metadata / "entry_points.txt").write_text(
        "".join(f"[gevent.plugins.monkey.{group}]\na = plugin:tell\n" for group in groups)
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.setenv("LOCKSTEP_FAST", fast)
    said = subprocess.run(
        [sys.executable, "-c", PLUGIN], capture_output=True, text=True, check=True
    ).stdout
    told, different, reads = said.split(maxsplit=2)
    assert (int(told), int(different)) == (24, 24)
    assert (reads.strip() == "{1}") is (fast == "1")


def test_subscribers_of_gevent_are_told() -> None:
    told: list[object] = []
    event = events.GeventWillPatchModuleEvent("none", None, None, [])
    events.subscribers.append(told.append)
    try:
        events.notify_and_call_entry_points(event)
        gevent_plugins.notify_and_call_entry_points(event)
    finally:
        events.subscribers.pop()
    assert told == [event, event]
