"""The files that Lockstep manages on a node, with their exact content.

The roles of a node declare them. Deploys install them, and checks compare nodes with them.
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
    """One file on a node."""

    role: str
    path: str
    content: bytes = field(repr=False)
    mode: str
    user: str
    group: str
    secret: bool
    validate: str
    """Shell command that checks the new file; see ``File.validate``."""

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the content."""
        return hashlib.sha256(self.content).hexdigest()


def managed(
    plan: NodePlan, secrets: Secrets | None, role: str | None = None
) -> tuple[ManagedFile, ...]:
    """Return a node's files, or only one role's; leave out secret files that this machine lacks."""
    return tuple(
        rendered(owner, file, plan, secrets)
        if file.own or file.secret
        else plan.once((owner, file.path), partial(rendered, owner, file, plan, secrets))
        for owner, file in plan.system.files
        if (role is None or owner == role) and (not file.secret or _is_here(file, secrets))
    )


def _is_here(file: File, secrets: Secrets | None) -> bool:
    """Return whether this machine has the content of a secret file."""
    if secrets is None:
        return False
    return file.secret_content is None or file.secret_content(secrets) is not None


def slurm_conf_sha256(plan: NodePlan) -> str:
    """Return the hash of the controller's slurm.conf, which configless nodes fetch."""
    controller = plan.cluster.nodes[plan.cluster.controller_host]
    return next(
        file.sha256
        for file in managed(controller, None, "slurm_controller")
        if file.path == SLURM_CONF
    )


OF_SITE = "# Lines of the site (files in the description):"


def lockstep_content(file: File, plan: NodePlan, secrets: Secrets | None) -> bytes:
    """Return the content of a file without what the site adds to it."""
    if file.secret_content is not None and secrets is not None:
        return file.secret_content(secrets) or b""
    if file.data is not None:
        return file.data(plan)
    if file.text is not None:
        return file.text(plan).encode("utf-8")
    return render(file.template, plan=plan, secrets=secrets, **file.values).encode("utf-8")


def rendered(role: str, file: File, plan: NodePlan, secrets: Secrets | None) -> ManagedFile:
    """Return a file with the content that it should have on a node.

    Args:
        role: the owner of the file.
        file: the declaration of the file.
        plan: the plan of the node.
        secrets: the cluster's secrets; required for a secret file.
    """
    site = plan.site_files.get(file.path)
    if site is not None and site.content is not None:
        content = f"{site.content.rstrip()}\n".encode()
    else:
        content = lockstep_content(file, plan, secrets)
    if site is not None and site.lines:
        content += "\n".join(("", OF_SITE, *site.lines, "")).encode()
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
