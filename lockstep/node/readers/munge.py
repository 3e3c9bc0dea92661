"""munge's key, and credentials between nodes."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.files import read_file
from lockstep.node.readers.reading import Readings, Request, Unread


def read_munge_key(request: Request, commands: Commands) -> Readings:
    """Hash of the key; "absent" when there is none. The key itself never leaves the node."""
    found = read_file("/etc/munge/munge.key")
    return {"munge.key_sha256": found.get("sha256", found.get("other", "absent"))}


def read_munge_credential(request: Request, commands: Commands) -> Readings:
    """A credential of the user nobody: worthless to a reader of the record."""
    if os.geteuid() != 0:
        raise Unread("munge: not run as root, so no credential of another user")
    return {"munge.credential": commands.run("munge", "-s", "lockstep", user="nobody").strip()}


def read_munge_decoded(request: Request, commands: Commands) -> Readings:
    """How decoding the credential of another node ends: "Success", or munge's own words."""
    credential = request.get("credential")
    if not credential:
        raise Unread("no credential of another node was given")
    status, out, err = commands.outcome(
        "unmunge", "--keys=STATUS", "--output=/dev/null", text=credential
    )
    match = re.search(r"^STATUS:\s*(.*?)\s*(?:\(\d+\))?$", out, re.MULTILINE)
    if match:
        return {"munge.decoded": match.group(1)}
    said = (err.strip() or out.strip() or f"exit {status}").splitlines()[0]
    return {"munge.decoded": said.replace("unmunge: Error: ", "")}
