"""Drift of kernel settings, each with its one finding."""

from __future__ import annotations

from tests.lab.drifts import Drift

NODE0_2M = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
NODE1_2M = NODE0_2M.replace("node0", "node1")

# Edited, started with that, put back, never restarted: the file is right, the listener is not.
IPV4_ONLY = """
f=/etc/default/prometheus-node-exporter
cp -p $f /root/before
sed -i 's/listen-address=[^ "]*/listen-address=127.0.0.1:9100/' $f
systemctl restart prometheus-node-exporter
cp -p /root/before $f
rm /root/before
"""

# Behind systemd's back: its own limit stays as it is written.
ON_A_JOBS_CPU = """
g=/sys/fs/cgroup/system.slice/chrony.service
echo 0-3 > $g/cpuset.cpus
for p in $(cat $g/cgroup.procs); do taskset -apc 1 $p; done
"""

DRIFTS = (
    Drift(
        "huge pages lowered at run time",
        "worker1",
        f"echo 32 > {NODE0_2M}",
        "hugepages",
        "2M node0",
    ),
    Drift(
        "right total, wrong split: too many on one NUMA node",
        "worker2",
        f"echo 96 > {NODE0_2M}",
        "hugepages",
        "2M node0",
    ),
    Drift(
        "right total, wrong split: too few on the other",
        "worker2",
        f"echo 32 > {NODE1_2M}",
        "hugepages",
        "2M node1",
    ),
    Drift(
        "isolation gone from what the next boot gets",
        "worker1",
        "sed -i 's/ nohz_full=[^ ]*//' /boot/grub/grub.cfg",
        "kernel.args_persisted",
    ),
    Drift(
        "a daemon on a job's CPU",
        "worker2",
        ON_A_JOBS_CPU,
        "cpuset.services",
        "chrony.service",
    ),
    Drift(
        "transparent huge pages changed",
        "worker1",
        "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        "kernel.setting",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Drift(
        "new interrupts on every CPU",
        "worker2",
        "echo f > /proc/irq/default_smp_affinity",
        "kernel.setting",
        "/proc/irq/default_smp_affinity",
    ),
    Drift(
        "a sysctl of the running kernel",
        "head",
        "sysctl -q -w vm.swappiness=60",
        "sysctl.running",
        "vm.swappiness",
    ),
    Drift(
        "a sysctl changed by another file that sorts later",
        "worker1",
        "echo 'vm.max_map_count = 65530' > /etc/sysctl.d/99-zzz-other.conf; sysctl -q --system",
        "sysctl.persisted",
        "vm.max_map_count",
        repaired=False,  # the running value is; whose file that is, a person must say
    ),
    Drift(
        "a listener on IPv4 only, and only for itself",
        "worker1",
        IPV4_ONLY,
        "listener.family",
        "tcp/9100",
    ),
    Drift(
        "huge pages for root alone",
        "worker2",
        "chmod 1700 /dev/hugepages",
        "hugepages.mount",
        "/dev/hugepages",
    ),
)
