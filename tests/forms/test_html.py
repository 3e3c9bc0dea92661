"""The HTML page works without a network and without scripts, and has a limited size."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
from typing_extensions import override

from lockstep.forms.html import IN_FULL, html
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


@cache
def large_page() -> str:
    return html(large(), RUN)


def part(text: str, node: str) -> str:
    """Return what the page has of one node alone."""
    begin = text.index(f'<section class="node" id="node-{node}">')
    return text[begin : text.index("</section>", begin)]


def test_the_page_needs_nothing_from_elsewhere_and_its_links_lead_somewhere() -> None:
    text = large_page()
    page = Page(text)
    assert page.fetched == []
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_outliers_come_first_and_the_consistent_are_one_line() -> None:
    text = large_page()
    first = text.index("<tbody>")
    assert text.index(">worker1920<", first) < text.index(">worker0043<", first)  # 4 errors, 1
    rows = text[first : text.index("</tbody>", first)]
    assert "worker[0601-0619," in rows  # nodes that are alike share a row
    assert rows.count("<tr>") < 200
    assert "class=e" not in rows[rows.rindex("<tr>") :]
    assert "2 rules without findings" in text


def test_the_title_has_the_cluster_and_the_time() -> None:
    text = large_page()
    assert "<title>prod, 2026-09-21 14:13 UTC: 824 findings - lockstep check</title>" in text
    assert '<h1>Cluster prod <span class="soft">2026-09-21 14:13 UTC</span></h1>' in text


def test_every_group_has_its_count_and_the_title_of_its_rule() -> None:
    text = large_page()
    summaries = re.findall(r"<summary>(.*?)</summary>", text, re.DOTALL)
    groups = {found[1]: one for one in summaries if (found := re.search("<h3[^>]*>(.*?)<", one))}
    assert len(groups) == 40
    assert all(re.search(r"<b>[\d,]+ nodes?(, [\d,]+ places)?</b>", one) for one in groups.values())
    assert "<b>17 nodes, 129 places</b>" in groups["gpu.power_limit"]
    assert '<span class="title">All GPUs have ECC on.</span>' in groups["gpu.ecc"]
    kept = text[text.index("2 rules without findings") :]
    assert '>os.locale</span> <span class="soft"><span class="title">Nodes have the de' in kept


def test_one_click_leads_from_the_list_of_nodes_to_the_findings_of_one() -> None:
    text = large_page()
    listed = text[text.index('<ul class="nodes"') :]
    links = dict(re.findall(r'href="(#node-\w+)".*?<b class=\w>(\d+)</b>', listed))
    assert len(links) == len(NODES)  # a tie names them all
    assert links["#node-worker0003"] == "10"
    mine = part(text, "worker0003")
    assert "<b>10 findings</b>" in mine
    assert "<td>gpu[0-7]<td>350 W<td>700 W<td>pyinfra -y prod.py" in mine
    assert mine.index("gpu.power_limit") < mine.index("rdma.firmware")  # the worst comes first
    assert "topic.rule03" not in mine
    assert 'href="#gpu.power_limit-error-differs"' in mine
    # A place in the findings of a rule leads there, too.
    assert '<a href="#node-worker0043">worker0043</a> gpu3</div>' in text


COLOURS = re.compile(r"--([\w-]+): (#[0-9a-f]{3,6})")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_its_background(scheme: str) -> None:
    """WCAG 2 asks for a contrast of 4.5 between text and background."""
    light, dark = re.findall(r":root {(.*?)}", large_page(), re.DOTALL)[:2]
    colours = dict(COLOURS.findall(light if scheme == "light" else dark))
    pairs = [
        *((ink, paper) for ink in ("ink", "soft") for paper in ("paper", "band")),
        *((ink, paper) for ink in "ewru" for paper in ("paper", "band", f"{ink}-bg")),
        ("ok", "paper"),
        ("ok", "band"),
    ]
    assert {
        pair: contrast(*(colours[one] for one in pair))
        for pair in pairs
        if contrast(*(colours[one] for one in pair)) < 4.5
    } == {}


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def test_repairs_are_there_to_copy_without_scripts() -> None:
    page = Page(large_page())
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


def test_a_page_of_2000_nodes_by_100_rules_stays_below_9_mb() -> None:
    chance = random.Random(5)
    rules = tuple(f"topic.rule{number:03}" for number in range(100))
    report = Report(NODES, rules)
    for rule in rules:
        for node in chance.sample(NODES, 500):
            device, found = f"gpu{chance.randrange(8)}", str(chance.randrange(5))
            severity = chance.choice(list(Severity)).value
            report.findings.extend([finding(rule, node, device, found, "9", severity=severity)])
    assert len(report.findings) > IN_FULL
    text = html(report, replace(RUN, titles=dict.fromkeys(rules, "One sentence about the rule.")))
    assert 1_000_000 < len(text.encode()) < 9_000_000
