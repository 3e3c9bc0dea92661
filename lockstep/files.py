"""Every file that Lockstep owns on a node, with its exact content.

Roles install this list and checks compare against it: what is written is what is expected.
Adding a file is one line here and one template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from lockstep.plan import NodePlan
from lockstep.render import render
from lockstep.secrets import Secrets

MUNGE_KEY = "/etc/munge/munge.key"
SLURM_CONF = "/etc/slurm/slurm.conf"


@dataclass(frozen=True)
class ManagedFile:
    """One file: where, what, whose, and the program that judges it before it is put in place."""

    role: str
    path: str
    content: bytes = field(repr=False)
    mode: str
    user: str
    group: str
    secret: bool
    validate: str
    """Shell command; ``{new}`` is the candidate's path; "" where no program can judge it."""

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the content."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class _Entry:
    role: str
    path: str
    template: str = ""
    mode: str = "644"
    owner: str = "root:root"
    secret: bool = False
    validate: str = ""
    wanted: Callable[[NodePlan], bool] = lambda plan: True
    """Says whether the node has the file, beyond having the role."""


def _drop_in(unit: str, name: str = "50-lockstep.conf") -> str:
    """Return a command that lets systemd judge a drop-in beside the unit it belongs to."""
    return (
        'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; '
        f'mkdir "$d/{unit}.d"; cp {{new}} "$d/{unit}.d/{name}"; '
        # verify also fails for what other units do: only what it says of our file counts.
        f'said="$(SYSTEMD_UNIT_PATH="$d:" systemd-analyze verify --man=no {unit} 2>&1 || true)"; '
        'case "$said" in *"$d"*) echo "$said" >&2; exit 1;; esac'
    )


SLURM_PARSES = (
    # `scontrol ping` reads the whole file first, then names the controller, up or down; slurm has
    # no other test of a file on this host in all supported releases.
    'said="$(SLURM_CONF={new} scontrol ping 2>&1 || true)"; '  # a controller that is down is fine
    'case "$said" in *error:*|*fatal:*) echo "$said" >&2; exit 1;; *Slurmctld*) ;; '
    '*) echo "$said" >&2; exit 1;; esac'
)


def _has_cpu_args(plan: NodePlan) -> bool:
    return bool(plan.hardware.cpu_args)


def _has_hugepages(plan: NodePlan) -> bool:
    return bool(plan.hardware.hugepage_args)


def _has_housekeeping(plan: NodePlan) -> bool:
    return bool(plan.hardware.cpu.housekeeping)


def _has_locale_file(plan: NodePlan, path: str) -> bool:
    return plan.cluster.release.locale_file == path


def _slurm_configuration(
    role: str, wanted: Callable[[NodePlan], bool] = lambda plan: True
) -> tuple[_Entry, ...]:
    """Return Slurm's own files: on the controller, and where workers cannot fetch them."""
    names = ("cgroup.conf", "gres.conf", "plugstack.conf", "slurm.conf")
    return tuple(
        _Entry(
            role,
            f"/etc/slurm/{name}",
            f"slurm_controller/{name}.j2",
            validate=SLURM_PARSES if name == "slurm.conf" else "",
            wanted=wanted,
        )
        for name in names
    )


