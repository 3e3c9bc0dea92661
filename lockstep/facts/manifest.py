"""Questions about a node's manifest, and about the packages that own files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.node.readers.reading import ABSENT
from lockstep.question import Question, Taken, question


@dataclass(frozen=True)
class ManifestState:
    """A node's manifest."""

    text: str
    """Content of the manifest; empty if the node has none."""
    boot: str
    """Unique identifier of this boot (``lockstep.node.readers.manifest.boot``)."""


@question("manifest", "manifest.held")
def manifest_state(taken: Taken) -> ManifestState:
    """Ask for the node's manifest and the identifier of this boot."""
    return ManifestState(**taken["manifest.held"])


def shipped_by(paths: Iterable[str]) -> Question[dict[str, str]]:
    """Ask which package owns each of these paths (dpkg-query(1)); unowned paths are left out."""
    reading = "packages.shipped"
    about = {"shipped": tuple(paths)}
    return Question(reading, (reading,), lambda taken: dict(taken[reading]), about)


@dataclass(frozen=True)
class OnTheNode:
    """What ``deploys/remove.py`` needs to know about a node."""

    manifest: Mapping[str, Any]
    """Everything that Lockstep wrote on the node, with current states; empty without a manifest."""
    packages: Mapping[str, str]
    """Installed package -> version."""
    job_steps: int
    """Number of job steps running on the node."""


@question("what Lockstep wrote", "manifest.whole", "packages", "slurm.steps")
def on_the_node(taken: Taken) -> OnTheNode:
    """Ask for everything Lockstep wrote on the node, the packages, and the number of job steps."""
    whole = taken["manifest.whole"]
    return OnTheNode({} if whole == ABSENT else whole, taken["packages"], taken["slurm.steps"])
