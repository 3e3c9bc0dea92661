"""The driver's kernel modules, really built: Debian's headers, gcc, DKMS and driver packages.

Containers share their host's kernel: a stand-in of uname(2) says which kernel each node runs, and
one of modprobe(8) loads nothing. Debian's driver 550.163.01-2 does not build on kernels that take a
fourth argument in pci_resize_resource(), and since 2026 the archive has headers of no others, so
the headers of worker1 get the declaration with three arguments. All else is real.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from lockstep.facts.packages import PackageState
from lockstep.roles.operations.packages import change
from tests.lab.labs import ROOT, Deployed, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

INVENTORY, DEPLOY = "tests/lab/dkms_inventory.py", "tests/lab/dkms_deploy.py"
DRIVER = "550.163.01"
MENU = "/boot/grub/grub.cfg"
NEWEST = (
    "apt-get -q update >/dev/null; apt-cache pkgnames linux-headers-6.12 | "
    r"sed -nE 's/^linux-headers-(6[0-9.]+\+deb13[0-9.]*-amd64)$/\1/p' | sort -V | tail -n 2"
)
FEWER_ARGUMENTS = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y --no-install-recommends install "linux-headers-{kernel}" >/dev/null 2>&1
header=/usr/src/linux-headers-{kernel_of_all}common/include/linux/pci.h
sed -i '/pci_resize_resource(/{{N; s/,[[:space:]]*int exclude_bars);/);/}}' "$header"
grep -q 'pci_resize_resource(.*int size);' "$header"
"""
"""Makes the driver build: the function is only declared, because nothing loads the modules."""

MACHINE = """
set -e
kernel=$1
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/dev/null
apt-get -q -y --no-install-recommends install "linux-image-$kernel" gcc-14 >/dev/null
gcc-14 -shared -fPIC -nostdlib -fno-builtin -DRELEASE="\\"$kernel\\"" \
    -x c -o /usr/local/lib/kernel_release.so - <<'SOURCE'
{source}
SOURCE
echo /usr/local/lib/kernel_release.so > /etc/ld.so.preload
mkdir -p /boot/grub
echo "linux /boot/vmlinuz-$kernel root=/dev/sda1 ro" > /boot/grub/grub.cfg
umount /proc/driver
mount -o remount,rw /sys
mkdir /sys/module
mount -t tmpfs none /sys/module
cat > /usr/local/sbin/modprobe <<'STANDIN'
#!/bin/sh
case "$1" in nvidia*) ;; *) exec /usr/sbin/modprobe "$@";; esac
/usr/sbin/modprobe -n "$1" && modinfo "nvidia-current-open${{1#nvidia}}" >/dev/null || exit 1
mkdir "/sys/module/$(echo "$1" | tr - _)" && echo "$1" >> /run/loaded
[ "$1" != nvidia ] || systemctl restart lockstep-standin-gpus.service
STANDIN
chmod 755 /usr/local/sbin/modprobe
"""


def become_machine(lab: Lab, node: str, kernel: str) -> None:
    """Give a node a kernel of its own, as far as programs can tell, and no loaded driver."""
    source = (ROOT / "lab/standins/kernel_release.c").read_text(encoding="utf-8")
    script = MACHINE.format(source=source)
    lab.lab("run", node, "--", "sh", "-s", "--", kernel, stdin=script)
    assert lab.on(node, "uname -r").strip() == kernel


def make_key(lab: Lab, common_name: str) -> None:
    """Make the key pair that the inventory declares, or replace it by another one."""
    config = lab.lab("ssh-config").stdout
    (identity,) = set(re.findall(r"^ +IdentityFile (\S+)$", config, re.MULTILINE))
    folder = Path(identity).parent / "module-keys"
    folder.mkdir(mode=0o700, exist_ok=True)
    lab.command(
        *("openssl", "req", "-new", "-x509", "-nodes", "-days", "30", "-newkey", "rsa:2048"),
        *("-subj", f"/O=Lockstep lab/CN={common_name}"),
        *("-keyout", str(folder / "modules.key"), "-out", str(folder / "modules.pem")),
    )


def signers(lab: Lab, node: str, kernel: str) -> set[str]:
    """The signers of all files of the driver's module; an unsigned one has the signer ""."""
    script = (
        f"for file in /lib/modules/{kernel}/updates/dkms/*.ko.xz; "
        'do echo "signer: $(modinfo -F signer "$file")"; done'
    )
    return {line.removeprefix("signer: ") for line in lab.on(node, script).splitlines()}


@dataclass(frozen=True)
class Machines(Lab):
    """Two workers with kernels of their own."""

    builds: str = ""
    """The release of worker1's kernel, for which the driver builds."""
    fails: str = ""
    """The release of worker2's kernel, which is newer."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with Lab("test-dkms").booted() as lab:
        make_key(lab, "first key")
        lab.command(str(ROOT / ".venv/bin/lockstep"), "secrets", INVENTORY)
        builds, fails = lab.on("worker1", NEWEST).split()
        with ThreadPoolExecutor() as both:
            list(both.map(partial(become_machine, lab), ("worker1", "worker2"), (builds, fails)))
        of_all = builds.removesuffix("amd64")
        lab.on("worker1", FEWER_ARGUMENTS.format(kernel=builds, kernel_of_all=of_all))
        yield Machines(lab.name, builds=builds, fails=fails)


@pytest.fixture(scope="module")
def first(machines: Machines) -> Deployed:
    """Both at once: on one of them it fails."""
    return machines.deploy(DEPLOY, inventory=INVENTORY)


def modules(lab: Lab, node: str) -> list[str]:
    return lab.on(node, "ls /lib/modules/*/updates/dkms 2>/dev/null", check=False).split()


@contextmanager
def booting_next(lab: Machines, kernel: str) -> Iterator[None]:
    """Have GRUB's menu of worker1 begin with another kernel."""
    lab.on("worker1", f"cp {MENU} /root; sed -i s/{lab.builds}/{kernel}/ {MENU}")
    yield
    lab.on("worker1", f"cp /root/grub.cfg {MENU}")


