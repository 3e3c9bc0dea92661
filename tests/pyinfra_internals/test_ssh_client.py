"""The client of pyinfra's connections: what it knows of a host when it reports a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paramiko import ChannelException

from lockstep.pyinfra_internals.ssh_client import JumpHost, NodeClient
from lockstep.unreached import Unreached


@pytest.mark.parametrize(
    ("given", "port"), [({}, 2222), ({"port": None}, 2222), ({"port": 2200}, 2200)]
)
def test_the_port_of_messages_is_that_of_the_connection(
    given: dict[str, Any], port: int, tmp_path: Path
) -> None:
    """pyinfra's arguments win over ssh_config(5)."""
    config = tmp_path / "config"
    config.write_text("Host a\n  Port 2222\n")
    client = NodeClient()
    client.parse_config("a", given, str(config))
    assert client.port == port


@pytest.mark.parametrize(("target", "whose"), [("node", "the node"), ("gw2", "the jump host gw2")])
def test_a_jump_host_names_the_host_that_it_cannot_reach(
    target: str, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ChannelException(2, "Connect failed")

    monkeypatch.setattr(NodeClient.__mro__[1], "gateway", refused)
    with pytest.raises(Unreached) as raised:
        JumpHost().gateway("node", 22, target, 22)
    assert f"cannot connect to the ssh port of {whose} (Connect failed)" in str(raised.value)
