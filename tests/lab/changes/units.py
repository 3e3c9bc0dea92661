"""Changes of units, daemons and what they listen on."""

from __future__ import annotations

from tests.lab.changes import Change

EXPORTER = "prometheus-node-exporter.service"


def pid(unit: str) -> str:
    """Shell words for the main process of a unit."""
    return f"$(systemctl show -P MainPID {unit})"


def ended(program: str) -> str:
    """Shell script that ends what runs a program, also after its removal, and removes it."""
    return (
        "for p in /proc/[0-9]*; do [ \"$(readlink $p/exe | cut -d' ' -f1)\" = "
        f"{program} ] && kill ${{p#/proc/}}; done; rm {program}; sleep 0.5"
    )


def drop_in(unit: str, text: str, then: str = "") -> str:
    """Shell script that writes a drop-in as systemctl(1) edit does."""
    folder = f"/etc/systemd/system/{unit}.d"
    return f"mkdir -p {folder} && printf '{text}\\n' > {folder}/zz-override.conf{then}"


def without(unit: str, then: str = "") -> str:
    """Shell script that removes the drop-in."""
    folder = f"/etc/systemd/system/{unit}.d"
    gone = f"rm -f {folder}/zz-override.conf; rmdir --ignore-fail-on-non-empty {folder}"
    return f"{gone}; systemctl daemon-reload; systemctl reset-failed{then}"


def unit_file(name: str, text: str) -> str:
    """Shell script that writes a unit."""
    return f"printf '{text}\\n' > /etc/systemd/system/{name}; systemctl daemon-reload"


def again(unit: str) -> str:
    """Shell script that restarts a unit after a daemon-reload."""
    return f"; systemctl daemon-reload; systemctl reset-failed; systemctl restart {unit}"


