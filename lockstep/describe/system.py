"""The operating system and the clock in a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockstep.catalog import os as operating_systems
from lockstep.catalog import time_zones
from lockstep.describe.networks import Networks
from lockstep.describe.seen import Seen
from lockstep.describe.values import Block, Value, agreed, checked, named, table, todo
from lockstep.report import alike
from lockstep.spec.model import Os, Time


def release(one: Seen) -> str:
    """Return the name of a node's release; "" if Lockstep does not know it."""
    found, version = str(one.get("os.id") or ""), str(one.get("os.version_id") or "")
    for name in operating_systems.known():
        known = operating_systems.load(name)
        if known.id == found and known.version_id == known.version_of(version):
            return name
    return ""


def usual(nodes: Sequence[Seen]) -> str:
    """Return the release of most nodes; "" if Lockstep knows none of them."""
    got = agreed(nodes, lambda one: release(one) or None)
    return got[0] if got else ""


def block(nodes: Sequence[Seen], networks: Networks) -> Block:
    """Return the operating system as a description has it."""
    unknown = [one for one in nodes if not release(one)]
    systems = alike(unknown, lambda one: f"{one.get('os.id')} {one.get('os.version_id')}")
    texts = [f"{named(same)}: {system}" for system, same in systems.items()]
    known = ", ".join(operating_systems.known())
    got = agreed(nodes, lambda one: release(one) or None)
    above = tuple(f"{text}, a release that Lockstep does not know" for text in texts if got)
    parts: dict[Any, Value | Block] = {
        "release": Value(got[0], _of_groups(got[1]), above)
        if got
        else todo("release", f"{'; '.join(texts)}; Lockstep knows {known}")
    }
    zone = agreed(nodes, lambda one: _zone(one.get("os.time_zone")))
    parts["time_zone"] = (
        checked(Os, "time_zone", Value(*zone), "time zone")
        if zone
        else todo("time zone", nodes[0].reason("os.time_zone"))
    )
    locale = agreed(nodes, lambda one: one.get("os.locale") or None)
    if locale:
        parts["locale"] = checked(Os, "locale", Value(*locale), "locale")
    elif all(one.get("os.locale") == "" for one in nodes):
        parts["locale"] = Value(Os.model_fields["locale"].default, "no node sets LANG; confirm")
    versions = {own[1].version for one in nodes if (own := networks.management(one))}
    if versions == {4}:
        parts["address_family"] = Value("ipv4", "as the management network")
    return table(parts)


def _of_groups(note: str) -> str:
    """Return a note without the request to confirm: groups have a release of their own."""
    return note.removesuffix("; confirm")


def _zone(name: object) -> str | None:
    return None if name is None else time_zones.FORMER.get(str(name), str(name))


def clock(nodes: Sequence[Seen], heads: Sequence[Seen]) -> Block | None:
    """Return the time servers as a description has them; None if no server is configured.

    A description has the servers of the heads; the workers follow the heads.
    """
    asked = heads or nodes
    own = {one.name for one in nodes} | {one.full_name for one in nodes}
    addresses = {
        text.partition("/")[0]
        for one in nodes
        for found in one.items("describe.addresses").values()
        for text in found
    }

    def servers(one: Seen) -> list[str] | None:
        got = one.get("describe.time_servers")
        return None if got is None else [name for name in got if name not in own | addresses]

    got = agreed(asked, servers)
    if got is None:
        why = asked[0].reason("describe.time_servers")
        return table({"servers": todo("time servers, [] for none", f"not read: {why}")})
    if not got[0]:
        return None
    return table({"servers": checked(Time, "servers", Value(*got), "time servers")})
