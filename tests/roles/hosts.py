"""A host of pyinfra for tests of steps that run without pyinfra's command."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyinfra.api import Config, Inventory, State


def _state() -> State:
    # pyinfra leaves a state without hosts uninitialized.
    return State(Inventory((["node"], {})), Config())  # type: ignore[no-untyped-call]


@dataclass(eq=False)
class LoggingHost:
    """A host that keeps the texts that are shown about it."""

    name: str = "node"
    logged: list[str] = field(default_factory=list)
    state: State = field(default_factory=_state)

    def log_styled(self, text: str, **style: object) -> None:
        """Keep a text."""
        self.logged.append(text)
