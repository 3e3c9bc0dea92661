"""Signing of kernel modules: firmware and files of a small tree, simulated dkms and modinfo."""

from __future__ import annotations

import stat
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.exceptions import PyinfraError

from lockstep import secrets
from lockstep.facts.driver import boot_kernels
from lockstep.facts.signing import built_modules, module_trust
from lockstep.files import managed
from lockstep.inventory import planned as plan_of
from lockstep.plan import NodePlan
from lockstep.plan.declaration import in_order
from lockstep.plan.driver import BootKernels, Driver, Kernel
from lockstep.plan.signing import (
    CERTIFICATE,
    KEY,
    BuiltModule,
    ModuleTrust,
    Signature,
    Signing,
    signing,
)
from lockstep.question import Question, Unreadable
from lockstep.roles import declared
from lockstep.roles.operations.module_signing import signed_modules
from lockstep.roles.operations.nvidia_driver import loaded
from lockstep.roles.steps.reboot.driver import loadable, trusted
from lockstep.roles.steps.reboot.failures import Alone
from lockstep.roles.steps.secrets import required
from lockstep.spec import load, x509
from tests.checks import recorded
from tests.plan.on_release import planned_on
from tests.roles.local import asked, has_loaded, on_node, read_below, run
from tests.roles.test_secrets import prepare

PEM = recorded.CERTIFICATE
SITE = x509.read(PEM)
SIGNING = Signing(SITE, KEY, CERTIFICATE)
EFI = "sys/firmware/efi"
KERNEL = "6.12.94"
NO_SIGNATURE = "filename: x"


def by(signer: str, serial: str) -> str:
    """What modinfo prints of a signature."""
    pairs = ":".join(serial[at : at + 2] for at in range(0, len(serial), 2))
    return f"signer:         {signer}\nsig_key:        {pairs}\nsig_hashalgo:   sha256"


OF_SITE, OF_ANOTHER = by(SITE.signer, SITE.serial), by("DKMS module signing key", "0A1B")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without UEFI, for whose kernel DKMS has built one module of two files."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    (tmp_path / "calls").touch()
    root = tmp_path / "root"
    made = root / f"var/lib/dkms/nvidia/590.48.01/{KERNEL}/x86_64"
    there = root / f"lib/modules/{KERNEL}/updates/dkms"
    (there.parents[1] / "build").mkdir(parents=True)
    (there.parents[1] / "build/Makefile").touch()
    for folder, suffix in ((made / "module", ".ko.xz"), (there, ".ko.xz")):
        folder.mkdir(parents=True)
        for name in ("nvidia", "nvidia-uvm"):
            (folder / f"{name}{suffix}").touch()
    (root / f"var/lib/dkms/nvidia/kernel-{KERNEL}-x86_64").symlink_to(f"590.48.01/{KERNEL}/x86_64")
    program(tmp_path, "dkms", f'echo "dkms $*" >> {tmp_path}/calls')
    program(tmp_path, "modprobe", f'echo "modprobe $*" >> {tmp_path}/calls')
    signed_by(tmp_path, OF_SITE)
    on_node(monkeypatch, "os.uname().release", repr(KERNEL))
    read_below(monkeypatch, root)
    return tmp_path


def program(node: Path, name: str, script: str) -> None:
    path = node / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def signed_by(node: Path, modinfo: str) -> None:
    """Let modinfo show a signature of all modules; with -F sig_key only the key."""
    (node / "signature").write_text(f"{modinfo}\n")
    program(
        node,
        "modinfo",
        f'case "$*" in *sig_key*) sed -n "s/^sig_key: *//p" {node}/signature;; '
        f"*) cat {node}/signature;; esac",
    )


def signs(node: Path, modinfo: str) -> None:
    """Let dkms sign what it builds."""
    (node / "new").write_text(f"{modinfo}\n")
    program(
        node,
        "dkms",
        f'echo "dkms $*" >> {node}/calls; [ "$1" != install ] || cp {node}/new {node}/signature',
    )


