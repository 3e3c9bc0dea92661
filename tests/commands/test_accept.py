"""``lockstep accept``: what it writes and refuses, and what the other commands make of it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.when import DAY_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects
from tests.commands.conftest import INVENTORY, START, Cluster, ended, refused
from tests.commands.test_check_fingerprint import Nodes, nodes

__all__ = ["nodes"]
FILE = Path("inventory.accepted.toml")
MOTD = {"type": "file", "owner": "root:root", "mode": "644", "content": "hello\n"}
SYSCTL = ("sysctl.running", ("net.core.somaxconn",))
WHY = ("--until", "2026-12-31", "--reason", "a test of ours", "--by", "anna")
OF_MOTD = ("accept", "inventory.py", "fingerprint.file", "/etc/motd", *WHY)
Changes = Mapping[str, Mapping[str, Fields | None]]


def change(nodes: Nodes, changes: Changes, *names: str) -> None:
    """Give some nodes, worker3 if none is named, other objects."""
    for name in names or ("worker3",):
        address = recorded.consistent().plan.nodes[name].address
        usual = objects(name, address)
        nodes.changed[name] = {
            domain: {k: v for k, v in {**usual[domain], **some}.items() if v is not None}
            for domain, some in changes.items()
        }


def checked(*options: str) -> dict[str, Any]:
    """Check with fingerprints; return the report."""
    ended("check", "inventory.py", "--json", "report.json", *options)
    found: dict[str, Any] = json.loads(Path("report.json").read_text())
    return found


def names(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((one["rule"], one["node"], one["device"]) for one in found)


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(FILE.read_text()).get("accepted", [])
    return found


def test_an_accepted_difference_is_no_finding_and_is_shown(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    assert names(checked()["findings"]) == [("fingerprint.file", "worker3", "/etc/motd")]
    capsys.readouterr()
    assert ended(*OF_MOTD) == 0
    said = capsys.readouterr().out
    assert "accepted until 2026-12-31: fingerprint.file /etc/motd on worker3: " in said
    assert said.endswith("1 row written to inventory.accepted.toml. Next: review and commit it.\n")
    report = checked()
    assert (report["findings"], report["exit_status"]) == ([], 0)
    (one,) = report["accepted"]
    assert (one["node"], one["device"], one["by"]) == ("worker3", "/etc/motd", "anna")
    assert (one["until"], one["reason"]) == ("2026-12-31", "a test of ours")
    said = capsys.readouterr().out
    assert "1 accepted difference: lockstep check inventory.py --all\n" in said
    assert ": all consistent, 1 accepted difference. Nothing was changed. Exit 0." in said
    forms = ("--junit", "o.xml", "--html", "o.html", "--metrics", "o.prom")
    assert ended("check", "inventory.py", "--all", *forms) == 0
    said = capsys.readouterr().out
    assert "ACCEPTED fingerprint.file  worker3 /etc/motd\n" in said
    assert "  until     2026-12-31, by anna: a test of ours\n" in said
    for form in ("o.xml", "o.html"):
        assert "until 2026-12-31 by anna: a test of ours" in Path(form).read_text()
    assert "lockstep_accepted 1\n" in Path("o.prom").read_text()


def test_the_file_is_for_people(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}}, "worker3", "worker5")
    assert ended(*OF_MOTD) == 0
    text = FILE.read_text()
    assert text.startswith("# Differences that are wanted")
    (row,) = rows()
    assert len(row.pop("values")) == 1, "equal values of two nodes are one"
    assert "hello" not in row.pop("found")
    assert {key: str(value) for key, value in row.items()} == {
        "rule": "fingerprint.file",
        "object": "/etc/motd",
        "nodes": "worker[3,5]",
        "by": "anna",
        "until": "2026-12-31",
        "reason": "a test of ours",
    }


@pytest.mark.parametrize(
    "third",
    [
        {**MOTD, "content": "bye\n"},
        {**MOTD, "mode": "666"},
        {**MOTD, "content": Secret("hello\n")},
    ],
)
def test_a_third_value_is_a_finding_again(nodes: Nodes, third: Fields) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    ended(*OF_MOTD)
    change(nodes, {"file": {"/etc/motd": third}})
    report = checked()
    (finding,) = report["findings"]
    assert (
        "accepted until 2026-12-31 by anna (a test of ours): it has changed since"
        in (finding["detail"])
    )
    assert ended(*OF_MOTD) == 0, "it can be accepted again, in the same row"
    assert (len(rows()), checked()["findings"]) == (1, [])


def test_a_secret_value_is_accepted_without_being_written(nodes: Nodes) -> None:
    key: Fields = {"mode": "0600", "content": Secret("hunter2")}
    change(nodes, {"file": {"key": key}})
    assert ended("accept", "inventory.py", "fingerprint.file", "key", *WHY) == 0
    assert checked()["findings"] == []
    assert "hunter2" not in FILE.read_text()
    change(nodes, {"file": {"key": {**key, "content": Secret("another")}}})
    assert names(checked()["findings"]) == [("fingerprint.file", "worker3", "key")]


def test_an_object_that_names_the_node_stays_accepted(nodes: Nodes) -> None:
    """Its hashes differ on each node; which node is asked depends on the others that differ."""
    for name in ("worker2", "worker3"):
        change(nodes, {"file": {"own": {"content": f"name {name}\naddress none\n"}}}, name)
    accept = ("accept", "inventory.py", "fingerprint.file", "own", *WHY)
    assert ended(*accept, "--limit", "worker3") == 0
    assert names(checked()["findings"]) == [("fingerprint.file", "worker2", "own")]
    nodes.changed.pop("worker2")
    assert checked()["findings"] == []
    change(nodes, {"file": {"own": {"content": "name worker2\naddress none\n"}}})
    assert names(checked()["findings"]) == [("fingerprint.file", "worker3", "own")]


def test_after_its_last_day_the_finding_is_back(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    ended(*OF_MOTD[:-5], "2026-11-20", *OF_MOTD[-4:])  # today
    assert checked()["findings"] == []
    nodes.now = START + DAY_S
    (finding,) = checked()["findings"]
    assert "accepted until 2026-11-20 by anna (a test of ours): expired" in finding["detail"]
    assert ended(*OF_MOTD) == 0
    (row,) = rows()
    assert str(row["until"]) == "2026-12-31"
    assert checked()["findings"] == []


def test_a_later_day_needs_no_finding(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    ended(*OF_MOTD)
    before = rows()[0]
    assert ended(*OF_MOTD[:-5], "2027-06-30", *OF_MOTD[-4:]) == 0
    (row,) = rows()
    assert (str(row["until"]), row["values"]) == ("2027-06-30", before["values"])


def test_other_nodes_and_objects_are_still_findings(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD, "/etc/issue": MOTD}}, "worker3", "worker5")
    ended(*OF_MOTD, "--limit", "worker3")
    assert names(checked()["findings"]) == [
        ("fingerprint.file", "worker3", "/etc/issue"),
        ("fingerprint.file", "worker5", "/etc/issue"),
        ("fingerprint.file", "worker5", "/etc/motd"),
    ]


def test_a_field_is_accepted_alone(nodes: Nodes) -> None:
    change(nodes, {"file": {"plain": {"mode": "0600", "content": "a\nc\n"}}})
    accept = ("accept", "inventory.py", "fingerprint.file", "plain", *WHY, "--field", "content")
    assert ended(*accept) == 0
    (finding,) = checked()["findings"]
    assert (finding["found"], finding["expected"]) == ("mode 0600", "mode 0644")
    change(nodes, {"file": {"plain": {"mode": "0644", "content": "a\nc\n"}}})
    report = checked()
    assert report["findings"] == []
    assert [one["field"] for one in report["accepted"]] == ["content"]
    change(nodes, {"file": {"plain": {"mode": "0644", "content": "a\nd\n"}}})
    assert names(checked()["findings"]) == [("fingerprint.file", "worker3", "plain")]


def test_consequences_are_accepted_with_their_cause(nodes: Nodes) -> None:
    unit = "/etc/systemd/system/x.service"
    changes: dict[str, dict[str, Fields | None]] = {
        "file": {unit: {"type": "file", "content": "[Service]\n"}},
        "unit": {"x.service": {"active": "active"}},
        "process": {"x.service": {"nice": "5"}},
    }
    change(nodes, changes)
    assert names(checked()["findings"]) == [("fingerprint.file", "worker3", unit)]
    assert ended("accept", "inventory.py", "fingerprint.file", unit, *WHY) == 0
    assert [(row["rule"], row["object"]) for row in rows()] == [
        ("fingerprint.file", unit),
        ("fingerprint.unit", "x.service"),
        ("fingerprint.process", "x.service"),
    ]
    assert checked()["findings"] == []
    change(nodes, {**changes, "process": {"x.service": {"nice": "9"}}})
    assert names(checked()["findings"]) == [("fingerprint.process", "worker3", "x.service")]


def test_an_accepted_node_has_no_vote(nodes: Nodes) -> None:
    """Two of eight may differ; then two of the other six are wrong, not undecided."""
    other: Fields = {"mode": "0600", "content": "a\nb\n"}
    change(nodes, {"file": {"plain": other}}, "worker1", "worker2", "worker3", "worker4")
    (finding,) = checked("--no-history")["findings"]
    assert finding["status"] == "undecided"
    accept = ("accept", "inventory.py", "fingerprint.file", "plain", *WHY)
    assert ended(*accept, "--limit", "worker[1-2]") == 0
    found = checked("--no-history")["findings"]
    assert names(found) == [
        ("fingerprint.file", "worker3", "plain"),
        ("fingerprint.file", "worker4", "plain"),
    ]
    assert {one["reference"] for one in found} == {"peers (4 of 6)"}


def test_what_nobody_decides_needs_a_side(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    other: Fields = {"mode": "0600", "content": "a\nb\n"}
    changed = ("worker1", "worker2", "worker3", "worker4")
    change(nodes, {"file": {"plain": other}}, *changed)
    accept = ("accept", "inventory.py", "fingerprint.file", "plain", *WHY)
    assert "nobody knows which is right\n  expected  --limit" in refused(capsys, *accept)
    assert ended(*accept, "--limit", "worker[1-4]") == 0
    assert checked()["findings"] == []


def test_what_runs_otherwise_than_configured(nodes: Nodes) -> None:
    running: Fields = {"running": "5", "configured": "0"}
    change(nodes, {"running": {"x.service: nice": running}})
    accept = ("accept", "inventory.py", "fingerprint.running", "x.service: nice", *WHY)
    assert ended(*accept) == 0
    assert checked()["findings"] == []
    change(nodes, {"running": {"x.service: nice": {**running, "running": "9"}}})
    assert len(checked()["findings"]) == 1


def test_a_missing_object_is_accepted(nodes: Nodes) -> None:
    change(nodes, {"file": {"plain": None}})
    assert ended("accept", "inventory.py", "fingerprint.file", "plain", *WHY) == 0
    assert checked()["findings"] == []
    change(nodes, {"file": {"plain": {"mode": "0600", "content": "x"}}})
    assert len(checked()["findings"]) == 1


def test_a_row_without_a_difference_is_named(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    ended(*OF_MOTD)
    nodes.changed.clear()
    note = (
        "inventory.accepted.toml: 1 row without a difference, to be removed: "
        "fingerprint.file /etc/motd on worker3"
    )
    report = checked()
    assert note in report["notes"]
    assert report["exit_status"] == 0
    assert note not in checked("--limit", "worker1")["notes"], "worker3 was not checked"
    assert note not in checked("--rule", "fingerprint.user")["notes"]


def test_any_value_is_accepted_if_asked(nodes: Nodes) -> None:
    accept = (*OF_MOTD, "--any-value")
    assert ended(*accept, "--limit", "worker3") == 0
    assert nodes.asked == []
    change(nodes, {"file": {"/etc/motd": MOTD}})
    assert checked()["findings"] == []
    change(nodes, {"file": {"/etc/motd": {**MOTD, "content": "x"}}})
    assert checked()["findings"] == []


def test_a_finding_of_a_rule_is_accepted_and_not_repaired(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", *SYSCTL, "128")
    assert ended("check", "inventory.py") == 1
    capsys.readouterr()
    accept = ("accept", "inventory.py", "sysctl.running", "net.core.somaxconn", *WHY)
    assert ended(*accept) == 0
    said = capsys.readouterr().out
    assert "note: a deploy of role os_settings on worker3 takes this back" in said
    assert ended("check", "inventory.py", "--json", "report.json") == 0
    report = json.loads(Path("report.json").read_text())
    assert [one["found"] for one in report["accepted"]] == ["128"]
    capsys.readouterr()
    assert ended("repair", "inventory.py", "--dry-run") == 0
    assert "all consistent" in capsys.readouterr().out
    assert ended("explain", "inventory.py", "worker3") == 0
    cluster.change("worker3", *SYSCTL, "64")
    assert ended("check", "inventory.py", "--json", "report.json") == 1
    (finding,) = json.loads(Path("report.json").read_text())["findings"]
    assert "it has changed since" in finding["detail"]


def test_devices_that_a_report_folds(cluster: Cluster) -> None:
    for gpu in ("gpu0", "gpu1"):
        cluster.change("worker3", "gpu.persistence", (gpu,), "Disabled")
    accept = ("accept", "inventory.py", "gpu.persistence", "gpu[0-1]", *WHY)
    assert ended("check", "inventory.py") == 1
    assert ended(*accept) == 0
    assert [row["object"] for row in rows()] == ["gpu0", "gpu1"]
    assert ended("check", "inventory.py") == 0


def test_saved_records_are_enough(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    checked("--save-records", "records.json")
    nodes.changed.clear()
    assert ended(*OF_MOTD, "--records", "records.json") == 0
    assert ended("check", "inventory.py", "--records", "records.json") == 0


def test_a_difference_whose_object_is_not_known_is_one_but_is_not_accepted(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    checked("--save-records", "records.json")
    saved = json.loads(Path("records.json").read_text())
    for record in saved["nodes"].values():
        record["record"]["readings"].pop("fingerprint.branches", None)
    Path("records.json").write_text(json.dumps(saved))
    report = checked("--records", "records.json")
    assert names(report["findings"]) == [("fingerprint.file", "worker3", "")]
    assert report["exit_status"] == 1, "hashes that differ are a difference"
    accept = ("accept", "inventory.py", "fingerprint.file", "", "--records", "records.json", *WHY)
    assert "no such finding that can be accepted" in refused(capsys, *accept)


def test_rows_and_comments_of_people_stay(nodes: Nodes) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD, "/etc/issue": MOTD}})
    FILE.write_text("# ours\n")
    of_issue = [word.replace("motd", "issue") for word in OF_MOTD]
    assert (ended(*OF_MOTD), ended(*of_issue)) == (0, 0)
    text = FILE.read_text().replace("[[accepted]]", "# why\n[[accepted]]") + "# end\n"
    FILE.write_text(text)
    FILE.chmod(0o664)
    assert ended(*OF_MOTD[:-5], "2027-06-30", *OF_MOTD[-4:]) == 0
    expected = text.replace("2026-12-31", "2027-06-30", 1)
    assert FILE.read_text() == expected
    assert FILE.stat().st_mode & 0o777 == 0o664
    assert checked()["findings"] == []


def test_a_description_names_the_file(nodes: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    checks = {"accepted": "site/wanted.toml"}
    Path("inventory.py").write_text(
        INVENTORY.format(description=f"{{**DESCRIPTION, 'checks': {checks}}}")
    )
    assert "site/wanted.toml: no such file" in refused(capsys, "check", "inventory.py")
    Path("site").mkdir()
    Path("site/wanted.toml").touch()
    change(nodes, {"file": {"/etc/motd": MOTD}})
    assert ended(*OF_MOTD) == 0
    assert not FILE.exists()
    assert checked()["findings"] == []


def replaced(at: int, word: str) -> Callable[[list[str]], None]:
    def change(words: list[str]) -> None:
        words[at] = word

    return change


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            replaced(2, "fingerprint.fil"),
            "unknown rule 'fingerprint.fil'\n  expected  did you mean fing",
        ),
        (replaced(2, "node.reachable"), "node.reachable: a node that cannot be read is always"),
        (replaced(5, "tomorrow"), "--until 'tomorrow'\n  expected  a date such as 2027-01-31"),
        (replaced(5, "2026-11-19"), "--until 2026-11-19 is over\n  expected  2026-11-20 or later"),
        (replaced(7, " "), "--reason is empty"),
        (replaced(9, " "), "--by is empty"),
        (lambda words: words.append("--any-value"), "--any-value needs --limit"),
        (lambda words: words.extend(["--limit", "worker99"]), "unknown node 'worker99'"),
    ],
)
def test_malformed_arguments_are_refused_before_nodes_are_read(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[list[str]], None],
    said: str,
) -> None:
    cluster.asked = ("no node",)
    words = list(OF_MOTD)
    edit(words)
    assert said in refused(capsys, *words)
    assert cluster.asked == ("no node",)
    assert not FILE.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fingerprint.file", "/etc/other"), "expected  fingerprint.file /etc/motd on worker3\n"),
        (("fingerprint.user", "eve"), "expected  fingerprint.file /etc/motd on worker3\n"),
        (("fingerprint.file", "/etc/motd", "--limit", "worker1"), "on worker1: no such finding"),
        (("fingerprint.file", "/etc/motd", "--field", "acl"), "field acl: no such finding"),
    ],
)
def test_what_is_no_finding_is_refused(
    nodes: Nodes, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    assert said in refused(capsys, "accept", "inventory.py", *words, *WHY)
    assert not FILE.exists()


def test_what_was_not_read_is_never_accepted(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", "gpu.persistence", ("gpu0",), {"unread": "no answer"})
    assert ended("check", "inventory.py", "--rule", "gpu.persistence") == 2
    accept = ("accept", "inventory.py", "gpu.persistence", "gpu0", *WHY)
    assert "no such finding that can be accepted" in refused(capsys, *accept)
    assert ended(*accept, "--any-value", "--limit", "worker3") == 0
    assert ended("check", "inventory.py", "--rule", "gpu.persistence") == 2


ROW = """\
[[accepted]]
rule = "fingerprint.file"
object = "/etc/motd"
nodes = "worker3"
by = "anna"
until = 2026-12-31
reason = "why"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[accepted]]", "[[accepted]", "expected  TOML"),
        ("[[accepted]]", "[[exceptions]]", "exceptions\n  expected  tables [[accepted]] only"),
        ('by = "anna"\n', "", "accepted[0].by\n  expected  a value for this key"),
        ('"anna"', '" "', "accepted[0].by: ' '\n  expected  a text"),
        ("2026-12-31", '"2026-12-31"', "accepted[0].until: '2026-12-31'\n  expected  a date such"),
        ("reason", "why", "expected  "),
        ("fingerprint.file", "fingerprint.fil", "accepted[0].rule: 'fingerprint.fil'\n  expected"),
        ("fingerprint.file", "node.reachable", "accepted[0].rule: 'node.reachable'"),
        ('"worker3"', '"worker[3"', "accepted[0].nodes: 'worker[3'\n  expected  a range"),
        ('"worker3"', '"worker[3,99]"', "accepted[0].nodes: worker99\n  expected  nodes of"),
    ],
)
def test_a_malformed_file_is_refused_before_nodes_are_read(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    cluster.asked = ("no node",)
    FILE.write_text(ROW.replace(old, new))
    check = ("check", "inventory.py")
    for command in (check, (*check, "--no-history"), OF_MOTD, ("repair", "inventory.py")):
        error = refused(capsys, *command)
        assert error.startswith("ERROR inventory.accepted.toml: ")
        assert said in error
    assert cluster.asked == ("no node",)


def test_rows_in_another_form_are_read_but_not_edited(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    change(nodes, {"file": {"/etc/motd": MOTD}})
    fields = ", ".join(ROW.splitlines()[1:])
    FILE.write_text(f"accepted = [{{{fields}}}]\n")
    assert checked()["findings"] == []
    of_issue = [word.replace("motd", "issue") for word in OF_MOTD]
    said = refused(capsys, *of_issue, "--any-value", "--limit", "worker3")
    assert "rows in another form\n  expected  one [[accepted]] per row" in said
