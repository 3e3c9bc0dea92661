"""What a description needs to know of roles: their packages, problems and settings.

The roles themselves are declared above the plan; they come in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pydantic import BaseModel

from lockstep.catalog.os import Release
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem


class DeclaredRole(Protocol):
    """A role as a description sees it (``lockstep.plan.declaration.Declaration``)."""

    @property
    def name(self) -> str:
        """Its name; a key of ``extensions`` where it has settings."""

    @property
    def problems(self) -> Callable[[Cluster], Iterable[Problem]] | None:
        """What is wrong with a description, as far as it concerns this role."""

    @property
    def settings(self) -> type[BaseModel] | None:
        """The model of its part of ``extensions``."""

    def packages_on(self, release: Release) -> tuple[str, ...]:
        """Return the packages that every node with this role gets on a release."""
