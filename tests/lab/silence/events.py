"""What happens to the workers of a lab: daily jobs, logs, containers, jobs, logins, reboots."""

from __future__ import annotations

from tests.lab.silence import Event

TIMES = 7
STANDARD = ("cron", "logrotate", "man-db")
"""What a server of Debian has and the lab's image lacks: each brings jobs for every day."""

EVERY_TIMER = f"""
set -eu
# A timer whose unit systemd does not know shows null; a masked one cannot be started.
systemctl list-timers --all --output=json >/run/timers
units="$(python3 -c 'import json; print(*(one["activates"] for one in json.load(open("/run/timers"))
    if one["activates"]))')"
rm /run/timers
for name in man-db logrotate dpkg-db-backup systemd-tmpfiles-clean lockstep-node-check; do
    case " $units " in
    *" $name.service "*) ;;
    *) echo "no timer starts $name.service"; exit 1 ;;
    esac
done
for unit in $units; do
    for number in $(seq {TIMES}); do
        systemctl reset-failed "$unit" 2>/dev/null || :  # it counts starts (StartLimitBurst=)
        systemctl start "$unit"
    done
done
"""
APT_DAILY = f"""
set -eu
for number in $(seq {TIMES}); do
    for unit in apt-daily.service apt-daily-upgrade.service; do
        systemctl reset-failed "$unit" 2>/dev/null || :
        systemctl start "$unit"
    done
done
"""
REBOOT = "systemctl reboot"
IMAGE = "localhost/lockstep-check:1"
DOCKER = f"""
set -eu
run() {{ docker run --rm "$@" {IMAGE} /bin/busybox true; }}
run --network none
run --device nvidia.com/gpu=3
docker network create life >/dev/null
docker volume create life >/dev/null
run --network life -v life:/data
docker volume rm life >/dev/null
docker network rm life >/dev/null
test -z "$(docker ps -aq)"
"""
PODMAN = f"""
set -eu
run() {{ podman run --rm "$@" {IMAGE} /bin/busybox true; }}
run --network none
run --network none --device nvidia.com/gpu=3
podman pod create --infra=false life >/dev/null
podman pod rm life >/dev/null
test -z "$(podman ps -aq)"
"""
ROOTLESS = """
set -eu
export XDG_RUNTIME_DIR=/tmp/life; mkdir -p -m 700 "$XDG_RUNTIME_DIR"
engine="podman --log-level error --cgroup-manager cgroupfs"
tar -C /usr -c bin/busybox | $engine import -q - localhost/life:1 >/dev/null
$engine run --rm --network none localhost/life:1 /bin/busybox true
$engine rmi localhost/life:1 >/dev/null
rm -r "$XDG_RUNTIME_DIR"
"""
JOB_IN_CONTAINER = """
set -eu
srun -w NODE sh -c 'mkdir -p /tmp/life/bin /tmp/life/proc /tmp/life/sys /tmp/life/dev /tmp/life/tmp
    cp /usr/bin/busybox /tmp/life/bin/ && mksquashfs /tmp/life /tmp/life.sqsh -quiet -no-progress'
srun -w NODE --gres=gpu:3 --container-image=/tmp/life.sqsh /bin/busybox true
srun -w NODE rm -r /tmp/life /tmp/life.sqsh
"""

EVENTS: tuple[Event, ...] = (
    # --- daily jobs
    Event(f"the job of each timer, {TIMES} times", EVERY_TIMER),
    Event(f"apt's daily run, {TIMES} times", APT_DAILY),
    Event("cron's daily jobs",
          "run-parts --exit-on-error /etc/cron.daily"),
    Event("a job of cron, and its removal",
          "set -eu; echo '* * * * * true' | crontab -; crontab -r; systemctl restart cron"),
    Event("package lists again", "apt-get -q update"),
    Event("package lists and archives removed",
          "rm -rf /var/lib/apt/lists/* && apt-get clean && apt-get -q update", rare=True),
    # --- logs
    Event("all logs rotated", "logrotate -f /etc/logrotate.conf; logrotate -f /etc/logrotate.conf"),
    Event("the journal rotated and emptied", "journalctl -q --rotate --vacuum-time=1s"),
    Event("the journal lost",
          "rm -rf /var/log/journal/*/* && systemctl restart systemd-journald", rare=True),
    # --- containers and jobs
    Event("containers of Docker, with a network and a volume of their own", DOCKER),
    Event("containers of Podman", PODMAN),
    Event("containers of Podman without root", ROOTLESS, user=True, rare=True),
    Event("a job with GPUs", "srun -w NODE --gres=gpu:8 nvidia-smi -L", head=True),
    Event("a job on all workers", "srun -N2 --gres=gpu:2 sleep 1", head=True),
    Event("a job in a container", JOB_IN_CONTAINER, head=True, rare=True),
    Event("a batch job that is cancelled",
          "set -eu; id=$(cd /tmp && sbatch --parsable -w NODE --wrap='sleep 600')\n"
          "for i in $(seq 30); do squeue -h -t RUNNING -j $id | grep -q . && break; sleep 1; done\n"
          "scancel $id", head=True),
    Event("drained and resumed",
          "set -eu; scontrol update NodeName=NODE State=DRAIN Reason=life\n"
          "scontrol update NodeName=NODE State=RESUME", head=True),
    # --- people
    Event("logins with and without a terminal",
          "set -eu; sudo -n true; sudo -n -i true\n"
          "script -qec 'sudo -n true; bash -ic :' /dev/null",
          user=True),
    Event("a login that left files behind",
          "set -eu; echo uptime >>.bash_history; mkdir -p .cache .local/share/life\n"
          "echo 1 >.local/share/life/state; touch .sudo_as_admin_successful .viminfo", user=True),
    Event("a session that lingers, ended",
          "set -eu; loginctl enable-linger ops; sleep 2; loginctl disable-linger ops", rare=True),
    Event("ssh from the node to another one",
          "ssh -o StrictHostKeyChecking=accept-new -o BatchMode=yes localhost true; test $? = 255",
          user=True, rare=True),
    # --- care
    Event("services restarted",
          "systemctl restart chrony slurmd munge ssh docker",
          rare=True),
    Event("systemd reloaded and executed anew",
          "systemctl daemon-reload && systemctl daemon-reexec", rare=True),
    Event("a package installed and purged",
          "apt-get -q -y --no-install-recommends install tree && apt-get -q -y purge tree",
          rare=True),
    Event("a package installed again", "apt-get -q -y --reinstall install less", rare=True),
    Event("caches made again",
          "set -eu; ldconfig; update-ca-certificates; mandb -q; systemd-tmpfiles --create\n"
          "systemd-sysusers", rare=True),
    Event("Python's modules compiled in another way",
          "python3 -O -m compileall -q /usr/lib/python3/dist-packages", rare=True),
    # --- another day
    Event("files that are nine days older",
          "find /etc /usr/local /opt /srv -xdev -exec touch -h -d '9 days ago' {} +"),
    Event("accounts that were made on another day",
          "awk -F: -v OFS=: '{ $3 -= 9; print }' /etc/shadow >/etc/shadow.life\n"
          "cat /etc/shadow.life >/etc/shadow && rm /etc/shadow.life"),
    # --- the end of a boot
    Event("a reboot", REBOOT, boots=True),
    Event("a power cycle", "sync", boots=True),
)  # fmt: skip
"""All of them, none of which leaves a difference."""
