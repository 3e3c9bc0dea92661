"""Rules about the interfaces that the role network configures: their files, and what runs."""

from __future__ import annotations

from typing import Any

from lockstep.checks.context import Items, View
from lockstep.checks.looks import made
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Look,
    Rule,
    Text,
    by_hand,
    each,
)
from lockstep.checks.rules._interfaces import ADDRESSES, NOT_READ, rails
from lockstep.plan.network import Interface, path_of
from lockstep.probe.record import Unread

PERSISTED = "net.persisted"
GATEWAY = "net.gateway"


def _kept(view: View) -> dict[str, Interface]:
    return {one.name: one for one in view.plan.interfaces}


def _wanted(one: Interface) -> str:
    return _text([own.with_length for own in one.assigned], one.mtu, [*one.routers])


def _text(addresses: list[str], mtu: int | None, routers: list[str]) -> str:
    """Return what files give an interface, in words."""
    parts = (
        ", ".join(sorted(addresses)) or "no address",
        f"MTU {mtu}" if mtu else "",
        f"router {', '.join(sorted(routers))}" if routers else "",
    )
    return ", ".join(filter(None, parts))


def _read(view: View, one: Interface) -> dict[str, Any] | Unread:
    """Return what the files give an interface."""
    found = view.record.entry(PERSISTED, f"{one.manager} {one.name}")
    if isinstance(found, dict) and "addresses" in found:
        return found
    return found if isinstance(found, Unread) else Unread(unread="it was not read")


def _persisted_items(view: View, read: Items) -> Items:
    items: Items = {}
    expected = {file.path: file.sha256 for file in view.context.files_of(view.plan).values()}
    for name, one in _kept(view).items():
        found, path = _read(view, one), path_of(one)
        own = view.record.entry("files", path)
        if isinstance(own, dict) and own.get("sha256") != expected.get(path):
            items[name] = _wanted(one)  # file.content reports Lockstep's own file
        elif isinstance(found, Unread):
            items[name] = found
        else:
            # A record of an earlier release has no routers.
            routers = found.get("routers", [*one.routers])
            items[name] = _text(found["addresses"], found["mtu"], routers)
    return items


def _files(view: View, name: str) -> str:
    found = _read(view, _kept(view)[name])
    files = () if isinstance(found, Unread) else found["files"]
    return f"set by {', '.join(files)}" if files else ""


def _management(view: View) -> Interface | None:
    """Return the management interface, if the description names its router."""
    return next((one for one in view.plan.interfaces if one.routers), None)


def _gateway_items(view: View, read: Items) -> Items:
    one = _management(view)
    if one is None:
        return {}
    routers = []
    for own in one.assigned:
        found = read.get(own.family, Unread(unread="it was not read"))
        if own.gateway and not isinstance(found, dict):
            return {one.name: found}
        if own.gateway and isinstance(found, dict):
            routers.append(_routers(found, one.name))
    return {one.name: " and ".join(routers)}


def _routers(routes: dict[str, Any], interface: str) -> str:
    """Return the routers of default routes, with their interface if it is another one."""
    named = (
        (router or "no router") + (f" on {name}" if name != interface else "")
        for name, routers in sorted(routes.items())
        for router in routers or [""]
    )
    return ", ".join(named) or "no default route"


def _unplanned(view: View, read: Items) -> Items:
    return {
        name: [address for address in held if address not in one.addresses]
        if isinstance(held := read.get(name, []), list)
        else held
        for name, one in rails(view).items()
    }


def _interface(view: View, name: str) -> tuple[Object]:
    return (Object(ObjectKind.INTERFACE, name),)


RULES = (
    Rule(
        id=PERSISTED,
        claim=(
            "The files of each interface that Lockstep configures give it the planned address, MTU "
            "and router, and no other address."
        ),
        why=(
            "Two files that configure one interface disagree only at the next boot: the node then "
            "comes back with another address, or with none."
        ),
        blind=(
            "Lockstep's own files, which file.content checks. Files of a program that the "
            "description does not name. Scripts. Routes but the default route, routing rules and "
            "name servers in files of others."
        ),
        source=(
            "interfaces(5), systemd.network(5), netplan-generate(8), nm-settings-keyfile(5): which "
            "files count, and in which order"
        ),
        reading=PERSISTED,
        look=Look(made(PERSISTED, _persisted_items)),
        expected=each(lambda view: {name: _wanted(one) for name, one in _kept(view).items()}),
        text=Text(detail=_files),
        repair=by_hand(
            "on {node}: remove {device} from the files that are not Lockstep's, and make sure that "
            "its program reads Lockstep's file (docs/network.md)"
        ),
        applies=lambda view: bool(view.plan.interfaces),
        objects=_interface,
    ),
    Rule(
        id=GATEWAY,
        claim="The default route of the management network goes to the declared router.",
        why=(
            "The file of the next boot has the declared router. If another one is in use, one of "
            "the two is wrong: the node reaches no other network now, or after the next boot."
        ),
        blind=(
            "Whether the router forwards anything. Families without a declared router. Default "
            "routes with "
            "a worse metric, which the kernel does not use."
        ),
        source="ip-route(8); networks.management.gateway",
        reading=GATEWAY,
        look=Look(made(GATEWAY, _gateway_items)),
        expected=each(
            lambda view: (
                {one.name: " and ".join(one.routers)}
                if (one := _management(view)) is not None
                else {}
            )
        ),
        repair=by_hand(
            "find out which router is right, the found one or {expected}; then on {node}: ip route "
            "replace default via ROUTER dev {device}, or correct networks.management in {inventory}"
        ),
        applies=lambda view: _management(view) is not None,
        objects=_interface,
        explained_by=(Cause("net.state"), Cause("net.address")),
    ),
    Rule(
        id="net.unplanned_address",
        claim="A rail that Lockstep configures has no address besides the planned ones.",
        why=(
            "A second address may become the source of connections, or the GID that a job picks, "
            "and it is gone after the next boot."
        ),
        blind="Link-local addresses. The management interface.",
        source="RFC 6724 (selection of source addresses)",
        reading=ADDRESSES,
        look=Look(made(ADDRESSES, _unplanned)),
        expected=each(lambda view: {name: [] for name in rails(view)}),
        severity=WARNING,
        repair=by_hand(
            "on {node}: find out what added the address to {device}, and remove it (ip address "
            "delete)"
        ),
        applies=lambda view: bool(rails(view)),
        objects=_interface,
        explained_by=(*NOT_READ, Cause(PERSISTED, at=SAME_DEVICE)),
    ),
)
