"""Values that no cluster has: each is refused in seconds, with its field and its line.

The message is not the point here, but the place and that there is one. ``VALID`` holds values that
look as odd, and that clusters have.
"""

import time
from pathlib import Path
from typing import NamedTuple

import pytest

from lockstep.inventory import load
from lockstep.spec.names import MOST
from tests.spec.example import SOURCE, edited, line_of
from tests.spec.test_wrong_specs import refused

SLOWEST_S = 10.0
"""The longest that an answer may take, in CPU time of this process."""


class Case(NamedTuple):
    """One change of the example."""

    old: str
    new: str
    field: str = ""
    """The field that the message names; "" in ``VALID``."""
    more: tuple[tuple[str, str], ...] = ()
    """Further changes that the first one needs."""
    at: str = ""
    """Text whose line the message names; "": the changed text."""


SYSCTL = '"sysctl": {"vm.swappiness": "1"}'
PREFIX = '"prefix": "fd00:1::/64"'
OS = '"release": "debian_13", '
SLURM = '"system_memory_mib": 2048,'
DEVICES = '"devices": "/dev/nvidia[0-7]"'
PARTITION = '"name": "debug"'
HEAD2 = '"name": "head2"'
SOCKETS = '"sockets": 2,\n                "cores_per_socket": 8,'
END = '        "software": {"versions"'


def sysctl(value: str) -> tuple[str, str, str]:
    return SYSCTL, f'"sysctl": {{"vm.swappiness": {value}}}', "os.sysctl.vm.swappiness"


def network(prefix: str) -> tuple[str, str, str]:
    return PREFIX, f'"prefix": "{prefix}"', "networks.management.prefix"


def added(text: str, field: str) -> tuple[str, str, str]:
    """A field that the example leaves out."""
    return END, f"        {text},\n{END}", field


def ipv4(name: str, address: str) -> Case:
    """An address of a node in 10.1.0.0/24."""
    head1 = address if name == "head1" else "10.1.0.1"
    return Case(
        '"management": "fd00:1::1"',
        f'"management": "{head1}"',
        "nodes[0].management",
        (
            (PREFIX, '"prefix": "10.1.0.0/24"'),
            ('"management": "fd00:1::2"', '"management": "10.1.0.2"'),
            ('"management": "fd00:1::100"', '"management": "10.1.0.100"'),
        ),
    )


