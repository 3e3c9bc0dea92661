"""What apt means when it does not accept a repository, and what to do about it."""

from __future__ import annotations

import re

_MEANINGS = (
    (
        r"NO_PUBKEY (?P<key>\w+)",
        "it is signed by another key than the declared one (the missing key is {key})",
        "compare the repository's key with the field `key` of the description. If the vendor has "
        "announced a new key, declare that; otherwise do not use this repository",
    ),
    (
        r"EXPKEYSIG (?P<key>\w+)",
        "the declared key {key} has expired",
        "declare the vendor's current key (the field `key`)",
    ),
    (
        r"(BADSIG|signatures were invalid|NODATA|Clearsigned file isn't valid)",
        "its signature does not fit its content: it was changed after it was signed, or damaged",
        "do not use this repository until its owner has signed it again",
    ),
    (
        r"is not signed",
        "it is not signed",
        "use a repository that is signed by the declared key",
    ),
    (
        r"(is expired|is not valid yet)",
        "its signed list of files is no longer valid (Valid-Until)",
        "update the mirror; or set `frozen` of the repository, if it is a snapshot on purpose",
    ),
    (
        r"does not have a Release file",
        "there is no signed list of files (InRelease) at this address and suite",
        "correct `uri` or `suite` of the repository",
    ),
    (
        r"(Hash Sum mismatch|File has unexpected size)",
        "an index differs from the signed list of files: the repository is being updated, or it "
        "is not a complete copy",
        "run the command again in some minutes; if it stays so, copy the repository again",
    ),
    (
        r"404 +Not Found|File not found",
        "a file that its signed list names is missing: the repository is not complete",
        "copy the repository again, or correct `suite` and `components`",
    ),
)


def explained(said: str) -> tuple[str, str]:
    """Return the problem of a repository and the next step, from the errors of ``apt-get update``.

    apt's own words end the problem, so that nothing of them is lost.
    """
    lines = [line for line in said.splitlines() if re.match(r"(E|W): |\s", line)]
    own = " ".join(" ".join(lines).split()) or " ".join(said.split())
    for pattern, problem, then in _MEANINGS:
        found = re.search(pattern, said)
        if found:
            return f"{problem.format(**found.groupdict())}. apt says: {own}", then
    return (
        f"it cannot be read. apt says: {own}",
        "check the address, the network and the proxy of this machine",
    )
