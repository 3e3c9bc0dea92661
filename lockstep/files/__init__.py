"""Every file that Lockstep owns on a node, with its exact content.

Roles install this list and checks compare against it: what is written is what is expected.
Adding a file is one line in a module of this folder and one template.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, partial

from lockstep.files import fabric, gpus, job_containers, node_check, processors, slurm, system
from lockstep.files._entry import Entry
from lockstep.files.slurm import SLURM_CONF
from lockstep.plan import NodePlan
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.render import render
from lockstep.secrets import Secrets


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
    """Shell command; ``{new}`` is the candidate's path; "" where no program can judge it.

    With ``{every_new}`` in it, files in a row with the same command are judged at once.
    """

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the content."""
        return hashlib.sha256(self.content).hexdigest()


ENTRIES = (
    *system.ENTRIES,
    *processors.ENTRIES,
    *gpus.ENTRIES,
    *job_containers.ENTRIES,
    *slurm.ENTRIES,
    *fabric.ENTRIES,
    *node_check.ENTRIES,
)


def managed(
    plan: NodePlan, secrets: Secrets | None, role: str | None = None
) -> tuple[ManagedFile, ...]:
    """Return the files of a node (of one role, if named); secret ones only with ``secrets``."""
    return tuple(
        _file(entry, plan, secrets)
        if entry.own or entry.secret
        else plan.once((entry.role, entry.path), partial(_file, entry, plan, secrets))
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
        path
        for path in paths(plan)
        if any(part in path for part in ("/systemd/system.conf.d/", ".slice.d/", "/service.d/"))
    )


def _entries(plan: NodePlan) -> tuple[Entry, ...]:
    return plan.once(
        "entries",
        lambda: tuple(
            entry for entry in ENTRIES if entry.role in plan.capabilities and entry.wanted(plan)
        ),
    )


def _file(entry: Entry, plan: NodePlan, secrets: Secrets | None) -> ManagedFile:
    if entry.path == MUNGE_KEY and secrets is not None:
        content = secrets.munge_key
    elif entry.text is not None:
        content = entry.text(plan).encode("utf-8")
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
