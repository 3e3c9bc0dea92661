"""Notices through the command line: folded, counted in the exit status, shown when asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects
from tests.commands.conftest import INVENTORY, ended
from tests.commands.test_check_fingerprint import Nodes, nodes

__all__ = ["nodes"]
CHECK = ("check", "inventory.py")
MOTD = {"type": "file", "owner": "root:root", "mode": "644", "content": "hello\n"}


def add(nodes: Nodes, **changes: dict[str, dict[str, str]]) -> None:
    address = recorded.consistent().plan.nodes["worker3"].address
    usual = objects("worker3", address)
    nodes.changed["worker3"] = {
        domain: {**usual[domain], **added} for domain, added in changes.items()
    }


def test_notices_are_a_line_and_an_exit_status(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    add(nodes, file={"/etc/motd": MOTD})
    assert ended(*CHECK) == 1
    said = capsys.readouterr().out
    assert "1 notice: lockstep check inventory.py --all\n" in said
    assert "/etc/motd" not in said
    assert ", 1 finding: 1 differing. " in said
    for option in (("--all",), ("--severity", "notice")):
        assert ended(*CHECK, *option) == 1
        assert "NOTICE  fingerprint.file  worker3 /etc/motd\n" in capsys.readouterr().out


def test_other_findings_are_not_folded(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    add(nodes, file={"/etc/motd": MOTD}, user={"eve": {"uid": "0"}})
    assert ended(*CHECK, "--junit", "out.xml", "--html", "out.html", "--metrics", "out.prom") == 1
    said = capsys.readouterr().out
    assert "ERROR   fingerprint.user  worker3 eve\n" in said
    assert "1 notice: " in said
    assert "/etc/motd" in Path("out.xml").read_text()
    assert "/etc/motd" in Path("out.html").read_text()
    assert 'device="/etc/motd",severity="notice"' in Path("out.prom").read_text()


def test_a_site_says_how_severe_a_domain_is(nodes: Nodes) -> None:
    add(nodes, user={"eve": {"uid": "0"}})
    checks = {"overrides": [{"rule": "fingerprint.user", "severity": "notice"}]}
    Path("inventory.py").write_text(
        INVENTORY.format(description=f"{{**DESCRIPTION, 'checks': {checks}}}")
    )
    assert ended(*CHECK, "--json", "report.json") == 1
    (finding,) = json.loads(Path("report.json").read_text())["findings"]
    assert finding["severity"] == "notice"


def test_a_domain_that_a_site_switches_off_is_not_compared(nodes: Nodes) -> None:
    add(nodes, user={"eve": {"uid": "0"}})
    for classes, status in ((["head"], 1), (["hgx-h200"], 0), ([], 0)):
        off = {"rule": "fingerprint.user", "off": "people differ", "classes": classes}
        Path("inventory.py").write_text(
            INVENTORY.format(description=f"{{**DESCRIPTION, 'checks': {{'overrides': [{off}]}}}}")
        )
        assert ended(*CHECK) == status
