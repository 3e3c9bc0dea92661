"""What leaves the description is reported, and removed completely on request."""

from __future__ import annotations

import pytest

from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FILES = {
    "/etc/deluser.conf",
    "/etc/lockstep-changed.conf",
    "/etc/lockstep-extra.conf",
    "/etc/systemd/system/lockstep-extra.service",
}
WORKERS = ("worker1", "worker2")
MANIFEST = "/var/lib/lockstep/manifest.json"
CHANGED = {("left_over.file", "/etc/lockstep-changed.conf")}


def left_over(cluster: Lab) -> set[tuple[str, str]]:
    found = cluster.check(left_over=True).findings
    return {
        (finding["rule"], finding["device"])
        for finding in found
        # Other tests leave packages behind; the one of this test is a file of the distribution.
        if finding["rule"] != "left_over.package"
    }


def test_what_the_description_has_no_longer_is_reported_and_removed(cluster: Lab) -> None:
    cluster.on(
        "head",
        'for i in $(seq 60); do [ "$(sinfo -h -o %T | sort -u)" = idle ] && exit 0; sleep 1; done;'
        " sinfo; exit 1",
    )
    shipped = cluster.on("worker1", "cat /etc/deluser.conf")
    deployed = cluster.deploy("tests/lab/extra_deploy.py", inventory="tests/lab/extra_inventory.py")
    assert deployed.status == 0, deployed.errors
    for node in WORKERS:
        assert cluster.on(node, f"stat -c '%a %U' {MANIFEST}") == "600 root\n"
        cluster.on(node, "echo by hand >/etc/lockstep-changed.conf")
    assert left_over(cluster) == {
        *(("left_over.file", path) for path in FILES),
        ("left_over.unit", "lockstep-extra.service"),
    }
    removed = cluster.deploy("deploys/remove.py")
    assert removed.status == 0, removed.errors
    for node in WORKERS:
        assert cluster.on(node, "cat /etc/deluser.conf") == shipped
        assert cluster.on(node, "cat /etc/lockstep-changed.conf") == "by hand\n"
        cluster.on(
            node,
            "test ! -e /etc/lockstep-extra.conf && ! systemctl is-active lockstep-extra.service"
            " && ! systemctl cat lockstep-extra.service",
        )
    assert left_over(cluster) == CHANGED
    again = cluster.deploy("deploys/remove.py")
    assert again.status == 0, again.errors
    assert again.changed == []
    for node in WORKERS:
        cluster.on(node, "rm /etc/lockstep-changed.conf")
    # The manifest forgets what a person removed; the cluster is then as before.
    assert cluster.deploy("deploys/remove.py").status == 0
    assert left_over(cluster) == set()
    assert cluster.deploy().changed == []
