"""Time limits count only the time in which this process was free to listen."""

from __future__ import annotations

import time
from typing import Any, cast

import gevent
import pytest
from gevent.event import Event
from paramiko import SSHException, Transport

from lockstep.fast import watch
from lockstep.fast.watch import Watch, arrives


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TICK_S", 0.05)
    monkeypatch.setattr(watch, "EVERY_S", 0.1)


def computes(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_what_does_not_come_is_given_up() -> None:
    began = time.monotonic()
    assert not arrives(Event(), 0.2)
    assert time.monotonic() - began >= 0.2


def test_what_comes_in_time_arrives() -> None:
    event = Event()
    gevent.spawn_later(0.1, event.set)
    assert arrives(event, 5)


def test_time_in_which_this_process_computes_does_not_count() -> None:
    """A limit of gevent's own ends at the first look, although the answer needs one more."""

    def steps(event: Event) -> None:
        for _ in range(3):  # the answer passes through greenlets before it is complete
            computes(0.3)
            gevent.sleep(0.01)
        event.set()

    late, counted = Event(), Event()
    gevent.spawn(steps, late)
    assert not late.wait(0.2)
    gevent.spawn(steps, counted)
    assert arrives(counted, 0.2)


class Line:
    """A connection, as far as it is watched."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.asked = 0
        self.active = True
        self.ended = Event()

    def is_active(self) -> bool:
        return self.active

    def global_request(self, kind: str, wait: bool) -> None:
        assert (kind, wait) == (watch.REQUEST, True)
        self.asked += 1
        if self.asked > self.answers:
            self.ended.wait()
            raise SSHException("closed")

    def close(self) -> None:
        self.active = False
        self.ended.set()


@pytest.mark.parametrize("answers", [0, 2])
def test_a_connection_without_a_sign_of_life_is_closed(answers: int) -> None:
    line = Line(answers)
    watched = Watch(cast(Transport, line))
    assert line.ended.wait(10)
    gevent.sleep(0)
    assert line.asked == answers + watch.MOST
    assert watched.lost == "no answer to 3 keepalive requests, one every 0.1 s"


def test_a_connection_that_answers_stays() -> None:
    line = Line(1000)
    watched = Watch(cast(Transport, line))
    assert not line.ended.wait(1)
    assert line.asked > 2
    assert (line.active, watched.lost) == (True, "")
    line.close()


def test_a_connection_that_ended_is_not_watched_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    line: Any = Line(0)
    line.close()
    watched = Watch(line)
    gevent.sleep(0.5)
    assert (line.asked, watched.lost) == (0, "")
