"""``pytest tests/consistency --inventory INVENTORY``: the checks as tests, over testinfra.

The nodes are read once, all at the same time, with the probe that ``lockstep check`` uses, also
where pytest-xdist runs the tests in several processes; the same engine judges. Nodes whose
fingerprints differ are asked once more. The connection is pytest-testinfra's: over ssh as the
inventory says, or whatever its own ``--hosts`` names.
"""

from __future__ import annotations

import fcntl
import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import pytest
import testinfra
from testinfra.host import Host

from lockstep.checks.engine import check
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.checks.site import rules_of
from lockstep.commands import replace_file
from lockstep.fleet.request import Asked, own, request
from lockstep.history.store import PRIVATE
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import dumps, loads, parse
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.probe.ship import Request, in_pieces
from lockstep.reading import context, with_branches
from lockstep.report import Finding, Report
from lockstep.spec import Service

PLAN = pytest.StashKey[ClusterPlan]()
AT_ONCE = 64
CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
TIMED_OUT = (124, 137)
"""Exit statuses of timeout(1): ended, and killed because it did not end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lockstep")
    group.addoption("--inventory", metavar="INVENTORY", help="inventory file of the cluster")
    group.addoption(
        "--no-fingerprint",
        action="store_true",
        help="compare only what rules name, not the whole configuration",
    )
    group.addoption("--records", metavar="FILE", help="judge saved records; contact no node")


def pytest_configure(config: pytest.Config) -> None:
    inventory = config.getoption("--inventory")
    if inventory is None or not Path(inventory).is_file():
        raise pytest.UsageError(
            f"{inventory or 'no inventory'}: expected pytest tests/consistency --inventory FILE"
        )
    plan = config.stash[PLAN] = load(inventory)
    for topic in sorted({topic_of(rule.id) for rule in rules_of(plan.spec)}):
        config.addinivalue_line("markers", f"{topic}: the rules {topic}.*")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rule" in metafunc.fixturenames:
        rules = [rule.id for rule in rules_of(metafunc.config.stash[PLAN].spec)]
        marked = [pytest.param(rule, marks=getattr(pytest.mark, topic_of(rule))) for rule in rules]
        metafunc.parametrize("rule", marked, ids=rules)


def topic_of(rule: str) -> str:
    """Return the marker of a rule: ``gpu`` for ``gpu.power_limit``."""
    return rule.split(".")[0]


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What all rules find on the cluster of --inventory."""
    options = request.config.option
    plan = request.config.stash[PLAN]
    folder = tmp_path_factory.getbasetemp()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None:  # each process has a folder of its own, below that of the run
        folder = folder.parent
    kept = folder / f"records-{run or 'alone'}.json"
    reading = once(kept, lambda: read_chosen(plan, options, tmp_path_factory))
    limit = None if options.hosts is None else reading
    missing = Unreachable(f"not in {options.records}" if options.records else "not in --hosts")
    everyone = {name: reading.get(name, missing) for name in plan.nodes}
    return check(rules_of(plan.spec), context(plan, everyone), limit)


def once(kept: Path, read: Callable[[], Reading]) -> Reading:
    """Read in one process of a run; the others wait, and take what it has read."""
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            replace_file(str(kept), dumps(read()), PRIVATE)
    return loads(kept.read_text(encoding="utf-8"))


@pytest.fixture
def findings(report: Report, rule: str) -> list[Finding]:
    """What one rule finds; skipped where the site switched it off."""
    for off in report.off:
        if off.rule == rule and rule not in report.rules:
            pytest.skip(off.text)
    if rule.startswith(FAMILY) and rule not in report.rules:
        pytest.skip("no fingerprint was taken")
    return [finding for finding in report if finding.rule == rule]


class Connection(NamedTuple):
    """How one node is reached, and what makes us root there."""

    host: Host
    prefix: str


def read_chosen(
    plan: ClusterPlan, options: Namespace, tmp_path_factory: pytest.TempPathFactory
) -> Reading:
    """Return the records of --records, of --hosts, or of all nodes."""
    if options.records is not None:
        return loads(Path(options.records).read_text(encoding="utf-8"))
    if options.hosts is not None:
        connections = named(plan, options)
    else:
        connections = by_ssh(plan, tmp_path_factory.mktemp("ssh"))
    hashed = not options.no_fingerprint
    reading = read_all(plan, connections, hashed)
    if not hashed:
        return reading

    def ask(plan: ClusterPlan, wanted: Mapping[str, Asked]) -> Reading:
        requests = {name: question(plan.nodes[name], asked=one) for name, one in wanted.items()}
        return read_each(connections, requests)

    return with_branches(plan, reading, ask)