def firmware() -> object:
    question = Question("firmware", ("secure_boot",), lambda taken: taken.item(*FIRMWARE))
    return asked(question)


FIRMWARE = ("secure_boot", "firmware")


def calls(node: Path) -> list[str]:
    return (node / "calls").read_text().splitlines()


def secure_boot(node: Path, *, on: bool = True, enrolled: bytes = b"", asks: bytes = b"") -> None:
    """Make the variables of firmware and shim."""
    folder = node / "root" / EFI / "efivars"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(
        b"\6\0\0\0" + (b"\1" if on else b"\0")
    )
    shim = "605dab50-e046-4300-abb6-3dd810dd8b23"
    for name, certificate in (("MokListRT", enrolled), ("MokNew", asks)):
        if certificate:
            # A list of a hash comes first, as shim has one.
            lists = of_type("c1c41626-504c-4092-aca9-41f936934328", b"h" * 32) + of_type(
                "a5c059a1-94e4-4aa7-87b5-ab155c2bf072", certificate
            )
            (folder / f"{name}-{shim}").write_bytes(b"\6\0\0\0" + lists)
    lockdown = node / "root/sys/kernel/security/lockdown"
    lockdown.parent.mkdir(parents=True, exist_ok=True)
    lockdown.write_text("none [integrity] confidentiality\n" if on else "[none] integrity\n")


def of_type(guid: str, data: bytes) -> bytes:
    """A list of one entry (EFI_SIGNATURE_LIST)."""
    entry = 16 + len(data)
    numbers = b"".join(number.to_bytes(4, "little") for number in (28 + entry, 0, entry))
    return uuid.UUID(guid).bytes_le + numbers + b"o" * 16 + data


def test_modules_of_the_site_are_left_alone(node: Path) -> None:
    (found,) = asked(built_modules())
    assert (found.kernel, found.name) == (KERNEL, "nvidia/590.48.01")
    assert {name for name, _ in found.files} == {"nvidia", "nvidia-uvm"}
    done = run(signed_modules, key=SIGNING)
    assert (done.succeeded, done.commands, calls(node)) == (True, 0, [])


@pytest.mark.parametrize("before", [NO_SIGNATURE, OF_ANOTHER])
def test_other_modules_are_built_once_more_and_only_once(node: Path, before: str) -> None:
    signed_by(node, before)
    signs(node, OF_SITE)
    assert run(signed_modules, key=SIGNING).succeeded
    which = f"nvidia/590.48.01 -k {KERNEL}"
    assert calls(node) == [f"dkms remove {which}", f"dkms install {which}"]
    assert run(signed_modules, key=SIGNING).commands == 0


def test_a_build_that_dkms_did_not_sign_fails_with_a_next_step(node: Path) -> None:
    signed_by(node, NO_SIGNATURE)
    signs(node, NO_SIGNATURE)
    done = run(signed_modules, key=SIGNING)
    assert not done.succeeded
    assert (
        f"dkms did not sign nvidia/590.48.01 for kernel {KERNEL} with {KEY}. Next:" in done.output
    )


def test_a_module_that_is_not_installed_is_no_answer(node: Path) -> None:
    (node / f"root/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.xz").unlink()
    with pytest.raises(Unreadable, match=r"built nvidia for kernel .*, but did not install it"):
        asked(built_modules())


def test_firmware_and_shim_are_read(node: Path) -> None:
    assert asked(module_trust()) == ModuleTrust(unsigned_refused=False)
    secure_boot(node, asks=SITE.der)
    assert asked(module_trust()) == ModuleTrust(unsigned_refused=True)
    secure_boot(node, enrolled=SITE.der)
    trust = asked(module_trust())
    assert trust == ModuleTrust(True, frozenset({SITE.sha256}))
    assert not trust.refuses(SITE)
    assert trust.refuses(replace(SITE, der=b"another"))
    secure_boot(node, on=False)
    assert not asked(module_trust()).unsigned_refused


