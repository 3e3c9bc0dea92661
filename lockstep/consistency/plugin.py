"""The pytest plugin: options, one test per rule, and the fixture ``record``.

``pytest --pyargs lockstep.consistency`` loads it by itself. A site that has only tests of its own
names it in ``pytest_plugins`` of its conftest.py. The nodes are read once, all at the same time,
with the probe of ``lockstep check``, also where pytest-xdist runs tests in several processes; the
same engine judges. The connections are pytest-testinfra's: over ssh as the inventory says, or
whatever its own ``--hosts`` names. ``host`` is testinfra's fixture, once per node.
"""

from __future__ import annotations

import atexit
import fcntl
import os
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import NoReturn

import pytest
import testinfra
from pydantic import JsonValue
from testinfra.host import Host

from lockstep.checks.catalogue import families
from lockstep.checks.engine import check
from lockstep.checks.rule import Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.checks.site import rules_of
from lockstep.commands import replace_file
from lockstep.consistency.nodes import Connection, addresses, by_ssh, node_of, ssh_config, take
from lockstep.forms.text import blocks
from lockstep.history.store import PRIVATE
from lockstep.inventory import load
from lockstep.nearest import did_you_mean
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.parse import dumps, loads
from lockstep.probe.record import Reading, Record, Unreachable, Unread
from lockstep.reading import context
from lockstep.report import Finding, Report

PLAN = pytest.StashKey[ClusterPlan]()
SSH_CONFIG = pytest.StashKey[Path]()
SITE = "site"
"""The family of the rules that a description adds: ``test_site`` gets them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; ``lockstep check`` has options of the same names and meanings."""
    group = parser.getgroup("lockstep")
    group.addoption("--inventory", metavar="INVENTORY", help="inventory file of the cluster")
    group.addoption(
        "--no-fingerprint",
        action="store_true",
        help="compare only what rules name, not the whole configuration",
    )
    group.addoption("--records", metavar="FILE", help="judge saved records; contact no node")