def by_ssh(plan: ClusterPlan, folder: Path) -> dict[str, Connection]:
    """Return a connection to every node, as the inventory says."""
    config = str(ssh_config(plan, folder))
    return {
        name: Connection(
            testinfra.get_host(
                f"ssh://{name}", ssh_config=config, timeout=CONNECT_TIMEOUT_S, controlpersist=0
            ),
            "sudo -n -H ",
        )
        for name in plan.nodes
    }


def named(plan: ClusterPlan, options: Namespace) -> dict[str, Connection]:
    """Return the connections of testinfra's own options: ``--hosts``, ``--sudo`` and the like."""
    hosts = testinfra.get_hosts(
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
    nodes = {name: name for name in plan.nodes}
    nodes |= {node.address: name for name, node in plan.nodes.items()}
    found: dict[str, Connection] = {}
    for host in hosts:
        name = host.backend.get_hostname()
        if name not in nodes:
            raise pytest.UsageError(f"--hosts {name}: no node of {options.inventory}")
        found[nodes[name]] = Connection(host, "")
    return found


def question(
    node: NodePlan, credential: str | None = None, *, fingerprint: bool = True, asked: Asked = ()
) -> Request:
    """Return what one node is asked."""
    wanted = request(node, fingerprint=fingerprint, asked=asked)
    return replace(wanted, credential=credential, own=own(node) if wanted.fingerprint else ())


def read_all(plan: ClusterPlan, connections: dict[str, Connection], hashed: bool) -> Reading:
    """Read every node: the controller first, whose credential the others decode."""
    controller = plan.running(Service.SLURM_CONTROLLER)
    reading: Reading = {}
    credential: str | None = None
    if controller is not None and controller.name in connections:
        wanted = question(controller, fingerprint=hashed)
        got = read(connections[controller.name], wanted)
        reading[controller.name] = got
        made = got.get("munge.credential") if isinstance(got, Record) else None
        credential = made if isinstance(made, str) else None
    others = {
        name: question(plan.nodes[name], credential, fingerprint=hashed)
        for name in connections
        if name not in reading
    }
    return {**reading, **read_each(connections, others)}


def read_each(connections: dict[str, Connection], requests: Mapping[str, Request]) -> Reading:
    """Read several nodes at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda name: read(connections[name], requests[name]), requests)
        return dict(zip(requests, answers, strict=True))


def read(way: Connection, asked: Request) -> Record | Unreachable:
    """Read one node through testinfra, which gives commands no standard input."""
    try:
        for command in in_pieces(asked, f"/run/lockstep-check-{token_hex(8)}"):
            # Below sudo: only root may end what root started.
            done = way.host.run(f"{way.prefix}timeout -k 5 {NODE_TIMEOUT_S} {command}")
            if done.rc != 0:
                break
    except RuntimeError as error:  # testinfra raises it, with the result, where ssh itself failed
        said = getattr(error.args[0], "stderr", str(error)).strip().splitlines()
        last = said[-1] if said else "exit 255"
        return Unreachable(f"ssh: {last.removeprefix('ssh: ')}")
    if done.rc in TIMED_OUT:
        return Unreachable(f"no record within {NODE_TIMEOUT_S} s")
    if done.rc != 0:
        said = (done.stderr or done.stdout or "no message").strip().splitlines()
        return Unreachable(f"reached by ssh, but the probe failed: {said[-1][:200]}")
    try:
        return parse(done.stdout)
    except ProbeFormatError as error:
        return Unreachable(f"reached by ssh, but the output is not a record: {error}")


def ssh_config(plan: ClusterPlan, folder: Path) -> Path:
    """Write what the inventory says of ssh, in ssh's own words; host keys are always checked."""
    access = plan.spec.access
    lines = ["Host *", f"  User {access.user}", f"  Port {access.port}"]
    lines += ["  StrictHostKeyChecking yes", "  BatchMode yes"]
    # A node that freezes after the login ends no command of ours: ssh itself gives it up.
    lines += ["  ServerAliveInterval 15", f"  ServerAliveCountMax {NODE_TIMEOUT_S // 15}"]
    if access.key:
        lines += [f'  IdentityFile "{access.key}"', "  IdentitiesOnly yes"]
    if access.known_hosts:
        lines.append(f'  UserKnownHostsFile "{access.known_hosts}"')
    for name, node in plan.nodes.items():
        lines += [f"Host {name}", f"  HostName {node.address}"]
    path = folder / "config"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
