"""``pytest tests/consistency --inventory INVENTORY``: the checks as tests, over testinfra.

The nodes are read once, all at the same time, with the probe that ``lockstep check`` uses; the
same engine judges. pytest-testinfra is the connection.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import testinfra

from lockstep.checks.catalogue import all_rules
from lockstep.checks.engine import check
from lockstep.facts.request import request
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.parse import ProbeFormatError, loads, parse
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.probe.ship import command
from lockstep.reading import context
from lockstep.report import Finding, Report
from lockstep.spec import Service

AT_ONCE = 64
CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
TIMED_OUT = (124, 137)
"""Exit statuses of timeout(1): ended, and killed because it did not end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lockstep")
    group.addoption("--inventory", metavar="INVENTORY", help="inventory file of the cluster")
    group.addoption("--records", metavar="FILE", help="judge saved records; contact no node")


def pytest_configure(config: pytest.Config) -> None:
    inventory = config.getoption("--inventory")
    if inventory is None or not Path(inventory).is_file():
        raise pytest.UsageError(
            f"{inventory or 'no inventory'}: expected pytest tests/consistency --inventory FILE"
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rule" in metafunc.fixturenames:
        metafunc.parametrize("rule", [rule.id for rule in all_rules()])


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What all rules find on the cluster of --inventory."""
    inventory = request.config.getoption("--inventory")
    if inventory is None:
        pytest.fail("which cluster? pytest tests/consistency --inventory INVENTORY", pytrace=False)
    plan = load(inventory)
    saved = request.config.getoption("--records")
    if saved is None:
        reading = read_all(plan, tmp_path_factory.mktemp("ssh"))
    else:
        found = loads(Path(saved).read_text(encoding="utf-8"))
        missing = Unreachable(f"not in {saved}")
        reading = {name: found.get(name, missing) for name in plan.nodes}
    return check(all_rules(), context(plan, reading))


@pytest.fixture
def findings(report: Report, rule: str) -> list[Finding]:
    """What one rule finds."""
    return [finding for finding in report if finding.rule == rule]


def read_all(plan: ClusterPlan, folder: Path) -> Reading:
    """Read every node: the controller first, whose credential the others decode."""
    config = ssh_config(plan, folder)
    controller = plan.running(Service.SLURM_CONTROLLER)
    reading: Reading = {}
    credential: str | None = None
    if controller is not None:
        got = read(controller, config, None)
        reading[controller.name] = got
        made = got.get("munge.credential") if isinstance(got, Record) else None
        credential = made if isinstance(made, str) else None
    others = [node for name, node in plan.nodes.items() if name not in reading]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda node: read(node, config, credential), others)
        reading.update({node.name: got for node, got in zip(others, answers, strict=True)})
    return reading


def read(node: NodePlan, config: Path, credential: str | None) -> Record | Unreachable:
    """Read one node through testinfra."""
    host = testinfra.get_host(
        f"ssh://{node.name}", ssh_config=str(config), timeout=CONNECT_TIMEOUT_S, controlpersist=0
    )
    asked = replace(request(node), credential=credential)
    try:
        # Below sudo: only root may end what root started.
        done = host.run(f"sudo -n -H timeout -k 5 {NODE_TIMEOUT_S} {command(asked)}")
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
        return Unreachable(f"reached by ssh, but the answer is no record: {error}")


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
