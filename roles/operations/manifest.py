"""The operation that records what Lockstep writes to a node, in the node's manifest."""

from __future__ import annotations

import shlex

from pyinfra.api import StringCommand

from lockstep.facts.manifest import manifest_state, shipped_by
from lockstep.files import managed
from lockstep.manifest import (
    ManifestError,
    NewerManifest,
    Sections,
    merged,
    parsed,
    wanted,
    written,
)
from lockstep.node.readers.manifest import MANIFEST
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.secrets import Secrets, SecretsUnsafe, existing


@operation("the manifest is up to date")
def recorded(plan: NodePlan, roles: tuple[str, ...]) -> Commands:
    """Record everything that deploying the given roles writes, unless the manifest is up to date.

    This operation runs after the packages are installed, because only then does the package manager
    know the paths of their files. It runs before all other roles, so that everything that they
    write is recorded even if the deploy is killed.

    Args:
        plan: the plan of the node.
        roles: the roles being deployed.
    """
    state = ask(manifest_state())
    try:
        held = parsed(state.text)
    except ManifestError as error:
        yield StringCommand("cat >&2; exit 1", _stdin=unreadable(error))
        return
    contents = [one for role in roles for one in managed(plan, _secrets(plan), role)]
    new = merged(held, wanted(plan, contents, roles), plan, roles, state.boot)
    if new == held:
        return
    unknown = [file for file, entry in new["files"].items() if "package" not in entry]
    if unknown:
        shipped = ask(shipped_by(unknown))
        for file in unknown:
            new["files"][file]["package"] = shipped.get(file, "")
    yield put(new)


def put(manifest: Sections) -> StringCommand:
    """Return the command that replaces the manifest atomically."""
    folder, file = shlex.quote(MANIFEST.rpartition("/")[0]), shlex.quote(MANIFEST)
    return StringCommand(
        f"set -e; ( umask 022; mkdir -p {folder} ); umask 077; cat > {file}.lockstep-new; "
        f"sync {file}.lockstep-new; mv -fT {file}.lockstep-new {file}",
        _stdin=written(manifest),
    )


def unreadable(error: ManifestError) -> str:
    """Return the error message for a manifest that cannot be read."""
    if isinstance(error, NewerManifest):
        return f"{MANIFEST}: {error}. Next: deploy this node with the newer version"
    return (
        f"{MANIFEST}: {error}. Next: restore it from a backup, or remove it; the next deploy "
        "writes a new one, which does not list what earlier deploys wrote"
    )


def _secrets(plan: NodePlan) -> Secrets | None:
    """Return the secrets; None if there are none or they are unsafe (other roles report that)."""
    try:
        return existing(plan.spec.name, plan.spec.secrets_dir, plan.spec.software.module_key)
    except SecretsUnsafe:
        return None
