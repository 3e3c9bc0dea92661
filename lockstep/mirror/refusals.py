"""What apt or dnf means when it does not accept a repository, and what to do about it."""

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


_MEANINGS_OF_DNF = (
    (
        r"^gpgkey (?P<key>\S+): ",
        "its key {key} cannot be read",
        "name a gpgkey that this machine can read (--archive), or the current key of the vendor",
    ),
    (
        # Before "not found": librepo's text for an index that is gone names its own address.
        r"(hecksum doesn't match|sum mismatch|Zchunk header checksum)",
        "an index differs from repomd.xml: the repository is being updated, or it is not a "
        "complete copy",
        "run the command again in some minutes; if it stays so, copy the repository again",
    ),
    (
        r"(Cannot download repomd.xml|Couldn't open file|Status code: 40[34])",
        "there is no list of packages (repodata/repomd.xml) at this address, or a file that it "
        "names is missing",
        "correct `uri` or `suite` of the repository, or copy it again",
    ),
    (
        r"SSL|certificate",
        "the server's certificate is not accepted",
        "install the certificate of its authority on this machine, or name it in dnf.conf "
        "(sslcacert)",
    ),
)


_UNREACHED = re.compile(r"Couldn't connect|Could not connect|Could not resolve|Couldn't resolve")
"""librepo's words for a server that does not answer; the rest of its text is the same."""


def explained_by_dnf(said: str) -> tuple[str, str]:
    """Return the problem of a repository and the next step, from an error of dnf."""
    own = " ".join(said.split())
    for pattern, problem, then in _MEANINGS_OF_DNF:
        found = re.search(pattern, said)
        if found and not _UNREACHED.search(said):
            return f"{problem.format(**found.groupdict())}. dnf says: {own}", then
    return (
        f"it cannot be read. dnf says: {own}",
        "check the address, the network and the proxy of this machine",
    )
