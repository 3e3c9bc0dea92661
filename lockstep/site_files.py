"""Validates what a site adds to Lockstep's files against these files, without a node."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.files import lockstep_content
from lockstep.nearest import one_of
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan.declaration import File
from lockstep.plan.site_lines import Keys
from lockstep.secrets import Secrets
from lockstep.spec import Problem
from lockstep.spec.site_files import SiteFile

_NO_SECRETS = Secrets(munge_key=b"", database_password="-")  # noqa: S106  # no password
"""In place of secrets: only the keys of lines are compared."""


def problems(plan: ClusterPlan) -> Iterator[Problem]:
    """Find files that no node has, and lines that set what Lockstep's own lines set."""
    kinds = list({node.kind: node for node in plan.nodes.values()}.values())
    for path, site in plan.spec.files.items():
        here = ("files", path)
        owners = [
            (node, file)
            for node in kinds
            for _, file in node.system.files
            if file.path == node.release.local(path)
        ]
        if not owners or owners[0][1].keys is None:
            yield Problem(here, repr(path), _allowed(path, plan, kinds))
        elif bool(site.lines) == (site.content is not None):
            found = "lines and content" if site.lines else "neither lines nor content"
            yield Problem(here, found, "lines, or content for the whole file")
        elif site.content is not None and owners[0][1].secret:
            allowed = "lines: the file holds a secret, which no description may contain"
            yield Problem((*here, "content"), "a whole file", allowed)
        else:
            seen: set[int] = set()
            for node, file in owners:
                yield from _of_lines(node, file, site, here, seen)


def _allowed(path: str, plan: ClusterPlan, kinds: list[NodePlan]) -> str:
    files = {file.path: file for node in kinds for _, file in node.system.files}
    able = sorted(name for name, file in files.items() if file.keys is not None)
    if path in files:
        return f"a file that can have lines of the site: {', '.join(able)}"
    for node in plan.with_every_role.nodes.values():
        for role, file in node.system.files:
            if file.path == node.release.local(path):
                return f"no lines: the role that writes this file, {role}, is unmanaged"
    if not able:
        return "no file: no managed role writes one that can have lines of the site"
    return f"{one_of(path, able)}; Lockstep writes no other file with lines of the site"


def _of_lines(
    node: NodePlan, file: File, site: SiteFile, here: tuple[str, ...], seen: set[int]
) -> Iterator[Problem]:
    """Find lines that cannot be read, or that set a key of Lockstep's; each line once."""
    keys = file.keys
    if not site.lines or keys is None:
        return
    text = lockstep_content(file, node, _NO_SECRETS).decode("utf-8")
    own = {key.lower(): line for line in text.splitlines() for key in keys(line)}
    for number, line in enumerate(site.lines):
        if number in seen:
            continue
        wrong = _wrong(line, keys, own, node)
        if wrong:
            seen.add(number)
            yield Problem((*here, "lines", number), repr(line), wrong, node.name)


def _wrong(line: str, keys: Keys, own: dict[str, str], node: NodePlan) -> str:
    """Return what is expected in place of a line; "" if the line can be added."""
    try:
        found = keys(line)
    except ValueError as error:
        return str(error)
    for key in found:
        if key.lower() in own:
            command = f"lockstep plan {node.cluster.inventory or 'INVENTORY'} {node.name} --becomes"
            return (
                f"a line that does not set {key}: Lockstep's own line is {own[key.lower()]!r}. "
                f"Change the field from which it follows ({command}), or give the whole file as "
                "content"
            )
    return ""
