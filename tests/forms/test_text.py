"""The text report on 2,000 nodes: one screen, or all findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lockstep.forms.text import text, whole
from lockstep.report import Report, Severity, Status
from tests.forms.large import NODES, RUN, dated, finding, large

WHOLE = Path(__file__).with_name("large.txt")


def test_many_findings_on_many_nodes_fit_a_screen() -> None:
    shown = text(large(), RUN)
    assert shown == WHOLE.read_text(encoding="utf-8")
    lines = shown.splitlines()
    assert len(lines) <= 50
    assert [line for line in lines[:-1] if len(line) > 100] == []


def test_a_small_terminal_gets_a_small_report() -> None:
    lines = text(large(), replace(RUN, lines=30, columns=80)).splitlines()
    assert len(lines) <= 45  # six rules have their values on a screen of any height
    places = [line for line in lines if line.startswith("  found")]
    assert places
    assert max(map(len, places)) <= 80


def test_all_of_them_are_one_block_each() -> None:
    shown = whole(large())
    assert "ERROR   gpu.power_limit  worker0043 gpu3\n" in shown
    assert "WARNING gpu.vbios  worker[0006,0014," in shown
    assert shown.count("  repair    ") == shown.count("  found     ") == 73


def test_a_repair_that_is_cut_could_not_be_pasted() -> None:
    names = [f"ssh {node}" for node in NODES[19::50]]
    repairs = [line for line in text(large(), RUN).splitlines() if line.startswith("  repair")]
    assert f"  repair    {names[0]}   (same for 39 more nodes)" in repairs
    assert not any("..." in line for line in repairs)


def test_values_that_all_differ_are_counted() -> None:
    rules = [f"rule{number}" for number in range(9)]
    report = Report(NODES, tuple(rules))
    report.findings.extend(finding(rule, NODES[0], "", "1", "2") for rule in rules[1:])
    report.findings.extend(
        finding("rule0", node, "", f"{n} ms", "0 ms") for n, node in enumerate(NODES[:30])
    )
    lines = text(report, RUN).splitlines()
    assert lines[0] == "ERROR   rule0  30 nodes"
    assert lines[3] == "  ...       28 more values on 28 nodes"
    assert "All details: lockstep check prod.py --all" in lines


def test_a_line_of_many_values_counts_those_it_does_not_show() -> None:
    report = Report(NODES, ("rule",))
    report.findings.extend(
        finding(f"a{n}", node, "", "1", "2") for n in range(6) for node in NODES[:50]
    )
    report.findings.extend(
        finding("rule", node, "/", f"{n}%", "20%") for n, node in enumerate(NODES[:40])
    )
    report.findings.extend(finding("equal", node, "/", "1%", "20%") for node in NODES[:40])
    said = [line for line in text(report, RUN).splitlines() if " 40 nodes " in line]
    assert said == [
        "ERROR   equal    40 nodes  worker[0001-0040] /",
        "ERROR   rule     40 nodes  worker0001 / and 39 more values",
    ]


def test_a_value_that_does_not_fit_still_says_what_was_expected() -> None:
    says = "peers: 8 nodes of class hgx-h200 of a long name"
    report = Report(NODES, ())
    report.findings.extend(finding(f"r{n}", NODES[0], "", "1", "2") for n in range(8))
    for number, (found, expected) in enumerate((("off", "on"), ("x" * 60, "on"), ("a", "b" * 60))):
        report.findings.extend(
            [finding(f"a{number}", NODES[0], "", found, expected, reference=says)]
        )
    lines = text(report, RUN).splitlines()
    assert "  found     off, expected on  worker0001" in lines
    assert f"  found     {'x' * 34}..., expected on  worker0001" in lines
    assert "  found     a  worker0001" in lines


def test_findings_are_counted_as_such() -> None:
    end = (
        "2000 nodes, 42 rules, 824 findings: 673 differing, 120 waiting for a reboot, 31 not read."
    )
    assert end in large().summary()


def test_what_is_found_leads_to_the_reasons_of_its_rules() -> None:
    why = "lockstep explain RULE\n"
    assert why in text(dated(), RUN)
    assert why in text(large(), RUN)
    assert "explain" not in text(Report(NODES, ("os.locale",)), RUN)


def test_devices_of_a_node_are_one_block_unless_their_repair_names_them() -> None:
    def shown(repair: str) -> str:
        report = Report(NODES[:1], ("gpu.ecc",))
        gpus = [finding("gpu.ecc", NODES[0], f"gpu{i}", "off", "on") for i in range(8)]
        report.findings.extend(replace(one, repair=repair.format(one.device)) for one in gpus)
        return text(report, RUN)

    assert shown("look at it").startswith("ERROR   gpu.ecc  worker0001 gpu[0-7]\n")
    assert shown("look at {}").count("ERROR") == 8


def test_what_is_alike_is_one_block_since_its_oldest_finding() -> None:
    lines = text(dated(), RUN).splitlines()
    assert lines[0] == "ERROR   gpu.ecc  worker[0001-0002] gpu[0-1]"
    assert "  since     2026-11-20 12:00 UTC (9 checks)" in lines
    assert lines[-2] == "growth: 2 of 2 nodes have no earlier record of this boot"


def test_a_screen_says_since_when_and_what_was_not_judged() -> None:
    report = large()
    report.findings = [replace(f, since="2026-11-20 12:00 UTC", checks=9) for f in report]
    report.notes = dated().notes
    lines = text(report, RUN).splitlines()
    assert len(lines) == 50
    assert max(map(len, lines[:-1])) <= 100
    assert lines[0] == "ERROR   node.reachable  40 nodes, since 2026-11-20 12:00 UTC"
    assert lines[-2] == report.notes[0]


def test_what_a_node_says_cannot_steer_the_terminal() -> None:
    report = Report(NODES[:1], ("os.locale",))
    report.findings.extend([finding("os.locale", NODES[0], "", "\x1b[2J\nERROR all is lost", "C")])
    assert "  found     ?[2J ERROR all is lost\n" in text(report, RUN)


def with_notices() -> Report:
    notice = Severity.NOTICE.value
    report = Report(NODES, ("fingerprint.file", "rule"))
    report.findings.append(finding("rule", NODES[0], "", "1", "2"))
    for node in NODES[:2]:
        report.findings.append(
            finding("fingerprint.file", node, "/etc/motd", node, "b", severity=notice)
        )
    return report


def test_notices_are_folded_into_a_line_and_still_count() -> None:
    shown = text(with_notices(), RUN)
    assert "2 notices: lockstep check prod.py --all\n" in shown
    assert "/etc/motd" not in shown
    assert ", 3 findings: 3 differing. " in shown
    assert shown.endswith("Exit 1.\n")
    assert "NOTICE  fingerprint.file  worker0002 /etc/motd\n" in whole(with_notices())


def test_notices_alone_are_findings() -> None:
    report = with_notices()
    del report.findings[0]
    assert text(report, RUN).splitlines()[0] == "2 notices: lockstep check prod.py --all"
    assert report.exit_status == 1


def test_notices_are_shown_if_the_user_asks_for_them() -> None:
    report = with_notices()
    report.hidden = [report.findings.pop(0)]
    shown = text(report, replace(RUN, severity="notice"))
    assert "NOTICE  fingerprint.file  worker0001 /etc/motd\n" in shown
    assert "2 notices" not in shown


def test_a_reading_that_failed_is_no_notice_to_fold() -> None:
    report = Report(NODES, ("rule",))
    unread = {"status": Status.UNKNOWN.value, "severity": Severity.NOTICE.value}
    report.findings.append(finding("rule", NODES[0], "", "not read", "1", **unread))
    assert "UNKNOWN rule  worker0001\n" in text(report, RUN)


def test_the_worst_comes_first() -> None:
    report = with_notices()
    report.findings.append(finding("a", NODES[0], "", "1", "2", severity=Severity.WARNING.value))
    assert [one.severity for one in report] == ["error", "warning", "notice", "notice"]
