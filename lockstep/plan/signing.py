"""The key with which DKMS signs a node's kernel modules: its files on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.catalog.nvidia.doca import WITH_MODULES
from lockstep.plan.fabric import doca_packages
from lockstep.spec import x509
from lockstep.spec.x509 import Certificate

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan


KEY = "/etc/dkms/lockstep-modules.key"
CERTIFICATE = "/etc/dkms/lockstep-modules.der"


@dataclass(frozen=True)
class Signing:
    """How the modules of a node are signed."""

    certificate: Certificate
    key_file: str
    """Path of the private key on the node."""
    certificate_file: str
    """Path of the certificate on the node."""

    @property
    def enrol(self) -> str:
        """The command that asks for the enrolment of the certificate."""
        return f"mokutil --import {self.certificate_file}"

    @property
    def enrolment(self) -> str:
        """The steps at the node's console after which the kernel trusts the certificate."""
        return f"run {self.enrol}, reboot, and confirm the enrolment"


def builds_modules(plan: NodePlan) -> bool:
    """Return whether DKMS builds kernel modules on a node for Lockstep."""
    driver = plan.nvidia is not None and plan.nvidia.driver.flavour is not None
    return driver or WITH_MODULES in doca_packages(plan)


def signing(plan: NodePlan) -> Signing | None:
    """Return how a node's modules are signed; None if no key is declared, or nothing is built."""
    declared = plan.spec.software.module_signing
    if declared is None or not builds_modules(plan):
        return None
    local = plan.release.local
    return Signing(x509.read(declared.certificate), local(KEY), local(CERTIFICATE))


@dataclass(frozen=True)
class Signature:
    """The signature of a module, as modinfo(8) shows it."""

    signer: str = ""
    """Common name of the issuer of the certificate; empty if the module has no signature."""
    serial: str = ""
    """Serial number of the certificate, as in ``Certificate.serial``."""

    def by(self, certificate: Certificate) -> bool:
        """Return whether the key of a certificate made the signature."""
        return (self.signer, self.serial) == (certificate.signer, certificate.serial)


@dataclass(frozen=True)
class BuiltModule:
    """A module that DKMS has installed for a kernel; it can consist of several files."""

    kernel: str
    name: str
    """Name and version, as ``dkms status`` shows them: ``nvidia/590.48.01``."""
    files: tuple[tuple[str, Signature], ...]
    """The name of each file, without ``.ko``, and its signature."""


@dataclass(frozen=True)
class ModuleTrust:
    """Which modules a node's kernel accepts."""

    unsigned_refused: bool
    """Whether it refuses modules without a signature of a trusted key."""
    certificates: frozenset[str] = frozenset()
    """SHA-256 of the certificates that the firmware and shim have enrolled."""

    def refuses(self, certificate: Certificate) -> bool:
        """Return whether modules that are signed with a key cannot be loaded."""
        return self.unsigned_refused and certificate.sha256 not in self.certificates
