"""Every file that Lockstep owns on a node, with its exact content.

The roles of a node declare them; deploys install this list, and checks compare against it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, partial

from lockstep.plan import NodePlan
from lockstep.plan.declaration import File
from lockstep.plan.slurm_files import SLURM_CONF
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


def managed(
    plan: NodePlan, secrets: Secrets | None, role: str | None = None
) -> tuple[ManagedFile, ...]:
    """Return the files of a node (of one role, if named); secret ones only with ``secrets``."""
    return tuple(
        rendered(owner, file, plan, secrets)
        if file.own or file.secret
        else plan.once((owner, file.path), partial(rendered, owner, file, plan, secrets))
        for owner, file in wanted(plan)
        if (role is None or owner == role) and (secrets is not None or not file.secret)
    )


def paths(plan: NodePlan, role: str | None = None) -> tuple[str, ...]:
    """Return where the files of a node are, secret ones too; of one role, if named.

    Nothing is rendered.
    """
    return tuple(file.path for owner, file in wanted(plan) if role is None or owner == role)


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


def wanted(plan: NodePlan) -> tuple[tuple[str, File], ...]:
    """Return the role and the declaration of each file that a node has."""
    return plan.once(
        "files",
        lambda: tuple(
            (role.name, file) for role in plan.roles for file in role.files if file.wanted(plan)
        ),
    )


def rendered(role: str, file: File, plan: NodePlan, secrets: Secrets | None) -> ManagedFile:
    """Return a file with its content on a node.

    Args:
        role: owner of the file.
        file: as declared.
        plan: of the node.
        secrets: of the cluster; a secret file needs them.
    """
    if file.secret_content is not None and secrets is not None:
        content = file.secret_content(secrets)
    elif file.text is not None:
        content = file.text(plan).encode("utf-8")
    else:
        content = render(file.template, plan=plan, secrets=secrets).encode("utf-8")
    user, group = file.owner.split(":")
    return ManagedFile(
        role=role,
        path=file.path,
        content=content,
        mode=file.mode,
        user=user,
        group=group,
        secret=file.secret,
        validate=file.validate,
    )