def test_the_modules_are_built_and_loaded_by_the_first_deploy(
    machines: Machines, first: Deployed
) -> None:
    assert f"nvidia-current-open/{DRIVER}, {machines.builds}, x86_64: installed" in machines.on(
        "worker1", "dkms status"
    )
    read = "modinfo -F version nvidia-current-open; modinfo -F vermagic nvidia-current-open"
    version, vermagic = machines.on("worker1", read).splitlines()
    assert (version, vermagic.split()[0]) == (DRIVER, machines.builds)
    assert machines.on("worker1", "cat /run/loaded").split() == ["nvidia", "nvidia-uvm"]


def test_the_modules_are_signed_with_the_key_of_the_site(
    machines: Machines, first: Deployed
) -> None:
    assert signers(machines, "worker1", machines.builds) == {"first key"}
    assert machines.on("worker1", "stat -c %a /etc/dkms/lockstep-modules.key").strip() == "600"
    # dkms makes a key of its own where it does not find one.
    assert machines.on("worker1", "ls /var/lib/dkms/mok.*", check=False) == ""
    assert "PRIVATE KEY" not in first.errors + json.dumps(first.results)


def test_a_second_run_changes_nothing_there(machines: Machines, first: Deployed) -> None:
    again = machines.deploy(DEPLOY, "--limit", "worker1", inventory=INVENTORY)
    assert (again.status, again.changed) == (0, [])
    assert machines.on("worker1", "cat /run/loaded").split() == ["nvidia", "nvidia-uvm"]


def test_a_build_that_fails_fails_its_node_alone_and_says_why(
    machines: Machines, first: Deployed
) -> None:
    assert first.status == 1
    (said,) = set(re.findall(r"\[worker2\].*(DKMS did not build .*)", first.errors))
    assert f"nvidia-current-open/{DRIVER} for kernel {machines.fails}" in said
    assert "error: too few arguments to function" in said
    log = f"/var/lib/dkms/nvidia-current-open/{DRIVER}/build/make.log"
    assert said.rstrip().endswith(log)
    machines.on("worker2", f"test -s {log}")
    assert modules(machines, "worker2") == []
    assert "[worker1] Error" not in first.errors


def test_a_module_that_is_gone_is_put_back(machines: Machines, first: Deployed) -> None:
    module = f"nvidia-current-open/{DRIVER}"
    machines.on("worker1", f"dkms uninstall {module} -k {machines.builds}")
    assert modules(machines, "worker1") == []
    deployed = machines.deploy(DEPLOY, "--limit", "worker1", inventory=INVENTORY)
    assert deployed.changed == ["NVIDIA driver | Kernel modules: ['worker1']"], deployed.errors
    assert "nvidia-current-open.ko.xz" in modules(machines, "worker1")


def test_headers_that_the_archive_does_not_have_are_named(
    machines: Machines, first: Deployed
) -> None:
    with booting_next(machines, "6.12.1-gone"):
        refused = machines.deploy(DEPLOY, "--limit", "worker1", inventory=INVENTORY)
    assert refused.status == 1
    assert "no repository of this node has linux-headers-6.12.1-gone" in refused.errors


def test_a_newer_kernel_without_the_module_is_found_and_not_booted(
    machines: Machines, first: Deployed
) -> None:
    with booting_next(machines, machines.fails):
        checked = machines.check("--limit", "worker1", inventory=INVENTORY)
        rolled = machines.deploy("deploys/reboot.py", "--limit", "worker1", inventory=INVENTORY)
    of_driver = {(r, d) for r, n, d in checked.named if r.startswith("driver.module")}
    assert of_driver == {("driver.module_next", machines.fails)}, checked.text
    assert rolled.status == 1
    assert f"has no module {DRIVER} (open) for kernel {machines.fails}" in rolled.errors


def test_the_other_flavour_waits_for_the_rollout_and_replaces_this_one(
    machines: Machines, first: Deployed, tmp_path: Path
) -> None:
    text = (ROOT / INVENTORY).read_text(encoding="utf-8")
    other = tmp_path / "proprietary.py"
    other.write_text(text.replace('"packaging":', '"modules": "proprietary", "packaging":'))
    deployed = machines.deploy(DEPLOY, "--limit", "worker1", inventory=str(other))
    assert deployed.status == 0, deployed.errors
    assert "not changed while the node is in use" in deployed.errors
    assert "nvidia-current-open.ko.xz" in modules(machines, "worker1")
    shown = machines.command(
        *(str(ROOT / ".venv/bin/pyinfra"), "--dry", "--limit", "worker1"),
        *(str(other), "deploys/reboot.py"),
    )
    assert "instead of nvidia-kernel-dkms missing" in shown.stderr, shown.stderr
    replaced = ("nvidia-open-kernel-dkms", "nvidia-open-kernel-support")
    names = ("nvidia-kernel-dkms", "nvidia-kernel-support", *replaced)
    state = PackageState({}, interrupted=False, held=frozenset(replaced))
    *_, install = change(state, names, {}, (), replaced)
    assert f" install {names[0]} " in install
    said = machines.on("worker1", install.replace(" install nvidia", " --simulate install nvidia"))
    assert set(re.findall(r"^Remv (\S+)", said, re.MULTILINE)) == set(replaced)
    assert {"nvidia-kernel-dkms", "nvidia-kernel-support"} <= set(
        re.findall(r"^Inst (\S+)", said, re.MULTILINE)
    )
