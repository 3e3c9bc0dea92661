"""The HTML page works without a network and without scripts, and has a limited size."""

from __future__ import annotations

import random
from dataclasses import replace
from html.parser import HTMLParser

from typing_extensions import override

from lockstep.forms.html import html
from lockstep.report import Report, Severity
from tests.forms.large import NODES, RUN, dated, finding, large


class Page(HTMLParser):
    """What a browser would show and fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.scripts = 0
        self.rows = self.cells = 0
        self._inside = ""
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given and tag == "a" else []
        self.fetched += [given[name] for name in ("src", "href") if name in given and tag != "a"]
        self.scripts += tag == "script"
        self.rows += tag == "tr"
        self.cells += tag == "td"

    @override
    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text.append(data)


def test_the_page_needs_nothing_from_elsewhere_and_its_links_lead_somewhere() -> None:
    text = html(large(), RUN)
    page = Page(text)
    assert page.fetched == []
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_outliers_come_first_and_the_consistent_are_one_line() -> None:
    text = html(large(), RUN)
    first = text.index("<tbody>")
    assert text.index(">worker1920<", first) < text.index(">worker0043<", first)  # 4 errors, 1
    rows = text[first : text.index("</tbody>", first)]
    assert "worker[0601-0619," in rows  # nodes that are alike share a row
    assert rows.count("<tr>") < 200
    assert "class=e" not in rows[rows.rindex("<tr>") :]
    assert "2 rules without findings" in text
    assert ">os.hostname, os.locale<" in text


def test_repairs_are_there_to_copy_without_scripts() -> None:
    page = Page(html(large(), RUN))
    shown = "".join(page.text)
    assert "lockstep repair prod.py --rule gpu.power_limit --limit 'worker[0003,0043," in shown
    assert "ssh worker[0020,0070," in shown
    assert "lockstep explain RULE" in page.text


def test_what_the_page_leaves_out_is_shown_by_a_command_for_that_rule_alone() -> None:
    report = Report(NODES[:1], ("gpu.ecc", "gpu.vbios"))
    paths = [finding("gpu.ecc", NODES[0], f"/{n}", "off", "on") for n in range(201)]
    report.findings.extend(paths)
    text = html(report, replace(RUN, rules=("gpu.*",)))
    assert "and 1 more place: lockstep check prod.py --rule gpu.ecc --all<" in text


def test_the_page_says_since_when_and_what_was_not_judged() -> None:
    page = Page(html(dated(), RUN))
    assert "since 2026-11-20 12:00 UTC (9 checks)" in page.text
    assert "growth: 2 of 2 nodes have no earlier record of this boot" in page.text


def test_what_a_node_says_is_text() -> None:
    report = Report(NODES[:2], ("os.locale",))
    evil = "</td><script src=//x>alert(1)</script>"
    report.findings.extend(
        [finding("os.locale", NODES[0], evil, evil, evil, repair=f"{evil} {{}}")]
    )
    page = Page(html(report, RUN))
    assert (page.scripts, page.fetched) == (1, [])
    assert evil in "".join(page.text)


def test_a_consistent_cluster_is_a_short_page() -> None:
    page = Page(html(Report(NODES, ("os.locale",)), RUN))
    assert (page.rows, page.cells) == (0, 0)
    assert "2,000 nodes follow every rule" in "".join(page.text)
    assert "worker[0001-2000]" in page.text


def test_a_page_of_2000_nodes_by_100_rules_stays_below_5_mb() -> None:
    chance = random.Random(5)
    rules = tuple(f"topic.rule{number:03}" for number in range(100))
    report = Report(NODES, rules)
    for rule in rules:
        for node in chance.sample(NODES, 500):
            device, found = f"gpu{chance.randrange(8)}", str(chance.randrange(5))
            severity = chance.choice(list(Severity)).value
            report.findings.extend([finding(rule, node, device, found, "9", severity=severity)])
    assert 1_000_000 < len(html(report, RUN).encode()) < 5_000_000