REFUSED = {
    # -- the wrong kind of value where a dictionary belongs
    "a list for a dictionary": Case('"os": {"release"', '"os": [], "x": {"release"', "os"),
    "a text for a dictionary": Case('"os": {"release"', '"os": "a", "x": {"release"', "os"),
    "a list of networks": Case('"networks": {', '"networks": [], "x": {', "networks"),
    "a text for the hardware": Case('"hardware": {', '"hardware": "hgx", "x": {', "hardware"),
    "a text for a class": Case('"head": {"sockets"', '"head": "a", "x": {"sockets"', "hardware"),
    "a dictionary of nodes": Case('"nodes": [\n', '"nodes": {}, "x": [\n', "nodes"),
    "a text for a group": Case('"nodes": [\n', '"nodes": ["head1",\n', "nodes[0]"),
    "a number for a partition": Case(
        '"partitions": [', '"partitions": [5,', "scheduler.partitions[0]"
    ),
    "a list for sysctl": Case(SYSCTL, '"sysctl": ["vm.swappiness"]', "os.sysctl"),
    "a text for versions": Case('"versions": {"slurmd"', '"versions": "a", "x": {"slurmd"', "soft"),
    # -- sizes that take hours or all memory
    "8 * 10^7 cores": Case(
        SOCKETS,
        SOCKETS[:-1] + "0000000,",
        "hardware.hgx.cores_per_socket",
        at='"cores_per_socket": 80000000',
    ),
    "2^31 sockets": Case('"sockets": 2,', f'"sockets": {2**31},', "hardware.hgx.sockets"),
    "2^31 - 1 sockets": Case('"sockets": 2,', f'"sockets": {2**31 - 1},', "hardware.hgx.sockets"),
    "a million workers": Case('"worker[1-4]",\n', '"worker[0-999999]",\n', "nodes[2].name"),
    "10^15 workers": Case('"worker[1-4]",\n', f'"worker[0-{10**15}]",\n', "nodes[2].name"),
    "racks times workers": Case('"worker[1-4]",\n', '"r[1-999]w[1-999]",\n', "nodes[2].name"),
    "one node too many": Case(
        '"worker[1-4]",\n', f'"worker[1-{MOST}]",\n', "nodes", at='"nodes": [\n'
    ),
    "10^12 CPUs": Case('"0,8,16,24"', f'"0-{10**12}"', "hardware.hgx.housekeeping_cpus"),
    "a number of thousands of digits": Case(
        '"memory_mib": 32000', f'"memory_mib": 1{"0" * 4000}', "hardware.head.memory_mib"
    ),
    "a text of a megabyte": Case(HEAD2, f'"name": "{"a" * 10**6}"', "nodes[1].name"),
    # -- text that would be syntax in a file
    "a line of gres.conf": Case(
        DEVICES, r'"devices": "/dev/nvidia[0-7]\nNodeName=evil"', "hardware.hgx.gpu.devices"
    ),
    "a word of gres.conf": Case(
        DEVICES, '"devices": "/dev/nvidia[0-7] Type=evil"', "hardware.hgx.gpu.devices"
    ),
    "a comment in gres.conf": Case(
        DEVICES, '"devices": "/dev/n#[0-7]"', "hardware.hgx.gpu.devices"
    ),
    "NUL in a sysctl": Case(*sysctl(r'"1\x00"')),
    "ESC in a sysctl": Case(*sysctl(r'"\x1b[2J"')),
    "a line in a sysctl": Case(*sysctl(r'"1\nkernel.panic=1"')),
    "a line separator of Unicode": Case(*sysctl(r'"1\u2028x"')),
    "half a character": Case(*sysctl(r'"1\ud800"')),
    "a control character in a key": Case(SYSCTL, r'"sysctl": {"vm.a\x1b": "1"}', "os.sysctl"),
    "a line in the account": Case(*added(r'"access": {"user": "ops\nx"}', "access.user")),
    "an option as the account": Case(*added('"access": {"user": "-oX=y"}', "access.user")),
    "a line in a folder": Case(*added(r'"records_dir": "/var/a\nb"', "records_dir")),
    "a line in a class of an override": Case(
        *added(
            r'"checks": {"overrides": [{"rule": "a\nb", "off": "x"}]}', "checks.overrides[0].rule"
        )
    ),
    # -- names
    "None as a name": Case(HEAD2, '"name": None', "nodes[1].name"),
    "nan as a name": Case(HEAD2, '"name": float("nan")', "nodes[1].name"),
    "True as a name": Case(HEAD2, '"name": True', "nodes[1].name"),
    "a number as a name": Case(HEAD2, '"name": 5', "nodes[1].name"),
    "digits as a name": Case(HEAD2, '"name": "10"', "nodes[1].name (node 10)"),
    "None as an address": Case('"management": "fd00:1::2"', '"management": None', "nodes[1].man"),
    "a control character in the name of a group": Case(
        HEAD2, r'"name": "head2\x1b"', "nodes[1].name"
    ),
    "localhost": Case(HEAD2, '"name": "localhost"', "nodes[1].name (node localhost)"),
    "Localhost": Case(HEAD2, '"name": "Localhost"', "nodes[1].name (node Localhost)"),
    "a node DEFAULT": Case(HEAD2, '"name": "DEFAULT"', "nodes[1].name (node DEFAULT)"),
    "a partition DEFAULT": Case(PARTITION, '"name": "DEFAULT"', "scheduler.partitions[1].name"),
    "a partition default": Case(PARTITION, '"name": "default"', "scheduler.partitions[1].name"),
    "Head1 beside head1": Case(HEAD2, '"name": "Head1"', "nodes[1].name (node Head1)"),
    # -- addresses and networks
    "the network address": ipv4("head1", "10.1.0.0"),
    "the broadcast address": ipv4("head1", "10.1.0.255"),
    "the anycast address": Case(
        '"management": "fd00:1::1"', '"management": "fd00:1::"', "nodes[0].management"
    ),
    "the anycast address of a rail": Case(
        '"fabric": "fd00:2::100"', '"fabric": "fd00:2::"', "nodes[2].fabric"
    ),
    "a multicast network": Case(*network("ff02::/64")),
    "an IPv4 multicast network": Case(*network("224.0.0.0/8")),
    "every address": Case(*network("::/0")),
    "every IPv4 address": Case(*network("0.0.0.0/0")),
    "a link-local network": Case(*network("fe80::/64")),
    "an IPv4 link-local network": Case(*network("169.254.0.0/16")),
    "a loopback network": Case(*network("127.0.0.0/8")),
    "the fabric over the management network": Case(
        '"prefix": "fd00:2::/60"', '"prefix": "fd00::/16"', "networks.fabric.prefix"
    ),
    # -- other values
    "a former name of a time zone": Case(OS, OS + '"time_zone": "US/Eastern", ', "os.time_zone"),
    "a time zone of Mars": Case(OS, OS + '"time_zone": "Mars/Phobos", ', "os.time_zone"),
    "no retention": Case(*added('"monitoring": {"retention": "0d"}', "monitoring.retention")),
    "a retention in the wrong order": Case(
        *added('"monitoring": {"retention": "1h1d"}', "monitoring.retention")
    ),
    "a retention of ages": Case(
        *added('"monitoring": {"retention": "999y"}', "monitoring.retention")
    ),
    "two exporters on one port": Case(
        *added('"monitoring": {"prometheus_port": 9100}', "monitoring.prometheus_port (node head2)")
    ),
    "an exporter on the port of slurmd": Case(
        *added('"monitoring": {"node_exporter_port": 6818}', "monitoring.node_exporter_port")
    ),
    "an exporter on the port of sshd": Case(
        *added('"monitoring": {"node_exporter_port": 22}', "monitoring.node_exporter_port")
    ),
    "an infinite offset": Case(*added('"time": {"max_offset_s": float("inf")}', "time.max_off")),
    "an offset that is no number": Case(
        *added('"time": {"max_offset_s": float("nan")}', "time.max_offset_s")
    ),
    "10^30 open files": Case(OS, OS + f'"nofile": {10**30}, ', "os.nofile"),
    "10^12 open files": Case(OS, OS + f'"nofile": {10**12}, ', "os.nofile"),
    "True as a count": Case('"sockets": 2,', '"sockets": True,', "hardware.hgx.sockets"),
    "True as a limit": Case(SLURM, '"system_memory_mib": True,', "scheduler.system_memory_mib"),
    "True as a clock": Case(DEVICES, DEVICES + ', "clocks_mhz": (True, 9)', "hardware.hgx.gpu.clo"),
    "True as a NUMA node": Case('{0: "0-3", 1: "4-7"}', '{True: "0-7"}', "hardware.hgx.gpu.numa"),
    "a kernel argument that ends GRUB's command": Case(
        '"kernel_args": ["iommu=pt"]', '"kernel_args": ["a;b"]', "hardware.hgx.kernel_args[0]"
    ),
    "bytes as text": Case(*sysctl('b"1"')),
    "a set as a list": Case('"runs": ["prometheus"]', '"runs": {"prometheus"}', "nodes[1].runs"),
    "a sysctl of a field, by its path": Case(
        SYSCTL, '"sysctl": {"vm/nr_hugepages": "1"}', "os.sysctl.vm/nr_hugepages"
    ),
    "a sysctl twice": Case(
        SYSCTL, '"sysctl": {"vm.swappiness": "1", "vm/swappiness": "2"}', "os.sysctl.vm/swappiness"
    ),
    "a sysctl outside of /proc/sys": Case(
        SYSCTL, '"sysctl": {"vm/../../../etc/x": "1"}', "os.sysctl.vm/../../../etc/x"
    ),
}

