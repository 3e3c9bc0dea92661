"""The commands that revert differences, and the deploys of the roles that own what differs."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from lockstep.checks.fingerprint.reverting import REVERTS, commands, owner
from lockstep.checks.fingerprint.reverting.case import Case
from lockstep.node.fingerprint.entry import Fields
from tests.checks import recorded

BY_ORDER = "allocated (100-999)"
Family = Literal["debian", "rhel"]
FILE = {"type": "file", "owner": "root:root", "mode": "644", "content": "a\n"}
FOLDER = {"type": "folder", "owner": "root:root", "mode": "755"}
LINK = {"type": "link", "owner": "root:root", "target": "/usr/bin/less"}
SHIPPED = {**FILE, "package": "chrony", "shipped": "yes"}
EDITED = {**SHIPPED, "content": "b\n", "shipped": "changed"}
HTOP = {"version": "3.2", "status": "installed", "installed": "manually"}
OPS = {"uid": "1001", "group": "ops", "comment": "", "home": "/home/ops", "shell": "/bin/sh"}
ACL = "group::r--,mask::rw-,other::r--,user::rw-,user:ops:rw-"
RESTORE = (
    '(d=$(mktemp -d) && trap \'rm -r "$d"\' EXIT && cd "$d" && apt-get download '
    "chrony=\"$(dpkg-query -W -f '${Version}' chrony)\" && dpkg-deb --fsys-tarfile ./*.deb | "
    "tar -xpf - -C / ./etc/x) && chown -h root:root /etc/x && chmod 644 /etc/x"
)
X = "/etc/x"
ROWS: list[tuple[str, str, Fields | None, Fields | None, str]] = [
    ("file", X, FILE, None, "rm /etc/x"),
    ("file", "/etc/a b;c", FILE, None, "rm '/etc/a b;c'"),
    ("file", "/srv/pipe", {"type": "pipe", "mode": "644"}, None, "rm /srv/pipe"),
    ("file", "/etc/x.d", FOLDER, None, "rmdir /etc/x.d"),
    ("file", "/dev/nvidia7", {"type": "character device", "mode": "666"}, None, ""),
    ("file", "/srv/disk", {"type": "block device", "mode": "660"}, None, ""),
    ("file", "/dev/infiniband", FOLDER, None, ""),
    ("file", "/dev/shm", LINK, None, ""),
    ("program", "/usr/lib/null", {"type": "character device", "package": "none"}, None, ""),
    ("file", X, {**FILE, "flags": "i"}, None, "chattr -i /etc/x && rm /etc/x"),
    ("file", X, {**FILE, "package": "x"}, None, ""),
    ("file", "/etc/x.d", {**FOLDER, "flags": "i", "package": "x"}, None, ""),
    ("file", "/etc/systemd/system/slurmd.service.d/a.conf", FILE, None,
     "rm /etc/systemd/system/slurmd.service.d/a.conf && systemctl daemon-reload"),
    ("file", "/run/systemd/generator/scratch.mount", FILE, None, "systemctl daemon-reload"),
    ("file", "/run/systemd/generator.late/x.service", None, FILE, "systemctl daemon-reload"),
    ("file", "/etc/systemd/system.conf.d/a.conf", FILE, None,
     "rm /etc/systemd/system.conf.d/a.conf && systemctl daemon-reload"),
    ("file", X, None, FILE, ""),
    ("file", X, {**FILE, "content": "b\n"}, FILE, ""),
    ("file", X, {**FILE, "content": "b\n", "mode": "600"}, FILE, ""),
    ("file", X, {**FILE, "mode": "4755"}, FILE, "chmod 644 /etc/x"),
    ("file", "/etc/x.d", {**FOLDER, "mode": "2777"}, FOLDER, "chmod 00755 /etc/x.d"),
    ("file", X, {**FILE, "owner": "ops:ops"}, FILE,
     "chown -h root:root /etc/x && chmod 644 /etc/x"),
    ("file", X, {**FILE, "owner": "ops:ops", "capabilities": "cap_net_raw=ep"},
     {**FILE, "capabilities": "cap_net_raw=ep"},
     "chown -h root:root /etc/x && chmod 644 /etc/x && setcap cap_net_raw=ep /etc/x"),
    ("file", X, {**FILE, "capabilities": "cap_net_raw=ep"}, FILE, "setcap -r /etc/x"),
    ("file", X, FILE, {**FILE, "capabilities": "cap_net_raw=ep,cap_sys_nice=eip"},
     "setcap 'cap_net_raw=ep cap_sys_nice=eip' /etc/x"),
    ("file", X, FILE, {**FILE, "capabilities": "0100"}, ""),
    ("file", X, {**FILE, "acl": ACL, "mode": "664"}, FILE, "setfacl -b /etc/x && chmod 644 /etc/x"),
    ("file", X, FILE, {**FILE, "acl": ACL}, f"setfacl --set {ACL} /etc/x && chmod 644 /etc/x"),
    ("file", "/srv", {**FOLDER, "default_acl": ACL}, FOLDER, "setfacl -k /srv"),
    ("file", "/srv", FOLDER, {**FOLDER, "default_acl": ACL}, f"setfacl -d --set {ACL} /srv"),
    ("file", "/srv", {**FOLDER, "acl": ACL, "default_acl": ACL}, {**FOLDER, "default_acl": ACL},
     ""),
    ("file", X, {**FILE, "flags": "i"}, FILE, "chattr -i /etc/x"),
    ("file", X, FILE, {**FILE, "flags": "a"}, "chattr +a /etc/x"),
    ("file", X, {**FILE, "flags": "i", "mode": "600"}, {**FILE, "flags": "i"},
     "chattr -i /etc/x && chmod 644 /etc/x && chattr +i /etc/x"),
    ("file", "/etc/alternatives/pager", {**LINK, "target": "/bin/more"}, LINK,
     "ln -sfn /usr/bin/less /etc/alternatives/pager"),
    ("file", X, LINK, FILE, ""),
    ("file", X, {**FILE, "xattr user.a": "1"}, FILE, ""),
    ("file", X, EDITED, SHIPPED, RESTORE),
    ("file", X, {"type": "absent", "package": "chrony", "shipped": "removed"}, SHIPPED, RESTORE),
    ("file", X, EDITED, {**EDITED, "content": "c\n"}, ""),
    ("package", "htop:amd64", HTOP, None, "apt-get purge htop:amd64"),
    ("package", "htop-x:all", HTOP, None, "apt-get purge htop-x"),
    ("package", "htop:amd64", {**HTOP, "selection": "hold"}, None,
     "apt-mark unhold htop:amd64 && apt-get purge htop:amd64"),
    ("package", "htop:amd64", None, HTOP,
     "apt-get install --allow-downgrades htop:amd64=3.2"),
    ("package", "htop:amd64", None, {**HTOP, "installed": "automatically", "selection": "hold"},
     "apt-get install --allow-downgrades htop:amd64=3.2 && apt-mark auto htop:amd64"
     " && apt-mark hold htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "version": "3.1", "selection": "hold"}, HTOP,
     "apt-mark unhold htop:amd64 && apt-get install --allow-downgrades htop:amd64=3.2"),
    ("package", "htop:amd64", {**HTOP, "version": "1", "selection": "hold"},
     {**HTOP, "selection": "hold"}, "apt-mark unhold htop:amd64 && apt-get install"
     " --allow-downgrades htop:amd64=3.2 && apt-mark hold htop:amd64"),
    ("package", "htop:amd64", HTOP, {**HTOP, "selection": "hold"}, "apt-mark hold htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "selection": "hold"}, HTOP, "apt-mark unhold htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "installed": "automatically"}, HTOP,
     "apt-mark manual htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "status": "half-configured"}, HTOP,
     "dpkg --configure htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "error": "reinstreq"}, HTOP,
     "apt-get install --reinstall htop:amd64"),
    ("package", "htop:amd64", {**HTOP, "status": "triggers-pending"}, HTOP, ""),
    ("package", "snap lxd", {"revision": "2"}, {"revision": "1"}, "snap refresh --revision=1 lxd"),
    ("package", "snap lxd", {"revision": "2"}, None, "snap remove lxd"),
    ("package", "flatpak org.x/x86_64/stable", {"commit": "1"}, None,
     "flatpak uninstall --system org.x/x86_64/stable"),
    ("package", "architecture i386", {"used": "yes"}, None, "dpkg --remove-architecture i386"),
    ("package", "statoverride of /bin/x", {"owner": "root:ops", "mode": "4750"}, None,
     "dpkg-statoverride --remove /bin/x"),
    ("package", "statoverride of /bin/x", None, {"owner": "root:ops", "mode": "4750"},
     "dpkg-statoverride --update --add root ops 4750 /bin/x"),
    ("package", "diversion of /bin/x", {"to": "/bin/y", "by": "local"}, None, ""),
    ("engine", "docker image debian:13", {"id": "1"}, None, "docker image rm debian:13"),
    ("engine", "podman network x", {"driver": "bridge"}, None, "podman network rm x"),
    ("engine", "docker volume x", {"options": ""}, None, ""),
    ("engine", "docker image debian:13", {"id": "1"}, {"id": "2"}, ""),
    ("user", "eve", {"uid": "1002"}, None, "userdel eve"),
    ("user", "eve", {"uid": "not in /etc/passwd"}, None, ""),
    ("user", "root #2", {"uid": "0"}, None, ""),
    ("user", "ops", None, OPS, ""),
    ("user", "ops", {**OPS, "uid": "0", "shell": "/bin/zsh", "comment": "O P"}, OPS,
     "usermod -c '' ops && usermod -s /bin/sh ops && usermod -u 1001 ops"),
    ("user", "ops", {**OPS, "uid": "7"}, {**OPS, "uid": "allocated (100-999)"}, ""),
    ("user", "ops", {**OPS, "expires": "1"}, OPS, "chage -E -1 ops"),
    ("user", "ops", {**OPS, "warning": "9"}, {**OPS, "warning": "7"}, "chage -W 7 ops"),
    ("user", "ops", {**OPS, "password": "set"}, {**OPS, "password": "locked"}, "usermod -L ops"),
    ("user", "ops", {**OPS, "password": "locked"}, {**OPS, "password": "set"}, "usermod -U ops"),
    ("user", "ops", {**OPS, "password": "set", "password hash": "1"}, {**OPS, "password": "none"},
     "usermod -p '*' ops"),
    ("user", "ops", {**OPS, "password": "none is needed"}, {**OPS, "password": "none"},
     "usermod -p '*' ops"),
    ("user", "ops", {**OPS, "password": "none"}, {**OPS, "password": "set"}, ""),
    ("user", "ops", {**OPS, "subuid": "1:9, 300000:65536"}, {**OPS, "subuid": "1:9"},
     "sed -i '/^ops:300000:65536$/d' /etc/subuid"),
    ("user", "ops", {**OPS, "subgid": "1:9"}, {**OPS, "subgid": "7:2"},
     "sed -i '/^ops:1:9$/d' /etc/subgid && usermod --add-subgids 7-8 ops"),
    ("user", "ops", {**OPS, "subuid": "x"}, OPS, ""),
    ("user", "toor", {**OPS, "uid": "0"}, None, "userdel -f toor"),
    ("user", "munge", {**OPS, "uid": BY_ORDER, "shell": "/bin/bash"}, {**OPS, "uid": BY_ORDER},
     "usermod -s /bin/sh munge"),
    ("user", "munge", {**OPS, "uid": BY_ORDER}, None, "userdel munge"),
    ("user", "munge", {**OPS, "uid": BY_ORDER, "removed package": "munge"}, None,
     "apt-get purge munge"),
    ("group", "munge", {"gid": BY_ORDER, "members": "", "removed package": "munge"}, None,
     "apt-get purge munge"),
    ("group", "video", {"gid": "44", "members": "", "administrators": "ops"},
     {"gid": "44", "members": ""}, "gpasswd -A '' video"),
    ("group", "video", {"gid": "44", "members": "", "members in gshadow": "ops"},
     {"gid": "44", "members": "a, b"}, "gpasswd -M a,b video"),
    ("group", "video", {"gid": "44", "members": ""},
     {"gid": "44", "members": "", "members in gshadow": "ops"}, ""),
    ("group", "games", {"gid": "60", "members": "", "password": "set", "password hash": "1"},
     {"gid": "60", "members": "", "password": "none"}, "gpasswd -r games"),
    ("group", "games", {"gid": "60", "members": "", "password": "none"},
     {"gid": "60", "members": "", "password": "set"}, ""),
    ("user", "ops", {"password hash": "1"}, {"password hash": "2"}, ""),
    ("group", "eve", {"gid": "1002", "members": ""}, None, "groupdel eve"),
    ("group", "eve", {"gid": "not in /etc/group"}, None, ""),
    ("group", "hpc", None, {"gid": "2000", "members": "ops", "password": "none"},
     "groupadd -g 2000 hpc && gpasswd -a ops hpc"),
    ("group", "hpc", None, {"gid": "allocated (100-999)", "members": ""}, "groupadd --system hpc"),
    ("group", "sudo", {"gid": "27", "members": "eve, ops"}, {"gid": "27", "members": "ops, tom"},
     "gpasswd -d eve sudo && gpasswd -a tom sudo"),
    ("group", "hpc", {"gid": "2001", "members": ""}, {"gid": "2000", "members": ""},
     "groupmod -g 2000 hpc"),
    ("unit", "x.service", {"enabled": "by multi-user.target", "active": "active"}, None,
     "systemctl disable --now x.service"),
    ("unit", "x.service", {"enabled": "static", "active": "active"}, None,
     "systemctl stop x.service"),
    ("unit", "x.service", {"enabled": "masked", "active": "inactive"}, None,
     "systemctl unmask x.service"),
    ("unit", "x.service", None, {"enabled": "by multi-user.target", "active": "active"},
     "systemctl enable --now x.service"),
    ("unit", "x.service", None, {"enabled": "masked", "active": "inactive"},
     "systemctl mask x.service"),
    ("unit", "x.service", {"enabled": "by a.target", "active": "active"},
     {"enabled": "masked", "active": "inactive"}, "systemctl mask --now x.service"),
    ("unit", "x.service", {"enabled": "masked", "active": "inactive"},
     {"enabled": "by a.target", "active": "active"},
     "systemctl unmask x.service && systemctl enable --now x.service"),
    ("unit", "x.service", {"enabled": "disabled", "active": "active"},
     {"enabled": "by a.target", "active": "active"}, "systemctl enable x.service"),
    ("unit", "x.service", {"enabled": "by a.target", "active": "inactive"},
     {"enabled": "by a.target", "active": "active"}, "systemctl start x.service"),
    ("unit", "x.service", {"enabled": "static", "active": "failed"},
     {"enabled": "static", "active": "active"}, "systemctl restart x.service"),
    ("unit", "x.service", {"enabled": "static", "active": "failed"},
     {"enabled": "static", "active": "inactive"}, "systemctl reset-failed x.service"),
    ("unit", "x.service", {"enabled": "by a.target", "active": "active"},
     {"enabled": "by b.target", "active": "active"}, ""),
    ("unit", "x.service", {"enabled": "static", "active": "active", "set-property": "A=1"},
     {"enabled": "static", "active": "active"}, ""),
    ("unit", "dbus.service", {"enabled": "static", "active": "failed"},
     {"enabled": "static", "active": "active"}, ""),
    ("unit", "user bob", {"units run without login": "yes"}, None, "loginctl disable-linger bob"),
    ("unit", "systemd", {"LogLevel": "debug"}, {"LogLevel": "info"}, "systemctl log-level info"),
    ("unit", "systemd", {"environment A": "1", "LogTarget": "kmsg"}, {"LogTarget": "journal"},
     "systemctl log-target journal && systemctl unset-environment A"),
    ("unit", "systemd", {}, {"environment A": "b c"}, "systemctl set-environment 'A=b c'"),
    ("unit", "systemd", {"ServiceWatchdogs": "no"}, {"ServiceWatchdogs": "yes"},
     "systemctl service-watchdogs yes"),
    ("unit", "systemd", {"DefaultTimeoutStopUSec": "5s"}, {"DefaultTimeoutStopUSec": "1min"}, ""),
    ("cgroup", "system.slice/a.service", {"cgroup.freeze": "1"}, {}, "systemctl thaw a.service"),
    ("cgroup", "system.slice/a.service", {"cgroup.freeze": "1", "memory.max": "1"}, {}, ""),
    ("tc", "eth0", {"qdisc": "tbf root rate 1Gbit"}, None, "tc qdisc del dev eth0 root"),
    ("tc", "eth0", {"qdisc": "clsact ffff: parent ffff:fff1"}, None,
     "tc qdisc del dev eth0 clsact"),
    ("tc", "eth0", {"qdisc": "tbf root rate 1Gbit"}, {"qdisc": "mq root"}, ""),
    ("xfrm", "policy src 10.0.0.1/32 dst 10.0.0.2/32 dir out", {"settings": "dir out"}, None,
     "ip xfrm policy del src 10.0.0.1/32 dst 10.0.0.2/32 dir out"),
    ("xfrm", "policy src 10.0.0.1/32 dst 10.0.0.2/32 dir out", {"settings": "dir out\nmark 0x1"},
     None, ""),
    ("xfrm", "state src 10.0.0.1 dst 10.0.0.2 proto esp", {"settings": "mode tunnel"}, None, ""),
    ("timer", "x.timer", {"OnCalendar": "daily"}, None, "systemctl disable --now x.timer"),
    ("timer", "x.timer", None, {"OnCalendar": "daily"}, "systemctl enable --now x.timer"),
    ("timer", "systemd-run: /bin/true", {"command": "/bin/true"}, None, ""),
    ("process", "x.service", {"nice": "5"}, {"nice": "0"}, "systemctl restart x.service"),
    ("process", "x.service", None, {"nice": "0"}, "systemctl start x.service"),
    ("process", "dbus.service", {"nice": "5"}, {"nice": "0"}, ""),
    ("process", "by hand: /opt/x", {"nice": "0"}, None, ""),
    ("sysctl", "vm.swappiness", {"value": "1"}, {"value": "60"}, "sysctl -w vm.swappiness=60"),
    ("sysctl", "net.ipv4.tcp_rmem", {"value": "1 2 3"}, {"value": "4 5 6"},
     "sysctl -w 'net.ipv4.tcp_rmem=4 5 6'"),
    ("sysctl", "net.ipv4.conf.eth0", {"rp_filter": "0", "a": "1"}, {"rp_filter": "1", "a": "1"},
     "sysctl -w net.ipv4.conf.eth0.rp_filter=1"),
    ("sysctl", "net.ipv4.conf.<name of this node>", {"a": "0"}, {"a": "1"}, ""),
    ("sysctl", "vm.min_free_kbytes", {"value": "1"},
     {"value": "computed at boot from the memory size"}, ""),
    ("module", "sctp", {"kind": "loaded"}, None, "modprobe -r sctp"),
    ("module", "sctp", None, {"kind": "loaded"}, "modprobe sctp"),
    ("module", "sctp", {"kind": "loaded", "parameter a": "1"}, {"kind": "loaded"}, ""),
    ("mount", "/data", {"type": "xfs"}, None, "umount /data"),
    ("mount", "/data #2", {"type": "xfs"}, None, "umount /data"),
    ("mount", "/data", {"type": "xfs", "options": "ro,relatime"},
     {"type": "xfs", "options": "nosuid,relatime"},
     "mount -o remount,bind,rw,nosuid,relatime /data"),
    ("mount", "/data", {"options": "", "folder": "/a"}, {"options": "ro", "folder": "/a"},
     "mount -o remount,bind,ro,strictatime /data"),
    ("mount", "/data", {"options": "noexec,noatime"}, {"options": "nodev,relatime"},
     "mount -o remount,bind,rw,atime,exec,nodev,relatime /data"),
    ("mount", "/data", {"options": "sync"}, {"options": ""}, ""),
    ("mount", "/data", {"options": "", "type": "xfs"}, {"options": "", "type": "ext4"}, ""),
    ("swap", "/swapfile", {"type": "file"}, None, "swapoff /swapfile"),
    ("swap", "disk of the root", {"type": "file"}, None, ""),
    ("interface", "eth0", {"mtu": "9000"}, {"mtu": "1500"}, "ip link set dev eth0 mtu 1500"),
    ("interface", "eth0", {"txqlen": "1", "ifalias": "x"}, {"txqlen": "1000"},
     "ip link set dev eth0 alias '' && ip link set dev eth0 txqueuelen 1000"),
    ("interface", "eth0", {"flags": "BROADCAST, PROMISC"}, {"flags": "BROADCAST, UP"},
     "ip link set dev eth0 promisc off && ip link set dev eth0 up"),
    ("interface", "eth0", {"flags": "BROADCAST, NOARP"}, {"flags": "ALLMULTI, BROADCAST"},
     "ip link set dev eth0 allmulticast on && ip link set dev eth0 arp on"),
    ("interface", "eth0", {"flags": "BROADCAST, SLAVE"}, {"flags": "BROADCAST"}, ""),
    ("interface", "eth0", {"altnames": "a, ib9", "group": "5"},
     {"altnames": "a", "group": "default"},
     "ip link property del dev eth0 altname ib9 && ip link set dev eth0 group default"),
    ("interface", "eth0", {}, {"altnames": "a"}, "ip link property add dev eth0 altname a"),
    ("interface", "eth0", {"mtu": "9000", "ring rx": "1"}, {"mtu": "1500", "ring rx": "2"}, ""),
    ("interface", "br7", {"info_kind": "bridge"}, None, "ip link del dev br7"),
    ("interface", "eth7", {"mtu": "1500"}, None, ""),
    ("address", "eth0 192.0.2.7/24", {"lifetime": "forever"}, None,
     "ip address del 192.0.2.7/24 dev eth0"),
    ("address", "eth0 2001:db8::7/64", None, {"lifetime": "forever"},
     "ip address add 2001:db8::7/64 dev eth0"),
    ("address", "eth0 <address of this node>/64", {"lifetime": "forever"}, None, ""),
    ("route", "192.0.2.0/24", {"type": "unicast", "dev": "eth0"}, None,
     "ip -4 route del 192.0.2.0/24 dev eth0"),
    ("route", "192.0.2.0/24 table 7 metric 5", {"type": "blackhole"}, None,
     "ip -4 route del blackhole 192.0.2.0/24 table 7 metric 5"),
    ("route", "IPv6 default dev eth0 metric 9", {"type": "unicast", "dev": "eth0"}, None,
     "ip -6 route del default dev eth0 metric 9"),
    ("route", "192.0.2.0/24 #2", {"type": "unicast", "dev": "eth0"}, None, ""),
    ("route", "192.0.2.0/24 dev eth0", {"protocol": "kernel", "dev": "eth0"}, None, ""),
    ("route", "192.0.2.0/24", None, {"dev": "eth0"}, ""),
    ("rule", "IPv4 100: from 192.0.2.0/24", {"src": "192.0.2.0", "srclen": "24", "table": "7"},
     None, "ip -4 rule del pref 100 from 192.0.2.0/24 table 7"),
    ("rule", "IPv6 100: from all to 2001:db8::/32", {"src": "all", "fwmark": "0x1",
     "fwmask": "0xff", "table": "main"}, None,
     "ip -6 rule del pref 100 from all to 2001:db8::/32 fwmark 0x1/0xff table main"),
    ("rule", "IPv4 100: from all", {"src": "all", "ipproto": "tcp", "table": "7"}, None, ""),
    ("rule", "address label of 2001:db8::/32", {"label": "9"}, None,
     "ip addrlabel del prefix 2001:db8::/32 label 9"),
    ("neighbour", "192.0.2.7 dev eth0", {"lladdr": "a"}, None,
     "ip neighbour del 192.0.2.7 dev eth0"),
    ("neighbour", "proxy 192.0.2.7 dev eth0", {}, None,
     "ip neighbour del proxy 192.0.2.7 dev eth0"),
    ("neighbour", "fdb 02:00:00:00:00:07 dev br0", {"flags": "self"}, None,
     "bridge fdb del 02:00:00:00:00:07 dev br0 self"),
    ("neighbour", "fdb 02:00:00:00:00:07 dev eth7", {"vlan": "5", "master": "br0"}, None,
     "bridge fdb del 02:00:00:00:00:07 dev eth7 master vlan 5"),
    ("neighbour", "fdb 02:00:00:00:00:07 dev br0", {"master": "br0", "state": "permanent"}, None,
     "bridge fdb del 02:00:00:00:00:07 dev br0 self"),
    ("nexthop", "7", {"gateway": "192.0.2.1"}, None, "ip nexthop del id 7"),
    ("nexthop", "multicast 1 2", {"to": "x"}, None, ""),
    ("netns", "blue", {"state": "present"}, None, "ip netns del blue"),
    ("netns", "blue", None, {"state": "present"}, "ip netns add blue"),
    ("firewall", "table inet x", {"flags": ""}, None, "nft delete table inet x"),
    ("firewall", "inet x chain y", {"rules": "drop"}, None,
     "nft flush chain inet x y && nft delete chain inet x y"),
    ("firewall", "inet x set z", {"settings": "type ipv4_addr"}, None,
     "nft delete set inet x z"),
    ("firewall", "inet x chain y", {"rules": "drop"}, {"rules": "accept"}, ""),
    ("firewall", "iptables IPv4 filter INPUT",
     {"policy": "DROP", "rules": "-j A\n-m comment --comment \"a b\" -j DROP\n-j B"},
     {"policy": "ACCEPT", "rules": "-j A\n-j B"},
     "iptables -t filter -P INPUT ACCEPT && "
     "iptables -t filter -D INPUT -m comment --comment 'a b' -j DROP"),
    ("firewall", "iptables IPv6 filter FORWARD", {"policy": "ACCEPT", "rules": "-j DROP"}, None,
     "ip6tables -t filter -D FORWARD -j DROP"),
    ("firewall", "iptables IPv4 nat MINE", {"rules": "-j DROP"}, None,
     "iptables -t nat -F MINE && iptables -t nat -X MINE"),
    ("firewall", "iptables IPv4 filter INPUT", {"policy": "ACCEPT", "rules": "-j A\n-j B"},
     {"policy": "ACCEPT", "rules": "-j B\n-j A"}, ""),
    ("firewall", "iptables IPv4 filter INPUT", {"policy": "ACCEPT", "rules": ""},
     {"policy": "ACCEPT", "rules": "-j A"}, ""),
    ("firewall", "iptables IPv4 filter INPUT", {"policy": "ACCEPT", "rules": "--comment \"a"},
     {"policy": "ACCEPT", "rules": ""}, ""),
    ("firewall", "ipset bad", {"settings": "hash:ip"}, None, "ipset destroy bad"),
    ("hardware", "board", {"bios": "1"}, {"bios": "2"}, ""),
    ("program", "/usr/bin/tool", {"type": "file", "package": "none"}, None, "rm /usr/bin/tool"),
    ("program", "/var/lib/a", {"type": "folder", "mode": "777"}, None, "chmod o-w /var/lib/a"),
    ("program", "/usr/bin/sudo", {"type": "file", "mode": "4755", "package": "sudo"}, None, ""),
    ("program", "/usr/bin/tool", {"type": "file", "package": "none"}, {"type": "file"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "name", "wrong", "right", "expected"), ROWS)
def test_the_command_that_reverts_a_difference(
    domain: str, name: str, wrong: Fields | None, right: Fields | None, expected: str
) -> None:
    said = commands(domain, Case(name, wrong, right))
    assert said == expected
    subprocess.run(["sh", "-n", "-c", said], check=True)
    assert "revert" not in said


@pytest.mark.parametrize(
    ("name", "running", "configured", "expected"),
    [
        ("x.service: nice", "5", "0", "systemctl restart x.service"),
        ("x.service: start", "before", "/etc/x", "systemctl restart x.service"),
        ("x.service: unit files", "as of", "changed", "systemctl daemon-reload"),
        ("x.service: state", "failed", "static", "systemctl restart x.service"),
        ("x.service: state", "failed", "disabled", "systemctl reset-failed x.service"),
        ("x.service: state", "active", "masked", "systemctl stop x.service"),
        ("x.service: state", "inactive", "by a.target", "systemctl start x.service"),
        ("dbus.service: limit open files", "1", "2", ""),
        ("systemd: program", "deleted", "as on disk", "systemctl daemon-reexec"),
        ("systemd: /etc/fstab", "as of", "changed", "systemctl daemon-reload"),
        ("systemd: LogLevel", "debug", "info", "systemctl log-level info"),
        ("systemd: DefaultTasksMax", "1", "2", ""),
        ("host name: name", "a", "<name of this node>", ""),
        ("sysctl vm.swappiness", "1", "60", "sysctl -w vm.swappiness=60"),
        ("module sctp", "not loaded", "loaded", "modprobe sctp"),
        ("mount /data", "not mounted", "mounted", "mount /data"),
        ("mount /data", "rw", "ro", "mount -o remount,ro /data"),
        (
            "mount /data",
            "noexec, noatime",
            "exec, relatime",
            "mount -o remount,atime,exec,relatime /data",
        ),
        ("mount /data", "sync", "no sync", ""),
        ("mount /data", "type xfs", "type ext4", "umount /data && mount /data"),
        ("swap disk of the root", "off", "on", ""),
    ],
)
def test_the_command_that_applies_what_is_configured(
    name: str, running: str, configured: str, expected: str
) -> None:
    fields = {"running": running, "configured": configured, "file": "/etc/fstab"}
    assert commands("running", Case(name, fields, fields)) == expected
    if name.startswith("mount "):  # of a unit: mount(8) does not know it
        fields["file"] = "/etc/systemd/system/data.mount"
        assert commands("running", Case(name, fields, fields)) == ""


@pytest.mark.parametrize(
    ("name", "wrong", "right", "expected"),
    [
        ("htop.x86_64", {"version": "0:3-1"}, None, "dnf remove --noautoremove htop.x86_64"),
        ("htop.x86_64", None, {"version": "0:3-1"}, "dnf install htop-0:3-1.x86_64"),
        (
            "kernel.x86_64",
            None,
            {"version": "0:1-1, 0:2-1"},
            "dnf install kernel-0:1-1.x86_64 && dnf install kernel-0:2-1.x86_64",
        ),
        (
            "kernel.x86_64",
            {"version": "0:1-1, 0:3-1"},
            {"version": "0:1-1, 0:2-1"},
            "dnf install kernel-0:2-1.x86_64 && dnf remove --noautoremove kernel-0:3-1.x86_64",
        ),
        (
            "kernel.x86_64",
            {"version": "0:1-1, 0:3-1"},
            {"version": "0:1-1"},
            "dnf remove --noautoremove kernel-0:3-1.x86_64",
        ),
        (
            "htop.x86_64",
            {"version": "0:3-1"},
            {"version": "0:2-1"},
            "dnf install htop-0:2-1.x86_64",
        ),
        ("htop.x86_64", {"version": "0:3-1"}, {"version": "0:3-1", "checked": "no"}, ""),
    ],
)
def test_packages_of_rpm(
    name: str, wrong: Fields | None, right: Fields | None, expected: str
) -> None:
    assert commands("package", Case(name, wrong, right, "rhel")) == expected


def test_a_file_of_rpm_is_removed_only_when_its_package_is_there() -> None:
    said = commands("file", Case(X, EDITED, SHIPPED, "rhel"))
    assert said.startswith(
        "dnf reinstall --downloadonly chrony && rm -f /etc/x && dnf reinstall chrony && "
    )


@pytest.mark.parametrize("wrong", [{"shipped": "content sha256 0"}, {"type": "absent"}])
def test_no_program_of_rpm_is_removed(wrong: Fields) -> None:
    """Without libc, dnf does not start."""
    case = Case("/usr/lib64/libc.so.6", {**wrong, "package": "glibc.x86_64"}, None, "rhel")
    assert commands("program", case) == "dnf reinstall glibc.x86_64"


def test_a_program_is_put_back_from_its_package() -> None:
    for wrong in ({"shipped": "MD5 2", "content": "MD5 1"}, {"type": "absent"}):
        text = commands("program", Case("/usr/bin/tool", {**wrong, "package": "tool"}, None))
        assert "apt-get download tool=" in text
        assert text.endswith("tar -xpf - -C / ./usr/bin/tool)")


@pytest.mark.parametrize(
    ("shipped", "expected"),
    [
        ("mode 4755", "chmod 4755 /usr/bin/tool"),
        ("owner root:root", "chown -h root:root /usr/bin/tool && chmod 755 /usr/bin/tool"),
        ("owner root:adm, mode 2755",
         "chown -h root:adm /usr/bin/tool && chmod 2755 /usr/bin/tool"),
        ("mode 755, content sha256 0", "dnf reinstall tool.noarch"),
        ("capabilities cap_net_raw=ep", "dnf reinstall tool.noarch"),
    ],
)  # fmt: skip
def test_a_program_of_rpm_gets_what_its_package_says(shipped: str, expected: str) -> None:
    wrong = {"type": "file", "mode": "755", "owner": "me:us", "package": "tool.noarch"}
    case = Case("/usr/bin/tool", {**wrong, "shipped": shipped}, None, "rhel")
    assert commands("program", case) == expected


def test_every_domain_with_commands_has_a_row() -> None:
    assert REVERTS.keys() <= {row[0] for row in ROWS} | {"running"}


@pytest.mark.parametrize("name", ["/etc/a\nb", "/etc/a\x1b[2J", "/etc/\udcff"])
def test_a_name_that_cannot_be_pasted_is_in_no_command(name: str) -> None:
    assert commands("file", Case(name, FILE, None)) == ""


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb builds the package")
def test_a_file_is_put_back_from_its_package_and_no_other(tmp_path: Path) -> None:
    """The package has two files; dpkg-deb and tar are real, the repository is a folder."""
    names = [tmp_path / "etc" / name for name in ("x", "y")]
    for tree in (tmp_path / "build", Path("/")):
        for name in names:
            file = tree / str(name).lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("shipped\n" if tree.name == "build" else "edited\n")
    control = tmp_path / "build" / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text("Package: chrony\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\n"
                       "Description: x\n")  # fmt: skip
    deb = tmp_path / "chrony_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "build", deb], check=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for program, script in (
        ("apt-get", f'test "$*" = "download chrony=1" && cp {deb} .'),
        ("dpkg-query", "printf 1"),
    ):
        (programs / program).write_text(f"#!/bin/sh\n{script}\n")
        (programs / program).chmod(0o755)
    owner = f"{os.getuid()}:{os.getgid()}"
    wrong, right = ({**one, "owner": owner} for one in (EDITED, SHIPPED))
    said = commands("file", Case(str(names[0]), wrong, right))
    path = f"{programs}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", said], check=True, env={"PATH": path, "TMPDIR": str(tmp_path)})
    assert [name.read_text() for name in names] == ["shipped\n", "edited\n"]
    assert list(tmp_path.glob("tmp.*")) == []


ELSE = {"running": "inactive", "configured": "active"}
CHRONY = "/etc/chrony/chrony.conf"


@pytest.mark.parametrize(
    ("domain", "name", "wrong", "right", "roles"),
    [
        ("file", CHRONY, {**FILE, "mode": "600"}, FILE, ("time_sync",)),
        ("file", CHRONY, None, FILE, ("time_sync",)),
        ("file", CHRONY, {**FILE, "acl": ACL}, FILE, ()),
        ("file", CHRONY, {**FILE, "flags": "i"}, FILE, ()),
        ("file", CHRONY, FILE, None, ()),
        ("file", X, {**FILE, "mode": "600"}, FILE, ()),
        ("unit", "slurmd.service", {"enabled": "disabled", "active": "inactive"},
         {"enabled": "by multi-user.target", "active": "active"}, ("slurm_worker",)),
        ("unit", "slurmd.service", {"enabled": "by a.target", "active": "active"},
         {"enabled": "disabled", "active": "inactive"}, ()),
        ("unit", "cron.service", {"enabled": "disabled", "active": "inactive"},
         {"enabled": "by multi-user.target", "active": "active"}, ()),
        ("package", "chrony:amd64", None, HTOP, ("packages", "time_sync")),
        ("package", "chrony:amd64", {**HTOP, "version": "1"}, HTOP, ()),
        ("package", "htop:amd64", None, HTOP, ()),
        ("package", "chrony:amd64", HTOP, None, ()),
        ("sysctl", "vm.swappiness", {"value": "1"}, {"value": "60"}, ()),
        ("running", "ssh.service: CPUs", ELSE, ELSE, ("cpu_sets",)),
        ("running", "ssh.service: limit open files", ELSE, ELSE, ("os_settings",)),
        ("running", "dhcp.socket: state", ELSE, ELSE, ("container_runtime",)),
        ("running", "dhcp.socket: state", {**ELSE, "running": "failed"}, ELSE, ()),
        ("running", "ssh.service: nice", ELSE, ELSE, ()),
    ],
)  # fmt: skip
def test_what_a_role_owns_is_repaired_by_that_role(
    domain: str, name: str, wrong: Fields | None, right: Fields | None, roles: tuple[str, ...]
) -> None:
    plan = recorded.consistent().plan.nodes["worker3"]
    assert owner(plan, domain, Case(name, wrong, right)) == roles
    unmanaged = replace(
        plan, cluster=replace(plan.cluster, spec=plan.spec.model_copy(update={"unmanaged": roles}))
    )
    assert roles == () or owner(unmanaged, domain, Case(name, wrong, right)) != roles