def test_firmware_without_secure_boot_is_read(node: Path) -> None:
    variables = node / "root" / EFI / "efivars"
    variables.mkdir(parents=True)
    assert firmware() == "not told by the firmware"
    (variables / "BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(b"\6\0\0\0\0")
    assert firmware() == "off"


def test_a_damaged_list_of_keys_is_no_answer(node: Path) -> None:
    secure_boot(node, enrolled=SITE.der)
    (path,) = (node / "root" / EFI / "efivars").glob("MokListRT-*")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(Unreadable, match="list of certificates of the firmware is damaged"):
        asked(module_trust())


def test_modules_of_another_key_stay_while_the_kernel_refuses_the_sites(node: Path) -> None:
    secure_boot(node)
    signed_by(node, OF_ANOTHER)
    assert run(signed_modules, key=SIGNING).commands == 0
    secure_boot(node, enrolled=SITE.der)
    signs(node, OF_SITE)
    assert run(signed_modules, key=SIGNING).succeeded
    assert len(calls(node)) == 2


def test_modules_without_a_signature_are_signed_even_then(node: Path) -> None:
    """The kernel refuses them anyway."""
    secure_boot(node)
    signed_by(node, NO_SIGNATURE)
    signs(node, OF_SITE)
    assert run(signed_modules, key=SIGNING).succeeded
    assert len(calls(node)) == 2


def test_a_module_that_cannot_be_built_again_stays(
    node: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="pyinfra")
    signed_by(node, OF_ANOTHER)
    (node / f"root/lib/modules/{KERNEL}/build/Makefile").unlink()
    assert not run(signed_modules, key=SIGNING).succeeded
    assert "install the headers of this kernel" in caplog.text
    assert calls(node) == []


def test_the_driver_is_not_loaded_before_the_certificate_is_enrolled(node: Path) -> None:
    has_loaded(node / "root", "")
    secure_boot(node)
    driver = Driver("590.48.01", {}, "open")
    done = run(loaded, driver=driver, modules=("nvidia",), key=SIGNING)
    assert (done.succeeded, done.commands) == (True, 0)
    secure_boot(node, enrolled=SITE.der)
    assert run(loaded, driver=driver, modules=("nvidia",), key=SIGNING).succeeded
    assert calls(node) == ["modprobe nvidia"]


def worker() -> NodePlan:
    return recorded.consistent().plan.nodes["worker1"]


class Talk:
    """A node that answers a question."""

    def __init__(self, trust: ModuleTrust) -> None:
        self.trust = trust

    def read(self, make: Any) -> ModuleTrust:
        assert make is module_trust
        return self.trust


def test_a_rollout_keeps_a_driver_that_the_kernel_loads() -> None:
    refuses: Any = Talk(ModuleTrust(unsigned_refused=True))
    with pytest.raises(Alone, match="worker1 keeps its driver: Secure Boot is on") as failed:
        trusted(refuses, worker(), "again", ("nvidia-driver-cuda",))
    assert f"mokutil --import {CERTIFICATE}" in failed.value.then
    trusted(refuses, worker(), "again", ())
    enrolled: Any = Talk(ModuleTrust(True, frozenset({SITE.sha256})))
    trusted(enrolled, worker(), "again", ("nvidia-driver-cuda",))


@pytest.mark.parametrize(
    ("kernel", "signature", "trust", "stays"),
    [
        ("6.12.95", Signature(SITE.signer, SITE.serial), ModuleTrust(True), True),
        ("6.12.95", Signature(), ModuleTrust(True), True),
        ("6.12.95", Signature("DKMS module signing key", "0A1B"), ModuleTrust(True), False),
        ("6.12.94", Signature(SITE.signer, SITE.serial), ModuleTrust(True), False),
        ("6.12.95", Signature(SITE.signer, SITE.serial), ModuleTrust(False), False),
        (
            "6.12.95",
            Signature(SITE.signer, SITE.serial),
            ModuleTrust(True, frozenset({SITE.sha256})),
            False,
        ),
    ],
)
def test_a_kernel_that_would_refuse_its_modules_is_not_booted(
    kernel: str, signature: Signature, trust: ModuleTrust, stays: bool
) -> None:
    running, later = Kernel("6.12.94", headers=True), Kernel("6.12.95", headers=True)
    answers = {
        module_trust: trust,
        boot_kernels: BootKernels(running, (later,)),
        built_modules: (BuiltModule(kernel, "nvidia/590.48.01", (("nvidia", signature),)),),
    }
    talk: Any = SimpleNamespace(read=lambda make: answers[make])
    with pytest.raises(Alone, match="was not rebooted") if stays else nullcontext():
        loadable(talk, worker(), "again")


def test_the_key_is_on_a_node_before_its_packages() -> None:
    names = [role.name for role in in_order(declared())]
    assert names.index("module_signing") < names.index("packages") < names.index("nvidia_driver")


def test_only_nodes_that_build_modules_get_the_key() -> None:
    nodes = recorded.consistent().plan.nodes
    assert "module_signing" not in nodes["head1"].roles
    files = {file.path: file for file in managed(nodes["worker1"], recorded.SECRETS)}
    assert (files[KEY].mode, files[KEY].secret) == ("600", True)
    assert files[CERTIFICATE].content == SITE.der
    setting = files["/etc/dkms/framework.conf.d/50-lockstep.conf"].content.decode()
    assert f'mok_signing_key="{KEY}"\nmok_certificate="{CERTIFICATE}"\n' in setting


def test_the_dkms_of_ubuntu_22_04_has_fixed_paths() -> None:
    plan = planned_on("ubuntu_22_04").nodes["worker01"]
    assert plan.system.paths("module_signing") == (
        "/var/lib/shim-signed/mok/MOK.priv",
        "/var/lib/shim-signed/mok/MOK.der",
    )
    found = signing(plan)
    assert found is not None
    assert found.enrol == "mokutil --import /var/lib/shim-signed/mok/MOK.der"
    assert "sbsigntool" in plan.software.packages


def test_a_deploy_without_the_key_ends_before_any_node_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = worker()
    secrets.obtain(plan.spec.name)
    with pytest.raises(PyinfraError, match=r"^/keys/modules\.key: no such file .* Next: copy"):
        prepare(required, plan)
    prepare(required, plan, roles="munge")


def test_a_key_that_nothing_would_use_is_refused() -> None:
    wanted = dict(recorded.DESCRIPTION)
    wanted["software"] = {
        name: value for name, value in wanted["software"].items() if name == "module_signing"
    }
    _, problems = load(wanted, declared())
    assert "leave it out: DKMS builds no kernel module" in " ".join(one.allowed for one in problems)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no certificate", "0 PEM blocks"),
        (PEM + PEM, "2 PEM blocks"),
        (PEM[:200] + PEM[300:], "damaged, or not a certificate"),
    ],
)
def test_a_text_that_is_no_certificate_is_refused(text: str, why: str) -> None:
    wanted = dict(recorded.DESCRIPTION)
    wanted["software"] = {
        **wanted["software"],
        "module_signing": {"key": "/k", "certificate": text},
    }
    cluster, problems = load(wanted, declared())
    assert cluster is None
    (problem,) = problems
    assert problem.path == ("software", "module_signing", "certificate")
    assert problem.allowed.startswith("one certificate in PEM format")
    assert problem.allowed.endswith(why)


def test_the_plan_is_the_same_with_and_without_the_key_file() -> None:
    cluster, problems = load(recorded.DESCRIPTION, declared())
    assert cluster is not None, problems
    node = plan_of(cluster).nodes["worker1"]
    without = replace(recorded.SECRETS, module_key=None)
    paths = {file.path for file in managed(node, without)}
    assert KEY not in paths
    assert CERTIFICATE in paths
