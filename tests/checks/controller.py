"""A head that answers its commands in a given order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyinfra.api.inventory import Inventory
from pyinfra.connectors.util import CommandOutput, OutputLine

from lockstep.fleet import gather, read_nodes
from lockstep.fleet.share import dumps, loads
from lockstep.probe.lines import MARKER
from tests.checks import recorded
from tests.checks.test_gather import CREDENTIAL, RECORD

HEAD = json.dumps({**RECORD, "readings": CREDENTIAL})
OF_HEAD = (True, [MARKER, HEAD], list[str]())


class Controller:
    """As a pyinfra host."""

    def __init__(self, *answers: tuple[bool, list[str], list[str]]) -> None:
        """Take the answers: how it ended, lines of standard output, and of standard error."""
        self.data: dict[str, Any] = {"_sudo": True}
        self.answers, self.asked, self.told = list(answers), list[str](), list[Any]()

    def connect(self, **_: object) -> None:
        """Be there."""

    def run_shell_command(
        self, command: object, *, _stdin: object, **_: object
    ) -> tuple[bool, CommandOutput]:
        """Give the next answer."""
        self.asked.append(str(command))
        self.told.append(_stdin)
        ok, out, err = self.answers.pop(0)
        lines = [OutputLine("stdout", line) for line in out]
        return ok, CommandOutput([*lines, *(OutputLine("stderr", line) for line in err)])


def through(
    monkeypatch: pytest.MonkeyPatch,
    controller: Controller,
    option: str,
) -> dict[str, read_nodes.Got]:
    """Return what comes of the nodes of the recorded cluster through a head."""
    monkeypatch.setattr(Inventory, "get_host", lambda *_: controller)
    found: dict[str, read_nodes.Got] = {}
    plan = recorded.consistent().plan
    share = gather.share_of(plan, [*plan.nodes], through=option)
    # As it arrives in the process that reads.
    share = loads(dumps(share))
    read_nodes.read_through(
        share, lambda _: "MUNGE:x:", lambda name, got: found.update({name: got})
    )
    return found
