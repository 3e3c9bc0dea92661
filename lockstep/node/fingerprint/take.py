"""Takes the fingerprint of this node, as a reader of the probe."""

from __future__ import annotations

from typing import Any

from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.identity import identities, key
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import NOT_ASKED, Readings, Request

NAMES = ("fingerprint", "fingerprint.branches")


def read_fingerprint(request: Request, commands: Commands) -> Readings:
    """The hashes of the node's configuration, and the fields of the objects that were asked for.

    The request's ``fingerprint`` has the identities that the plan knows (``own``), what to show
    (``asked``), and the site's exceptions; without it, nothing is read.
    """
    wanted: dict[str, Any] = request.get("fingerprint") or {}
    if not wanted:
        return dict.fromkeys(NAMES, NOT_ASKED)
    asked = wanted.get("asked") or {}
    taken = Fingerprint(
        Own({**identities(), **wanted["own"]}),
        key(wanted["cluster"]),
        asked,
        (*EXCEPTIONS, *(Exempt(*row) for row in wanted.get("exceptions", ()))),
    )
    for domain in DOMAINS:
        # A further question reads only what it asks about.
        if not asked or domain.name in asked or f"{domain.name}!" in asked:
            taken.read(domain, request, commands)
    return {"fingerprint": taken.answer(), "fingerprint.branches": taken.branches}
