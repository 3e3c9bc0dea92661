"""Errors of the lab."""


class LabError(Exception):
    """A failure of the lab: the problem (place, value, expectation) and the next command."""

    exit_status = 1

    def __init__(self, problem: str, next_step: str | None = None) -> None:
        """Store both parts; ``str()`` returns them as one message."""
        self.problem = problem
        self.next_step = next_step
        super().__init__(problem if next_step is None else f"{problem}\n  next: {next_step}")


class WrongUseError(LabError):
    """The requested object does not exist, or the request is not allowed (exit status 3)."""

    exit_status = 3


class LockHeldError(LabError):
    """Another lab command holds the lock."""


class LabNotUp(LabError):
    """The lab does not exist, or its creation did not finish."""


class InterruptedUp(BaseException):
    """SIGTERM or SIGHUP arrived; like KeyboardInterrupt, it lets ``up`` clean up."""
