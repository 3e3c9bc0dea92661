"""Changes of sysctls, kernel settings, mounts, the network, packet filters and hardware.

The lab's machines share a kernel and may not write most of /proc and /sys. There, a file is bound
over the value, which the name of the change says.
"""

from __future__ import annotations

from tests.lab.changes import Change

SEED = "/run/seed"


def sysctl(key: str, value: str, shown: str = "", alone: bool = False) -> Change:
    """Return a change of a sysctl of the network namespace, which is the machine's own."""
    path = "/proc/sys/" + key.replace(".", "/")
    kept = f"{SEED}/{key}"
    return Change(
        f"sysctl -w {key}={value}",
        f"mkdir -p {SEED}; cat {path} > {kept}; echo '{value}' > {path}",
        f"cat {kept} > {path}; rm {kept}; rmdir --ignore-fail-on-non-empty {SEED}",
        "running" if alone else "sysctl",
        f"sysctl {key}" if alone else shown or key,
        alone,
    )


def bound(path: str, value: str, domain: str, shown: str = "") -> Change:
    """Return a change of a value that the lab cannot write: a file is bound over it."""
    kept = f"{SEED}/{path.strip('/').replace('/', '-')}"
    return Change(
        f"echo '{value}' > {path} (bind mount)",
        f"mkdir -p {SEED}; printf '%s\\n' '{value}' > {kept}; mount --bind {kept} {path}",
        f"umount {path}; rm {kept}; rmdir --ignore-fail-on-non-empty {SEED}",
        domain,
        shown or path,
    )


def bound_sysctl(key: str, value: str) -> Change:
    """Return a change of a sysctl that all machines of the lab share."""
    return bound("/proc/sys/" + key.replace(".", "/"), value, "sysctl", key)


def edited(path: str, program: str, domain: str, shown: str, name: str) -> Change:
    """Return a bind mount of a file that a program for sed has changed."""
    kept = f"{SEED}/{path.strip('/').replace('/', '-')}"
    return Change(
        f"{name} (bind mount)",
        f"mkdir -p {SEED}; sed '{program}' {path} > {kept}; mount --bind {kept} {path}",
        f"umount {path}; rm {kept}; rmdir --ignore-fail-on-non-empty {SEED}",
        domain,
        shown,
    )


def done(script: str, undo: str, domain: str, shown: str, alone: bool = False) -> Change:
    """Return a change whose name is its script."""
    return Change(script, script, undo, domain, shown, alone)


WRITABLE = "mount -o remount,bind,rw /sys"
PROTECTED = "mount -o remount,bind,ro,nosuid,nodev,noexec,relatime /sys"
"""The lab's /sys is a tmpfs without /sys/module. It is made writable for as long as a change takes
to write."""


def module(name: str, parameter: str, value: str) -> Change:
    """Return a module with a parameter, which the lab's kernel does not have."""
    folder = f"/sys/module/{name}/parameters"
    return Change(
        f"modprobe {name} {parameter}={value} (files on the lab's tmpfs)",
        f"{WRITABLE}; mkdir -p {folder} /sys/module/nf_tables;"
        f" echo {value} > {folder}/{parameter}; {PROTECTED}",
        f"{WRITABLE}; rm -r /sys/module; {PROTECTED}",
        "module",
        name,
    )


