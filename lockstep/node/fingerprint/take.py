"""Takes the fingerprint of this node, as a reader of the probe."""

from __future__ import annotations

from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.identity import identities, key
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.tree import PROTECTED, Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import NOT_ASKED, Readings, Request

NAMES = ("fingerprint", "fingerprint.branches")


def read_fingerprint(request: Request, commands: Commands) -> Readings:
    """The hashes of the node's configuration, and the fields of the objects that were asked for.

    A request for fields has no sums but those of the domains that it names. Without the cluster's
    name in the request, nothing is read.
    """
    if not request.get("fingerprint"):
        return dict.fromkeys(NAMES, NOT_ASKED)
    asked: dict[str, list[str]] = {}
    for domain, name in request["asked"]:
        asked.setdefault(domain, []).append(name)
    own = identities()
    for kind, value in request["own"]:
        own.setdefault(kind, []).append(value)
    exceptions = (*EXCEPTIONS, *(Exempt(*row) for row in request["exempt"]))
    taken = Fingerprint(Own(own), key(request["fingerprint"]), asked, exceptions)
    for domain in DOMAINS:
        # A further question reads only what it asks about.
        if not asked or domain.name in asked or domain.name + PROTECTED in asked:
            taken.read(domain, request, commands)
    return {"fingerprint": taken.answer(), "fingerprint.branches": taken.branches}
