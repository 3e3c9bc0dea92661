"""JUnit XML output: one test case per rule, each with at most one failure or error.

Jenkins and GitLab show only the first failure of a case, so one failure lists all findings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from xml.etree import ElementTree

from lockstep.forms import Run
from lockstep.forms.groups import Group, grouped
from lockstep.forms.text import paragraph
from lockstep.report import Report, Status, alike, count


def junit(report: Report, run: Run) -> str:
    """Return the report as JUnit XML."""
    groups = alike(grouped(report), attrgetter("first.rule"))
    rules = tuple(dict.fromkeys((*report.rules, *groups)))
    # A rule that is off for some classes only was still checked; a property mentions it.
    off = {one.rule: one.reason for one in report.off if one.rule not in rules}
    results = {rule: _result(found) for rule, found in groups.items()} | {
        rule: ElementTree.Element("skipped", message=f"switched off: {reason}")
        for rule, reason in off.items()
    }
    tags = [result.tag for result in results.values()]
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name="lockstep check",
        tests=str(len(rules) + len(off)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error")),
        skipped=str(len(off)),
        time=f"{run.duration_s:.3f}",
        # The JUnit schema allows only ISO 8601 times without a time zone.
        timestamp=datetime.fromtimestamp(run.at, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("inventory", run.inventory),
        ("nodes", str(len(report.nodes))),
        ("nodes unread", str(len(run.unread))),
        ("exit status", str(int(report.exit_status))),
        *(("remark", remark) for remark in report.remarks),
        *(("accepted", one.text) for one in report.accepted),
    ):
        ElementTree.SubElement(properties, "property", name=name, value=value)
    for rule in (*rules, *off):
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"lockstep.{rule.split('.')[0]}", name=rule, time="0"
        )
        if rule in results:
            case.append(results[rule])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _result(groups: list[Group]) -> ElementTree.Element:
    worst = groups[0]
    unread = all(group.first.status == Status.UNKNOWN.value for group in groups)
    nodes = frozenset[str]().union(*(group.nodes for group in groups))
    message = f"{count(len(nodes), 'node')}: {worst.values[0]}"
    result = ElementTree.Element(
        "error" if unread else "failure", message=message, type=worst.first.status
    )
    result.text = paragraph(groups)
    return result
