"""What is not compared of kernel and network, and its neighbours, which are."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.entry import Entry
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.firewall import EXCEPTIONS_OF_FIREWALL
from lockstep.node.fingerprint.modules import EXCEPTIONS_OF_MODULE
from lockstep.node.fingerprint.mounts import EXCEPTIONS_OF_MOUNT
from lockstep.node.fingerprint.network import EXCEPTIONS_OF_NETWORK
from lockstep.node.fingerprint.sysctl import EXCEPTIONS_OF_SYSCTL

ROWS = (
    *EXCEPTIONS_OF_SYSCTL,
    *EXCEPTIONS_OF_MOUNT,
    *EXCEPTIONS_OF_NETWORK,
    *EXCEPTIONS_OF_FIREWALL,
    *EXCEPTIONS_OF_MODULE,
)
TABLE = by_domain(ROWS)
FIELD = "value"
LEFT_OUT = (
    ("sysctl", "fs.dentry-state"),
    ("sysctl", "net.netfilter.nf_conntrack_count"),
    ("sysctl", "lnet.stats"),
    ("sysctl", "kernel.spl.kmem.kmem_alloc"),
    ("sysctl", "net.core.netdev_rss_key"),
    ("sysctl", "kernel.tainted"),
    ("sysctl", "kernel.perf_event_max_sample_rate"),
    ("mount", "/var/lib/docker/overlay2/0123/merged"),
    ("mount", "/run/netns"),
    ("mount", "/run/user/1000"),
    ("mount", "/run/credentials/systemd-journald.service"),
    ("mount", "/var/spool/slurmd/job_container/77/job_77"),
    ("mount", "/proc/sys/fs/binfmt_misc #2"),
    ("netns", "cni-8a3f2b1c-77aa-44bb-99cc-0123456789ab"),
    ("route", "10.244.2.0/24 dev flannel.1"),
    ("route", "10.244.0.0/24 dev cni0"),
    ("route", "10.244.7.71 dev cali0123456789a"),
    ("route", "10.244.7.64/26 by Calico's bird"),
    ("route", "fd10::7:40/122 dev eth0 by Calico's 80 metric 1024"),
    ("route", "fd00:1:0:ffff:2::/80 by Lockstep metric 1024"),
    ("route", "10.244.8.64/26 dev vxlan.calico by Calico's 80"),
    ("route", "IPv4 default table 2005 dev cilium_host"),
    ("neighbour", "10.244.2.0 dev flannel.1"),
    ("neighbour", "fdb ca:00:00:00:00:02 dev flannel.1"),
    ("address", "cni0 10.244.0.1/24"),
    ("address", "Calico's tunl0 10.244.7.64/32"),
    ("firewall", "iptables IPv4 nat KUBE-SEP-ABCDEFGHIJKLMNOP"),
    ("firewall", "iptables IPv4 nat CNI-0123456789abcdef01234567"),
)
COMPARED = (
    ("sysctl", "fs.file-max"),
    ("sysctl", "net.netfilter.nf_conntrack_max"),
    ("sysctl", "lnet.debug"),
    ("sysctl", "kernel.spl.hostid"),
    ("sysctl", "net.core.rmem_max"),
    ("sysctl", "kernel.perf_event_paranoid"),
    ("mount", "/var/lib/docker"),
    ("mount", "/var/lib/docker/overlay2"),
    ("mount", "/run/user"),
    ("mount", "/run"),
    ("mount", "/var/spool/slurmd"),
    ("mount", "/proc/sys/fs/binfmt_misc"),
    ("netns", "blue"),
    ("route", "10.244.2.0/24"),
    ("route", "IPv4 default dev eth0"),
    ("route", "IPv4 default dev flannel.1"),
    ("route", "IPv6 default dev cilium_host metric 1024"),
    ("route", "10.99.0.0/16 by bird"),
    ("route", "fd00:1:0:ffff:2::/80 metric 1024"),
    ("route", "IPv6 default by Lockstep"),
    ("route", "10.99.0.0/26 by bird"),
    ("route", "fd10::7:40/122 dev eth0 by 80 metric 1024"),
    ("route", "10.99.0.0/16 by Calico's bird"),
    ("route", "10.99.0.0/16 dev flannel0"),
    ("neighbour", "10.20.0.7 dev eth0"),
    ("address", "eth0 10.244.0.1/24"),
    ("address", "tunl0 10.20.0.100/32"),
    ("address", "lxcbr0 10.0.3.1/24"),
    ("route", "10.9.0.7/32 by bird"),
    ("interface", "flannel.1"),
    ("interface", "tunl0"),
    ("firewall", "iptables IPv4 nat KUBE-SERVICES"),
    ("firewall", "iptables IPv4 filter INPUT"),
)
FIELDS = (
    ("sysctl", "net.ipv6.conf.eth0", "stable_secret", "accept_ra"),
    ("firewall", "iptables IPv4 filter f2b-sshd", "rules", "policy"),
    ("firewall", "ipset cali40this-host", "elements", "settings"),
    ("module", "nfs", "parameter nfs4_unique_id", "parameter callback_tcpport"),
    ("module", "dm_bufio", "parameter peak_allocated_bytes", "parameter max_age_seconds"),
    ("module", "fuse", "parameter max_user_bgreq", "parameter enable_uring"),
    ("module", "kernel", "parameter panic", "parameter pause_on_oops"),
    ("module", "nf_conntrack", "parameter hashsize", "parameter expect_hashsize"),
    ("module", "dm_mod", "parameter stats_current_allocated_bytes", "parameter swap_bios"),
)


@pytest.mark.parametrize(("domain", "name"), LEFT_OUT)
def test_it_is_left_out(domain: str, name: str) -> None:
    assert without_exceptions(domain, Entry(name, {FIELD: "7"}), TABLE) is None


@pytest.mark.parametrize(("domain", "name"), COMPARED)
def test_its_neighbour_is_compared(domain: str, name: str) -> None:
    assert without_exceptions(domain, Entry(name, {FIELD: "7"}), TABLE) == {FIELD: "7"}


@pytest.mark.parametrize(("domain", "name", "gone", "kept"), FIELDS)
def test_a_field_is_left_out(domain: str, name: str, gone: str, kept: str) -> None:
    entry = Entry(name, {gone: "7", kept: "8"})
    assert without_exceptions(domain, entry, TABLE) == {kept: "8"}


def test_each_exception_has_an_example_and_a_reason() -> None:
    for row in ROWS:
        table = by_domain([row])
        examples = [
            *((domain, Entry(name, {FIELD: ""})) for domain, name in LEFT_OUT),
            *((domain, Entry(name, {gone: ""})) for domain, name, gone, _ in FIELDS),
        ]
        hit = [
            entry.name
            for domain, entry in examples
            if without_exceptions(domain, entry, table) in (None, {})
        ]
        assert hit or row.domain == "module", row
        assert row.reason.endswith("."), row
