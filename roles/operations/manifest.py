"""The operation that records on a node what Lockstep writes there."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.manifest import Manifest, ShippedBy
from lockstep.files import managed
from lockstep.manifest import ManifestError, Sections, merged, parsed, wanted, written
from lockstep.node.readers.manifest import MANIFEST
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import operation
from lockstep.secrets import Secrets, SecretsUnsafe, existing


@operation()
def recorded(
    plan: NodePlan, roles: tuple[str, ...], path: str = MANIFEST
) -> Generator[StringCommand, None, None]:
    """Record what a deploy of some roles brings; a node that has it recorded is left alone.

    It comes after the packages, because only then dpkg knows the paths of their files, and before
    all other roles: a deploy that is killed leaves nothing of them unrecorded.

    Args:
        plan: of the node.
        roles: those that are deployed.
        path: where the node has its manifest.
    """
    state = host.get_fact(Manifest, path=path)
    try:
        held = parsed(state.text)
    except ManifestError as error:
        yield StringCommand("cat >&2; exit 1", _stdin=unreadable(error))
        return
    contents = [one for role in roles for one in managed(plan, _secrets(plan), role)]
    new = merged(held, wanted(plan, contents, roles), plan, roles, state.boot)
    if new == held:
        host.noop("the manifest has all of it")
        return
    unknown = [file for file, entry in new["files"].items() if "package" not in entry]
    if unknown and plan.cluster.release.family == "debian":
        shipped = host.get_fact(ShippedBy, paths=tuple(unknown))
        for file in unknown:
            new["files"][file]["package"] = shipped.get(file, "")
    yield put(new, path)


def put(manifest: Sections, path: str) -> StringCommand:
    """Return the command that replaces the manifest, whole or not at all."""
    folder, file = shlex.quote(path.rpartition("/")[0]), shlex.quote(path)
    return StringCommand(
        f"set -e; ( umask 022; mkdir -p {folder} ); umask 077; cat > {file}.lockstep-new; "
        f"sync {file}.lockstep-new; mv -fT {file}.lockstep-new {file}",
        _stdin=written(manifest),
    )


def unreadable(error: ManifestError) -> str:
    """Return what to do about a manifest that cannot be read."""
    return (
        f"{MANIFEST}: {error}. Next: restore it from a backup, or remove it; the next deploy "
        "writes a new one, which does not know what earlier deploys left"
    )


def _secrets(plan: NodePlan) -> Secrets | None:
    """Return the secrets; the roles that need them say why there are none."""
    try:
        return existing(plan.spec.name, plan.spec.secrets_dir)
    except SecretsUnsafe:
        return None