SYSCTLS = (
    sysctl("net.ipv4.tcp_slow_start_after_idle", "0"),
    sysctl("net.ipv4.tcp_mtu_probing", "1"),
    sysctl("net.ipv4.ip_local_port_range", "20000 60999"),
    sysctl("net.ipv4.tcp_congestion_control", "reno"),
    sysctl("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    sysctl("net.ipv4.tcp_sack", "0"),
    sysctl("net.ipv4.icmp_echo_ignore_all", "1"),
    sysctl("net.ipv4.ip_unprivileged_port_start", "80"),
    sysctl("net.ipv4.conf.mgmt0.rp_filter", "2", "net.ipv4.conf.mgmt0"),
    sysctl("net.ipv4.conf.all.arp_ignore", "1", "net.ipv4.conf.all"),
    sysctl("net.ipv4.neigh.fabric0.gc_stale_time", "600", "net.ipv4.neigh.fabric0"),
    sysctl("net.ipv6.conf.fabric0.accept_ra", "2", "net.ipv6.conf.fabric0"),
    sysctl("net.ipv6.conf.mgmt0.addr_gen_mode", "1", "net.ipv6.conf.mgmt0"),
    sysctl("net.netfilter.nf_conntrack_tcp_loose", "0"),
    sysctl("net.unix.max_dgram_qlen", "64"),
    sysctl("net.bridge.bridge-nf-call-iptables", "0"),
    sysctl("net.core.somaxconn", "128", alone=True),
    sysctl("net.ipv4.tcp_keepalive_time", "7200", alone=True),
    bound_sysctl("vm.swappiness", "10"),
    bound_sysctl("vm.overcommit_memory", "2"),
    bound_sysctl("vm.zone_reclaim_mode", "1"),
    bound_sysctl("vm.min_free_kbytes", "1048576"),
    bound_sysctl("kernel.numa_balancing", "1"),
    bound_sysctl("kernel.core_pattern", "/tmp/core.%p"),
    bound_sysctl("kernel.hung_task_timeout_secs", "0"),
    bound_sysctl("kernel.threads-max", "20000"),
    bound_sysctl("fs.file-max", "65536"),
    Change(
        "echo 'net.ipv4.tcp_fin_timeout = 15' > /etc/sysctl.d/90-tuning.conf, and no sysctl -p",
        "echo 'net.ipv4.tcp_fin_timeout = 15' > /etc/sysctl.d/90-tuning.conf",
        "rm /etc/sysctl.d/90-tuning.conf",
        "running",
        "sysctl net.ipv4.tcp_fin_timeout",
        alone=True,
    ),
    Change(
        "a pattern for all interfaces in /etc/sysctl.d, and no sysctl -p",
        "echo 'net.ipv4.conf.*.log_martians = 1' > /etc/sysctl.d/90-martians.conf",
        "rm /etc/sysctl.d/90-martians.conf",
        "running",
        "sysctl net.ipv4.conf.mgmt0.log_martians",
        alone=True,
    ),
)
KERNEL = (
    bound("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never", "kernel"),
    bound("/sys/kernel/mm/ksm/run", "1", "kernel"),
    bound("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", "kernel"),
    bound("/sys/devices/virtual/workqueue/cpumask", "1", "kernel"),
    bound("/proc/irq/default_smp_affinity", "1", "kernel"),
    bound("/sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: IBRS", "kernel"),
    bound("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "64", "kernel"),
    bound("/proc/sys/kernel/tainted", "4097", "kernel", "/proc/sys/kernel/tainted"),
    bound(
        "/sys/devices/system/cpu/cpu1/cpuidle/state1/disable",
        "1",
        "kernel",
        "idle state haltpoll idle",
    ),
    edited(
        "/proc/cmdline",
        "s/mitigations=[^ ]*/mitigations=off/",
        "kernel",
        "command line",
        "mitigations=off on the command line",
    ),
    bound("/sys/class/net/mgmt0/queues/rx-0/rps_cpus", "3", "interface", "mgmt0"),
    bound("/sys/class/net/fabric0/gro_flush_timeout", "20000", "interface", "fabric0"),
    module("nvme_core", "io_timeout", "4294967295"),
    module("overlay", "metacopy", "Y"),
    Change(
        "echo ib_umad > /etc/modules-load.d/umad.conf, and no modprobe",
        f"{WRITABLE}; mkdir -p /sys/module/nf_tables; {PROTECTED};"
        " echo ib_umad > /etc/modules-load.d/umad.conf",
        f"rm /etc/modules-load.d/umad.conf; {WRITABLE}; rm -r /sys/module; {PROTECTED}",
        "running",
        "module ib_umad",
        alone=True,
    ),
    edited("/proc/cpuinfo", "s/avx512f //", "hardware", "processors", "avx512f off in the setup"),
    bound(
        "/sys/bus/pci/devices/0000:00:01.0/power/control",
        "auto",
        "hardware",
        "PCI 1af4:1045 #1",
    ),
)
INTERFACES = (
    done("ip link set fabric0 mtu 1400", "ip link set fabric0 mtu 1500", "interface", "fabric0"),
    done(
        "ip link set mgmt0 txqueuelen 64", "ip link set mgmt0 txqueuelen 1000", "interface", "mgmt0"
    ),
    done("ip link set mgmt0 promisc on", "ip link set mgmt0 promisc off", "interface", "mgmt0"),
    done("ip link set fabric0 arp off", "ip link set fabric0 arp on", "interface", "fabric0"),
    done(
        "ip link set fabric0 alias rack-7", "ip link set fabric0 alias ''", "interface", "fabric0"
    ),
    done(
        "ip link set fabric0 group 5", "ip link set fabric0 group default", "interface", "fabric0"
    ),
    done("ip link set docker0 down", "ip link set docker0 up", "interface", "docker0"),
    done(
        "ip link property add dev fabric0 altname ib9",
        "ip link property del dev fabric0 altname ib9",
        "interface",
        "fabric0",
    ),
    done(
        "ip link set docker0 type bridge stp_state 1",
        "ip link set docker0 type bridge stp_state 0",
        "interface",
        "docker0",
    ),
    done(
        "ip link set fabric0 gso_max_segs 40",
        "ip link set fabric0 gso_max_segs 65535",
        "interface",
        "fabric0",
    ),
    done("ip link add br9 type bridge", "ip link del br9", "interface", "br9"),
    done(
        "ip link add mv0 link fabric0 type macvlan mode bridge",
        "ip link del mv0",
        "interface",
        "mv0",
    ),
    done(
        "ip link add vx0 type vxlan id 5 dstport 4789 dev fabric0",
        "ip link del vx0",
        "interface",
        "vx0",
    ),
    done("ip tuntap add tap7 mode tap", "ip link del tap7", "interface", "tap7"),
    done("ip link add veth0 type veth peer name veth1", "ip link del veth0", "interface", "veth0"),
    done(
        "ip link add ifb7 type ifb && ip link set ifb7 master docker0",
        "ip link del ifb7",
        "interface",
        "ifb7",
    ),
    done(
        "ip maddr add 01:00:5e:7f:00:09 dev fabric0",
        "ip maddr del 01:00:5e:7f:00:09 dev fabric0",
        "interface",
        "fabric0",
    ),
    Change(
        "ethtool -K fabric0 tso off",
        # ETHTOOL_STSO, because the lab's image lacks ethtool.
        'python3 -c \'import array, fcntl, socket, struct as s; v = array.array("I", [0x1F, 0]);'
        ' fcntl.ioctl(socket.socket(2, 2), 0x8946, s.pack("16sP16x", b"fabric0",'
        " v.buffer_info()[0]))'",
        'python3 -c \'import array, fcntl, socket, struct as s; v = array.array("I", [0x1F, 1]);'
        ' fcntl.ioctl(socket.socket(2, 2), 0x8946, s.pack("16sP16x", b"fabric0",'
        " v.buffer_info()[0]))'",
        "interface",
        "fabric0",
    ),
    done(
        "ip addr add 10.66.0.1/24 dev fabric0",
        "ip addr del 10.66.0.1/24 dev fabric0",
        "address",
        "fabric0 10.66.0.1/24",
    ),
    done(
        "ip -6 addr add fd00:66::1/64 dev mgmt0 nodad",
        "ip -6 addr del fd00:66::1/64 dev mgmt0",
        "address",
        "mgmt0 fd00:66::1/64",
    ),
    done(
        "ip addr add 10.66.0.9/32 dev lo label lo:vip",
        "ip addr del 10.66.0.9/32 dev lo",
        "address",
        "lo 10.66.0.9/32",
    ),
    done(
        "ip addr change 172.17.0.1/16 dev docker0 preferred_lft 0",
        "ip addr change 172.17.0.1/16 dev docker0 preferred_lft forever",
        "address",
        "docker0 172.17.0.1/16",
    ),
)
ROUTES = (
    done(
        "ip route add blackhole 10.9.0.0/16",
        "ip route del blackhole 10.9.0.0/16",
        "route",
        "10.9.0.0/16",
    ),
    done(
        "ip route add 10.8.0.0/16 dev fabric0 mtu 1400",
        "ip route del 10.8.0.0/16",
        "route",
        "10.8.0.0/16",
    ),
    done(
        "ip route add 10.7.0.0/16 dev fabric0 table 100",
        "ip route del 10.7.0.0/16 table 100",
        "route",
        "10.7.0.0/16 table 100",
    ),
    done(
        "ip -6 route add fd00:9::/64 dev fabric0 metric 77",
        "ip -6 route del fd00:9::/64",
        "route",
        "fd00:9::/64 metric 77",
    ),
    done(
        "ip route add default dev fabric0 metric 500",
        "ip route del default",
        "route",
        "IPv4 default dev fabric0 metric 500",
    ),
    done(
        "ip route add 10.6.0.0/16 nexthop dev fabric0 weight 3 nexthop dev mgmt0",
        "ip route del 10.6.0.0/16",
        "route",
        "10.6.0.0/16",
    ),
    done(
        "ip rule add from 10.0.0.0/8 lookup 100 priority 100",
        "ip rule del priority 100",
        "rule",
        "IPv4 100: from 10.0.0.0/8",
    ),
    done(
        "ip -6 rule add to fd00:9::/64 lookup 100 priority 90",
        "ip -6 rule del priority 90",
        "rule",
        "IPv6 90: from all to fd00:9::/64",
    ),
    done(
        "ip rule add fwmark 0x1 unreachable priority 80",
        "ip rule del priority 80",
        "rule",
        "IPv4 80: from all",
    ),
    done(
        "ip addrlabel add prefix fd00:9::/64 label 99",
        "ip addrlabel del prefix fd00:9::/64 label 99",
        "rule",
        "address label of fd00:9::/64",
    ),
    done(
        "ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev fabric0",
        "ip neigh del 10.0.0.9 dev fabric0",
        "neighbour",
        "10.0.0.9 dev fabric0",
    ),
    done(
        "ip neigh add proxy fd00:9::9 dev fabric0",
        "ip neigh del proxy fd00:9::9 dev fabric0",
        "neighbour",
        "proxy fd00:9::9 dev fabric0",
    ),
    done(
        "bridge fdb add 02:00:00:00:00:09 dev docker0 self",
        "bridge fdb del 02:00:00:00:00:09 dev docker0 self",
        "neighbour",
        "fdb 02:00:00:00:00:09 dev docker0",
    ),
    done("ip nexthop add id 9 dev fabric0", "ip nexthop del id 9", "nexthop", "9"),
    Change(
        "ip nexthop add id 20 group 8/9",
        "ip nexthop add id 8 dev fabric0; ip nexthop add id 9 dev mgmt0;"
        " ip nexthop add id 20 group 8/9",
        "ip nexthop del id 20; ip nexthop del id 8; ip nexthop del id 9",
        "nexthop",
        "20",
    ),
    done(
        "tc qdisc add dev fabric0 root tbf rate 1gbit burst 1mb latency 10ms",
        "tc qdisc del dev fabric0 root",
        "tc",
        "fabric0",
    ),
    Change(
        "an HTB class that limits port 22",
        "tc qdisc add dev fabric0 root handle 1: htb default 1;"
        " tc class add dev fabric0 parent 1: classid 1:1 htb rate 1gbit",
        "tc qdisc del dev fabric0 root",
        "tc",
        "fabric0",
    ),
    done("tc qdisc add dev mgmt0 clsact", "tc qdisc del dev mgmt0 clsact", "tc", "mgmt0"),
    done(
        "ip netns add blue",
        "ip netns del blue; umount /run/netns; rmdir /run/netns",
        "netns",
        "blue",
    ),
    done(
        "ip xfrm policy add src 10.0.0.1 dst 10.0.0.2 dir out action block",
        "ip xfrm policy del src 10.0.0.1 dst 10.0.0.2 dir out",
        "xfrm",
        "policy src 10.0.0.1/32 dst 10.0.0.2/32 dir out",
    ),
    done(
        "ip xfrm policy add src fd00:9::1 dst fd00:9::2 dir in priority 7",
        "ip xfrm policy del src fd00:9::1 dst fd00:9::2 dir in",
        "xfrm",
        "policy src fd00:9::1/128 dst fd00:9::2/128 dir in",
    ),
)
FILTERS = (
    done(
        "iptables -A INPUT -p tcp --dport 9100 -j DROP",
        "iptables -D INPUT -p tcp --dport 9100 -j DROP",
        "firewall",
        "iptables IPv4 filter INPUT",
    ),
    done(
        "iptables -P FORWARD ACCEPT",
        "iptables -P FORWARD DROP",
        "firewall",
        "iptables IPv4 filter FORWARD",
    ),
    done("iptables -N OPS", "iptables -X OPS", "firewall", "iptables IPv4 filter OPS"),
    done(
        "iptables -I DOCKER-USER -s 10.0.0.0/8 -j DROP",
        "iptables -D DOCKER-USER -s 10.0.0.0/8 -j DROP",
        "firewall",
        "iptables IPv4 filter DOCKER-USER",
    ),
    done(
        "iptables -t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080",
        "iptables -t nat -D PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080",
        "firewall",
        "iptables IPv4 nat PREROUTING",
    ),
    done(
        "iptables -t mangle -A OUTPUT -p tcp -j TOS --set-tos 0x10",
        "iptables -t mangle -D OUTPUT -p tcp -j TOS --set-tos 0x10",
        "firewall",
        "iptables IPv4 mangle OUTPUT",
    ),
    done(
        "ip6tables -P OUTPUT DROP",
        "ip6tables -P OUTPUT ACCEPT",
        "firewall",
        "iptables IPv6 filter OUTPUT",
    ),
    done(
        "ip6tables -A INPUT -p icmpv6 -m limit --limit 5/second -j ACCEPT",
        "ip6tables -D INPUT -p icmpv6 -m limit --limit 5/second -j ACCEPT",
        "firewall",
        "iptables IPv6 filter INPUT",
    ),
    done(
        "arptables -A INPUT -s 192.0.2.1 -j DROP",
        "arptables -D INPUT -s 192.0.2.1 -j DROP",
        "firewall",
        "arptables filter INPUT",
    ),
    done(
        "ebtables -A FORWARD -p IPv6 -j DROP",
        "ebtables -D FORWARD -p IPv6 -j DROP",
        "firewall",
        "ebtables filter FORWARD",
    ),
    done(
        "iptables-legacy -A INPUT -s 192.0.2.1 -j DROP",
        "iptables-legacy -D INPUT -s 192.0.2.1 -j DROP",
        "firewall",
        "legacy iptables IPv4 filter INPUT",
    ),
)
MOUNTS = (
    done("mount -o remount,noexec /dev/shm", "mount -o remount,exec /dev/shm", "mount", "/dev/shm"),
    done(
        "mount -o remount,size=1g /run/lock",
        "mount -o remount,size=5120k /run/lock",
        "mount",
        "/run/lock",
    ),
    done("mount -o remount,bind,noatime /", "mount -o remount,bind,relatime /", "mount", "/"),
    done("mount -o remount,hidepid=2 /proc", "mount -o remount,hidepid=0 /proc", "mount", "/proc"),
    done(
        "mount --make-private /dev/hugepages",
        "mount --make-shared /dev/hugepages",
        "mount",
        "/dev/hugepages",
    ),
    done("mount -t tmpfs -o size=64m tmpfs /opt", "umount /opt", "mount", "/opt"),
    done("mount --bind /usr/share /mnt", "umount /mnt", "mount", "/mnt"),
    Change(
        "a bind mount over /etc/nsswitch.conf",
        f"mkdir -p {SEED}; cp /etc/nsswitch.conf {SEED}/; mount --bind {SEED}/nsswitch.conf"
        " /etc/nsswitch.conf",
        f"umount /etc/nsswitch.conf; rm -r {SEED}",
        "mount",
        "/etc/nsswitch.conf",
    ),
    done("mount --bind /srv /srv && mount -o remount,bind,ro /srv", "umount /srv", "mount", "/srv"),
    Change(
        "swapon /swapfile (bind mount)",
        f"mkdir -p {SEED}; (cat /proc/swaps; echo '/swapfile file 1048572 0 -2') > {SEED}/swaps;"
        f" mount --bind {SEED}/swaps /proc/swaps",
        f"umount /proc/swaps; rm -r {SEED}",
        "swap",
        "/swapfile",
    ),
    Change(
        "swapon /swapfile without a line in fstab (bind mount)",
        f"mkdir -p {SEED}; (cat /proc/swaps; echo '/swapfile file 1048572 0 -2') > {SEED}/swaps;"
        f" mount --bind {SEED}/swaps /proc/swaps",
        f"umount /proc/swaps; rm -r {SEED}",
        "running",
        "swap /swapfile",
        alone=True,
    ),
    Change(
        "a line in fstab that is not mounted",
        "cp -p /etc/fstab /run/fstab; echo 'tmpfs /mnt/scratch tmpfs size=1g 0 0' >> /etc/fstab",
        "cp -p /run/fstab /etc/fstab; rm /run/fstab",
        "running",
        "mount /mnt/scratch",
        alone=True,
    ),
    Change(
        "a line in fstab with options that are not in force",
        "cp -p /etc/fstab /run/fstab;"
        " echo 'tmpfs /dev/shm tmpfs defaults,noexec 0 0' >> /etc/fstab",
        "cp -p /run/fstab /etc/fstab; rm /run/fstab",
        "running",
        "mount /dev/shm",
        alone=True,
    ),
    Change(
        "a swap area in fstab that is off",
        "cp -p /etc/fstab /run/fstab; echo '/swapfile none swap sw 0 0' >> /etc/fstab",
        "cp -p /run/fstab /etc/fstab; rm /run/fstab",
        "running",
        "swap /swapfile",
        alone=True,
    ),
    Change(
        "a mount unit that is enabled and was never started",
        "printf '[Mount]\\nWhat=tmpfs\\nWhere=/mnt/fast\\nType=tmpfs\\n'"
        " > /etc/systemd/system/mnt-fast.mount;"
        " ln -s ../mnt-fast.mount /etc/systemd/system/multi-user.target.wants/mnt-fast.mount",
        "rm /etc/systemd/system/multi-user.target.wants/mnt-fast.mount"
        " /etc/systemd/system/mnt-fast.mount",
        "running",
        "mount /mnt/fast",
        alone=True,
    ),
    done(
        "mount -o remount,nosuid,exec /run/lock",
        "mount -o remount,nosuid,noexec /run/lock",
        "mount",
        "/run/lock",
    ),
)
CHANGES: tuple[Change, ...] = (*SYSCTLS, *KERNEL, *INTERFACES, *ROUTES, *FILTERS, *MOUNTS)