VALID = {
    "a sysctl of an interface with upper case": Case(
        SYSCTL, '"sysctl": {"net.ipv4.conf.enP2p1s0f0.rp_filter": "2"}'
    ),
    "a sysctl of a VLAN": Case(SYSCTL, '"sysctl": {"net.ipv4.conf.eth0/100.rp_filter": "2"}'),
    "a sysctl by its path": Case(SYSCTL, '"sysctl": {"net/ipv4/conf/eth0.100/rp_filter": "2"}'),
    "a sysctl with tabs": Case(*sysctl(r'"4096\t87380\t16777216"')[:2]),
    "a sysctl with a pipe": Case(
        SYSCTL, '"sysctl": {"kernel.core_pattern": "|/usr/lib/systemd/systemd-coredump %P"}'
    ),
    "an account of a directory": Case(*added('"access": {"user": "jane.doe@example.net"}', "")[:2]),
    "a link to a time zone": Case(OS, OS + '"time_zone": "Europe/Amsterdam", '),
    "a long retention": Case(*added('"monitoring": {"retention": "1y6w"}', "")[:2]),
    "one port on two kinds of nodes": Case(
        *added('"monitoring": {"prometheus_port": 9400}', "")[:2]
    ),
    "a port that the default leaves": Case(
        *added('"monitoring": {"prometheus_port": 9100, "node_exporter_port": 9101}', "")[:2]
    ),
    "upper case in a name": Case(HEAD2, '"name": "Head2"'),
    "names with spaces": Case('"nodes": "worker1"', '"nodes": "worker1, worker3"'),
    "a number as a text": Case('"sockets": 2,', '"sockets": "2",'),
    "the first and the last host": ipv4("head1", "10.1.0.254"),
    "two hosts in a /127": Case(
        '"fabric": {"prefix": "fd00:2::/60", "rails": 8}',
        '"fabric": {"prefix": "fd00:2::/127"}',
        more=(('"name": "worker[1-4]",\n', '"name": "worker[1-2]",\n'),
              ('"fabric": "fd00:2::100"', '"fabric": "fd00:2::"'),
              ('"nodes": "worker[1-4]"', '"nodes": "worker[1-2]"')),
    ),
    "8192 CPUs": Case(SOCKETS, SOCKETS[:-2] + "2048,", more=(('"0,8,16,24"', '""'),)),
    "a folder below the home folder": Case(*added('"records_dir": "~/records"', "")[:2]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = REFUSED[name]
    text = edited((case.old, case.new), *case.more)
    started = time.process_time()
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert time.process_time() - started < SLOWEST_S
    place = f"ERROR unit.py:{line_of(text, case.at or case.new.strip())} {case.field}"
    assert any(line.startswith(place) for line in said.splitlines()), said
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", VALID)
def test_it_is_accepted(name: str, tmp_path: Path) -> None:
    case = VALID[name]
    (tmp_path / "unit.py").write_text(edited((case.old, case.new), *case.more), encoding="utf-8")
    assert load(str(tmp_path / "unit.py")).nodes


def test_what_is_no_dictionary_at_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, tail = SOURCE.partition("plan_or_exit(\n    {")
    text = head + 'plan_or_exit(["name"], __file__)\n_unused = (\n    {' + tail
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert "a dictionary, in { }" in said


def test_a_description_that_contains_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SOURCE.replace("_cluster = plan_or_exit(\n    {", "_wanted = (\n    {").replace(
        "    },\n    __file__,\n)",
        "    }\n)\n"
        '_wanted["extensions"] = {"a": _wanted}\n'
        "_cluster = plan_or_exit(_wanted, __file__)\n",
    )
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert "at most 20 dictionaries and lists inside each other" in said
