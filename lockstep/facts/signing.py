"""Questions about the signatures of kernel modules, and the keys that the kernel trusts."""

from __future__ import annotations

from lockstep.plan.signing import BuiltModule, ModuleTrust, Signature
from lockstep.question import Taken, question

SIGNATURES, STATE, CERTIFICATES = "dkms.signatures", "secure_boot", "secure_boot.certificates"


@question("signatures of kernel modules", SIGNATURES)
def built_modules(taken: Taken) -> tuple[BuiltModule, ...]:
    """Ask who signed the modules that DKMS has installed."""
    return tuple(
        BuiltModule(
            kernel,
            name,
            tuple(
                (
                    file,
                    Signature(*(taken.item(SIGNATURES, kernel, name, file, key) for key in KEYS)),
                )
                for file in files
            ),
        )
        for kernel, modules in taken[SIGNATURES].items()
        for name, files in modules.items()
    )


KEYS = ("signer", "key")


@question("keys that the kernel trusts", STATE, CERTIFICATES)
def module_trust(taken: Taken) -> ModuleTrust:
    """Ask whether the kernel refuses unsigned modules, and which certificates are enrolled."""
    return ModuleTrust(
        taken.item(STATE, "unsigned_modules") == "refused",
        frozenset(sha for sha, state in taken[CERTIFICATES].items() if state == "enrolled"),
    )
