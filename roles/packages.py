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
    driver = plan.software.driver
    if driver is not None:
        yield loaded_driver()
        if driver.flavour:
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


def _has_yum_repositories(plan: NodePlan) -> bool:
    return rhel(plan) and bool(plan.software.repositories)


def _has_slurm(plan: NodePlan) -> bool:
    return rhel(plan) and plan.spec.scheduler is not None


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
            wanted=rhel,
        ),
        File(
            path="/etc/dnf/modules.d/nvidia-driver.module",
            template="packages/nvidia-driver.module.j2",
            wanted=lambda plan: rhel(plan) and plan.nvidia is not None,
        ),
        File(
            path=folders.SYSUSERS,
            template="packages/sysusers.conf.j2",
            wanted=_has_slurm,
        ),
        File(
            path=folders.TMPFILES,
            template="packages/tmpfiles.conf.j2",
            values={"folders": folders.missing_in_packages},
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
