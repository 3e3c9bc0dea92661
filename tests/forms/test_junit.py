"""JUnit XML as the viewers of CI systems read it."""

from __future__ import annotations

from xml.etree import ElementTree

from lockstep.forms.junit import junit
from lockstep.report import Report
from tests.forms.large import NODES, RUN, dated, finding, large


def test_every_rule_is_one_case_with_one_result() -> None:
    report = large()
    (suite,) = ElementTree.fromstring(junit(report, RUN))
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == list(report.rules)
    assert {len(list(case)) for case in cases} == {0, 1}  # what follows is not shown by all
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("42", "39", "1")
    assert (suite.get("time"), suite.get("timestamp")) == ("41.250", "2026-09-21T14:13:20")
    properties = {p.get("name"): p.get("value") for p in suite.findall("properties/property")}
    assert properties == {
        "inventory": "prod.py",
        "nodes": "2000",
        "nodes unread": "40",
        "exit status": "1",
    }


def test_a_failure_holds_all_that_its_rule_found() -> None:
    root = ElementTree.fromstring(junit(large(), RUN))
    failure = root.find(".//testcase[@name='gpu.power_limit']/failure")
    assert failure is not None
    assert failure.get("message") == "17 nodes: 350 W, expected 700 W (from: device)"
    text = failure.text or ""
    assert "ERROR  300 W, expected 700 W (from: device)\n  on        worker0043 gpu3\n" in text
    assert "lockstep repair prod.py --rule gpu.power_limit --limit 'worker[0003,0043," in text
    unread = root.find(".//testcase[@name='gpu.ecc']/error")
    assert unread is not None
    assert unread.get("type") == "unknown"
    (suite,) = ElementTree.fromstring(junit(dated(), RUN))
    assert "  since     2026-11-20 12:00 UTC (9 checks)\n" in (suite.findtext(".//failure") or "")


def test_what_xml_refuses_is_left_out() -> None:
    report = Report(NODES[:1], ("os.locale",))
    report.findings.extend([finding("os.locale", NODES[0], "", "\x00\x1b <&>\ud800", "C")])
    (suite,) = ElementTree.fromstring(junit(report, RUN))
    assert "?? <&>?" in (suite.findtext("testcase/failure") or "")
