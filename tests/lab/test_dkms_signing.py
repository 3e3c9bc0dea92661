"""DKMS signs modules with the key of the site: Debian's real dkms, and a small module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import ROOT, Lab
from tests.lab.test_dkms import DEPLOY, INVENTORY, NEWEST, become_machine, make_key

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ONLY = ("--limit", "worker1", "--data", "roles=module_signing")
SOURCE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y --no-install-recommends install dkms gcc "linux-headers-{kernel}" >/dev/null 2>&1
mkdir /usr/src/hello-1.0
cd /usr/src/hello-1.0
cat > dkms.conf <<'END'
PACKAGE_NAME="hello"
PACKAGE_VERSION="1.0"
BUILT_MODULE_NAME[0]="hello"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
END
echo 'obj-m := hello.o' > Makefile
printf '#include <linux/module.h>\\nMODULE_LICENSE("GPL");\\n' > hello.c
dkms install hello/1.0 -k {kernel}
"""


@pytest.fixture(scope="module")
def kernel_of() -> Iterator[tuple[Lab, str]]:
    """A worker on which DKMS has built a module before the deploy, and its kernel."""
    with Lab("test-signing").booted(workers=1) as lab:
        make_key(lab, "first key")
        lab.command(str(ROOT / ".venv/bin/lockstep"), "secrets", INVENTORY)
        kernel = lab.on("worker1", NEWEST).split()[0]
        become_machine(lab, "worker1", kernel)
        lab.on("worker1", SOURCE.format(kernel=kernel))
        yield lab, kernel


def signer(lab: Lab, kernel: str) -> str:
    return lab.on("worker1", f"modinfo -k {kernel} -F signer hello").strip()


def found(lab: Lab) -> set[tuple[str, str, str]]:
    """The findings of the check about signatures."""
    checked = lab.check("--limit", "worker1", inventory=INVENTORY)
    return {one for one in checked.named if one[0] == "dkms.signed"}


def test_a_module_of_before_is_found_and_signed_with_each_new_key(
    kernel_of: tuple[Lab, str],
) -> None:
    lab, kernel = kernel_of
    assert signer(lab, kernel) == "DKMS module signing key"
    assert found(lab) == {("dkms.signed", "worker1", f"hello for {kernel}")}
    for name in ("first key", "second key"):
        if name != "first key":
            make_key(lab, name)
        deployed = lab.deploy(DEPLOY, *ONLY, inventory=INVENTORY)
        assert deployed.status == 0, deployed.errors
        assert "Module signatures | Signed: ['worker1']" in deployed.changed, deployed.changed
        assert signer(lab, kernel) == name
        assert found(lab) == set()
        again = lab.deploy(DEPLOY, *ONLY, inventory=INVENTORY)
        assert (again.status, again.changed) == (0, [])
