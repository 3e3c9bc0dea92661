"""Signatures of kernel modules: Secure Boot, enrolled certificates, and what DKMS has built."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.grub import read_grub
from lockstep.node.readers.reading import ABSENT, OF_A_ROLE, Readings, Request, Unread, each
from lockstep.node.readers.tree import below, bytes_of, exists, found_by, is_folder, resolved, said

EFI = "/sys/firmware/efi"
VARIABLES = f"{EFI}/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""GUID of the variables of the UEFI specification (3.3), such as SecureBoot."""
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
"""GUID of shim's variables: MokListRT, the enrolled keys, and MokNew, those to be enrolled."""
FIRMWARE_DB = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
"""GUID of the variable db, the firmware's own list of keys (UEFI specification, 32.4.1)."""
X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
"""Type of a list of certificates (EFI_CERT_X509_GUID)."""
ATTRIBUTES = 4
"""Bytes before the value in a file of efivarfs (kernel documentation, efivarfs)."""
ENFORCED = "/sys/module/module/parameters/sig_enforce"
LOCKDOWN = "/sys/kernel/security/lockdown"

DKMS = "/var/lib/dkms"
PLACES = ("updates/dkms", "extra")
"""Where DKMS installs modules below a kernel's folder (dkms, override_dest_module_location)."""


def read_secure_boot(request: Request, commands: Commands) -> Readings:
    """Whether Secure Boot is on, and whether the kernel refuses modules that nobody signed."""
    return {
        "secure_boot": {
            **each(["firmware"], lambda name: firmware_state()),
            # Kernel documentation: module-signing, kernel_lockdown(7).
            "unsigned_modules": "refused" if refuses_unsigned() else "loaded",
        }
    }


def firmware_state() -> str:
    """Return whether the firmware checks what it boots: on, off, or absent without UEFI.

    Firmware without Secure Boot has no such variable. Without runtime services (efi=noruntime), the
    kernel has no variable at all.
    """
    if not is_folder(EFI):
        return ABSENT
    if not exists(f"{VARIABLES}/SecureBoot-{GLOBAL}"):
        return "off" if below(VARIABLES) else "not told by the firmware"
    value = bytes_of(f"{VARIABLES}/SecureBoot-{GLOBAL}")
    if len(value) != ATTRIBUTES + 1:
        raise Unread(f"{VARIABLES}/SecureBoot-{GLOBAL} has {len(value)} bytes, expected 5")
    return "on" if value[ATTRIBUTES] == 1 else "off"


def refuses_unsigned() -> bool:
    """Return whether the running kernel loads only modules with a signature that it trusts."""
    return said(ENFORCED) == "Y" or bool(
        re.search(r"\[(integrity|confidentiality)\]", said(LOCKDOWN))
    )


def read_certificates(request: Request, commands: Commands) -> Readings:
    """SHA-256 of each certificate of shim and the firmware -> enrolled, or requested."""
    found: dict[str, str] = {}
    if is_folder(EFI) and not below(VARIABLES):
        raise Unread(f"{VARIABLES} is empty: efivarfs is not mounted")
    for name, guid, state in (
        ("MokNew", SHIM, "requested"),
        ("db", FIRMWARE_DB, "enrolled"),
        ("MokListRT", SHIM, "enrolled"),
    ):
        found.update(dict.fromkeys(hashes(variable(name, guid)), state))
    return {"secure_boot.certificates": found}


def variable(name: str, guid: str) -> bytes:
    """Return the value of a variable; empty if it does not exist."""
    # The kernel has a copy of shim's variables that is whole even if the list is long.
    copy, path = f"{EFI}/mok-variables/{name}", f"{VARIABLES}/{name}-{guid}"
    if exists(copy):
        return bytes_of(copy)
    return bytes_of(path)[ATTRIBUTES:] if exists(path) else b""


def hashes(lists: bytes) -> list[str]:
    """Return the SHA-256 of each certificate in EFI_SIGNATURE_LISTs (UEFI specification, 32.4.1).

    Raises:
        Unread: the lists are damaged.
    """
    found: list[str] = []
    while lists:
        size, header, entry = (int.from_bytes(lists[at : at + 4], "little") for at in (16, 20, 24))
        first = 28 + header
        if size < first or size > len(lists) or entry <= 16:
            raise Unread("a list of certificates of the firmware is damaged")
        if lists[:16] == X509:
            # An entry begins with the 16 bytes of its owner.
            starts = range(first, size - entry + 1, entry)
            found += [hashlib.sha256(lists[at + 16 : at + entry]).hexdigest() for at in starts]
        lists = lists[size:]
    return found


def read_signatures(request: Request, commands: Commands) -> Readings:
    """Who signed the modules that DKMS has installed: kernel -> module -> file -> signature.

    Only of the running kernel and of those that may boot next. modinfo unpacks every module, which
    takes a second for a whole driver, so a check asks only where a key is declared.
    """
    if not (request.get(OF_A_ROLE) or request.get("signatures")):
        return {"dkms.signatures": {}}
    grub, running = read_grub(), os.uname().release
    later = grub.next_kernel()
    kernels = dict.fromkeys([running, *([later] if later else grub.releases())])
    return {"dkms.signatures": {kernel: of_kernel(commands, kernel) for kernel in kernels}}


def of_kernel(commands: Commands, kernel: str) -> dict[str, Any]:
    """Return the signatures of the modules that DKMS has installed for a kernel."""
    found: dict[str, Any] = {}
    # DKMS links NAME/kernel-KERNEL-ARCHITECTURE to NAME/VERSION/KERNEL/ARCHITECTURE.
    for link in found_by(f"{DKMS}/*/kernel-{kernel}-{os.uname().machine}"):
        folder = resolved(link)
        name, version = folder[len(resolved(DKMS)) + 1 :].split("/")[:2]
        files = [file.partition(".ko")[0] for file in below(f"{folder}/module") if ".ko" in file]
        found[f"{name}/{version}"] = each(
            files, lambda file: signature(commands, installed(kernel, file))
        )
    return found


def installed(kernel: str, file: str) -> str:
    """Return the path of a module that DKMS has installed; raise ``Unread`` if there is none."""
    for place in PLACES:
        for path in found_by(f"/lib/modules/{kernel}/{place}/{file}.ko*"):
            return path
    raise Unread(f"DKMS built {file} for kernel {kernel}, but did not install it")


def signature(commands: Commands, path: str) -> dict[str, str]:
    """Return the signer, the key and the hash algorithm of a module's signature; "" if unsigned."""
    text = commands.run("modinfo", path)
    shown = dict(re.findall(r"^(signer|sig_key|sig_hashalgo):[ \t]*(.*)$", text, re.MULTILINE))
    return {
        "signer": shown.get("signer", "").strip(),
        "key": re.sub(r"[^0-9A-F]", "", shown.get("sig_key", "").upper()),
        "hash": shown.get("sig_hashalgo", "").strip(),
    }
