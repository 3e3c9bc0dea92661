"""Takes the fingerprint of this node, as a reader of the probe."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.identity import identities, key
from lockstep.node.fingerprint.installed import volumes
from lockstep.node.fingerprint.network import leased_addresses
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.slow import SLOW, Slow
from lockstep.node.fingerprint.tree import PROTECTED, Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread


def fingerprint(request: Request, commands: Commands) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the hashes of the node's configuration, and the objects that were asked for.

    Args:
        request: the cluster's name (``fingerprint``), the identities that the plan knows (``own``),
            and those of all nodes of the kind (``alike``), what to show (``asked``), the site's
            exceptions (``exempt``), and whether to read the slow domains anew (``slow``). If
            anything is to be shown, only its domains are read.
        commands: runs programs.
    """
    asked: dict[str, list[str]] = {}
    for domain, name in request["asked"]:
        asked.setdefault(domain, []).append(name)
    own = identities()
    with suppress(Unread):  # the domains of the network say so, too
        own.update(leased_addresses(commands))
    for kind, value in request["own"]:
        own.setdefault(kind, []).append(value)
        if kind == "name":
            own.update(volumes(value))
    exceptions = (*EXCEPTIONS, *(Exempt(*row) for row in request["exempt"]))
    taken = Fingerprint(Own(own, request["alike"]), key(request["fingerprint"]), asked, exceptions)
    slow = Slow(request)
    for domain in (*DOMAINS, *SLOW):
        # A further question reads only what it asks about.
        if asked and domain.name not in asked and domain.name + PROTECTED not in asked:
            continue
        if domain not in SLOW:
            taken.read(domain, request, commands)
        elif slow.is_read(domain):
            taken.read(domain._replace(read=partial(slow.read, domain)), request, commands)
    taken.slow = slow.taken
    return taken.answer(), taken.branches
