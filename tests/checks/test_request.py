"""What is asked of a node: names that its plan mentions, and no value of it."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from pyinfra.api.exceptions import FactProcessError

from lockstep.facts.node import NodeProbe
from lockstep.fleet.request import request
from lockstep.probe.lines import MARKER
from tests.checks import recorded


def test_every_owned_file_unit_and_key_is_asked_for() -> None:
    for node in recorded.consistent().plan.nodes.values():
        asked = request(node)
        files = recorded.consistent().files_of(node)
        assert set(asked.files) == set(files)
        assert set(node.units) < set(asked.units)
        assert set(asked.sysctls) == set(node.sysctl)
        assert set(node.masked_units) < set(asked.units)
        settings = (*node.hardware.cpu_files, *node.hardware.kernel_files)
        assert set(asked.kernel_files) == {file.path for file in settings}
        assert "tcp/22" in asked.listeners
        assert len(asked.listeners) == len(node.listeners)


def test_containers_are_started_only_where_somebody_asked_for_them() -> None:
    worker = recorded.consistent().plan.nodes["worker1"]
    assert request(worker).containers == ()
    assert request(worker, containers=True).containers == ("docker", "podman")
    assert request(worker, containers=True).container_devices == ("/dev/infiniband",)
    head = recorded.consistent().plan.nodes["head1"]
    assert request(head, containers=True).containers == ()


def test_no_expected_value_is_in_a_request() -> None:
    for node in recorded.consistent().plan.nodes.values():
        text = json.dumps(asdict(request(node)))
        for file in recorded.consistent().files_of(node).values():
            assert file.sha256 not in text
        assert recorded.SECRETS.munge_key_sha256 not in text


def test_the_fact_is_one_command_and_one_kind_of_error() -> None:
    fact = NodeProbe()
    assert fact.command(files=("/etc/hosts",)).startswith("python3 -c ")
    assert fact.default() is None
    record = {"format": 1, "taken_at": 0, "duration_s": 0, "readings": {}}
    assert fact.process([MARKER, json.dumps(record)]) is not None
    with pytest.raises(FactProcessError, match=r"^probe: no line"):
        fact.process(["garbage"])
