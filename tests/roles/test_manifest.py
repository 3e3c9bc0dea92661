"""The manifest on this machine: written in one step, readable by root only."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lockstep.facts.manifest import manifest_state, shipped_by
from lockstep.manifest import parsed
from lockstep.node.readers import manifest as reader
from lockstep.roles.operations import manifest as module
from lockstep.roles.operations.manifest import recorded as record
from tests.checks import recorded
from tests.roles.local import Done, asked, on_node, run

PLAN = recorded.consistent().plan.nodes["worker3"]
ROLES = ("node_exporter", "packages")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "existing", lambda name, folder, key: recorded.SECRETS)
    found = tmp_path / "lib/lockstep/manifest.json"
    monkeypatch.setattr(module, "MANIFEST", str(found))
    on_node(monkeypatch, reader.MANIFEST, str(found))
    return found


def deploy(*roles: str) -> Done:
    return run(record, plan=PLAN, roles=roles or ROLES)


def test_the_first_run_writes_the_manifest_for_root_alone_and_the_second_nothing(
    path: Path,
) -> None:
    assert deploy() == Done(True, 1, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    held = parsed(path.read_text())
    assert held["files"]["/etc/default/prometheus-node-exporter"]["role"] == "node_exporter"
    assert "package" in held["files"]["/etc/default/prometheus-node-exporter"]
    before = path.stat()
    assert deploy() == Done(True, 0, "")
    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_a_later_run_adds_its_roles_and_keeps_all_others(path: Path) -> None:
    deploy()
    held = json.loads(path.read_text())
    held["files"]["/etc/gone"] = {"role": "fabric", "sha256": "a", "package": ""}
    path.write_text(json.dumps(held))
    assert deploy("time_sync").commands == 1
    after = parsed(path.read_text())
    assert after["files"]["/etc/gone"] == held["files"]["/etc/gone"]
    assert {one["role"] for one in after["units"].values()} == {"node_exporter", "time_sync"}


def test_an_unreadable_manifest_fails_the_node_and_stays_as_it_is(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("half of a li")
    done = deploy()
    assert not done.succeeded
    assert "Next: restore it from a backup, or remove it" in done.output
    assert path.read_text() == "half of a li"


def test_the_deploy_and_the_check_name_a_boot_alike(path: Path) -> None:
    assert asked(manifest_state()).boot == reader.boot()


def test_packages_that_ship_a_path_are_known(tmp_path: Path) -> None:
    shipped = asked(shipped_by(("/bin/sh", "/etc/deluser.conf", f"{tmp_path}/own")))
    assert f"{tmp_path}/own" not in shipped
    assert shipped.get("/etc/deluser.conf", "adduser") == "adduser"
