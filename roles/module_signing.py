"""The key with which DKMS signs kernel modules, on the node before DKMS builds the first one.

Owns     the key, its certificate, and DKMS's setting that names both.
Secret   the key is sent only on standard input; the deploy compares hashes.
Never    enrols the certificate: that takes a person at the node's console (docs/kernel-modules.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.facts.signing import built_modules, module_trust
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Stage
from lockstep.plan.signing import CERTIFICATE, KEY, signing
from lockstep.question import Questions
from lockstep.spec import Cluster, Problem


def _certificate(plan: NodePlan) -> bytes:
    found = signing(plan)
    return b"" if found is None else found.certificate.der


def _problems(cluster: Cluster) -> Iterator[Problem]:
    declared = cluster.software.module_signing
    software = cluster.software
    builds = any(
        hardware.boot_loader != "none"
        and (
            (software.nvidia and name in cluster.gpus)
            or (software.doca_ofed and hardware.nics.rdma != "none")
        )
        for name, hardware in cluster.hardware.items()
    )
    if declared is not None and not builds:
        yield Problem(
            ("software", "module_signing"),
            declared.key,
            "leave it out: DKMS builds no kernel module on any node",
        )


def _asks(plan: NodePlan) -> Questions:
    return (built_modules(), module_trust())


ROLE = Declaration(
    name="module_signing",
    title="Module signing",
    when=lambda plan: signing(plan) is not None,
    before_packages=True,
    packages={
        # kmodsign(1). On the other releases, the kernel's headers have the program that signs.
        "ubuntu_22_04": ("sbsigntool",),
        "ubuntu_24_04": ("sbsigntool",),
    },
    files=(
        File(
            path=KEY,
            secret_content=lambda secrets: secrets.module_key,
            mode="600",
            secret=True,
            # The deploying machine has read the key, and compared it with the certificate.
            validate='head -n 1 {new} | grep -q "^-----BEGIN .*PRIVATE KEY-----$"',
        ),
        File(path=CERTIFICATE, data=_certificate),
        File(
            path="/etc/dkms/framework.conf.d/50-lockstep.conf",
            template="module_signing/framework.conf.j2",
            values={"key": KEY, "certificate": CERTIFICATE},
            # dkms(8) is a bash script that sources the file.
            validate="bash -n {new}",
            wanted=lambda plan: plan.release.dkms_reads_settings,
        ),
    ),
    problems=_problems,
    operations="lockstep.roles.operations.module_signing",
    stages=(Stage(function="signed", title="Module signatures", asks=_asks),),
)