def pytest_configure(config: pytest.Config) -> None:
    """Load the inventory, and register a marker for each topic of its rules."""
    config.addinivalue_line("markers", f"{SITE}: the rules of the site")
    inventory = config.getoption("--inventory")
    if inventory is None:
        return
    if not Path(inventory).is_file():
        raise pytest.UsageError(f"--inventory {inventory}: no such file")
    plan = config.stash[PLAN] = load(inventory)
    for topic in sorted({topic_of(rule.id) for rule in rules_of(plan.spec)} - {SITE}):
        config.addinivalue_line("markers", f"{topic}: the rules {topic}.*")
    folder = mkdtemp(prefix="lockstep-")
    atexit.register(rmtree, folder)  # processes of pytest-xdist end without pytest's own cleanup
    config.stash[SSH_CONFIG] = ssh_config(plan, Path(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give ``test_FAMILY`` the rules of that family, and testinfra the nodes of the inventory."""
    if "lockstep_rule" in metafunc.fixturenames:
        rules = rules_of_test(planned(metafunc.config), metafunc.function.__name__)
        marked = [pytest.param(rule, marks=getattr(pytest.mark, topic_of(rule))) for rule in rules]
        metafunc.parametrize("lockstep_rule", marked, ids=rules)
    if "_testinfra_host" in metafunc.fixturenames:
        plan = metafunc.config.stash.get(PLAN, None)
        if plan is None and "record" in metafunc.fixturenames:
            no_inventory()
        if plan is not None and not hasattr(metafunc.module, "testinfra_hosts"):
            # testinfra's own way to say which hosts the tests of a module are for.
            every = addresses(plan, metafunc.config.stash[SSH_CONFIG])
            metafunc.module.testinfra_hosts = every


def planned(config: pytest.Config) -> ClusterPlan:
    """Return the plan of --inventory; without it, end the run with a usage error."""
    return config.stash[PLAN] if PLAN in config.stash else no_inventory()


def no_inventory() -> NoReturn:
    """End the run: tests ask for nodes, and no inventory says which."""
    pytest.exit("no inventory: expected pytest ... --inventory FILE", pytest.ExitCode.USAGE_ERROR)


def topic_of(rule: str) -> str:
    """Return the marker of a rule: ``gpu`` for ``gpu.power_limit``."""
    return rule.split(".")[0]


def rules_of_test(plan: ClusterPlan, test: str) -> list[str]:
    """Return the rules that a test function stands for: ``test_slurm``, those of rules/slurm.py.

    Raises:
        ValueError: the function's name names no family.
    """
    own = {name: {rule.id for rule in rules} for name, rules in families_of().items()}
    built_in = set[str]().union(*own.values())
    judged = [rule.id for rule in rules_of(plan.spec)]
    own[SITE] = {rule for rule in judged if rule not in built_in}
    family = test.removeprefix("test_")
    if family not in own:
        raise ValueError(f"{test}: expected test_ and a family of rules: {', '.join(own)}")
    return [rule for rule in judged if rule in own[family]]


def families_of() -> dict[str, tuple[Rule, ...]]:
    """Return the families: the names of the modules in lockstep/checks/rules, with their rules."""
    return {module.__name__.rpartition(".")[2]: module.RULES for module in families()}


@pytest.fixture(scope="session")
def lockstep_records(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Reading:
    """The record of each node, or why there is none: the nodes are read once per run."""
    config = request.config
    plan = planned(config)
    folder = tmp_path_factory.getbasetemp()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None:  # each process has a folder of its own, below that of the run
        folder = folder.parent
    kept = folder / f"records-{run or 'alone'}.json"
    return once(kept, lambda: chosen(plan, config))


def once(kept: Path, read: Callable[[], Reading]) -> Reading:
    """Read in one process of a run; the others wait, and take what it has read."""
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            replace_file(str(kept), dumps(read()), PRIVATE)
    return loads(kept.read_text(encoding="utf-8"))


def chosen(plan: ClusterPlan, config: pytest.Config) -> Reading:
    """Return the records of --records, of --hosts, or of all nodes."""
    options = config.option
    if options.records is not None:
        return loads(Path(options.records).read_text(encoding="utf-8"))
    if options.hosts is not None:
        connections = named(plan, options)
    else:
        connections = by_ssh(plan, config.stash[SSH_CONFIG])
    return take(plan, connections, hashed=not options.no_fingerprint)


def named(plan: ClusterPlan, options: Namespace) -> dict[str, Connection]:
    """Return the connections of testinfra's own options: ``--hosts``, ``--sudo`` and the like."""
    hosts: Iterable[Host] = testinfra.get_hosts(
        options.hosts.split(","),
        connection=options.connection,
        ssh_config=options.ssh_config,
        ssh_extra_args=options.ssh_extra_args,
        ssh_identity_file=options.ssh_identity_file,
        sudo=options.sudo,
        sudo_user=options.sudo_user,
        ansible_inventory=options.ansible_inventory,
        force_ansible=options.force_ansible,
    )
    found: dict[str, Connection] = {}
    for host in hosts:
        node = node_of(plan, host)
        if node is None:
            name = host.backend.get_hostname()
            raise pytest.UsageError(f"--hosts {name}: no node of {options.inventory}")
        found[node] = Connection(host, "")
    return found


@pytest.fixture(scope="session")
def lockstep_report(request: pytest.FixtureRequest, lockstep_records: Reading) -> Report:
    """What all rules find on the cluster of --inventory."""
    options = request.config.option
    plan = planned(request.config)
    limit = None if options.hosts is None else lockstep_records
    missing = Unreachable(f"not in {options.records}" if options.records else "not in --hosts")
    everyone = {name: lockstep_records.get(name, missing) for name in plan.nodes}
    return check(rules_of(plan.spec), context(plan, everyone), limit)


@dataclass(frozen=True)
class RuleResult:
    """What one rule finds on the cluster."""

    rule: str
    findings: tuple[Finding, ...]

    def must_hold(self) -> None:
        """Fail with the findings, as ``lockstep check`` shows them, if there are any."""
        if self.findings:
            why = f"Reasons and limits: lockstep explain {self.rule}"
            pytest.fail("\n".join([*blocks(self.findings), why]), pytrace=False)


@pytest.fixture
def rule_result(lockstep_report: Report, lockstep_rule: str) -> RuleResult:
    """What one rule finds; skipped where the site switched it off."""
    report = lockstep_report
    for off in report.off:
        if off.rule == lockstep_rule and lockstep_rule not in report.rules:
            pytest.skip(off.text)
    if lockstep_rule.startswith(FAMILY) and lockstep_rule not in report.rules:
        pytest.skip("no fingerprint was taken")
    found = tuple(finding for finding in report if finding.rule == lockstep_rule)
    return RuleResult(lockstep_rule, found)


@dataclass(frozen=True)
class NodeRecord:
    """What the probe read on one node, and what is planned for that node."""

    plan: NodePlan
    whole: Record
    """The record itself, also with what is unread."""

    def __getitem__(self, reading: str) -> JsonValue:
        """Return the value of a reading; the test fails if it, or a part of it, is unread.

        docs/record.schema.json has the names and shapes of all readings.
        """
        value = self.whole.get(reading)
        parts = self.whole.parts(reading)
        unread = {name: one.unread for name, one in parts.items() if isinstance(one, Unread)}
        if not isinstance(value, Unread) and not unread:
            return value
        why = "; ".join(f"{name} {reason}".strip() for name, reason in unread.items())
        similar = did_you_mean(reading, self.whole.readings)
        if reading not in self.whole.readings and similar:
            why += f"; {similar}"
        pytest.fail(f"{self.plan.name}: {reading} was not read: {why}", pytrace=False)


@pytest.fixture
def record(
    request: pytest.FixtureRequest,
    # Not ``host``: a test asks for that itself, if it needs the connection.
    _testinfra_host: Host,
    lockstep_records: Reading,
) -> NodeRecord:
    """What was read on the node of ``host``; each node is read once per run."""
    plan = planned(request.config)
    name = node_of(plan, _testinfra_host)
    if name is None:
        inventory = request.config.getoption("--inventory")
        where = _testinfra_host.backend.get_hostname()
        pytest.fail(f"{where}: no node of {inventory}", pytrace=False)
    got = lockstep_records.get(name, Unreachable("it is not in the records"))
    if isinstance(got, Unreachable):
        pytest.fail(f"{name} was not read: {got.reason}", pytrace=False)
    return NodeRecord(plan.nodes[name], got)


def _no_rule(item: pytest.Item) -> bool:
    """Return whether a test has no rule: the site has no rules of its own."""
    called = getattr(item, "callspec", None)
    return called is not None and not isinstance(called.params.get("lockstep_rule", ""), str)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests without a rule; skip those that use connections if records are judged."""
    without = [item for item in items if _no_rule(item)]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]
    records = config.getoption("--records")
    if records is None:
        return
    for item in items:
        if isinstance(item, pytest.Function) and "host" in item.fixturenames:
            item.add_marker(pytest.mark.skip(f"--records {records}: no node is contacted"))
