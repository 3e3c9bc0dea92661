"""Every package of the node, at its locked version, in one transaction before any other role.

Owns     Debian: apt's pins, holds and additional repositories, the policy-rc.d that keeps services
         from starting during the installation, and on Ubuntu the setting that keeps needrestart(1)
         from restarting them afterwards.
         RHEL: dnf's locks (dnf-versionlock(8)), additional repositories with their keys, the module
         stream of NVIDIA's driver, and accounts and folders that packages do not create.
Restart  nothing: the roles that own the services start them.
"""

from __future__ import annotations

from lockstep.facts.driver import boot_kernels, loaded_driver
from lockstep.facts.files import folders_to_make
from lockstep.facts.packages import package_state
from lockstep.plan import NodePlan, folders
from lockstep.plan.declaration import SHELL, Declaration, File, debian, rhel
from lockstep.question import Questions
from lockstep.render import render


def _asks(plan: NodePlan) -> Questions:
    yield package_state(plan.software.packages)
    if rhel(plan):
        yield folders_to_make(folders.missing_in_packages(plan))
    if plan.software.driver is not None:
        yield loaded_driver()
    if plan.software.headers:
        yield boot_kernels()


KEYS = "/etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep"
"""The keys of all declared repositories. RPM has one list of keys for all repositories."""
YUM_LISTS = (
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp {new} "$d/lockstep.repo"; '
    # dnf only warns about a repository that it leaves out, and about a value that it cannot read.
    'said="$(LC_ALL=C dnf -q --setopt=reposdir="$d" repolist --all 2>&1)"; '
    'case "$said" in *nvalid*) echo "$said" >&2; exit 1;; esac; '
    '[ "$(echo "$said" | grep -c "^lockstep-")" = "$(grep -c "^\\[" {new})" ] || '
    '{{ echo "$said" >&2; exit 1; }}'
)


def _read_by_dnf(place: str) -> str:
    """Return a command that lets dnf read a file in a root of its own.

    Removing nothing is the shortest question that makes dnf 4 read both its locks and its streams.
    On the first deploy, the plugin of the locks is not installed yet; the locks are not read then.

    Args:
        place: where dnf looks for the file in that root.
    """
    return (
        'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; p="$d/etc/dnf/plugins"; '
        'mkdir -p "$p" "$d/etc/dnf/modules.d"; : > "$p/versionlock.list"; '
        'printf "[main]\\nenabled = 1\\nlocklist = %s\\n" "$p/versionlock.list" '
        f'> "$p/versionlock.conf"; cp {{new}} "$d/{place}"; '
        'said="$(LC_ALL=C dnf -q --assumeno --installroot="$d" --releasever=9 '
        '--setopt=reposdir="$p" --setopt=pluginconfpath="$p" --disableplugin="*" '
        '--enableplugin=versionlock remove lockstep-none 2>&1)"; status=$?; '
        # The plugin only reports a line that it cannot read.
        'case "$status $said" in *"could not parse"*|[!0]*) echo "$said" >&2; exit 1;; esac'
    )


ACCOUNTS = (
    # systemd-sysusers(8): --dry-run since 250; RHEL 9 has 250 and later.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; mkdir "$d/etc"; '
    'systemd-sysusers --dry-run --root="$d" {new} >/dev/null'
)
FOLDERS = (
    # The account of Slurm may not exist yet: in this root it does.
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; mkdir "$d/etc"; '
    'systemd-sysusers --root="$d" --inline "u slurm -" >/dev/null 2>&1; '
    'systemd-tmpfiles --create --root="$d" {new}'
)


def _has_yum_repositories(plan: NodePlan) -> bool:
    return rhel(plan) and bool(plan.software.repositories)


def _has_slurm(plan: NodePlan) -> bool:
    return rhel(plan) and plan.spec.slurm is not None


def _keys(plan: NodePlan) -> str:
    keys = (one.key.strip() for one in plan.software.repositories)
    return render("header.j2") + "".join(f"{key}\n" for key in dict.fromkeys(keys))


ROLE = Declaration(
    name="packages",
    title="Packages",
    packages={"rhel": ("python3-dnf-plugin-versionlock",)},
    # The packages of the version set; other roles declare their own packages as well.
    more_packages=lambda plan: tuple(plan.software.version_set),
    files=(
        File(
            path="/etc/apt/apt.conf.d/90lockstep",
            template="packages/apt.conf.j2",
            validate="apt-config -c {new} dump >/dev/null",
            wanted=debian,
        ),
        File(
            path="/etc/apt/sources.list.d/lockstep.sources",
            template="packages/repositories.sources.j2",
            validate=(
                'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp {new} "$d/lockstep.sources"; '
                'apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$d" '
                "indextargets >/dev/null"
            ),
            wanted=lambda plan: debian(plan) and bool(plan.software.repositories),
        ),
        File(
            path="/etc/apt/preferences.d/90-lockstep",
            template="packages/preferences.j2",
            validate="apt-cache -o Dir::Etc::preferences={new} policy >/dev/null",
            wanted=debian,
        ),
        File(
            path="/usr/sbin/policy-rc.d",
            template="packages/policy-rc.d.j2",
            mode="755",
            validate=SHELL,
            wanted=debian,
        ),
        File(
            path="/etc/needrestart/conf.d/50-lockstep.conf",
            template="packages/needrestart.conf.j2",
            validate='said="$(perl -c {new} 2>&1)" || {{ echo "$said" >&2; exit 1; }}',
            wanted=lambda plan: plan.release.id == "ubuntu",
        ),
        File(path=KEYS, text=_keys, wanted=_has_yum_repositories),
        File(
            path="/etc/yum.repos.d/lockstep.repo",
            template="packages/yum.repo.j2",
            validate=YUM_LISTS,
            wanted=_has_yum_repositories,
        ),
        File(
            path="/etc/dnf/plugins/versionlock.list",
            template="packages/versionlock.list.j2",
            validate=_read_by_dnf("etc/dnf/plugins/versionlock.list"),
            wanted=rhel,
        ),
        File(
            path="/etc/dnf/modules.d/nvidia-driver.module",
            template="packages/nvidia-driver.module.j2",
            validate=_read_by_dnf("etc/dnf/modules.d/nvidia-driver.module"),
            wanted=lambda plan: rhel(plan) and plan.nvidia is not None,
        ),
        File(
            path=folders.SYSUSERS,
            template="packages/sysusers.conf.j2",
            validate=ACCOUNTS,
            wanted=_has_slurm,
        ),
        File(
            path=folders.TMPFILES,
            template="packages/tmpfiles.conf.j2",
            values={"folders": folders.missing_in_packages},
            validate=FOLDERS,
            wanted=rhel,
        ),
    ),
    users=lambda plan: ("slurm",) if _has_slurm(plan) else (),
    operations="lockstep.roles.operations.packages",
    asks=_asks,
    unchecked={
        "account_and_folders": (
            "file.content checks the files that declare them; the fingerprint compares accounts, "
            "and Slurm's daemons do not start without them"
        ),
    },
)
