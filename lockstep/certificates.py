"""Makes the certificate authorities of Kubernetes, as kubeadm would make them on the first head.

The deploying machine makes them once and keeps them with its other secrets, so that every node of
the control plane has the same ones, and a node can be replaced without another one.
Names and key usages: kubeadm, phases/certs/certlist.go and util/pkiutil (Kubernetes 1.34).
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Mapping

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITIES = {
    "ca": "kubernetes",
    "front-proxy-ca": "front-proxy-ca",
    "etcd/ca": "etcd-ca",
}
"""Path below /etc/kubernetes/pki, without its ending -> common name."""
PROMETHEUS = "lockstep-prometheus"
"""The user with which Prometheus reads metrics (``plan.kubernetes.PROMETHEUS_USER``)."""
YEARS = 10
"""Validity of an authority; kubeadm's own default (CACertificateValidityPeriod)."""
BITS = 2048
"""kubeadm's default algorithm is RSA-2048 (EncryptionAlgorithm)."""
PEM = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def completed(known: Mapping[str, str]) -> dict[str, str]:
    """Return all secrets of Kubernetes in PEM format: those that exist, and new ones.

    Args:
        known: path below /etc/kubernetes/pki, or file of a client -> the text that exists.
    """
    made = dict(known)
    for path, name in AUTHORITIES.items():
        if f"{path}.crt" not in made:
            key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
            made[f"{path}.crt"] = _authority(key, name).public_bytes(Encoding.PEM).decode()
            made[f"{path}.key"] = key.private_bytes(*PEM).decode()
    if "sa.key" not in made:
        key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
        made["sa.key"] = key.private_bytes(*PEM).decode()
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        made["sa.pub"] = public.decode()
    if "prometheus.crt" not in made:
        certificate, private = client(made, PROMETHEUS, (), 365 * YEARS)
        made |= {"prometheus.crt": certificate, "prometheus.key": private}
    return made


def client(
    authorities: Mapping[str, str], user: str, groups: Iterable[str], days: int
) -> tuple[str, str]:
    """Return a new certificate with which a user logs in to the API server, and its key, as PEM.

    Kubernetes takes the user from the common name, and the groups from the organizations
    (Kubernetes, Authenticating: X.509 client certificates). It cannot be revoked.

    Args:
        authorities: what ``completed`` returned.
        user: name of the user.
        groups: names of the user's groups.
        days: validity, in days.
    """
    issuer = x509.load_pem_x509_certificate(authorities["ca.crt"].encode())
    signing = load_pem_private_key(authorities["ca.key"].encode(), password=None)
    assert isinstance(signing, rsa.RSAPrivateKey)  # no other is made
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    begins = _begins()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(min(begins + datetime.timedelta(days=days), issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    text = certificate.public_bytes(Encoding.PEM).decode()
    return text, key.private_bytes(*PEM).decode()


def _begins() -> datetime.datetime:
    """Return when a new certificate begins: the clocks of nodes may be a little behind."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)


def public_key_hash(certificate: str) -> str:
    """Return the hash that pins an authority for ``kubeadm join`` (caCertHashes).

    Args:
        certificate: the certificate in PEM format.
    """
    public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(public.public_bytes(*form)).hexdigest()}"


def _authority(key: rsa.RSAPrivateKey, name: str) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = _begins()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_encipherment=True,
                key_cert_sign=True,
                crl_sign=False,
                content_commitment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
