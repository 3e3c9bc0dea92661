"""``pytest tests/consistency`` as CI runs it: in a process of its own, on recorded nodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from secrets import token_hex

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.rules.fingerprint import DOMAINS
from lockstep.fleet.request import request
from lockstep.probe.lines import MARKER
from lockstep.probe.parse import dumps
from lockstep.probe.record import Record
from lockstep.probe.ship import Request, in_pieces
from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects, with_objects
from tests.checks.test_command import INVENTORY

pytestmark = pytest.mark.nested

PIECES = len(in_pieces(Request(fingerprint="recorded"), "/run/here"))
"""Commands that read a node: the program that takes fingerprints does not fit into one."""
ROOT = Path(__file__).resolve().parents[2]
SSH = """\
#!/bin/sh
while [ $# -gt 2 ]; do shift; done
echo "$1" >>{folder}/asked
echo "{marker}"
cat {folder}/$1.record
"""


@pytest.fixture
def drifted() -> Context:
    start = recorded.consistent()
    for node in ("worker3", "worker4"):
        for reading in ("gpu.power.enforced_w", "gpu.power.requested_w"):
            limits = {f"gpu{gpu}": 350.0 for gpu in range(8)}
            start = recorded.mutated(start, node, reading, (), limits)
    return start


CHECKOUT = ("tests/consistency",)


def run(
    folder: Path, *options: str, inventory: str = INVENTORY, tests: tuple[str, ...] = CHECKOUT
) -> subprocess.CompletedProcess[str]:
    (folder / "inventory.py").write_text(inventory)
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *tests, "-p", "no:cacheprovider", "-q"),
            *("--inventory", str(folder / "inventory.py"), *options),
        ],
        cwd=ROOT if tests == CHECKOUT else folder,
        env={
            **environment,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "LOCKSTEP_STATE": str(folder / "state"),
            "PYTEST_DEBUG_TEMPROOT": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def answering(folder: Path, context: Context) -> None:
    """Put an ``ssh`` into the folder that answers as the nodes would, and notes whom it asked."""
    for name, record in context.reading.items():
        assert isinstance(record, Record)
        (folder / f"{name}.record").write_text(record.model_dump_json() + "\n")
    ssh = folder / "ssh"
    ssh.write_text(SSH.format(folder=folder, marker=MARKER))
    ssh.chmod(0o755)


def test_four_processes_read_each_node_once(tmp_path: Path, drifted: Context) -> None:
    answering(tmp_path, drifted)
    done = run(tmp_path, "-n", "4")
    rules = len(all_rules()) - len(DOMAINS)
    ending = f"1 failed, {rules - 1} passed, {len(DOMAINS)} skipped"
    assert ending in done.stdout, done.stdout + done.stderr
    asked = Counter((tmp_path / "asked").read_text().split())
    assert asked == dict.fromkeys(drifted.plan.nodes, PIECES)
    (kept,) = tmp_path.rglob("records-*.json")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_nodes_whose_fingerprints_differ_are_asked_once_more(
    tmp_path: Path, drifted: Context
) -> None:
    address = drifted.plan.nodes["worker3"].address
    users = {**objects("worker3", address)["user"], "eve": {"uid": "0"}}
    answering(tmp_path, with_objects(drifted, {"worker3": {"user": users}}))
    done = run(tmp_path, "-m", "fingerprint")
    assert f"1 failed, {len(DOMAINS) - 1} passed" in done.stdout, done.stdout + done.stderr
    assert "expected  absent   (from: peers (7 of 8))" in done.stdout, done.stdout
    asked = Counter((tmp_path / "asked").read_text().split())
    others = dict.fromkeys(drifted.plan.nodes, PIECES)
    assert asked == {**others, "worker1": 2 * PIECES, "worker3": 2 * PIECES}
    (tmp_path / "asked").unlink()
    answering(tmp_path, drifted)
    done = run(tmp_path, "-m", "fingerprint", "--no-fingerprint")
    assert f"\n{len(DOMAINS)} skipped" in done.stdout
    # Once each: the program without fingerprints needs two commands if a node's request is long.
    folder = f"/run/lockstep-check-{token_hex(8)}"
    once = {
        name: len(in_pieces(request(plan), folder)) for name, plan in drifted.plan.nodes.items()
    }
    assert Counter((tmp_path / "asked").read_text().split()) == once


def test_a_failure_says_what_was_found_and_on_which_nodes(tmp_path: Path, drifted: Context) -> None:
    (tmp_path / "records.json").write_text(dumps(drifted.reading))
    done = run(tmp_path, "--records", str(tmp_path / "records.json"), "-m", "gpu")
    assert done.returncode == 1
    chosen = sum(rule.id.startswith("gpu.") for rule in all_rules())
    assert re.search(rf"1 failed, {chosen - 1} passed, \d+ deselected", done.stdout), done.stdout
    assert "warning" not in done.stdout
    said = (
        "ERROR   gpu.power_limit  worker[3-4] gpu[0-7]\n"
        "  reading   gpu.power.enforced_w\n"
        "  found     350 W\n"
        "  expected  700 W   (from: device)\n"
        f"  repair    pyinfra -y {tmp_path}/inventory.py deploys/worker.py "
        "--limit worker3 --limit worker4 --data roles=gpu_settings\n"
    )
    assert said in done.stdout


def test_hosts_of_testinfra_are_all_that_is_read_and_judged(
    tmp_path: Path, drifted: Context
) -> None:
    answering(tmp_path, drifted)
    done = run(tmp_path, "--hosts", "ssh://head1,ssh://worker1,ssh://worker2")
    assert done.returncode == 0, done.stdout
    assert set((tmp_path / "asked").read_text().split()) == {"head1", "worker1", "worker2"}
    done = run(tmp_path, "--hosts", "ssh://worker2,ssh://worker3")
    assert "worker3 gpu[0-7]" in done.stdout
    assert "--hosts worker9: no node of" in run(tmp_path, "--hosts", "ssh://worker9").stdout


def test_rules_of_the_site_are_tests_and_one_that_is_off_is_skipped(
    tmp_path: Path, drifted: Context
) -> None:
    some: dict[str, object] = {
        "id": "site.cap",
        "title": "GPUs draw 600 W",
        "reading": "gpu.power.enforced_w",
    }
    some |= {"kind": "absolute", "bound": "at least", "expected": 600, "classes": ["hgx-h200"]}
    off = {"rule": "gpu.power_limit", "off": "measured with a cap"}
    checks = {"rules": [some | {"source": "us", "repair": "see"}], "overrides": [off]}
    (tmp_path / "records.json").write_text(dumps(drifted.reading))
    done = run(
        *(tmp_path, "--records", str(tmp_path / "records.json")),
        *("-m", "gpu or site", "-k", "power_limit or cap", "-rs"),
        inventory=INVENTORY.replace("(DESCRIPTION", f"(DESCRIPTION | {{'checks': {checks}}}"),
    )
    assert re.search(r"1 failed, 1 skipped, \d+ deselected", done.stdout), done.stdout
    assert "  found     350\n  expected  at least 600   (from: spec)\n" in done.stdout, done.stdout
    assert "switched off: gpu.power_limit: measured with a cap" in done.stdout


OWN = """\
import pytest

def test_gpus_may_draw_what_we_paid_for(record):
    for gpu, limit in record["gpu.power.enforced_w"].items() if record.plan.is_worker else ():
        assert limit >= 600, gpu

@pytest.mark.parametrize("path", ["/scratch"])
def test_scratch_is_a_folder(host, record, path):
    assert host.file(path).is_directory
"""


def test_a_site_runs_the_rules_and_its_own_tests_from_its_own_folder(
    tmp_path: Path, drifted: Context
) -> None:
    (tmp_path / "records.json").write_text(dumps(drifted.reading))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["lockstep.consistency.plugin"]\n')
    (tmp_path / "test_own.py").write_text(OWN)
    asked = ("--pyargs", "lockstep.consistency", "test_own.py")
    done = run(
        *(tmp_path, "--records", "records.json", "-m", "gpu or not gpu"),
        *("-k", "power_limit or test_own", "-rs"),
        tests=asked,
    )
    assert "test_gpu_power[gpu.power_limit]" in done.stdout, done.stdout + done.stderr
    assert "test_gpus_may_draw_what_we_paid_for[ssh://worker3]" in done.stdout, done.stdout
    nodes = len(drifted.plan.nodes)
    assert re.search(rf"3 failed, \d+ passed, {nodes} skipped", done.stdout), done.stdout
    assert "no node is contacted" in done.stdout


def test_other_runs_of_pytest_get_no_options_of_lockstep(tmp_path: Path) -> None:
    (tmp_path / "test_else.py").write_text("def test_else(): pass\n")
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_else.py"]
    said = subprocess.run(
        [*words, "--inventory", "x"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "unrecognized arguments: --inventory" in said.stderr
