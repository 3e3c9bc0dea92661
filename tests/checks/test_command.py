"""``lockstep check`` on saved records: its output and exit statuses."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lockstep.__main__ import main
from lockstep.checks.context import Context
from lockstep.probe.parse import dumps
from lockstep.probe.record import Record
from tests.checks import recorded

INVENTORY = """\
from lockstep.inventory import plan_or_exit
from tests.checks.recorded import DESCRIPTION

_cluster = plan_or_exit(DESCRIPTION, __file__)
head = _cluster.group("head")
worker = _cluster.group("worker")
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("inventory.py").write_text(INVENTORY)
    Path("deploys").mkdir()
    Path("deploys/worker.py").touch()  # a deploy of the site
    save(recorded.consistent())
    return "inventory.py"


def save(context: Context) -> None:
    Path("records.json").write_text(dumps(context.reading))


def status(*arguments: str) -> int:
    return main(["check", *arguments, "--records", "records.json"])


def test_a_consistent_cluster_ends_with_0(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(inventory) == 0
    assert capsys.readouterr().out.endswith("rules: all consistent. Nothing was changed. Exit 0.\n")


def test_a_difference_names_node_place_values_source_and_repair(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    limited = recorded.consistent()
    for reading in ("gpu.power.enforced_w", "gpu.power.requested_w"):
        limited = recorded.mutated(limited, "worker3", reading, ("gpu3",), 350.0)
    save(limited)
    assert status(inventory, "--rule", "gpu.power_limit") == 1
    assert capsys.readouterr().out == (
        "ERROR   gpu.power_limit  worker3 gpu3\n"
        "  reading   gpu.power.enforced_w\n"
        "  found     350 W\n"
        "  expected  700 W   (from: device)\n"
        "  repair    pyinfra -y inventory.py deploys/worker.py --limit worker3 "
        "--data roles=gpu_settings\n"
        "\n"
        "Reasons and limits of a rule: lockstep explain RULE\n"
        "9 nodes, 1 rule, 1 finding: 1 differing. Nothing was changed. Exit 1.\n"
    )


def test_only_a_missing_reading_ends_with_2(inventory: str) -> None:
    save(recorded.mutated(recorded.consistent(), "worker3", "os.locale", (), recorded.REMOVED))
    assert status(inventory) == 2


def test_a_node_that_is_not_in_the_records_is_not_ok(inventory: str) -> None:
    start = recorded.consistent()
    save(recorded.with_reading(start, {n: r for n, r in start.reading.items() if n != "worker3"}))
    assert status(inventory) == 1
    assert status(inventory, "--limit", "worker[1-2]") == 0
    assert status(inventory, "--limit", "worker") == 1
    assert status(inventory, "--limit", "head") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--limit", "worker33"),
            "inventory.py: unknown node 'worker33'\n  expected  did you mean worker3",
        ),
        (("--limit", "worker[1-"), "--limit 'worker[1-': "),
        (("--limit", "zzz"), "inventory.py: unknown node 'zzz'\n  expected  head1,worker[1-8]"),
        (("--rule", "gpu.power_limi"), "unknown rule 'gpu.power_limi'\n  expected  gpu.p"),
        (("--json", "/no/such/folder/x"), "--json /no/such/folder/x: the folder does not"),
    ],
)
def test_what_does_not_exist_ends_with_3(
    inventory: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert status(inventory, *arguments) == 3
    assert capsys.readouterr().err.startswith(f"ERROR {message}")


@pytest.mark.parametrize("text", [None, "not json", '{"format": 2}', "\udcff"])
def test_unreadable_records_end_with_3(
    inventory: str, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is None:
        Path("records.json").unlink()
    else:
        Path("records.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert status(inventory) == 3
    assert capsys.readouterr().err.startswith("ERROR records.json: ")


def test_json_and_junit_carry_the_same_findings(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(recorded.mutated(recorded.consistent(), "worker3", "gpu.count", (), 7))
    assert status(inventory, "--json", "-", "--junit", "junit.xml") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["exit_status"] == 1
    (found,) = document["findings"]
    assert (found["rule"], found["node"], found["found"]) == ("gpu.count", "worker3", "7 GPUs")
    suite = ElementTree.parse("junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    assert suite.get("tests") == str(len(document["rules"]))


def test_a_severity_decides_what_is_shown_and_not_the_status(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(recorded.mutated(recorded.consistent(), "worker3", "gpu.vbios", ("gpu3",), "old"))
    assert status(inventory, "--severity", "warning") == 1
    assert "WARNING gpu.vbios" in capsys.readouterr().out
    assert status(inventory, "--severity", "error") == 1
    out = capsys.readouterr().out
    assert "gpu.vbios" not in out
    assert out.endswith(": 1 differing. Nothing was changed. Exit 1. 1 not shown (--severity).\n")
    assert status(inventory, "--severity", "error", "--json", "-") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["exit_status"], document["findings"]) == (1, [])


def test_a_chosen_rule_does_not_hide_that_no_node_was_read(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    start = recorded.consistent()
    save(recorded.unreachable(start, *start.plan.nodes))
    assert status(inventory, "--rule", "os.locale") == 1
    assert capsys.readouterr().out.startswith("ERROR   node.reachable  head1,worker[1-8]\n")


def test_records_are_private_in_a_folder_that_others_can_read(inventory: str) -> None:
    Path("folder").mkdir()
    kept = Path("folder/kept.json")
    kept.write_text("old")
    kept.chmod(0o644)
    with kept.open() as reader:
        assert status(inventory, "--save-records", str(kept)) == 0
        assert reader.read() == "old"  # nor does who had it open before
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == Path("records.json").read_text()
    assert list(kept.parent.iterdir()) == [kept]


def test_records_can_be_kept_in_what_is_no_file(inventory: str) -> None:
    assert status(inventory, "--save-records", "/dev/null") == 0
    assert Path("/dev/null").is_char_device()
    assert status(inventory, "--save-records", "/no/such/folder/x") == 3
    command = [*(sys.executable, "-m", "lockstep", "check", inventory, "--records", "records.json")]
    done = subprocess.run(
        [*command, "--save-records", "/dev/stdout"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(Path("records.json").read_text())


def test_records_are_private(inventory: str) -> None:
    assert status(inventory, "--save-records", "kept.json") == 0
    assert Path("kept.json").stat().st_mode & 0o777 == 0o600
    assert Path("kept.json").read_text() == Path("records.json").read_text()


def test_rules_are_chosen_by_family(inventory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(inventory, "--rule", "gpu.*", "--json", "-") == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert len(rules) > 10
    assert {rule.split(".")[0] for rule in rules} == {"gpu"}
    assert status(inventory, "--rule", "gpu*", "--rule", "xxx.*") == 3
    assert capsys.readouterr().err.startswith("ERROR unknown rule 'xxx.*'\n  expected  ")


def test_a_screen_names_the_command_that_shows_all(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    start = recorded.consistent()
    for number, node in enumerate(start.plan.nodes):
        start = recorded.mutated(start, node, "os.locale", (), f"locale {number}")
    save(start)
    shown = ("--limit", "worker", "--limit", "head", "--severity", "warning")
    judged = ("--records", "records.json", "--earlier", "records.json", "--no-history")
    again = ["lockstep", "check", inventory, *shown, *judged]
    assert main([*again[1:], "--rule", "os.*"]) == 1
    said = dict(line.partition(": ")[::2] for line in capsys.readouterr().out.splitlines())
    assert shlex.split(said["Only one rule"]) == [*again, "--rule", "os.locale"]
    command = shlex.split(said["All details"])
    assert command == [*again, "--rule", "os.*", "--all"]
    assert main(command[1:]) == 1
    assert capsys.readouterr().out.count("WARNING os.locale") == 9


def test_metrics_are_replaced_at_once_for_everyone_to_read(inventory: str) -> None:
    start = recorded.unreachable(recorded.consistent(), "worker7")
    save(recorded.mutated(start, "worker3", "gpu.count", (), 7))
    kept = Path("metrics/lockstep.prom")
    kept.parent.mkdir()
    kept.write_text("old")
    kept.chmod(0o600)
    with kept.open() as reader:
        assert status(inventory, "--metrics", str(kept)) == 1
        assert reader.read() == "old"
    assert kept.stat().st_mode & 0o777 == 0o644
    assert list(kept.parent.iterdir()) == [kept]
    said = kept.read_text().splitlines()
    labels = 'rule="gpu.count",node="worker3",device="",severity="error",status="differs"'
    assert f"lockstep_finding{{{labels}}} 1" in said
    assert 'lockstep_nodes{state="read"} 8' in said
    assert 'lockstep_nodes{state="unread"} 1' in said
    record = start.reading["worker3"]
    assert isinstance(record, Record)
    assert f"lockstep_check_timestamp_seconds {record.taken_at:.15g}" in said


def test_a_page_is_written(inventory: str) -> None:
    save(recorded.mutated(recorded.consistent(), "worker3", "gpu.count", (), 7))
    assert status(inventory, "--html", "report.html") == 1
    page = Path("report.html").read_text()
    assert "7 GPUs" in page
    assert "<title>recorded, 2026-11-20 " in page
    assert "Every node has as many GPUs as its hardware class declares." in page
    assert "8 nodes follow every rule" in page
    assert status(inventory, "--html", "/no/such/folder/x") == 3
