"""The role that CONTRIBUTING.md adds, on machines: deployed, checked, broken, repaired, removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, Lab
from tests.worked_examples import PAGE, copy_tree, examples

pytestmark = [
    *(pytest.mark.lab, pytest.mark.slow),
    pytest.mark.usefixtures("booted_anew_afterwards"),  # nfs-common leaves units behind
]

HEADING = "Add a role"
CONF = "/etc/nfsmount.conf.d/50-lockstep.conf"
PACKAGE, UNIT = "nfs-common", "nfs-client.target"
REMOVED = {
    ("left_over.file", "worker1", CONF),
    ("left_over.file", "worker2", CONF),
    ("left_over.unit", "worker1", UNIT),
    ("left_over.unit", "worker2", UNIT),
}
CONTAINERS_LACK = "run-rpc_pipefs.mount"
"""A unit of nfs-common that fails: it mounts what the kernel does not offer to a container."""
KEPT = {("left_over.package", "worker1", PACKAGE), ("left_over.package", "worker2", PACKAGE)}


@pytest.fixture
def extended(cluster: Lab, tmp_path: Path) -> Lab:
    """The same machines, driven by a copy of the tree that has the role."""
    copy_tree(tmp_path)
    for edit in examples(PAGE.read_text(encoding="utf-8"))[HEADING]:
        edit.apply(tmp_path)
    inventory = tmp_path / INVENTORY
    text = inventory.read_text(encoding="utf-8")
    described = text.replace('"name": _lab.name,', '"name": _lab.name,\n"nfs": {"connections": 8},')
    assert described != text
    inventory.write_text(described, encoding="utf-8")
    return replace(cluster, tree=tmp_path)


def named(lab: Lab) -> set[tuple[str, str, str]]:
    return {one for one in lab.check().named if one[2] != CONTAINERS_LACK}


def left_over(lab: Lab) -> set[tuple[str, str, str]]:
    return {
        (rule, node, device)
        for rule, node, device in lab.check(left_over=True).named
        if device in (CONF, PACKAGE, UNIT)
    }


def test_a_new_role_is_deployed_checked_repaired_and_removed(cluster: Lab, extended: Lab) -> None:
    first = extended.deploy("deploys/worker.py")
    assert first.status == 0, first.errors
    for node in ("worker1", "worker2"):
        assert "nconnect=8" in extended.on(node, f"cat {CONF}; systemctl is-active {UNIT}")
    assert extended.deploy("deploys/worker.py").changed == []
    assert named(extended) == set()

    extended.on("worker1", f"systemctl disable --now {UNIT}")
    extended.on("worker2", f"sed -i s/nconnect=8/nconnect=1/ {CONF}")
    assert named(extended) == {
        ("unit.active", "worker1", UNIT),
        ("file.content", "worker2", CONF),
    }
    extended.on("worker2", f"apt-get -qq -y remove {PACKAGE} >/dev/null")
    assert ("package.present", "worker2", PACKAGE) in named(extended)
    repaired = extended.deploy("deploys/worker.py", "--data", "roles=packages,nfs_client")
    assert repaired.status == 0, repaired.errors
    assert named(extended) == set()
    assert extended.deploy("deploys/worker.py").changed == []

    # The description of the lab does not have the role.
    assert left_over(cluster) == REMOVED | KEPT
    removed = cluster.deploy("deploys/remove.py")
    assert removed.status == 0, removed.errors
    assert left_over(cluster) == KEPT
    removed = cluster.deploy("deploys/remove.py", "--data", f"packages={PACKAGE}")
    assert removed.status == 0, removed.errors
    assert left_over(cluster) == set()
    cluster.on("worker1", f"! test -e {CONF} && ! systemctl cat {UNIT} 2>/dev/null")
    # The file of package versions still names the package: the next deploy writes it.
    assert cluster.deploy().status == 0
    assert cluster.deploy().changed == []
