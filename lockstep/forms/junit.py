"""JUnit XML output: one test case per rule, with at most one failure or error each.

Jenkins and GitLab show only the first failure of a case, so it contains all findings of the rule.
"""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from lockstep.forms import Run
from lockstep.forms.groups import Group, grouped
from lockstep.forms.text import paragraph
from lockstep.report import Report, Status, count


def junit(report: Report, run: Run) -> str:
    """Return the report as JUnit XML."""
    by_rule: dict[str, list[Group]] = {rule: [] for rule in report.rules}
    for group in grouped(report):
        by_rule.setdefault(group.rule, []).append(group)
    results = {rule: _result(groups) for rule, groups in by_rule.items() if groups}
    # A rule that is off only for some classes was still checked; a property mentions it.
    off = [one for one in report.off if one.rule not in by_rule]
    tags = [result.tag for result in results.values()]
    suite = ElementTree.Element(
        "testsuite",
        name="lockstep check",
        tests=str(len(by_rule) + len(off)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error")),
        skipped=str(len(off)),
        time=f"{run.duration_s:.3f}",
        # The schema allows only ISO 8601 without a time zone.
        timestamp=datetime.fromtimestamp(run.at, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
    )
    _properties(suite, report, run)
    for rule in by_rule:
        topic = rule.split(".")[0]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"lockstep.{topic}", name=rule, time="0"
        )
        if rule in results:
            case.append(results[rule])
    for one in off:
        topic = one.rule.split(".")[0]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"lockstep.{topic}", name=one.rule, time="0"
        )
        ElementTree.SubElement(case, "skipped", message=f"switched off: {one.reason}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _result(groups: list[Group]) -> ElementTree.Element:
    worst = groups[0]
    unread = all(group.status == Status.UNKNOWN.value for group in groups)
    nodes = frozenset[str]().union(*(group.nodes for group in groups))
    message = f"{count(len(nodes), 'node')}: {worst.values[0]}"
    result = ElementTree.Element(
        "error" if unread else "failure", message=message, type=worst.status
    )
    result.text = paragraph(groups)
    return result


def _properties(suite: ElementTree.Element, report: Report, run: Run) -> None:
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("inventory", run.inventory),
        ("nodes", str(len(report.nodes))),
        ("nodes unread", str(len(run.unread))),
        ("exit status", str(int(report.exit_status))),
        *(("remark", remark) for remark in report.remarks),
    ):
        ElementTree.SubElement(properties, "property", name=name, value=value)