ENTRIES = (
    _Entry("os_settings", "/etc/hostname", "os_settings/hostname.j2"),
    _Entry("os_settings", "/etc/hosts", "os_settings/hosts.j2"),
    _Entry("os_settings", "/etc/gai.conf", "os_settings/gai.conf.j2"),
    *(
        _Entry(
            "os_settings",
            path,
            "os_settings/locale.j2",
            validate="sh -n {new}",
            wanted=partial(_has_locale_file, path=path),
        )
        for path in ("/etc/default/locale", "/etc/locale.conf")
    ),
    _Entry(
        "os_settings",
        "/etc/sysctl.d/99-zz-lockstep.conf",
        "os_settings/sysctl.conf.j2",
        validate="sysctl --dry-run -p {new} >/dev/null",
    ),
    _Entry("os_settings", "/etc/security/limits.d/90-lockstep.conf", "os_settings/limits.conf.j2"),
    _Entry(
        "os_settings", "/etc/systemd/system.conf.d/90-lockstep.conf", "os_settings/system.conf.j2"
    ),
    _Entry(
        "packages",
        "/etc/apt/apt.conf.d/90lockstep",
        "packages/apt.conf.j2",
        validate="apt-config -c {new} dump >/dev/null",
    ),
    _Entry(
        "packages",
        "/etc/apt/preferences.d/90-lockstep",
        "packages/preferences.j2",
        validate="apt-cache -o Dir::Etc::preferences={new} policy >/dev/null",
    ),
    _Entry(
        "packages",
        "/usr/sbin/policy-rc.d",
        "packages/policy-rc.d.j2",
        mode="755",
        validate="sh -n {new}",
    ),
    _Entry(
        "cpu_sets",
        "/etc/systemd/system.conf.d/50-lockstep-cpus.conf",
        "cpu_sets/system.conf.j2",
        wanted=_has_housekeeping,
    ),
    _Entry(
        "cpu_sets",
        "/etc/systemd/system/user.slice.d/50-lockstep.conf",
        "cpu_sets/slice.conf.j2",
        validate=_drop_in("user.slice"),
        wanted=_has_housekeeping,
    ),
    _Entry(
        "cpu_sets",
        "/etc/default/grub.d/50-lockstep-cpus.cfg",
        "cpu_sets/grub.cfg.j2",
        validate="sh -n {new}",
        wanted=_has_cpu_args,
    ),
    _Entry(
        "hugepages",
        "/etc/default/grub.d/51-lockstep-hugepages.cfg",
        "hugepages/grub.cfg.j2",
        validate="sh -n {new}",
        wanted=_has_hugepages,
    ),
    _Entry("time_sync", "/etc/default/chrony", "time_sync/default.j2", validate="sh -n {new}"),
    _Entry(
        "time_sync",
        "/etc/chrony/chrony.conf",
        "time_sync/chrony.conf.j2",
        validate="chronyd -p -f {new} >/dev/null",
    ),
    _Entry(
        "time_sync",
        "/etc/systemd/system/chrony.service.d/50-lockstep.conf",
        "time_sync/unit.conf.j2",
        validate=_drop_in("chrony.service"),
        wanted=lambda plan: plan.hardware.hardware.clock == "host",
    ),
    _Entry(
        "munge",
        MUNGE_KEY,
        mode="400",
        owner="munge:munge",
        secret=True,
        # munged(8): a key has 32 to 1024 bytes; munged has no test of a key without starting.
        validate='n="$(stat -c %s {new})"; test "$n" -ge 32 && test "$n" -le 1024',
    ),
    _Entry(
        "node_exporter",
        "/etc/default/prometheus-node-exporter",
        "node_exporter/default.j2",
        validate="sh -n {new}",
    ),
    _Entry(
        "node_exporter",
        "/etc/systemd/system/prometheus-node-exporter.service.d/50-lockstep.conf",
        "node_exporter/unit.conf.j2",
        validate=_drop_in("prometheus-node-exporter.service"),
    ),
    _Entry(
        "slurm_accounting",
        "/etc/mysql/mariadb.conf.d/90-lockstep.cnf",
        "slurm_accounting/mariadb.cnf.j2",
        validate="mariadbd --defaults-file={new} --user=mysql --help --verbose >/dev/null",
    ),
    _Entry(
        "slurm_accounting",
        "/etc/slurm/slurmdbd.conf",
        "slurm_accounting/slurmdbd.conf.j2",
        mode="600",
        owner="slurm:slurm",
        secret=True,
    ),
    *_slurm_configuration("slurm_controller"),
    *_slurm_configuration("slurm_worker", wanted=lambda plan: not plan.cluster.configless),
    _Entry(
        "slurm_worker", "/etc/default/slurmd", "slurm_worker/default.j2", validate="sh -n {new}"
    ),
    _Entry(
        "slurm_worker",
        "/etc/systemd/system/slurmd.service.d/50-lockstep.conf",
        "slurm_worker/unit.conf.j2",
        validate=_drop_in("slurmd.service"),
    ),
    _Entry(
        "slurm_worker",
        "/usr/local/libexec/lockstep/slurm-health-check",
        "slurm_worker/health_check.sh.j2",
        mode="755",
        validate="sh -n {new}",
    ),
    _Entry(
        "prometheus", "/etc/default/prometheus", "prometheus/default.j2", validate="sh -n {new}"
    ),
    _Entry(
        "prometheus",
        "/etc/systemd/system/prometheus.service.d/50-lockstep.conf",
        "prometheus/unit.conf.j2",
        validate=_drop_in("prometheus.service"),
    ),
    _Entry(
        "prometheus",
        "/etc/prometheus/lockstep.rules.yml",
        "prometheus/rules.yml.j2",
        validate="promtool check rules {new} >/dev/null",
    ),
    _Entry(
        "prometheus",
        "/etc/prometheus/prometheus.yml",
        "prometheus/prometheus.yml.j2",
        validate="promtool check config {new} >/dev/null",
    ),
)


def managed(
    plan: NodePlan, secrets: Secrets | None, role: str | None = None
) -> tuple[ManagedFile, ...]:
    """Return the files of a node (of one role, if named); secret ones only with ``secrets``."""
    return tuple(
        _file(entry, plan, secrets)
        for entry in _entries(plan)
        if (role is None or entry.role == role) and (secrets is not None or not entry.secret)
    )


def paths(plan: NodePlan) -> tuple[str, ...]:
    """Return where the files of a node are, secret ones too; nothing is rendered."""
    return tuple(entry.path for entry in _entries(plan))


def slurm_conf_sha256(plan: NodePlan) -> str:
    """Return the hash of the controller's slurm.conf, which every slurmd fetches from it."""
    controller = plan.cluster.nodes[plan.controller_host]
    files = managed(controller, None, "slurm_controller")
    return next(file.sha256 for file in files if file.path == SLURM_CONF)


def systemd_configuration(plan: NodePlan) -> tuple[str, ...]:
    """Return the paths of the files that systemd itself reads: its defaults and slices."""
    return tuple(
        path for path in paths(plan) if "/systemd/system.conf.d/" in path or ".slice.d/" in path
    )


def _entries(plan: NodePlan) -> Iterator[_Entry]:
    for entry in ENTRIES:
        if entry.role in plan.capabilities and entry.wanted(plan):
            yield entry


def _file(entry: _Entry, plan: NodePlan, secrets: Secrets | None) -> ManagedFile:
    if entry.path == MUNGE_KEY and secrets is not None:
        content = secrets.munge_key
    else:
        content = render(entry.template, plan=plan, secrets=secrets).encode("utf-8")
    user, group = entry.owner.split(":")
    return ManagedFile(
        role=entry.role,
        path=entry.path,
        content=content,
        mode=entry.mode,
        user=user,
        group=group,
        secret=entry.secret,
        validate=entry.validate,
    )
