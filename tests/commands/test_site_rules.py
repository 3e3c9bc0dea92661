"""Rules of a site in every output form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.checks.test_site import described, example
from tests.commands.conftest import Cluster, ended, refused

OFF = "gpu.acs: GPUs are given to virtual machines, which need ACS"
TEXT = f"switched off for class hgx-h200: {OFF}"


@pytest.fixture
def site(cluster: Cluster) -> Cluster:
    """The cluster with the rules of docs/checks.md, and one that is off everywhere."""
    checks = example()
    checks["overrides"].append({"rule": "kernel.aspm", "off": "a trial until May"})
    Path("site.json").write_text(json.dumps(checks))
    text = Path("inventory.py").read_text()
    given = 'DESCRIPTION | {"checks": json.loads(Path("site.json").read_text())}'
    head = "import json\nfrom pathlib import Path\n"
    Path("inventory.py").write_text(head + text.replace("exit(DESCRIPTION", f"exit({given}"))
    cluster.context = described(checks)
    return cluster


def test_check_says_what_is_off_and_what_the_site_wants(
    site: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("check", "inventory.py") == 0
    said = capsys.readouterr().out
    assert f"{TEXT}\nswitched off: kernel.aspm: a trial until May\n" in said
    assert re.search(r"9 nodes, \d+ rules: all consistent", said)
    site.change("worker3", "gpu.power.max_w", ("gpu3",), 600.0)
    assert ended("check", "inventory.py", "--rule", "site.*") == 1
    said = capsys.readouterr().out
    assert "ERROR   site.power_ceiling  worker3 gpu3\n" in said
    assert "switched off" not in said


def test_rules_and_explain_show_them(site: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("rules", "inventory.py") == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["site.power_ceiling"].split("  ")[-1].strip() == "person"
    assert lines["gpu.acs"].endswith("which need ACS (class hgx-h200)")
    assert lines["gpu.vbios"].endswith("  severity error")
    assert ended("rules", "inventory.py", "--markdown") == 0
    assert "## site.power_ceiling\n\nGPUs can be set to 650 W\n" in capsys.readouterr().out
    assert ended("explain", "inventory.py", "memory.corrected") == 0
    said = capsys.readouterr().out
    assert "  site         tolerance 5\n" in said
    assert ended("explain", "inventory.py", "site.power_ceiling") == 0
    said = capsys.readouterr().out
    assert said.startswith("site.power_ceiling: GPUs can be set to 650 W\n")
    assert "  site         its own rule\n" in said
    assert "  source       contract of the data centre\n" in said
    assert "lockstep check inventory.py --rule site.power_ceiling" in said
    assert "unknown rule 'site.x'" in refused(capsys, "explain", "inventory.py", "site.x")
    assert "unknown rule 'site.power_ceiling'" in refused(capsys, "explain", "site.power_ceiling")


def test_a_rule_of_the_site_is_explained_with_the_values_of_the_description(
    site: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    free = {"reading": "hugepages.free", "source": "a ticket", "repair": "see {node}"}
    within = {"kind": "within", "bound": "at least", "tolerance": 0.1, "path": ["2M", "*"]}
    checks = json.loads(Path("site.json").read_text())
    checks["rules"].append({"id": "site.free", "title": "pages are free", **free, **within})
    Path("site.json").write_text(json.dumps(checks))
    assert ended("explain", "inventory.py", "site.power_ceiling") == 0
    assert capsys.readouterr().out == (
        "site.power_ceiling: GPUs can be set to 650 W\n"
        "  reading      gpu.power.max_w\n"
        "  expected     at least 650\n"
        "  classes      hgx-h200\n"
        "  site         its own rule\n"
        "  repair       have {device} of {node} replaced: it takes {expected} W only\n"
        "  on the node  health check (docs/node-check.md)\n"
        "  source       contract of the data centre\n"
        "  compared     absolute\n"
        "  from         spec\n"
        "  severity     error\n"
        "  repaired by  person\n"
        "  check it     lockstep check inventory.py --rule site.power_ceiling\n"
    )
    assert ended("explain", "inventory.py", "site.home_nfs") == 0
    said = capsys.readouterr().out
    assert "  path         /home\n" in said
    assert "  expected     nfs4 [fd00:1::5]:/home hard,nconnect=8,rw,vers=4.2\n" in said
    assert ended("explain", "inventory.py", "site.free") == 0
    said = capsys.readouterr().out
    assert "  path         2M *\n" in said
    assert "  tolerance    10% below the median of the peers\n" in said
    assert "  from         peers (class)\n" in said
    assert ended("rules", "inventory.py", "--markdown") == 0
    assert "- Path: `2M *`\n" in capsys.readouterr().out


def test_every_file_has_them(site: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    site.change("worker3", "gpu.power.max_w", ("gpu3",), 600.0)
    files = {name: f"report.{name}" for name in ("json", "junit", "metrics", "html")}
    words = [word for name, file in files.items() for word in (f"--{name}", file)]
    assert ended("check", "inventory.py", *words) == 1
    capsys.readouterr()
    document = json.loads(Path("report.json").read_text())
    assert document["switched_off"][1] == {
        "rule": "kernel.aspm",
        "classes": [],
        "reason": "a trial until May",
    }
    suite = ElementTree.parse("report.junit").getroot()[0]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases["site.power_ceiling"].find("failure") is not None
    skipped = cases["kernel.aspm"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "switched off: a trial until May"
    assert (suite.get("tests"), suite.get("skipped")) == (str(len(cases)), "1")
    assert cases["gpu.acs"].find("skipped") is None  # judged on other classes
    remarks = [p.get("value") for p in suite.iter("property") if p.get("name") == "remark"]
    assert TEXT in remarks
    metrics = Path("report.metrics").read_text()
    assert 'lockstep_rule_off{rule="kernel.aspm",classes=""} 1\n' in metrics
    assert 'lockstep_rule_off{rule="gpu.acs",classes="hgx-h200"} 1\n' in metrics
    assert 'rule="site.power_ceiling",node="worker3",device="gpu3"' in metrics
    page = Path("report.html").read_text()
    assert "site.power_ceiling" in page
    assert TEXT in page


def test_two_clusters_with_different_rules_differ(
    site: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("inventory.py").read_text()
    Path("twin.py").write_text(text.replace('json.loads(Path("site.json").read_text())', "{}"))
    assert ended("compare", "inventory.py", "twin.py", "--plans") == 1
    assert "checks overrides\n" in capsys.readouterr().out


def test_the_history_knows_rules_of_the_site(
    site: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    site.change("worker3", "gpu.power.max_w", ("gpu3",), 600.0)
    for _ in range(2):
        assert ended("check", "inventory.py") == 1
        site.now += 3600
    capsys.readouterr()
    assert ended("explain", "inventory.py", "worker3") == 1
    said = capsys.readouterr().out
    assert "site.power_ceiling  worker3 gpu3" in said
    assert "since     2026-11-20 18:40 UTC (2 checks)" in said