RELOAD = "; systemctl daemon-reload"
CHRONY, MUNGE, DCGM = "chrony.service", "munge.service", "nvidia-dcgm.service"
STATES = (
    Change("mask a timer", "systemctl mask dpkg-db-backup.timer",
           "systemctl unmask dpkg-db-backup.timer; systemctl reset-failed dpkg-db-backup.timer; "
           "systemctl start dpkg-db-backup.timer", "unit", "dpkg-db-backup.timer"),
    Change("mask a service until the next boot", "systemctl mask --runtime munge.service",
           "systemctl unmask --runtime munge.service", "unit", MUNGE),
    Change("mask a service that runs", f"systemctl mask {MUNGE}", f"systemctl unmask {MUNGE}",
           "running", f"{MUNGE}: state", alone=True),
    Change("disable the clock", f"systemctl disable {CHRONY}", f"systemctl enable {CHRONY}",
           "unit", CHRONY),
    Change("disable the clock, which still runs", f"systemctl disable {CHRONY}",
           f"systemctl enable {CHRONY}", "running", f"{CHRONY}: state", alone=True),
    Change("enable a root shell on tty9", "systemctl enable debug-shell.service",
           "systemctl disable debug-shell.service", "unit", "debug-shell.service"),
    Change("enable a serial console", "systemctl enable serial-getty@ttyS1.service",
           "systemctl disable serial-getty@ttyS1.service; rmdir --ignore-fail-on-non-empty "
           "/etc/systemd/system/getty.target.wants", "unit", "serial-getty@ttyS1.service"),
    Change("stop an exporter", f"systemctl stop {EXPORTER}", f"systemctl start {EXPORTER}",
           "unit", EXPORTER),
    Change("stop an exporter and forget it", f"systemctl stop {EXPORTER}",
           f"systemctl start {EXPORTER}", "running", f"{EXPORTER}: state", alone=True),
    Change("stop a timer", "systemctl stop systemd-tmpfiles-clean.timer",
           "systemctl start systemd-tmpfiles-clean.timer", "unit", "systemd-tmpfiles-clean.timer"),
    Change("stop a timer, enabled as it is", "systemctl stop dpkg-db-backup.timer",
           "systemctl start dpkg-db-backup.timer", "running", "dpkg-db-backup.timer: state",
           alone=True),
    Change("stop a path unit", "systemctl stop nvidia-cdi-refresh.path",
           "systemctl start nvidia-cdi-refresh.path", "unit", "nvidia-cdi-refresh.path"),
    Change("stop a socket", "systemctl stop systemd-sysext.socket",
           "systemctl start systemd-sysext.socket", "unit", "systemd-sysext.socket"),
    Change("another default target", "systemctl set-default multi-user.target",
           "rm -f /etc/systemd/system/default.target; systemctl daemon-reload",
           "unit", "multi-user.target"),
    Change("a service of one's own",
           unit_file("tuning.service", "[Service]\\nExecStart=/bin/sleep inf\\n"
                     "[Install]\\nWantedBy=multi-user.target")
           + "; systemctl enable --now tuning.service",
           "systemctl disable --now tuning.service; rm /etc/systemd/system/tuning.service"
           + RELOAD, "unit", "tuning.service"),
    Change("a service of one's own, started only",
           unit_file("burn.service", "[Service]\\nExecStart=/bin/sleep inf\\n"
                     "[Install]\\nWantedBy=multi-user.target") + "; systemctl start burn.service",
           "systemctl stop burn.service; rm /etc/systemd/system/burn.service" + RELOAD,
           "running", "burn.service: state", alone=True),
    Change("a oneshot at boot",
           unit_file("once.service", "[Service]\\nType=oneshot\\nExecStart=/bin/true\\n"
                     "[Install]\\nWantedBy=multi-user.target") + "; systemctl enable once.service",
           "systemctl disable once.service; rm /etc/systemd/system/once.service" + RELOAD,
           "unit", "once.service"),
    Change("a service that failed", "systemd-run --unit=lost /bin/false; sleep 1",
           "systemctl reset-failed lost.service", "unit", "lost.service"),
    Change("a command by systemd-run", "systemd-run --unit=forgotten sleep 10000",
           "systemctl stop forgotten.service", "unit", "forgotten.service"),
    Change("a unit that cannot be read", unit_file("broken.service", "[Service]\\nExecStart=x")
           + "; systemctl start broken.service || true",
           "rm /etc/systemd/system/broken.service; systemctl reset-failed broken.service" + RELOAD,
           "unit", "broken.service"),
    Change("an alias", "ln -s /usr/lib/systemd/system/munge.service "
           "/etc/systemd/system/munged.service" + RELOAD,
           "rm /etc/systemd/system/munged.service" + RELOAD, "unit", MUNGE),
    Change("a wish of another unit",
           "mkdir -p /etc/systemd/system/slurmd.service.wants && ln -s "
           "/usr/lib/systemd/system/nvidia-dcgm.service "
           "/etc/systemd/system/slurmd.service.wants/" + RELOAD,
           "rm -r /etc/systemd/system/slurmd.service.wants" + RELOAD, "unit", DCGM),
    Change("weight of a service until the next boot",
           f"systemctl set-property --runtime {CHRONY} CPUWeight=50",
           "rm -r /run/systemd/system.control; systemctl daemon-reload", "unit", CHRONY),
    Change("memory of all users", "systemctl set-property user.slice MemoryHigh=8G",
           "rm -r /etc/systemd/system.control; systemctl daemon-reload", "unit", "user.slice"),
    Change("a service that restarts for ever",
           unit_file("loop.service", "[Service]\\nExecStart=/bin/false\\nRestart=always\\n"
                     "RestartSec=600") + "; systemctl start loop.service; sleep 1",
           "systemctl stop loop.service; rm /etc/systemd/system/loop.service" + RELOAD,
           "unit", "loop.service"),
    Change("a killed daemon", f"systemctl kill -s TERM {CHRONY}; sleep 1",
           f"systemctl restart {CHRONY}", "running", f"{CHRONY}: state", alone=True),
    Change("enabled until the next boot", "systemctl enable --runtime debug-shell.service",
           "systemctl disable --runtime debug-shell.service", "unit", "debug-shell.service"),
    Change("a unit linked from elsewhere", "printf '[Service]\\nExecStart=/bin/true\\n' > "
           "/opt/site.service; systemctl link /opt/site.service",
           "systemctl disable site.service; rm /opt/site.service", "unit", "site.service"),
    Change("no clock by timedatectl", "timedatectl set-ntp false", "timedatectl set-ntp true",
           "unit", CHRONY),
    Change("any file of a user's units", "mkdir -p /var/lib/systemd/linger "
           "/root/.config/systemd/user; touch /var/lib/systemd/linger/root; "
           "printf '[Service]\\n' > /root/.config/systemd/user/mine.service",
           "rm /var/lib/systemd/linger/root /root/.config/systemd/user/mine.service; cd /root && "
           "rmdir -p --ignore-fail-on-non-empty .config/systemd/user", "unit", "user root"),
    Change("a user lingers by loginctl", "loginctl enable-linger nobody; sleep 1",
           "loginctl disable-linger nobody; sleep 2; systemctl stop user@65534.service",
           "unit", "user nobody"),
    Change("log level of PID 1", "systemctl log-level debug", "systemctl log-level info",
           "unit", "systemd"),
    Change("log level of PID 1, not configured", "systemctl log-level notice",
           "systemctl log-level info", "running", "systemd: LogLevel", alone=True),
    Change("log target of PID 1", "systemctl log-target kmsg", "systemctl log-target journal",
           "unit", "systemd"),
    Change("a variable for all services", "systemctl set-environment OMP_NUM_THREADS=1",
           "systemctl unset-environment OMP_NUM_THREADS", "unit", "systemd"),
    Change("service watchdogs off", "systemctl service-watchdogs no",
           "systemctl service-watchdogs yes", "unit", "systemd"),
    Change("manager's defaults", "mkdir -p /etc/systemd/system.conf.d; printf "
           "'[Manager]\\nDefaultTimeoutStopSec=5\\n' > /etc/systemd/system.conf.d/zz.conf"
           + RELOAD, "rm /etc/systemd/system.conf.d/zz.conf" + RELOAD, "unit", "systemd"),
    Change("a user's units without login", "mkdir -p /var/lib/systemd/linger; "
           "touch /var/lib/systemd/linger/nobody",
           "rm /var/lib/systemd/linger/nobody", "unit", "user nobody"),
)  # fmt: skip
PROCESSES = (
    Change("renice slurmd", f"renice -n 10 -p {pid('slurmd.service')}",
           f"renice -n 0 -p {pid('slurmd.service')}", "process", "slurmd.service"),
    Change("renice slurmd, against its unit", f"renice -n 5 -p {pid('slurmd.service')}",
           f"renice -n 0 -p {pid('slurmd.service')}", "running", "slurmd.service: nice",
           alone=True),
    Change("taskset of the exporter", f"taskset -apc 1 {pid(EXPORTER)}",
           f"taskset -apc 0 {pid(EXPORTER)}", "process", EXPORTER),
    Change("taskset of containerd, against its unit",
           f"taskset -apc 0 {pid('containerd.service')}",
           f"taskset -apc 0-1 {pid('containerd.service')}", "running",
           "containerd.service: CPUs", alone=True),
    Change("prlimit of slurmd", f"prlimit -p {pid('slurmd.service')} --stack=16777216:",
           f"prlimit -p {pid('slurmd.service')} --stack=unlimited:", "process", "slurmd.service"),
    Change("prlimit of a daemon, against its unit",
           f"prlimit -p {pid(DCGM)} --nofile=512:512",
           f"systemctl reset-failed {DCGM}; systemctl restart {DCGM}",
           "running", f"{DCGM}: limit open files", alone=True),
    Change("core dumps of a daemon", f"prlimit -p {pid(DCGM)} --core=unlimited:",
           f"prlimit -p {pid(DCGM)} --core=0:", "process", DCGM),
    Change("I/O priority", f"ionice -c 3 -p {pid(DCGM)}", f"ionice -c 0 -p {pid(DCGM)}",
           "process", DCGM),
    Change("scheduling policy", f"chrt --idle -p 0 {pid(EXPORTER)}",
           f"chrt --other -p 0 {pid(EXPORTER)}", "process", EXPORTER),
    Change("scheduling policy, against its unit", f"chrt --batch -p 0 {pid(EXPORTER)}",
           f"chrt --other -p 0 {pid(EXPORTER)}", "running", f"{EXPORTER}: policy", alone=True),
    Change("OOM score", f"echo 700 > /proc/{pid(DCGM)}/oom_score_adj",
           f"echo 0 > /proc/{pid(DCGM)}/oom_score_adj", "process", DCGM),
    Change("OOM score, against its unit", f"echo 900 > /proc/{pid(EXPORTER)}/oom_score_adj",
           f"echo 0 > /proc/{pid(EXPORTER)}/oom_score_adj", "running",
           f"{EXPORTER}: OOM score adjustment", alone=True),
    Change("a stopped daemon", f"kill -STOP {pid(EXPORTER)}; sleep 0.5",
           f"kill -CONT {pid(EXPORTER)}; sleep 0.5", "process", EXPORTER),
    Change("a stopped daemon, alone", f"kill -STOP {pid(DCGM)}; sleep 0.5",
           f"kill -CONT {pid(DCGM)}; sleep 0.5", "running", f"{DCGM}: execution", alone=True),
    Change("core dump filter", f"echo 0x7f > /proc/{pid(DCGM)}/coredump_filter",
           f"echo 0x33 > /proc/{pid(DCGM)}/coredump_filter", "process", DCGM),
    Change("a daemon by hand", "cp /bin/sleep /usr/local/bin/monitord; "
           "setsid nohup /usr/local/bin/monitord 100000 >/dev/null 2>&1 & sleep 0.5",
           ended("/usr/local/bin/monitord"),
           "process", "by hand: /usr/local/bin/monitord"),
    Change("a script by hand", "printf 'while true; do sleep 1; done\\n' > /opt/watch.sh; "
           "setsid sh /opt/watch.sh >/dev/null 2>&1 & sleep 0.5",
           "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q '^sh /opt/watch.sh' "
           "&& kill ${p#/proc/}; done; rm /opt/watch.sh; sleep 1.5",
           "process", "by hand: /usr/bin/dash /opt/watch.sh"),
    Change("a second daemon by hand", "cp /bin/sleep /opt/agent; "
           "for i in 1 2; do (setsid /opt/agent 1000$i >/dev/null 2>&1 &); done; sleep 0.5",
           ended("/opt/agent"),
           "process", "by hand: /opt/agent #2"),
    Change("a daemon that an ssh session left", "cp /bin/sleep /opt/left; "
           "setsid /opt/left 100000 >/dev/null 2>&1 & sleep 0.3; for p in /proc/[0-9]*; do "
           "[ \"$(readlink $p/exe)\" = /opt/left ] && echo ${p#/proc/} > "
           "/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs; done; sleep 0.3",
           ended("/opt/left"), "process", "by hand: /opt/left"),
    Change("a unit of a user that lingers", "mkdir -p /root/.config/systemd/user; printf "
           "'[Service]\\nExecStart=/bin/sleep inf\\n' > /root/.config/systemd/user/mine.service; "
           "loginctl enable-linger root; sleep 2; "
           "XDG_RUNTIME_DIR=/run/user/0 systemctl --user start mine.service; sleep 0.5",
           "loginctl disable-linger root; systemctl stop user@0.service; rm -r "
           "/root/.config/systemd/user/mine.service; cd /root && "
           "rmdir -p --ignore-fail-on-non-empty .config/systemd/user; sleep 1",
           "process", "mine.service of user root"),
    Change("nice by a drop-in", drop_in(CHRONY, "[Service]\\nNice=-5", again(CHRONY)),
           without(CHRONY, f"; systemctl restart {CHRONY}"), "process", CHRONY),
    Change("a variable by a drop-in",
           drop_in(EXPORTER, "[Service]\\nEnvironment=GOMAXPROCS=1", again(EXPORTER)),
           without(EXPORTER, f"; systemctl restart {EXPORTER}"), "process", EXPORTER),
    Change("a limit by a drop-in",
           drop_in(CHRONY, "[Service]\\nLimitNOFILE=4096", again(CHRONY)),
           without(CHRONY, f"; systemctl restart {CHRONY}"), "process", CHRONY),
    Change("an umask by a drop-in", drop_in(DCGM, "[Service]\\nUMask=0077", again(DCGM)),
           without(DCGM, f"; systemctl restart {DCGM}"), "process", DCGM),
    Change("options in a file of defaults",
           "cp -p /etc/default/prometheus-node-exporter /root/kept; sed -i "
           "'s/^ARGS=\"/ARGS=\"--log.level=debug /' /etc/default/prometheus-node-exporter; "
           f"systemctl restart {EXPORTER}",
           "cp -p /root/kept /etc/default/prometheus-node-exporter; rm /root/kept; "
           f"systemctl restart {EXPORTER}", "process", EXPORTER),
    Change("another user", drop_in(EXPORTER, "[Service]\\nUser=root", again(EXPORTER)),
           without(EXPORTER, f"; systemctl restart {EXPORTER}"), "process", EXPORTER),
    Change("a private network", drop_in(DCGM, "[Service]\\nPrivateTmp=yes", again(DCGM)),
           without(DCGM, f"; systemctl restart {DCGM}"), "process", DCGM),
    Change("no new privileges",
           drop_in(DCGM, "[Service]\\nNoNewPrivileges=yes", again(DCGM)),
           without(DCGM, f"; systemctl restart {DCGM}"), "process", DCGM),
    Change("another slice", drop_in(DCGM, "[Service]\\nSlice=machine.slice", again(DCGM)),
           without(DCGM, f"; systemctl restart {DCGM}"), "process", DCGM),
)  # fmt: skip
RUNNING = (
    Change("a drop-in without daemon-reload", drop_in(CHRONY, "[Unit]\\nDescription=x"),
           without(CHRONY, f"; systemctl restart {CHRONY}"), "running",
           f"{CHRONY}: unit files", alone=True),
    Change("a new folder of drop-ins without daemon-reload",
           drop_in(MUNGE, "[Service]\\nNice=3"), without(MUNGE), "running",
           f"{MUNGE}: unit files", alone=True),
    Change("a drop-in without restart", drop_in(CHRONY, "[Service]\\nNice=4", RELOAD),
           without(CHRONY, f"; systemctl restart {CHRONY}"), "running", f"{CHRONY}: nice",
           alone=True),
    Change("a limit without restart", drop_in(MUNGE, "[Service]\\nLimitNOFILE=777", RELOAD),
           without(MUNGE), "running", f"{MUNGE}: limit open files", alone=True),
    Change("a variable without restart",
           drop_in(EXPORTER, "[Service]\\nEnvironment=GOGC=50", RELOAD),
           without(EXPORTER, f"; systemctl restart {EXPORTER}"), "running",
           f"{EXPORTER}: environment GOGC", alone=True),
    Change("any setting without restart",
           drop_in(DCGM, "[Service]\\nRestartSec=77", RELOAD),
           without(DCGM, f"; systemctl restart {DCGM}"), "running", f"{DCGM}: start", alone=True),
    Change("settings of journald without restart", "mkdir -p /etc/systemd/journald.conf.d; printf "
           "'[Journal]\\nRateLimitBurst=1\\n' > /etc/systemd/journald.conf.d/zz.conf",
           "rm /etc/systemd/journald.conf.d/zz.conf; rmdir --ignore-fail-on-non-empty "
           "/etc/systemd/journald.conf.d", "running", "systemd-journald.service: start",
           alone=True),
    Change("a file of options without restart",
           "echo '# local' >> /etc/default/prometheus-node-exporter",
           "sed -i '/^# local$/d' /etc/default/prometheus-node-exporter; "
           f"systemctl restart {EXPORTER}",
           "running", f"{EXPORTER}: start", alone=True),
    Change("fstab without daemon-reload", "cp -p /etc/fstab /root/kept; "
           "echo '# head:/old /old nfs noauto 0 0' >> /etc/fstab",
           "cp -p /root/kept /etc/fstab; rm /root/kept; systemctl daemon-reload",
           "running", "systemd: /etc/fstab", alone=True),
    Change("manager's settings without daemon-reload",
           "printf '[Manager]\\nDefaultRestartSec=7\\n' > /etc/systemd/system.conf.d/zz.conf",
           "rm /etc/systemd/system.conf.d/zz.conf; systemctl daemon-reload",
           "running", "systemd: /etc/systemd/system.conf.d/zz.conf", alone=True),
    Change("core dumps allowed for a daemon", f"prlimit -p {pid(DCGM)} --core=unlimited:",
           f"prlimit -p {pid(DCGM)} --core=0:", "running", f"{DCGM}: limit core file size",
           alone=True),
    Change("a frozen service", f"systemctl freeze {EXPORTER}; sleep 0.5",
           f"systemctl thaw {EXPORTER}", "cgroup", f"system.slice/{EXPORTER}"),
    Change("a program replaced on disk",
           "cp -p /usr/sbin/munged /usr/sbin/munged.new; mv /usr/sbin/munged /usr/sbin/munged.old; "
           "mv /usr/sbin/munged.new /usr/sbin/munged; rm /usr/sbin/munged.old",
           f"systemctl restart {MUNGE}", "running", f"{MUNGE}: program", alone=True),
    Change("the host's name until the next boot", "cp /proc/sys/kernel/hostname /run/kept; "
           "hostname spare9", "hostname \"$(cat /run/kept)\"; rm /run/kept",
           "running", "host name: name", alone=True),
    Change("settings of journald until the next boot", "mkdir -p /run/systemd/journald.conf.d; "
           "printf '[Journal]\\nStorage=volatile\\n' > /run/systemd/journald.conf.d/a.conf",
           "rm -r /run/systemd/journald.conf.d", "running", "systemd-journald.service: start",
           alone=True),
    Change("settings of logind without restart", "mkdir -p /etc/systemd/logind.conf.d; printf "
           "'[Login]\\nKillUserProcesses=yes\\n' > /etc/systemd/logind.conf.d/zz.conf",
           "rm /etc/systemd/logind.conf.d/zz.conf; rmdir --ignore-fail-on-non-empty "
           "/etc/systemd/logind.conf.d", "running", "systemd-logind.service: start", alone=True),
    Change("logins refused", "touch /run/nologin", "rm /run/nologin", "running",
           "logins: state", alone=True, apart=True),
)  # fmt: skip
TIMES = (
    Change("a timer of one's own",
           "printf '[Timer]\\nOnCalendar=daily\\n' > /etc/systemd/system/night.timer; printf "
           "'[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/night.service"
           "; systemctl daemon-reload; systemctl start night.timer",
           "systemctl stop night.timer; rm /etc/systemd/system/night.*" + RELOAD,
           "timer", "night.timer"),
    Change("another hour of a timer",
           drop_in("dpkg-db-backup.timer", "[Timer]\\nOnCalendar=03:00", RELOAD),
           without("dpkg-db-backup.timer"), "timer", "dpkg-db-backup.timer"),
    Change("a timer by systemd-run", "systemd-run --on-calendar='*-*-* 04:00' /usr/bin/sync",
           "systemctl stop 'run-*.timer'", "timer", "systemd-run: /usr/bin/sync"),
    Change("a job of at", "mkdir -p /var/spool/cron/atjobs; printf '#!/bin/sh\\numask 22\\n"
           "cd /root || {\\n echo Execution directory inaccessible >&2\\n exit 1\\n}\\nreboot\\n' "
           "> /var/spool/cron/atjobs/a0000101bd4a8e", "rm -r /var/spool/cron/atjobs; "
           "rmdir --ignore-fail-on-non-empty /var/spool/cron",
           "timer", "at job 1"),
)  # fmt: skip
LISTENERS = (
    Change("a server on TCP", "systemd-run --unit=web python3 -m http.server 8000; sleep 1",
           "systemctl stop web.service", "listener", "tcp 0.0.0.0:8000"),
    Change("a server on a high port",
           "systemd-run --unit=web python3 -m http.server 41000 --bind 127.0.0.1; sleep 1",
           "systemctl stop web.service", "listener", "tcp 127.0.0.1:41000"),
    Change("a server on UDP", "systemd-run --unit=udp python3 -c 'import socket, time; "
           "s = socket.socket(type=socket.SOCK_DGRAM); s.bind((\"0.0.0.0\", 514)); "
           "time.sleep(1e5)'; sleep 1", "systemctl stop udp.service", "listener",
           "udp 0.0.0.0:514"),
    Change("a socket in the file system", "systemd-run --unit=sock python3 -c 'import socket, "
           "time; s = socket.socket(socket.AF_UNIX); s.bind(\"/run/agent.sock\"); s.listen(); "
           "time.sleep(1e5)'; sleep 1", "systemctl stop sock.service; rm /run/agent.sock",
           "listener", "unix /run/agent.sock"),
    Change("an abstract socket", "systemd-run --unit=sock python3 -c 'import socket, time; "
           "s = socket.socket(socket.AF_UNIX); s.bind(\"\\0agent\"); s.listen(); "
           "time.sleep(1e5)'; sleep 1", "systemctl stop sock.service", "listener",
           "unix @agent"),
    Change("a socket unit", unit_file("echo.socket", "[Socket]\\nListenStream=7\\nAccept=yes")
           + "; printf '[Service]\\nExecStart=/bin/cat\\nStandardInput=socket\\n' > "
           "/etc/systemd/system/echo@.service; systemctl start echo.socket",
           "systemctl stop echo.socket; rm /etc/systemd/system/echo.socket "
           "/etc/systemd/system/echo@.service" + RELOAD, "listener", "tcp *:7"),
    Change("sshd on a second port", "mkdir -p /etc/ssh/sshd_config.d; printf 'Port 22\\nPort "
           "2222\\n' > /etc/ssh/sshd_config.d/zz.conf; systemctl reload ssh.service; sleep 1",
           "rm /etc/ssh/sshd_config.d/zz.conf; systemctl reload ssh.service; sleep 1",
           "listener", "tcp 0.0.0.0:2222"),
)  # fmt: skip
ENGINES = (
    Change("a network of Docker", "docker network create --subnet 10.77.0.0/24 lab",
           "docker network rm lab", "engine", "docker network lab"),
    Change("a volume of Docker", "docker volume create data", "docker volume rm data",
           "engine", "docker volume data"),
    Change("a further name of an image", "docker tag localhost/lockstep-check:1 site/tool:2",
           "docker rmi site/tool:2", "engine", "docker image site/tool:2"),
    Change("a container that starts by itself",
           "docker create --name agent --network none --restart always localhost/lockstep-check:1",
           "docker rm agent", "engine", "docker container agent"),
    Change("a network of Podman", "podman network create --disable-dns site",
           "podman network rm site; rmdir --ignore-fail-on-non-empty /etc/containers/networks",
           "engine", "podman network site"),
    Change("a login to a registry", "mkdir -p /root/.docker; echo '{\"auths\": {\"site\": "
           "{\"auth\": \"YTpi\"}}}' > /root/.docker/config.json", "rm -r /root/.docker",
           "engine", "file /root/.docker/config.json"),
    Change("a secret of Podman", "printf site | podman secret create pull -",
           "podman secret rm pull", "engine", "podman secret pull"),
    Change("a volume of Podman", "podman volume create data", "podman volume rm data",
           "engine", "podman volume data"),
    Change("a further name of an image in Podman",
           "podman tag localhost/lockstep-check:1 localhost/tool:2",
           "podman rmi localhost/tool:2", "engine", "podman image localhost/tool:2"),
)  # fmt: skip
LOGINS = (
    Change("a variable for all logins", "echo 'export OMP_NUM_THREADS=1' > /etc/profile.d/zz.sh",
           "rm /etc/profile.d/zz.sh", "login", "login shell of an unprivileged user"),
    Change("an umask for all logins", "echo 'umask 077' > /etc/profile.d/zz.sh",
           "rm /etc/profile.d/zz.sh", "login", "login shell of root"),
    Change("a path of root", "cp -p /root/.profile /root/kept; "
           "echo 'PATH=/opt/site/bin:$PATH' >> /root/.profile",
           "cp -p /root/kept /root/.profile; rm /root/kept", "login", "login shell of root"),
    Change("a limit by PAM", "echo '* hard nofile 2000' > /etc/security/limits.d/zz.conf",
           "rm /etc/security/limits.d/zz.conf", "login", "login shell of an unprivileged user"),
    Change("an alias for all logins", "echo \"alias srun='srun --mpi=none'\" > "
           "/etc/profile.d/zz.sh", "rm /etc/profile.d/zz.sh", "login", "login shell of root"),
)  # fmt: skip
CHANGES: tuple[Change, ...] = (
    *STATES, *PROCESSES, *RUNNING, *TIMES, *LISTENERS, *ENGINES, *LOGINS
)  # fmt: skip
