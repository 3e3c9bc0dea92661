"""Calls gevent's plugins without reading all entry points for each of 25 startup events."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any

from gevent.events import notify

_entry_points = cache(metadata.entry_points)


def notify_and_call_entry_points(event: Any) -> None:
    """Notify gevent's subscribers and plugins of an event; find the plugins once per process."""
    notify(event)
    for plugin in _entry_points().select(group=event.ENTRY_POINT_NAME):
        plugin.load()(event)
